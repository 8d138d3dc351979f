/* SPDX-License-Identifier: MIT */

/* CreateDevice: what it makes, what it refuses, and that nothing is left behind when it fails. */

#include "bus-fixture.h"

#define INVALID_ARGS "org.freedesktop.DBus.Error.InvalidArgs"

static void assert_nothing_left(Fixture *f) {
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/0.conf"));
        g_assert_false(fixture_has(f, "etc/ublk-ruby/devices/0.conf"));
        g_assert_false(fixture_has(f, "run/ublk-ruby/nodes/ublkb0.env"));
        g_assert_false(fixture_has(f, "sys/class/ublk-char/ublkc0"));
}

static void test_create(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *second = NULL;

        (void) data;
        g_assert_cmpstr(path, ==, "/org/ublk/device/0");
        g_assert_cmpstr(fixture_get_string(f, path, "Name"), ==, "disk0");
        g_assert_cmpstr(fixture_get_string(f, path, "Node"), ==, "/dev/ublkb0");
        g_assert_cmpstr(fixture_get_string(f, path, "Hook"), ==, "memory");
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_cmpstr(fixture_get_string(f, path, "Recovery"), ==, "reissue");
        g_assert_cmpstr(fixture_get_string(f, path, "DataPath"), ==, "string");
        g_assert_cmpstr(fixture_get_string(f, path, "Unit"), ==, "ublk-ruby-device@0.service");
        g_assert_cmpstr(fixture_get_string(f, path, "LastError"), ==, "");
        g_assert_cmpuint(fixture_get_number(f, path, "Size", 't'), ==, 1048576);
        g_assert_cmpuint(fixture_get_number(f, path, "BlockSize", 'u'), ==, 4096);
        g_assert_cmpuint(fixture_get_number(f, path, "Depth", 'u'), ==, 128);
        g_assert_cmpuint(fixture_get_number(f, path, "WorkerPID", 'u'), >, 0);
        g_assert_cmpuint(fixture_get_number(f, path, "CreationTimestamp", 't'), >, 0);
        g_assert_cmpuint(fixture_get_number(f, path, "Persistent", 'b'), ==, 0);
        g_assert_true(fixture_has(f, "run/ublk-ruby/devices/0.conf"));
        second = fixture_create(f, "disk1", "memory");
        g_assert_cmpstr(second, ==, "/org/ublk/device/1");
}

static void test_persistent(Fixture *f, gconstpointer data) {
        (void) data;
        g_assert_cmpint(fixture_create_option(f, "disk0", "memory", "persistent", "b", true), >=, 0);
        g_assert_true(fixture_has(f, "etc/ublk-ruby/devices/0.conf"));
        g_assert_true(fixture_is_enabled(f, "ublk-ruby-device@0.service"));
        g_assert_cmpuint(fixture_get_number(f, "/org/ublk/device/0", "Persistent", 'b'), ==, 1);
        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 0), >=, 0);
        g_assert_false(fixture_is_enabled(f, "ublk-ruby-device@0.service"));
        assert_nothing_left(f);
}

static void test_arguments(Fixture *f, gconstpointer data) {
        sd_bus_message *reply = NULL;
        const char *s;
        int64_t x;
        int b;

        (void) data;
        g_assert_cmpint(fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "disk0", "memory", 3, "path", "s",
                                     "/srv/a b\n\\x41.img", "offset", "x", INT64_C(-7), "fast", "b", 1), >=, 0);
        g_assert_cmpint(sd_bus_get_property(f->bus, "org.ublk", "/org/ublk/device/0", "org.ublk.Device", "Arguments", NULL,
                                            &reply, "a{sv}"), >=, 0);
        sd_bus_message_enter_container(reply, 'a', "{sv}");
        g_assert_cmpint(sd_bus_message_read(reply, "{sv}", NULL, "s", &s), >, 0);
        g_assert_cmpstr(s, ==, "/srv/a b\n\\x41.img");
        g_assert_cmpint(sd_bus_message_read(reply, "{sv}", NULL, "x", &x), >, 0);
        g_assert_cmpint(x, ==, -7);
        g_assert_cmpint(sd_bus_message_read(reply, "{sv}", NULL, "b", &b), >, 0);
        g_assert_true(b);
        sd_bus_message_unref(reply);
}

