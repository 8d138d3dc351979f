/* SPDX-License-Identifier: MIT */

/* DeleteDevice: what is in use is not touched, and whatever state a device is in, it can be got rid of. */

#include "bus-fixture.h"

#define UNIT "ublk-ruby-device@0.service"
#define MOUNTED "[{\"kind\":\"mount\",\"what\":\"/mnt/x\"},{\"kind\":\"process\",\"what\":\"/dev/ublkb0\",\"pid\":123,\"comm\":\"dd\"}]"

static int delete(Fixture *f, const char *device) {
        return fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", device, 0);
}

static void assert_gone(Fixture *f) {
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        g_assert_null(fixture_get_string(f, "/org/ublk/device/0", "State"));
        g_assert_cmpstr(f->error.name, ==, "org.freedesktop.DBus.Error.UnknownObject");
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/0.conf"));
        g_assert_false(fixture_has(f, "run/ublk-ruby/nodes/ublkb0.env"));
        g_assert_false(fixture_has(f, "sys/class/ublk-char/ublkc0"));
        /* Nor an answer of control. */
        g_assert_false(fixture_has(f, "run/ublk-ruby-control/holders-0.json"));
        g_assert_false(fixture_has(f, "run/ublk-ruby-control/remove-0-state.json"));
        g_assert_false(fixture_has(f, "run/ublk-ruby-control/probe.json"));
}

static void test_delete(Fixture *f, gconstpointer data) {
        static const char *const designations[] = { "disk0", "0", "/dev/ublkb0" };

        (void) data;
        for (size_t i = 0; i < ELEMENTSOF(designations); i++) {
                g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;
                g_assert_nonnull(path);
                g_assert_cmpint(delete(f, designations[i]), >=, 0);
                assert_gone(f);
                calls = fixture_calls(f);
                g_assert_nonnull(strstr(calls, "StartUnit ublk-ruby-control@holders-0.service\nStopUnit " UNIT));
                g_assert_null(strstr(calls, "remove-0"));
        }
        fixture_assert_error(f, delete(f, "disk0"), "org.ublk.Error.NoSuchDevice", "disk0");
        fixture_assert_error(f, delete(f, "17"), "org.ublk.Error.NoSuchDevice", "17");
}

static void test_by_object(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        g_assert_cmpint(fixture_call(f, path, "Delete", NULL, "a{sv}", 0), >=, 0);
        assert_gone(f);
}

static void test_unknown_option(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_assert_error(f, fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 1, "force", "b", true),
                             "org.freedesktop.DBus.Error.InvalidArgs", "force");
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
}

static void test_busy(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;

        (void) data;
        fixture_write(f, "holders-0", MOUNTED);
        fixture_assert_error(f, delete(f, "disk0"), "org.ublk.Error.DeviceBusy", "mounted on /mnt/x");
        g_assert_nonnull(strstr(f->error.message, "process 123 (dd)"));
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "StopUnit"));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        fixture_unlink(f, "holders-0");
        g_assert_cmpint(delete(f, "disk0"), >=, 0);
        assert_gone(f);
}

/* The stop left it quiesced although nobody holds it: its unit was waiting for a restart, say. */
static void test_left_behind(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;

        (void) data;
        g_assert_nonnull(path);
        fixture_write(f, "keep-0", "");
        g_assert_cmpint(delete(f, "disk0"), >=, 0);
        calls = fixture_calls(f);
        g_assert_nonnull(strstr(calls, "StartUnit ublk-ruby-control@remove-0-state.service"));
        assert_gone(f);
}

/* Unit down, disk quiesced and mounted: seen before anything is done. And one that failed. */
static void test_held(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_write(f, "holders-0", MOUNTED);
        fixture_set_unit(f, UNIT, "inactive", "dead", "success", "");
        fixture_wait_state(f, path, "held");
        fixture_assert_error(f, delete(f, "disk0"), "org.ublk.Error.DeviceBusy", NULL);
        fixture_unlink(f, "holders-0");
        g_assert_cmpint(delete(f, "disk0"), >=, 0);
        assert_gone(f);
}

static void test_failed(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_set_unit(f, UNIT, "failed", "failed", "exit-code", "");
        fixture_wait_state(f, path, "failed");
        g_assert_cmpint(delete(f, "disk0"), >=, 0);
        assert_gone(f);
}

