/* SPDX-License-Identifier: MIT */
#include "service/failure.h"
#include "service/trial.h"

#include <glib.h>
#include <glib/gstdio.h>

#define FILE_NAME "/run/ublk-ruby/devices/3.trial"

static char *root;

static DeviceConfig *config(const char *name, uint64_t created) {
        DeviceConfig *c = device_config_new(3);

        c->name = strdup(name);
        c->created_usec = created;
        return c;
}

static void put(const char *text) {
        g_autofree char *path = g_strconcat(root, FILE_NAME, NULL);

        g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void test_begin_and_end(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = config("disk0", 7), *other = config("disk1", 7), *later = config("disk0", 8);
        uint64_t usec = 0;

        g_assert_false(trial_is_on(c, NULL));
        g_assert_cmpint(trial_end(3), ==, 0);
        g_assert_cmpint(trial_begin(c, 1234567, NULL, ""), ==, 0);
        g_assert_true(trial_is_on(c, NULL));
        g_assert_true(trial_is_on(c, &usec));
        g_assert_cmpuint(usec, ==, 1234567);
        /* What an earlier device with this id has left. */
        g_assert_false(trial_is_on(other, NULL));
        g_assert_false(trial_is_on(later, NULL));
        g_assert_cmpint(trial_begin(c, TRIAL_MAX_USEC, NULL, ""), ==, 0);
        g_assert_true(trial_is_on(c, &usec));
        g_assert_cmpuint(usec, ==, TRIAL_MAX_USEC);
        g_assert_cmpint(trial_end(3), ==, 0);
        g_assert_false(trial_is_on(c, NULL));
}

#define OLD "0123456789abcdef0123456789abcdef"

/* The worker that was there before is not on trial, any other one is, whoever started it. */
static void test_worker_before(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = config("disk0", 7);
        uint64_t usec = 0;

        g_assert_cmpint(trial_begin(c, 5, NULL, OLD), ==, 0);
        g_assert_true(trial_is_on(c, NULL));
        g_assert_false(trial_includes(c, OLD, &usec));
        g_assert_cmpuint(usec, ==, 0);
        g_assert_true(trial_includes(c, "1123456789abcdef0123456789abcdef", &usec));
        g_assert_cmpuint(usec, ==, 5);
        g_assert_true(trial_includes(c, NULL, NULL));
        /* One that systemd never started before. */
        g_assert_cmpint(trial_begin(c, 5, NULL, ""), ==, 0);
        g_assert_true(trial_includes(c, OLD, NULL));
        g_assert_cmpint(trial_end(3), ==, 0);
        g_assert_false(trial_includes(c, NULL, NULL));
}

static void test_needs(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = config("disk0", 7), *later = config("disk0", 8);
        g_autofree char *many = g_strnfill(FAILURE_MAX_NEEDS, 'x');
        _cleanup_free_ char *needs = NULL;

        g_assert_null(trial_needs(c));
        g_assert_cmpint(trial_prepare(c, 5, "network moon"), ==, 0);
        g_assert_false(trial_is_on(c, NULL));
        g_assert_false(trial_includes(c, OLD, NULL));
        needs = trial_needs(c);
        g_assert_cmpstr(needs, ==, "network moon");
        trial_add_needs(later); /* of an earlier device with this id */
        g_assert_false(later->network);
        trial_add_needs(c);
        g_assert_true(c->network);
        g_assert_false(c->jit);
        g_assert_cmpint(trial_begin(c, 5, "jit", OLD), ==, 0);
        trial_add_needs(c);
        g_assert_true(c->jit);
        g_assert_cmpint(trial_begin(c, TRIAL_MAX_USEC, many, OLD), ==, 0);
        g_assert_true(trial_is_on(c, NULL));
        g_assert_cmpint(trial_end(3), ==, 0);
        g_assert_null(trial_needs(c));
}

/* It is no device's file. */
static void test_no_device(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = config("disk0", 7);
        _cleanup_free_ uint32_t *ids = NULL;
        size_t n;

        g_assert_cmpint(trial_begin(c, 1, NULL, ""), ==, 0);
        g_assert_cmpint(device_config_list(&ids, &n), ==, 0);
        g_assert_cmpuint(n, ==, 0);
        g_assert_cmpint(trial_end(3), ==, 0);
}

static void test_damaged(void) {
        static const char *const texts[] = { "", "\n", "5", "x 5", "-1 5 all", "12345678901234567890123 5 all", "TAG", "TAG 5" };
        _cleanup_(device_config_freep) DeviceConfig *c = config("disk0", 7);
        g_autofree char *tag = g_strdup_printf("%llx", (unsigned long long) device_config_kernel_tag(c));
        g_autofree char *much = g_strdup_printf("%llx 99999999999999999 all\n", (unsigned long long) device_config_kernel_tag(c));
        g_autofree char *long_one = g_strnfill(100000, '1');
        uint64_t usec = 0;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                g_auto(GStrv) parts = g_strsplit(texts[i], "TAG", -1);
                g_autofree char *text = g_strjoinv(tag, parts);

                put(text);
                g_assert_false(trial_is_on(c, NULL));
                g_assert_null(trial_needs(c));
        }
        put(long_one);
        g_assert_false(trial_is_on(c, NULL));
        put(much);
        g_assert_true(trial_is_on(c, &usec));
        g_assert_cmpuint(usec, ==, TRIAL_MAX_USEC);
        g_assert_cmpint(trial_end(3), ==, 0);
}