static void test_names(Fixture *f, gconstpointer data) {
        g_autofree char *long_name = g_strnfill(300, 'a'), *path = NULL;
        const char *names[] = { "", "..", "7", "a/b", "a\nb", long_name, ".hidden", "-x", "a b", "ublkb0", "/dev/ublkb0" };

        (void) data;
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                int r = fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", names[i], "memory", 0);
                fixture_assert_error(f, r, INVALID_ARGS, "no name for a device");
        }
        assert_nothing_left(f);
        path = fixture_create(f, "taken", "memory");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "taken", "memory", 0),
                             "org.ublk.Error.DeviceExists", "taken");
}

static void test_options(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "queues", "u", 0), INVALID_ARGS, "queues");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "queues", "u", 5000), INVALID_ARGS, "number of CPUs");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "depth", "u", 0), INVALID_ARGS, "1 to 4096");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "depth", "u", 5000), INVALID_ARGS, "1 to 4096");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "depth", "s", "5"), INVALID_ARGS, "type u");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "recovery", "s", "maybe"), INVALID_ARGS, "reissue");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "max-io-size", "u", 1000), INVALID_ARGS, "4096");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "hook-timeout", "t", UINT64_C(99999)), INVALID_ARGS, "100000");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "id", "u", UINT32_MAX), INVALID_ARGS, "id");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "read-olny", "b", 1), INVALID_ARGS, "read-olny");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "list", "as", 1, "x"), INVALID_ARGS, "list");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "Size", "t", UINT64_C(1)), INVALID_ARGS, "Size");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "memory", 2, "size", "t",
                                             UINT64_C(1), "size", "t", UINT64_C(2)), INVALID_ARGS, "twice");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "memory", 2, "depth", "u", 1,
                                             "depth", "u", 2), INVALID_ARGS, "twice");
        assert_nothing_left(f);
}

/* What would be accepted and then not done. */
static void test_not_done_yet(Fixture *f, gconstpointer data) {
        static const char name[] = "org.freedesktop.DBus.Error.NotSupported";

        (void) data;
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "processes", "u", 2), name, "processes");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "concurrency", "u", 2), name, "concurrency");
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "data-path", "s", "routed-copy"), name, "data-path");
        g_assert_nonnull(strstr(f->error.message, "doesn't do it yet"));
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "data-path", "s", "teleport"), INVALID_ARGS, "data-path");
        assert_nothing_left(f);
        g_assert_cmpint(fixture_create_option(f, "b", "memory", "data-path", "s", "buffer"), >=, 0);
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/0", "DataPath"), ==, "buffer");
        g_assert_cmpint(fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "memory", 4, "hook-timeout", "t", UINT64_C(0),
                                     "on-failure", "s", "error", "partscan", "b", false, "data-path", "s", "string"), >=, 0);
}

/* It came to life before its creation failed. */
static void test_brief(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "brief", 0), "org.ublk.Error.WorkerFailed",
                             "did not start");
        assert_nothing_left(f);
        /* Somebody was quick to mount it: then it is a device, and is served. */
        fixture_write(f, "mounted-0", "");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "brief", 0), "org.ublk.Error.WorkerFailed",
                             "did not start");
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 1);
        fixture_wait_state(f, "/org/ublk/device/0", "live");
        fixture_unlink(f, "mounted-0");
        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "d", 0), >=, 0);
        assert_nothing_left(f);
}

/* The id is another program's by the time that the kernel is asked for it. */
static void test_id_lost(Fixture *f, gconstpointer data) {
        g_autofree char *path = NULL;

        (void) data;
        fixture_write(f, "foreign-5", "");
        fixture_assert_error(f, fixture_create_option(f, "five", "memory", "id", "u", 5), "org.ublk.Error.DeviceExists", "id 5");
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/5.conf"));
        g_assert_true(fixture_has(f, "sys/class/ublk-char/ublkc5"));
        /* Nobody asked for 0 and 1 in particular. */
        fixture_write(f, "foreign-0", "");
        fixture_write(f, "foreign-1", "");
        path = fixture_create(f, "five", "memory");
        g_assert_cmpstr(path, ==, "/org/ublk/device/2");
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/0.conf"));
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/1.conf"));
        g_assert_true(fixture_has(f, "sys/class/ublk-char/ublkc0"));
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 1);
}

