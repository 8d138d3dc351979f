/* SPDX-License-Identifier: MIT */

/* A call in a process of its own: what it gives, and what comes of it when nobody can make it or see it through. */

#include "service/child.h"

#include <dlfcn.h>
#include <glib.h>
#include <signal.h>

static bool no_processes; /* are to be had */

pid_t fork(void) {
        pid_t (*real)(void) = (pid_t (*)(void)) dlsym(RTLD_NEXT, "fork");

        if (!no_processes)
                return real();
        errno = EAGAIN;
        return -1;
}

static int give(const void *argument) {
        return *(const int *) argument;
}

static int die(const void *argument) {
        (void) argument;
        (void) raise(SIGKILL);
        return 0;
}

static int hang(const void *argument) {
        (void) argument;
        for (;;)
                pause();
        return 0;
}

static void test_given(void) {
        static const struct {
                int given, wanted;
        } cases[] = { { 0, 0 }, { -EIO, -EIO }, { -EBUSY, -EBUSY }, { -1000, -EIO } };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                g_assert_cmpint(child_call(give, &cases[i].given, 60 * USEC_PER_SEC), ==, cases[i].wanted);
}

static void test_hangs(void) {
        uint64_t begin = now_usec();

        g_assert_cmpint(child_call(hang, NULL, 50 * USEC_PER_MSEC), ==, -ETIMEDOUT);
        g_assert_cmpuint(now_usec() - begin, <, 5 * USEC_PER_SEC);
}

/* None of it can be taken for an error of the call's own. */
static void test_not_seen_through(void) {
        g_assert_cmpint(child_call(die, NULL, 60 * USEC_PER_SEC), ==, -ECHILD);
        g_assert_cmpint(child_call(give, &(int) { -ECHILD }, 60 * USEC_PER_SEC), ==, -EIO);
        no_processes = true;
        g_assert_cmpint(child_call(give, &(int) { 0 }, 60 * USEC_PER_SEC), ==, -ECHILD);
        no_processes = false;
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/child/given", test_given);
        g_test_add_func("/child/hangs", test_hangs);
        g_test_add_func("/child/not-seen-through", test_not_seen_through);
        return g_test_run();
}
