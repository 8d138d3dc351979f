/* SPDX-License-Identifier: MIT */

/* The descriptor store and the code in it, with a thread in systemd's place. The next worker is a child process. */

#include "service/kept-code.h"

#include "service/log.h"

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>

#define MAX_KEPT 8

static struct {
        char *directory;
        int fd;
        int end_fd[2];
        GThread *thread;
        GMutex lock;
        char *names[MAX_KEPT];
        int fds[MAX_KEPT];
        unsigned n;
        GString *log; /* "+code-1 -code-1 …" */
} systemd;

static void keep(const char *name, int fd) {
        g_assert_cmpuint(systemd.n, <, MAX_KEPT);
        systemd.names[systemd.n] = g_strdup(name);
        systemd.fds[systemd.n++] = fd;
        g_string_append_printf(systemd.log, "+%s ", name);
}

/* As systemd does: all of that name. */
static void drop(const char *name) {
        for (unsigned i = 0; i < systemd.n;)
                if (streq(systemd.names[i], name)) {
                        g_free(systemd.names[i]);
                        (void) close(systemd.fds[i]);
                        systemd.names[i] = systemd.names[--systemd.n];
                        systemd.fds[i] = systemd.fds[systemd.n];
                } else
                        i++;
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
        if (g_str_has_prefix(text, "FDSTORE=1"))
                keep(name, fd);
        else if (g_str_has_prefix(text, "FDSTOREREMOVE=1"))
                drop(name);
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

static void *run_systemd(void *unused) {
        struct pollfd fds[] = { { .fd = systemd.fd, .events = POLLIN }, { .fd = systemd.end_fd[0], .events = POLLIN } };

        for (;;) {
                (void) poll(fds, G_N_ELEMENTS(fds), -1);
                if (fds[0].revents)
                        receive();
                else if (fds[1].revents)
                        return unused;
        }
}

static void systemd_start(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        systemd.directory = g_dir_make_tmp("test-store-XXXXXX", NULL);
        g_snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", systemd.directory);
        systemd.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        g_assert_cmpint(bind(systemd.fd, (struct sockaddr *) &address, sizeof(address)), ==, 0);
        g_assert_cmpint(pipe(systemd.end_fd), ==, 0);
        systemd.log = g_string_new(NULL);
        (void) setenv("NOTIFY_SOCKET", address.sun_path, 1);
        systemd.thread = g_thread_new("systemd", run_systemd, NULL);
}

static void systemd_stop(void) {
        g_autofree char *path = g_build_filename(systemd.directory, "notify", NULL);

        g_assert_cmpint(write(systemd.end_fd[1], "", 1), ==, 1);
        g_thread_join(systemd.thread);
        g_unlink(path);
        g_rmdir(systemd.directory);
}

/* The log since the last call, in the end all that has been said. */
static void assert_log(const char *wanted) {
        g_autofree char *got = NULL;

        g_assert_cmpint(sd_notify_barrier(0, 5 * USEC_PER_SEC), >, 0);
        g_mutex_lock(&systemd.lock);
        got = g_strdup(systemd.log->str);
        g_string_truncate(systemd.log, 0);
        g_mutex_unlock(&systemd.lock);
        g_assert_cmpstr(got, ==, wanted);
}

/* A worker that is started with what systemd keeps. It ends by g_assert or with 0. */
static void next_worker(void (*run)(Store *s)) {
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                g_autofree char *self = g_strdup_printf("%d", (int) getpid()), *count = g_strdup_printf("%u", systemd.n);
                g_autoptr(GString) names = g_string_new(NULL);
                int high[MAX_KEPT];
                Store s;

                for (unsigned i = 0; i < systemd.n; i++) {
                        g_string_append_printf(names, "%s%s", i > 0 ? ":" : "", systemd.names[i]);
                        high[i] = fcntl(systemd.fds[i], F_DUPFD, 100);
                }
                for (unsigned i = 0; i < systemd.n; i++)
                        g_assert_cmpint(dup2(high[i], SD_LISTEN_FDS_START + (int) i), >=, 0);
                if (systemd.n > 0) {
                        (void) setenv("LISTEN_PID", self, 1);
                        (void) setenv("LISTEN_FDS", count, 1);
                        (void) setenv("LISTEN_FDNAMES", names->str, 1);
                }
                g_assert_cmpint(store_open(&s), ==, 0);
                g_assert_null(g_getenv("LISTEN_FDS")); /* the hook's children have no part in it */
                run(&s);
                _exit(0);
        }
        g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
        g_assert_cmpint(status, ==, 0);
}

static int memfd(void) {
        return memfd_create("test", MFD_CLOEXEC);
}

static void first(Store *s) {
        int fd = memfd();

        g_assert_cmpuint(s->n_entries, ==, 0);
        g_assert_cmpint(store_find(s, "a"), ==, -ENOENT);
        g_assert_cmpint(store_add(s, "a", fd), ==, 0);
        g_assert_cmpint(store_find(s, "a"), ==, fd);
        g_assert_cmpint(store_add(s, "a", memfd()), ==, -EEXIST);
        for (const char **bad = (const char *[]) { "", "a:b", "a b", "a\nFDSTOREREMOVE=1", "caf\xc3\xa9", NULL }; *bad; bad++)
                g_assert_cmpint(store_add(s, *bad, memfd()), ==, -EINVAL);
        g_assert_cmpint(store_add(s, "b", memfd()), ==, 0);
        store_remove(s, "nothing");
}