/* But not for ever. */
static void test_ids_lost(Fixture *f, gconstpointer data) {
        (void) data;
        for (int i = 0; i < 8; i++) {
                g_autofree char *flag = g_strdup_printf("foreign-%d", i);
                fixture_write(f, flag, "");
        }
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "memory", 0), "org.ublk.Error.DeviceExists",
                             "another ublk device");
        g_assert_false(fixture_has(f, "sys/class/ublk-char/ublkc7"));
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        for (int i = 0; i < 8; i++) {
                g_autofree char *file = g_strdup_printf("run/ublk-ruby/devices/%d.conf", i);
                g_assert_false(fixture_has(f, file));
        }
}

static void test_id(Fixture *f, gconstpointer data) {
        (void) data;
        g_assert_cmpint(fixture_create_option(f, "five", "memory", "id", "u", 5), >=, 0);
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/5", "Name"), ==, "five");
        fixture_assert_error(f, fixture_create_option(f, "again", "memory", "id", "u", 5), "org.ublk.Error.DeviceExists", "five");
        /* A ublk device of somebody else, and a file that this service can't read. */
        fixture_write(f, "sys/class/ublk-char/ublkc0/dev", "");
        fixture_write(f, "run/ublk-ruby/devices/1.conf", "garbage");
        fixture_assert_error(f, fixture_create_option(f, "foreign", "memory", "id", "u", 0), "org.ublk.Error.DeviceExists",
                             "Id 0 is taken");
        g_autofree char *path = fixture_create(f, "next", "memory");
        g_assert_cmpstr(path, ==, "/org/ublk/device/2");
}

static void test_hooks(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "nowhere", 0),
                             "org.ublk.Error.NoSuchHook", "/hooks");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "/etc/../passwd", 0), INVALID_ARGS,
                             "no absolute path");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "../memory", 0), INVALID_ARGS, NULL);
}

static void test_hook_fails(Fixture *f, gconstpointer data) {
        g_autofree char *calls = NULL;

        (void) data;
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "broken", 0),
                             "org.ublk.Error.HookFailed", "Errno::ENOENT");
        assert_nothing_left(f);
        /* With Restart=always it would be tried for ever. */
        calls = fixture_calls(f);
        g_assert_nonnull(strstr(calls, "StopUnit ublk-ruby-device@0.service"));
        g_autofree char *path = fixture_create(f, "d", "memory");
        g_assert_cmpstr(path, ==, "/org/ublk/device/0");
}

static void test_fails_silently(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "silent", 0),
                             "org.ublk.Error.WorkerFailed", "journalctl -u ublk-ruby-device@0.service");
        assert_nothing_left(f);
}

static void test_unsupported(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_write(f, "unsupported", "The module is not loaded: modprobe ublk_drv");
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid());
        g_assert_cmpuint(fixture_get_number(f, NULL, "Supported", 'b'), ==, 0);
        g_assert_cmpstr(fixture_get_string(f, NULL, "UnsupportedReason"), ==, "The module is not loaded: modprobe ublk_drv");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "memory", 0),
                             "org.ublk.Error.NoKernelSupport", "modprobe ublk_drv");
        assert_nothing_left(f);
        /* Loaded meanwhile: found without a restart. */
        fixture_unlink(f, "unsupported");
        g_autofree char *path = fixture_create(f, "d", "memory");
        g_assert_nonnull(path);
        g_assert_cmpuint(fixture_get_number(f, NULL, "Supported", 'b'), ==, 1);
}

