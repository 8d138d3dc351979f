/* SPDX-License-Identifier: MIT */

/* What a worker could not say of its end, and who waits for the next one if it can't. */

#include "service/activation-attempts.h"
#include "service/end-reason.h"
#include "service/log.h"
#include "service/turn.h"

#include <glib.h>
#include <glib/gstdio.h>

#define ID 3
#define KEY "/srv/key"

static char *root;
static unsigned n_queries;
static const char *job;

static int job_type(const char *unit, uint64_t timeout_usec, char **ret) {
        g_assert_cmpstr(unit, ==, "ublk-ruby-device@3.service");
        g_assert_cmpuint(timeout_usec, >, 0);
        n_queries++;
        return job ? xstrdup(job, ret) : -ECONNREFUSED;
}

static void put(const char *path, const char *text) {
        g_autofree char *full = g_build_filename(root, path, NULL), *directory = g_path_get_dirname(full);

        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_true(g_file_set_contents(full, text, -1, NULL));
        g_assert_cmpint(g_chmod(full, 0600), ==, 0);
}

static void lose(const char *path) {
        g_autofree char *full = g_build_filename(root, path, NULL);

        g_assert_cmpint(g_unlink(full), ==, 0);
}

/* One that has its secret in a file, and another one in systemd's store. */
static DeviceConfig *configure(void) {
        DeviceConfig *c = device_config_new(ID);

        c->name = strdup("disk0");
        c->hook = strdup("keeper");
        c->created_usec = 7;
        g_assert_cmpint(device_config_add_argument(c, "key", 's', KEY), ==, 0);
        g_assert_cmpint(device_config_add_argument(c, "token", 's', "vault"), ==, 0);
        g_assert_cmpint(device_config_set(c, "Secrets", "key token", NULL), ==, 0);
        g_assert_cmpint(device_config_save(c), ==, 0);
        put(KEY, "secret");
        n_queries = 0;
        job = "none";
        return c;
}

static void test_reasons(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = configure();
        Failure f = FAILURE_NULL;

        g_assert_cmpint(end_reason(c, 1, NULL, &f), ==, 0);
        g_assert_cmpint(end_reason(c, 1, "Serving /dev/ublkb3", &f), ==, 0);
        g_assert_null(f.message);
        g_assert_cmpint(end_reason(c, 3, STATUS_LOADING, &f), ==, 1);
        g_assert_cmpint(f.kind, ==, FAILURE_HOOK);
        g_assert_cmpstr(f.message, ==, "the hook ended the worker's process while it was loaded (exit status 3)");
        g_assert_cmpint(end_reason(c, EXIT_CREDENTIALS, NULL, &f), ==, 1);
        g_assert_cmpint(f.kind, ==, FAILURE_WORKER);
        g_assert_nonnull(strstr(f.message, "could not load the credentials"));
        lose(KEY);
        g_assert_cmpint(end_reason(c, EXIT_CREDENTIALS, NULL, &f), ==, 1);
        g_assert_cmpint(f.kind, ==, FAILURE_ARGUMENTS);
        g_assert_cmpint(f.error, ==, ENOENT);
        g_assert_cmpstr(f.message, ==, "/srv/key is not there, of which option \"key\" has its secret: no worker can start until it is back");
        put(KEY, "");
        g_assert_cmpint(end_reason(c, EXIT_CREDENTIALS, NULL, &f), ==, 1);
        g_assert_nonnull(strstr(f.message, "has 0 bytes"));
        failure_done(&f);
}

/* Four starts have failed: the next one would wait for 200 ms. */
static void fail_starts(const DeviceConfig *c) {
        attempts_forget(ID);
        for (unsigned i = 0; i < 4; i++)
                attempts_note(c);
        g_assert_cmpuint(attempts_delay(c), ==, 200 * USEC_PER_MSEC);
}

static uint64_t await(int exit_status) {
        uint64_t begin = now_usec();

        turn_await(ID, exit_status, job_type);
        return now_usec() - begin;
}

static void test_wait(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = configure();
        static const int others[] = { -1, 0, 1, 75, 76, 78, 199, 246 };

        fail_starts(c);
        for (size_t i = 0; i < ELEMENTSOF(others); i++) {
                (void) await(others[i]);
                g_assert_cmpuint(attempts_delay(c), ==, 200 * USEC_PER_MSEC);
        }
        g_assert_cmpuint(n_queries, ==, 0);
        lose(KEY);
        g_assert_cmpuint(await(EXIT_CREDENTIALS), >=, 200 * USEC_PER_MSEC);
        g_assert_cmpuint(n_queries, >, 0);
        g_assert_cmpuint(attempts_delay(c), ==, 0); /* the worker need not wait as well */
        attempts_note(c);
        g_assert_cmpuint(attempts_delay(c), ==, 400 * USEC_PER_MSEC);
        /* Whatever else it is that systemd can't do; the start that has failed is still its job. */
        job = "start";
        g_assert_cmpuint(await(226), >=, 400 * USEC_PER_MSEC);
        attempts_note(c);
        job = NULL; /* can't be asked for */
        g_assert_cmpuint(await(226), >=, 800 * USEC_PER_MSEC);
        /* The first few starts wait for nothing. */
        attempts_forget(ID);
        attempts_note(c);
        n_queries = 0;
        (void) await(EXIT_CREDENTIALS);
        g_assert_cmpuint(n_queries, ==, 0);
}

static gpointer bring_back(gpointer data) {
        (void) data;
        g_usleep(300000);
        put(KEY, "secret");
        return NULL;
}

/* Ten seconds at most: somebody wants something of the unit, or the file is back. */
static void test_no_longer(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = configure();
        GThread *thread;

        fail_starts(c);
        for (unsigned i = 0; i < 10; i++)
                attempts_note(c);
        g_assert_cmpuint(attempts_delay(c), ==, 10 * USEC_PER_SEC);
        lose(KEY);
        job = "stop";
        (void) await(EXIT_CREDENTIALS);
        g_assert_cmpuint(n_queries, ==, 1);
        attempts_note(c);
        job = "none";
        thread = g_thread_new("file", bring_back, NULL);
        g_assert_cmpuint(await(EXIT_CREDENTIALS), <, 9 * USEC_PER_SEC);
        (void) g_thread_join(thread);
        g_assert_cmpuint(attempts_delay(c), ==, 0);
}

int main(int argc, char *argv[]) {
        g_autofree char *command = NULL;
        int r;

        g_test_init(&argc, &argv, NULL);
        log_set_max_level(-1);
        root = g_dir_make_tmp("test-turn-XXXXXX", NULL);
        config_set_root(root);
        g_test_add_func("/turn/reasons", test_reasons);
        g_test_add_func("/turn/wait", test_wait);
        g_test_add_func("/turn/no-longer", test_no_longer);
        r = g_test_run();
        command = g_strdup_printf("rm -rf '%s'", root);
        g_assert_cmpint(system(command), ==, 0);
        g_free(root);
        return r;
}