static void remove_root(void) {
        static const char *const parts[] = { "/run/ublk-ruby/devices", "/run/ublk-ruby", "/run", "" };

        for (size_t i = 0; i < ELEMENTSOF(parts); i++) {
                g_autofree char *path = g_strconcat(root, parts[i], NULL);
                (void) g_rmdir(path);
        }
}

static bool is_proposed(void) {
        g_autofree char *path = g_strconcat(root, "/run/ublk-ruby/devices/3.proposed", NULL);

        return g_file_test(path, G_FILE_TEST_EXISTS);
}

static DeviceConfig *config_with(const char *name, uint64_t created, const char *value) {
        DeviceConfig *c = config(name, created);

        c->hook = strdup("file");
        g_assert_cmpint(device_config_add_argument(c, "path", 's', value), ==, 0);
        return c;
}

/* Arguments that are on trial go with the trial, and are nobody's but this device's. */
static void test_proposed(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = config_with("disk0", 7, "/old"), *proposed = config_with("disk0", 7, "/new");
        _cleanup_(device_config_freep) DeviceConfig *later = config_with("disk0", 8, "/later");

        g_assert_cmpint(trial_take_proposed(c), ==, 0);
        g_assert_cmpint(device_config_add_argument(proposed, "size", 't', "4096"), ==, 0);
        g_assert_cmpint(trial_propose(proposed), ==, 0);
        g_assert_cmpint(trial_begin(c, 5, NULL, ""), ==, 0);
        g_assert_cmpint(trial_take_proposed(later), ==, 0);
        g_assert_cmpstr(later->arguments[0].value, ==, "/later");
        g_assert_cmpint(trial_take_proposed(c), ==, 1);
        g_assert_cmpuint(c->n_arguments, ==, 2);
        g_assert_cmpstr(c->arguments[0].value, ==, "/new");
        g_assert_true(is_proposed());
        g_assert_cmpint(trial_end(3), ==, 0);
        g_assert_false(is_proposed());
        g_assert_cmpint(trial_propose(proposed), ==, 0);
        g_assert_cmpint(trial_forget_proposed(3), ==, 0);
        g_assert_cmpint(trial_forget_proposed(3), ==, 0);
        g_assert_false(is_proposed());
}

int main(int argc, char *argv[]) {
        int r;

        g_test_init(&argc, &argv, NULL);
        root = g_dir_make_tmp("test-trial-XXXXXX", NULL);
        config_set_root(root);
        g_test_add_func("/trial/proposed", test_proposed);
        g_test_add_func("/trial/begin-and-end", test_begin_and_end);
        g_test_add_func("/trial/worker-before", test_worker_before);
        g_test_add_func("/trial/needs", test_needs);
        g_test_add_func("/trial/no-device", test_no_device);
        g_test_add_func("/trial/damaged", test_damaged);
        r = g_test_run();
        remove_root();
        return r;
}