/* Two at once with one name; and the loop answers others while they run. */
static void test_concurrent(Fixture *f, gconstpointer data) {
        g_autofree char *first = NULL, *second = NULL, *third = NULL;

        (void) data;
        fixture_write(f, "hold", "");
        fixture_begin(f, &first, "CreateDevice", "ssa{sv}", "same", "slow", 0);
        fixture_begin(f, &second, "CreateDevice", "ssa{sv}", "same", "slow", 0);
        fixture_begin(f, &third, "CreateDevice", "ssa{sv}", "other", "slow", 0);
        fixture_wait_file(f, "run/ublk-ruby/devices/0.conf", true);
        fixture_wait_file(f, "run/ublk-ruby/devices/1.conf", true);
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        fixture_assert_error(f, fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "same", 0),
                             "org.ublk.Error.OperationInProgress", "same");
        fixture_unlink(f, "hold");
        g_assert_cmpstr(fixture_end(f, &first), ==, "ok");
        g_assert_cmpstr(fixture_end(f, &second), ==, "org.ublk.Error.DeviceExists");
        g_assert_cmpstr(fixture_end(f, &third), ==, "ok");
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 2);
}

static void test_limit(Fixture *f, gconstpointer data) {
        char *results[65] = {};
        unsigned limited = 0;

        (void) data;
        for (size_t i = 0; i < ELEMENTSOF(results); i++) {
                char name[16];
                snprintf(name, sizeof(name), "d%zu", i);
                fixture_begin(f, &results[i], "CreateDevice", "ssa{sv}", name, "slow", 0);
        }
        for (size_t i = 0; i < ELEMENTSOF(results); i++) {
                limited += streq(fixture_end(f, &results[i]), "org.freedesktop.DBus.Error.LimitsExceeded");
                g_free(results[i]);
        }
        g_assert_cmpuint(limited, ==, 1);
}

/* Whoever asked has gone: the device is made all the same. */
static void test_client_leaves(Fixture *f, gconstpointer data) {
        sd_bus *bus;

        (void) data;
        g_assert_cmpint(sd_bus_open_system(&bus), >=, 0);
        sd_bus_call_method_async(bus, NULL, "org.ublk", "/org/ublk", "org.ublk.Manager", "CreateDevice", NULL, NULL, "ssa{sv}",
                                 "orphan", "slow", 0);
        sd_bus_flush(bus);
        /* Past the question who it is that calls. */
        for (int i = 0; i < 500 && !fixture_has(f, "run/ublk-ruby/devices/0.conf"); i++)
                g_usleep(1000);
        sd_bus_flush_close_unref(bus);
        for (int i = 0; i < 500 && fixture_get_number(f, NULL, "DeviceCount", 'u') == 0; i++)
                g_usleep(10000);
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/0", "State"), ==, "live");
}

/* A creation that fails takes away the state that it made, and leaves what was there before. */
static void test_state(Fixture *f, gconstpointer data) {
        g_autofree char *path = NULL;

        (void) data;
        g_assert_null(fixture_create(f, "disk0", "keeps-broken"));
        fixture_assert_error(f, -1, "org.ublk.Error.HookFailed", "/nowhere");
        g_assert_false(fixture_has(f, "var/lib/ublk-ruby/disk0"));
        g_assert_false(fixture_has(f, "var/lib/ublk-ruby/.disk0.owner"));
        path = fixture_create(f, "disk0", "keeps");
        fixture_write(f, "var/lib/ublk-ruby/disk0/bitmap", "x");
        g_assert_cmpint(fixture_call(f, path, "Delete", NULL, "a{sv}", 1, "keep-state", "b", true), >=, 0);
        for (int i = 0; i < 2; i++) {
                g_assert_null(fixture_create(f, "disk0", i == 0 ? "keeps-broken" : "broken"));
                g_assert_true(fixture_has(f, "var/lib/ublk-ruby/disk0/bitmap"));
                g_assert_false(fixture_has(f, "var/lib/ublk-ruby/.disk0.owner"));
        }
        assert_nothing_left(f);
}

#define CANCELLED "org.ublk.Error.Cancelled"

static void assert_nothing(Fixture *f) {
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/0.conf"));
        g_assert_false(fixture_has(f, "etc/ublk-ruby/devices/0.conf"));
        g_assert_false(fixture_has(f, "sys/class/ublk-char/ublkc0"));
        g_assert_false(fixture_is_enabled(f, "ublk-ruby-device@0.service"));
}

