/* SPDX-License-Identifier: MIT */

/* A process that is killed while it is held gets to its end only after that. */

#include "service/worker-hold.h"

#include <glib.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static volatile sig_atomic_t signalled;

static void on_signal(int signo) {
        (void) signo;
        signalled = 1;
}

static void *second_task(void *userdata) {
        for (;;)
                pause();
        return userdata;
}

/* Two tasks, and what it is told by SIGUSR1 it tells by its pipe. */
static void victim(int fd) {
        pthread_t thread;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        (void) signal(SIGUSR1, on_signal);
        (void) pthread_create(&thread, NULL, second_task, NULL);
        (void) !write(fd, "r", 1);
        while (!signalled)
                (void) usleep(1000);
        (void) !write(fd, "s", 1);
        for (;;)
                pause();
}

typedef struct Victim {
        pid_t pid;
        int pid_fd;
        int fd;
} Victim;

static void begin(Victim *v) {
        int ends[2];
        char c;

        g_assert_cmpint(pipe(ends), ==, 0);
        v->pid = fork();
        if (v->pid == 0)
                victim(ends[1]);
        close(ends[1]);
        v->fd = ends[0];
        v->pid_fd = pidfd_open(v->pid, 0);
        g_assert_cmpint(v->pid_fd, >=, 0);
        g_assert_cmpint(read(v->fd, &c, 1), ==, 1);
}

static bool is_gone(const Victim *v, unsigned msec) {
        return poll_until(v->pid_fd, POLLIN, now_usec() + msec * USEC_PER_MSEC) > 0;
}

static void end(Victim *v) {
        g_assert_true(is_gone(v, 10000));
        g_assert_cmpint(waitpid(v->pid, NULL, 0), ==, v->pid);
        close(v->pid_fd);
        close(v->fd);
}

/* False where tracing is forbidden, which skips the test. */
static bool hold(const Victim *v, Hold *ret) {
        int r = hold_begin(v->pid, ret);

        if (r == -EPERM || r == -ENOSYS) {
                (void) kill(v->pid, SIGKILL);
                g_test_skip("no process may be traced here");
                return false;
        }
        g_assert_cmpint(r, ==, 0);
        return true;
}

static void test_killed(void) {
        Hold h = HOLD_NULL;
        Victim v;

        begin(&v);
        if (hold(&v, &h)) {
                (void) kill(v.pid, SIGKILL);
                (void) kill(v.pid, SIGKILL); /* nor does it help to kill it twice */
                g_assert_false(is_gone(&v, 200));
                hold_end(&h);
        }
        end(&v);
}

/* Nothing else that happens to it is held up, and when it is let go it is what it was. */
static void test_signalled(void) {
        Hold h = HOLD_NULL;
        Victim v;
        char c;

        begin(&v);
        if (hold(&v, &h)) {
                (void) kill(v.pid, SIGUSR1);
                g_assert_cmpint(read(v.fd, &c, 1), ==, 1);
                g_assert_cmpint(c, ==, 's');
                (void) kill(v.pid, SIGSTOP);
                (void) kill(v.pid, SIGCONT);
                hold_end(&h);
                g_assert_cmpint(h.fd, <, 0);
                g_assert_false(is_gone(&v, 50));
                (void) kill(v.pid, SIGKILL);
        }
        end(&v);
}

/* Whoever holds it dies, too. */
static void test_abandoned(void) {
        Hold h = HOLD_NULL;
        Victim v;

        begin(&v);
        if (hold(&v, &h)) {
                (void) kill(v.pid, SIGKILL);
                g_assert_false(is_gone(&v, 50));
                (void) kill(h.tracer, SIGKILL);
                g_assert_true(is_gone(&v, 10000));
                hold_end(&h);
        }
        end(&v);
}

static void test_nobody(void) {
        Hold h = HOLD_NULL;
        Victim v;

        begin(&v);
        (void) kill(v.pid, SIGKILL);
        end(&v);
        g_assert_cmpint(hold_begin(v.pid, &h), ==, -EOWNERDEAD);
        g_assert_cmpint(h.fd, <, 0);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/hold/killed", test_killed);
        g_test_add_func("/hold/signalled", test_signalled);
        g_test_add_func("/hold/abandoned", test_abandoned);
        g_test_add_func("/hold/nobody", test_nobody);
        return g_test_run();
}