static void second(Store *s) {
        g_assert_cmpuint(s->n_entries, ==, 2);
        g_assert_cmpint(fcntl(store_find(s, "b"), F_GETFD) & FD_CLOEXEC, !=, 0);
        store_remove(s, s->entries[0].name);
        g_assert_cmpint(store_find(s, "a"), ==, -ENOENT);
        g_assert_cmpint(store_find(s, "b"), >=, 0);
}

static void third(Store *s) {
        g_assert_cmpuint(s->n_entries, ==, 1);
        store_clear(s);
        g_assert_cmpuint(s->n_entries, ==, 0);
}

static void test_store(void) {
        next_worker(first);
        assert_log("+a +b ");
        next_worker(second);
        assert_log("-a ");
        next_worker(third);
        assert_log("-b ");
}

static void no_systemd(Store *s) {
        (void) unsetenv("NOTIFY_SOCKET");
        g_assert_cmpint(store_add(s, "a", memfd()), ==, -ENOTCONN);
        g_assert_cmpint(store_find(s, "a"), <, 0);
        store_clear(s);
}

static void test_without_systemd(void) {
        next_worker(no_systemd);
        assert_log("");
}

static void add(KeptCode *k, const char *path, const char *source) {
        kept_code_add(k, path, path, source, strlen(source));
}

static void assert_code(const KeptCode *k, size_t n, const char *last) {
        const Code *c = kept_code_found(k);

        g_assert_nonnull(c);
        g_assert_cmpuint(c->n_files, ==, n);
        g_assert_cmpstr(c->files[n - 1].source, ==, last);
}

static void code_first(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        g_assert_null(kept_code_found(&k));
        add(&k, "/disk.rb", "1");
        g_assert_cmpint(kept_code_keep(&k), ==, 0);
        g_assert_cmpint(kept_code_keep(&k), ==, 0);
}

static void code_found(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        assert_code(&k, 1, "1");
        g_assert_cmpint(kept_code_keep(&k), ==, 0); /* as it is */
        add(&k, "/later.rb", "2");
}

static void code_on_trial(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, true);
        g_assert_null(kept_code_found(&k));
        add(&k, "/disk.rb", "one");
}

static void code_after_a_trial_that_failed(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        assert_code(&k, 2, "2");
}

static void code_trial_that_ends_well(Store *s) {
        KeptCode k;

        code_on_trial(s);
        kept_code_open(&k, s, true);
        add(&k, "/disk.rb", "one");
        g_assert_cmpint(kept_code_keep(&k), ==, 0);
}

static void code_new(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        assert_code(&k, 1, "one");
}

static void test_code(void) {
        next_worker(code_first);
        assert_log("+code-1 ");
        next_worker(code_found);
        assert_log("+code-2 -code-1 ");
        next_worker(code_on_trial);
        assert_log("");
        next_worker(code_after_a_trial_that_failed);
        next_worker(code_trial_that_ends_well);
        assert_log("+code-3 -code-2 ");
        next_worker(code_new);
        next_worker(third);
        assert_log("-code-3 ");
}

/* Killed between the two messages. */
static void code_two_versions(Store *s) {
        _cleanup_close_ int fd = -EBADF;
        Code c = CODE_NULL;

        code_first(s);
        g_assert_cmpint(code_add(&c, "/disk.rb", "/disk.rb", "2", 1), ==, 0);
        g_assert_cmpint(code_to_fd(&c, &fd), ==, 0);
        g_assert_cmpint(store_add(s, "code-2", TAKE_FD(fd)), ==, 0);
        g_assert_cmpint(store_add(s, "code-x", memfd()), ==, 0); /* somebody else's */
}

static void code_latest(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        assert_code(&k, 1, "2");
}

static void clear(Store *s) {
        store_clear(s);
}

static void test_two_versions(void) {
        next_worker(code_two_versions);
        assert_log("+code-1 +code-2 +code-x ");
        next_worker(code_latest);
        assert_log("-code-1 ");
        next_worker(clear);
        g_string_truncate(systemd.log, 0);
}

static void code_too_long(Store *s) {
        g_autofree char *big = g_malloc0(CODE_MAX_SIZE);
        KeptCode k;

        code_first(s);
        kept_code_open(&k, s, false);
        kept_code_add(&k, "/big.rb", "/big.rb", big, CODE_MAX_SIZE);
        add(&k, "/small.rb", "");
        g_assert_cmpint(kept_code_keep(&k), ==, -E2BIG);
        add(&k, "/more.rb", "");
}

static void code_none(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        g_assert_null(kept_code_found(&k));
}

static void test_too_long(void) {
        next_worker(code_too_long);
        assert_log("+code-1 -code-1 ");
        next_worker(code_none);
}

static void code_damaged(Store *s) {
        g_assert_cmpint(store_add(s, "code-7", memfd()), ==, 0);
}

static void code_unreadable(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        g_assert_null(kept_code_found(&k));
        add(&k, "/disk.rb", "1");
        g_assert_cmpint(kept_code_keep(&k), ==, 0);
}

static void test_damaged(void) {
        next_worker(code_damaged);
        next_worker(code_unreadable);
        assert_log("+code-7 +code-8 -code-7 ");
        next_worker(code_found);
        next_worker(clear);
}

int main(int argc, char *argv[]) {
        int r;

        g_test_init(&argc, &argv, NULL);
        log_set_max_level(LOG_CRIT);
        systemd_start();
        g_test_add_func("/store/entries", test_store);
        g_test_add_func("/store/without-systemd", test_without_systemd);
        g_test_add_func("/store/code", test_code);
        g_test_add_func("/store/code-in-two-versions", test_two_versions);
        g_test_add_func("/store/code-that-is-too-long", test_too_long);
        g_test_add_func("/store/code-that-is-damaged", test_damaged);
        r = g_test_run();
        systemd_stop();
        return r;
}
