/* SPDX-License-Identifier: MIT */

/* What keeps a worker from signalling others. */

#include "service/privileges.h"

#include <glib.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void be_isolated(int fd, pid_t other) {
        pid_t child;
        char c;
        int r;

        if (privileges_drop() < 0)
                _exit(1);
        r = privileges_isolate();
        if (r == -EOPNOTSUPP)
                _exit(privileges_can_isolate() ? 2 : 0);
        if (r < 0)
                _exit(3);
        if (kill(getppid(), 0) == 0 || errno != EPERM || kill(other, SIGKILL) == 0 || errno != EPERM)
                _exit(4);
        child = fork();
        if (child == 0)
                for (;;)
                        pause();
        if (kill(getpid(), 0) < 0 || kill(child, SIGKILL) < 0 || waitpid(child, NULL, 0) != child)
                _exit(5);
        /* From outside it can be signalled as before. */
        (void) !write(fd, "x", 1);
        (void) !read(fd, &c, 1);
        for (;;)
                pause();
}

static void test_isolation(void) {
        pid_t pid, other;
        int fds[2], status;
        char c;

        g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), ==, 0);
        other = fork();
        if (other == 0)
                for (;;)
                        pause();
        pid = fork();
        if (pid == 0)
                be_isolated(fds[1], other);
        close(fds[1]);
        if (read(fds[0], &c, 1) == 1) {
                close(fds[0]);
                g_assert_cmpint(kill(pid, SIGUSR2), ==, 0);
                g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
                g_assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2);
        } else {
                close(fds[0]);
                g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
                g_assert_cmpint(status, ==, 0); /* this kernel can't */
        }
        g_assert_cmpint(waitpid(other, &status, WNOHANG), ==, 0);
        g_assert_cmpint(kill(other, SIGKILL), ==, 0);
        g_assert_cmpint(waitpid(other, &status, 0), ==, other);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/privileges/isolation", test_isolation);
        return g_test_run();
}