/* A hook that would never come to its end. Whoever asked is told, and so is whoever gave it up, once all is undone. */
static void test_cancel(Fixture *f, gconstpointer data) {
        static const char *const names[] = { "disk0", "0", "/dev/ublkb0" };

        (void) data;
        for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
                g_autofree char *created = NULL, *deleted = NULL, *again = NULL;

                fixture_begin(f, &created, "CreateDevice", "ssa{sv}", "disk0", "stuck", 1, "persistent", "b", true);
                for (bool asked = false; !asked;) {
                        g_autofree char *calls = fixture_calls(f);
                        asked = strstr(calls, "StartUnit ublk-ruby-device@0.service");
                }
                fixture_begin(f, &deleted, "DeleteDevice", "sa{sv}", names[i], 0);
                fixture_begin(f, &again, "DeleteDevice", "sa{sv}", names[i], 0);
                g_assert_cmpstr(fixture_end(f, &deleted), ==, "ok");
                assert_nothing(f);
                g_assert_cmpstr(fixture_end(f, &created), ==, CANCELLED);
                g_assert_cmpstr(fixture_end(f, &again), !=, "ok");
        }
        /* The name and the id are free. */
        g_autofree char *path = fixture_create(f, "disk0", "memory");
        g_assert_cmpstr(path, ==, "/org/ublk/device/0");
}

/* At any moment: from before it has an id, until after it has failed by itself. */
static void test_cancel_any_time(Fixture *f, gconstpointer data) {
        static const char *const hooks[] = { "slow", "broken", "memory", "keeps-broken", "needy" };
        unsigned n_cancelled = 0;

        (void) data;
        for (unsigned i = 0; i < 60; i++) {
                g_autofree char *created = NULL, *deleted = NULL;
                const char *c, *d;

                fixture_begin(f, &created, "CreateDevice", "ssa{sv}", "disk0", hooks[i % G_N_ELEMENTS(hooks)], 0);
                g_usleep(i / G_N_ELEMENTS(hooks) * 500);
                fixture_begin(f, &deleted, "DeleteDevice", "sa{sv}", "disk0", 0);
                d = fixture_end(f, &deleted);
                c = fixture_end(f, &created);
                g_test_message("%s after %u: created %s, deleted %s", hooks[i % G_N_ELEMENTS(hooks)], i / 5 * 500, c, d);
                n_cancelled += streq(c, CANCELLED);
                g_assert_true(streq(d, "ok") || g_str_has_prefix(d, "org.ublk.Error."));
                if (streq(c, "ok") && !streq(d, "ok")) /* it was at its end */
                        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 0), >=, 0);
                assert_nothing(f);
        }
        g_assert_cmpuint(n_cancelled, >, 0);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/create/ok", test_create);
        fixture_add("/bus/create/persistent", test_persistent);
        fixture_add("/bus/create/arguments", test_arguments);
        fixture_add("/bus/create/names", test_names);
        fixture_add("/bus/create/options", test_options);
        fixture_add("/bus/create/not-done-yet", test_not_done_yet);
        fixture_add("/bus/create/id", test_id);
        fixture_add("/bus/create/brief", test_brief);
        fixture_add("/bus/create/id-lost", test_id_lost);
        fixture_add("/bus/create/ids-lost", test_ids_lost);
        fixture_add("/bus/create/hooks", test_hooks);
        fixture_add("/bus/create/hook-fails", test_hook_fails);
        fixture_add("/bus/create/fails-silently", test_fails_silently);
        fixture_add("/bus/create/unsupported", test_unsupported);
        fixture_add("/bus/create/concurrent", test_concurrent);
        fixture_add("/bus/create/limit", test_limit);
        fixture_add("/bus/create/client-leaves", test_client_leaves);
        fixture_add("/bus/create/state", test_state);
        fixture_add("/bus/create/cancel", test_cancel);
        fixture_add("/bus/create/cancel-any-time", test_cancel_any_time);
        return g_test_run();
}