/* Held only once its unit was down: the unit is started again. */
static void test_held_after_stop(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *result = NULL, *calls = NULL;

        (void) data;
        g_free(fixture_calls(f));
        fixture_write(f, "keep-0", "");
        fixture_write(f, "hold-after-stop-0", MOUNTED);
        fixture_begin(f, &result, "DeleteDevice", "sa{sv}", "disk0", 0);
        g_assert_cmpstr(fixture_end(f, &result), ==, "org.ublk.Error.DeviceBusy");
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==,
                        "StartUnit ublk-ruby-control@holders-0.service\nStopUnit " UNIT "\n"
                        "StartUnit ublk-ruby-control@holders-0.service\nStartUnit " UNIT "\n");
        fixture_wait_state(f, path, "live");
        g_assert_true(fixture_has(f, "run/ublk-ruby/devices/0.conf"));
}

/* A control that gives no answer: nothing is stopped on a guess, and an old answer does not count. */
static void test_no_answer(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;

        (void) data;
        fixture_write(f, "run/ublk-ruby-control/holders-0.json", "{\"error\":0,\"holders\":[]}");
        fixture_write(f, "no-answer", "");
        fixture_assert_error(f, delete(f, "disk0"), "org.ublk.Error.WorkerFailed", "ublk-ruby-control@holders-0.service");
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "StopUnit"));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
}

/* Another program has its id, and mounts what it made: the device can go, and nothing is done to the other. */
static void test_foreign(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_write(f, "run/ublk-ruby/devices/3.conf", "[Device]\nName=lost\nHook=memory\n");
        fixture_write(f, "sys/class/ublk-char/ublkc3/dev", "");
        fixture_write(f, "sys/block/ublkb3/size", "8\n");
        fixture_write(f, "foreign-3", "");
        fixture_write(f, "holders-3", MOUNTED);
        fixture_set_unit(f, "ublk-ruby-device@3.service", "failed", "failed", "exit-code", "");
        for (int i = 0; i < 500 && fixture_get_number(f, NULL, "DeviceCount", 'u') == 0; i++)
                g_usleep(10000);
        fixture_wait_state(f, "/org/ublk/device/3", "failed");
        if (delete(f, "lost") < 0)
                g_error("%s: %s", f->error.name, f->error.message);
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/3.conf"));
        g_assert_true(fixture_has(f, "sys/block/ublkb3/size"));
}

/* What a hook keeps goes with its device, or not; and is not lost with a stop, which a start can follow. */
static void test_state(Fixture *f, gconstpointer data) {
        (void) data;
        for (int keep = 0; keep < 2; keep++) {
                g_autofree char *path = fixture_create(f, "disk0", "keeps"), *calls = NULL;

                g_assert_nonnull(path);
                fixture_write(f, "var/lib/ublk-ruby/disk0/bitmap", "x");
                fixture_assert_error(f, fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 1, "keep-state", "s", "yes"),
                                     "org.freedesktop.DBus.Error.InvalidArgs", "type b");
                g_assert_cmpint(keep ? fixture_call(f, path, "Delete", NULL, "a{sv}", 1, "keep-state", "b", true) :
                                       fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 1, "keep-state", "b", false),
                                >=, 0);
                assert_gone(f);
                calls = fixture_calls(f);
                g_assert_nonnull(strstr(calls, keep ? "remove-0-keep" : "remove-0-state"));
                g_assert_cmpint(fixture_has(f, "var/lib/ublk-ruby/disk0/bitmap"), ==, keep);
                g_assert_false(fixture_has(f, "var/lib/ublk-ruby/.disk0.owner"));
                g_assert_false(fixture_has(f, "run/ublk-ruby-control/remove-0-keep.json"));
        }
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/delete/ok", test_delete);
        fixture_add("/bus/delete/by-object", test_by_object);
        fixture_add("/bus/delete/unknown-option", test_unknown_option);
        fixture_add("/bus/delete/busy", test_busy);
        fixture_add("/bus/delete/left-behind", test_left_behind);
        fixture_add("/bus/delete/held", test_held);
        fixture_add("/bus/delete/failed", test_failed);
        fixture_add("/bus/delete/held-after-stop", test_held_after_stop);
        fixture_add("/bus/delete/no-answer", test_no_answer);
        fixture_add("/bus/delete/foreign", test_foreign);
        fixture_add("/bus/delete/state", test_state);
        return g_test_run();
}
