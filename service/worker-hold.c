/* SPDX-License-Identifier: MIT */
#include "service/worker-hold.h"

#include <poll.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* How often the tracer looks for signals to pass on. */
#define STEP_MSEC 2

static int seize_tasks(pid_t pid) {
        _cleanup_closedir_ DIR *d = NULL;
        char path[32];
        unsigned n = 0;

        (void) snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
        d = opendir(path);
        if (!d)
                return errno == ENOENT ? -EOWNERDEAD : -errno;
        for (struct dirent *e; (e = readdir(d));) {
                uint32_t task;

                if (parse_u32(e->d_name, INT32_MAX, &task) < 0)
                        continue;
                if (ptrace(PTRACE_SEIZE, (pid_t) task, NULL, (void *) PTRACE_O_TRACEEXIT) >= 0)
                        n++;
                else if (errno != ESRCH) /* one that has ended by itself */
                        return -errno;
        }
        return n > 0 ? 0 : -EOWNERDEAD;
}

/* Where a traced task has stopped, it goes on as if nobody traced it; only at its end it stays. */
static void pass_on(pid_t task, int status) {
        int signo = WSTOPSIG(status), event = status >> 16;

        if (!WIFSTOPPED(status) || event == PTRACE_EVENT_EXIT)
                return;
        if (event == 0)
                (void) ptrace(PTRACE_CONT, task, NULL, (void *) (intptr_t) signo);
        else if (signo == SIGTRAP)
                (void) ptrace(PTRACE_CONT, task, NULL, NULL);
        else /* SIGSTOP and its like */
                (void) ptrace(PTRACE_LISTEN, task, NULL, NULL);
}

/* Its end, of whatever kind, lets every task go on. */
static void trace(pid_t pid, int fd) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int r = seize_tasks(pid), status;
        pid_t task;

        if (write(fd, &r, sizeof(r)) != sizeof(r) || r < 0)
                _exit(0);
        do
                while ((task = waitpid(-1, &status, __WALL | WNOHANG)) > 0)
                        pass_on(task, status);
        while (poll(&p, 1, STEP_MSEC) <= 0); /* nothing is ever sent: the other end is closed */
        _exit(0);
}

int hold_begin(pid_t pid, Hold *ret) {
        Hold h = HOLD_NULL;
        int ends[2], r;
        ssize_t n;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        h.fd = ends[0];
        h.tracer = fork();
        if (h.tracer < 0) {
                r = -errno;
                safe_close(ends[0]);
                safe_close(ends[1]);
                return r;
        }
        if (h.tracer == 0) {
                close(ends[0]);
                trace(pid, ends[1]);
        }
        close(ends[1]);
        do
                n = read(h.fd, &r, sizeof(r));
        while (n < 0 && errno == EINTR);
        if (n != sizeof(r))
                r = -EIO;
        if (r < 0) {
                hold_end(&h);
                return r;
        }
        *ret = h;
        return 0;
}

void hold_end(Hold *h) {
        h->fd = safe_close(h->fd);
        if (h->tracer > 0)
                while (waitpid(h->tracer, NULL, 0) < 0 && errno == EINTR)
                        continue;
        *h = HOLD_NULL;
}
