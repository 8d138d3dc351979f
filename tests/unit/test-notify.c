/* SPDX-License-Identifier: MIT */
#include "tests/unit/test-notify.h"

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>

#define MAX_KEPT 32

static struct {
        char *directory;
        int fd;
        int end_fd[2];
        GThread *thread;
        GMutex lock; /* over what follows */
        char *names[MAX_KEPT];
        int fds[MAX_KEPT];
        unsigned n;
        GString *log;
        bool late;
        int barriers[MAX_KEPT]; /* that wait */
        unsigned n_barriers;
} systemd;

static void keep(const char *name, int fd) {
        g_assert_cmpuint(systemd.n, <, MAX_KEPT);
        systemd.names[systemd.n] = g_strdup(name);
        systemd.fds[systemd.n++] = fd;
        g_string_append_printf(systemd.log, "+%s ", name);
}

/* All of that name. */
static void drop(const char *name) {
        unsigned kept = 0;

        for (unsigned i = 0; i < systemd.n; i++)
                if (streq(systemd.names[i], name)) {
                        g_free(systemd.names[i]);
                        (void) close(systemd.fds[i]);
                } else {
                        systemd.names[kept] = systemd.names[i];
                        systemd.fds[kept++] = systemd.fds[i];
                }
        systemd.n = kept;
        g_string_append_printf(systemd.log, "-%s ", name);
}

static int take_fd(struct msghdr *m) {
        struct cmsghdr *c = CMSG_FIRSTHDR(m);
        int fd = -EBADF;

        if (c && c->cmsg_type == SCM_RIGHTS)
                memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        return fd;
}

static void handle(const char *text, int fd) {
        const char *name = strstr(text, "FDNAME=");

        name = name ? name + strlen("FDNAME=") : "stored";
        if (streq(text, "X_LATE=1"))
                systemd.late = true;
        else if (g_str_has_prefix(text, "FDSTORE=1"))
                keep(name, fd);
        else if (g_str_has_prefix(text, "FDSTOREREMOVE=1"))
                drop(name);
        else if (systemd.late && systemd.n_barriers < MAX_KEPT)
                systemd.barriers[systemd.n_barriers++] = fd;
        else
                safe_close(fd); /* a barrier */
}

static void receive(void) {
        char text[4096], control[CMSG_SPACE(sizeof(int))];
        struct iovec iov = { text, sizeof(text) - 1 };
        struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
        ssize_t n = recvmsg(systemd.fd, &m, MSG_CMSG_CLOEXEC);

        if (n < 0)
                return;
        text[n] = 0;
        g_strchomp(text);
        g_mutex_lock(&systemd.lock);
        handle(text, take_fd(&m));
        g_mutex_unlock(&systemd.lock);
}

static void *run(void *unused) {
        struct pollfd fds[] = { { .fd = systemd.fd, .events = POLLIN }, { .fd = systemd.end_fd[0], .events = POLLIN } };

        for (;;) {
                (void) poll(fds, G_N_ELEMENTS(fds), -1);
                if (fds[0].revents)
                        receive();
                else if (fds[1].revents)
                        return unused;
        }
}

void notify_start(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        systemd.directory = g_dir_make_tmp("test-notify-XXXXXX", NULL);
        (void) g_snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", systemd.directory);
        systemd.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        g_assert_cmpint(bind(systemd.fd, (struct sockaddr *) &address, sizeof(address)), ==, 0);
        g_assert_cmpint(pipe2(systemd.end_fd, O_CLOEXEC), ==, 0);
        systemd.log = g_string_new(NULL);
        (void) setenv("NOTIFY_SOCKET", address.sun_path, 1);
        systemd.thread = g_thread_new("systemd", run, NULL);
}

void notify_stop(void) {
        g_autofree char *path = g_build_filename(systemd.directory, "notify", NULL);

        g_assert_cmpint(write(systemd.end_fd[1], "", 1), ==, 1);
        (void) g_thread_join(systemd.thread);
        while (systemd.n > 0) {
                g_free(systemd.names[--systemd.n]);
                (void) close(systemd.fds[systemd.n]);
        }
        (void) g_unlink(path);
        (void) g_rmdir(systemd.directory);
        g_clear_pointer(&systemd.directory, g_free);
        (void) g_string_free(systemd.log, TRUE);
        safe_close(systemd.fd);
        safe_close(systemd.end_fd[0]);
        safe_close(systemd.end_fd[1]);
        (void) unsetenv("NOTIFY_SOCKET");
}

static void catch_up(void) {
        g_mutex_lock(&systemd.lock);
        systemd.late = false;
        while (systemd.n_barriers > 0)
                safe_close(systemd.barriers[--systemd.n_barriers]);
        g_mutex_unlock(&systemd.lock);
}

/* What a process has sent that ended meanwhile may still be on its way. */
static void settle(void) {
        g_assert_cmpint(sd_notify_barrier(0, 5 * USEC_PER_SEC), >, 0);
}

const char *notify_names(void) {
        static char text[4096];

        settle();
        text[0] = 0;
        g_mutex_lock(&systemd.lock);
        for (unsigned i = 0; i < systemd.n; i++) {
                g_strlcat(text, systemd.names[i], sizeof(text));
                g_strlcat(text, " ", sizeof(text));
        }
        g_mutex_unlock(&systemd.lock);
        return text;
}

const char *notify_log(void) {
        static char text[4096];

        settle();
        g_mutex_lock(&systemd.lock);
        g_strlcpy(text, systemd.log->str, sizeof(text));
        (void) g_string_truncate(systemd.log, 0);
        g_mutex_unlock(&systemd.lock);
        return text;
}

/* Copies first: what is to be passed may lie where it is to be passed. */
static void pass_descriptors(void) {
        g_autofree char *names = g_strdup(""), *pid = g_strdup_printf("%d", (int) getpid()), *n = g_strdup_printf("%u", systemd.n);
        int copies[MAX_KEPT];

        if (systemd.n == 0)
                return;
        for (unsigned i = 0; i < systemd.n; i++) {
                char *longer = g_strdup_printf("%s%s%s", names, i > 0 ? ":" : "", systemd.names[i]);

                g_free(names);
                names = longer;
                copies[i] = fcntl(systemd.fds[i], F_DUPFD_CLOEXEC, 500);
        }
        for (unsigned i = 0; i < systemd.n; i++)
                (void) dup2(copies[i], SD_LISTEN_FDS_START + (int) i);
        (void) setenv("LISTEN_PID", pid, 1);
        (void) setenv("LISTEN_FDS", n, 1);
        (void) setenv("LISTEN_FDNAMES", names, 1);
}

void notify_run(void (*f)(void)) {
        int status;
        pid_t pid;

        settle();
        (void) fflush(NULL);
        pid = fork();
        if (pid == 0) {
                pass_descriptors();
                f();
                exit(0); /* and not _exit, for the sanitizers */
        }
        g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
        catch_up();
        g_assert_true(WIFEXITED(status));
        g_assert_cmpint(WEXITSTATUS(status), ==, 0);
}
