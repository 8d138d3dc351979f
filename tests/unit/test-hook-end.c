/* SPDX-License-Identifier: MIT */

/* How an interpreter ends, and one that does not get far: each in a process of its own, this program again. */

#include "test-hook.h"

#include <signal.h>
#include <sys/wait.h>

#define DISK "class Disk < UBLK::Target\n  def initialize = super(size: 512)\n" \
        "  def read(offset, length) = nil\n  def read_only? = true\nend\n"

/* Runs one case in another process, which must succeed. Returns what it wrote to standard error. */
static char *run_elsewhere(const char *path, char **environment) {
        g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
        char *argv[] = { self, (char *) "-p", (char *) path, NULL };
        g_autoptr(GError) error = NULL;
        char *errors = NULL;
        int status;

        if (!g_spawn_sync(NULL, argv, environment, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, &errors, &status, &error))
                g_error("%s", error->message);
        if (!g_spawn_check_wait_status(status, &error))
                g_error("%s: %s\n%s", path, error->message, errors);
        return errors;
}

static void wait_for_signal(void *argument) {
        struct timespec second = { .tv_sec = 1 };

        (void) argument;
        (void) nanosleep(&second, NULL);
}

static void serve_for_ever(void *userdata) {
        const Server *server = hook_server(rig.hook);

        for (;;)
                server->unlocked(server->userdata, wait_for_signal, userdata);
}

static void at_exit_elsewhere(void) {
        const Server *server = hook_server(rig.hook);

        g_assert_cmpint(rig_load("ends", DISK "Thread.new { sleep }\nat_exit { $stderr.puts 'at_exit ran' }\n"
                                              "at_exit { raise 'at_exit raised' }\nat_exit { exit 3 }\n", NULL), ==, 0);
        g_assert_cmpint(hook_spawn(rig.hook, serve_for_ever, NULL), ==, 0);
        server->unlocked(server->userdata, wait_for_signal, NULL);
}

/* The hook's last code runs, and neither it nor threads that serve change the exit status. */
static void test_at_exit(void) {
        g_autofree char *errors = run_elsewhere("/hook/end/at-exit/subprocess", NULL);

        g_assert_nonnull(strstr(errors, "at_exit ran"));
        g_assert_nonnull(strstr(errors, "at_exit raised"));
}

static void hang_elsewhere(void) {
        g_assert_cmpint(rig_load("hangs", DISK "at_exit { sleep }\n", NULL), ==, 0);
}

/* Ends all the same, with body's status. */
static void test_hang(void) {
        gint64 start = g_get_monotonic_time();

        g_free(run_elsewhere("/hook/end/hang/subprocess", NULL));
        g_assert_cmpint(g_get_monotonic_time() - start, <, (mode_is_on() ? 60 : 15) * G_USEC_PER_SEC);
}

static void no_library_elsewhere(void) {
        g_assert_cmpint(rig_load("disk", DISK, NULL), <, 0);
        rig_assert_failure(FAILURE_WORKER, WORDS("ublk/runtime"));
        g_assert_cmpstr(rig.failure.class_name, ==, "LoadError");
}

static void test_no_library(void) {
        g_auto(GStrv) environment = g_environ_setenv(g_get_environ(), "UBLK_RUBY_LIBDIR", "/nonexistent", TRUE);

        g_free(run_elsewhere("/hook/end/no-library/subprocess", environment));
}

void add_end_tests(void) {
        g_test_add_func("/hook/end/at-exit", test_at_exit);
        g_test_add_func("/hook/end/at-exit/subprocess", at_exit_elsewhere);
        g_test_add_func("/hook/end/hang", test_hang);
        g_test_add_func("/hook/end/hang/subprocess", hang_elsewhere);
        if (mode_collects()) /* it is the library that turns the mode on */
                return;
        g_test_add_func("/hook/end/no-library", test_no_library);
        g_test_add_func("/hook/end/no-library/subprocess", no_library_elsewhere);
}
