/* SPDX-License-Identifier: MIT */

/* The manager ends in the middle of something: nothing stays half done. */

#include "bus-fixture.h"

#include <signal.h>

#define FILE0 "run/ublk-ruby/devices/0.conf"
#define UNIT "ublk-ruby-device@0.service"

static void assert_not_marked(Fixture *f, const char *file) {
        g_autofree char *text = fixture_read(f, file);

        g_assert_nonnull(text);
        g_assert_null(strstr(text, "Creating"));
}

static void assert_marked(Fixture *f, const char *file) {
        g_autofree char *text = fixture_read(f, file);

        g_assert_nonnull(text);
        g_assert_nonnull(strstr(text, "Creating=yes"));
}

/* Only while it is being created is a device marked so. */
static void test_mark(Fixture *f, gconstpointer data) {
        g_autofree char *result = NULL;

        (void) data;
        fixture_begin(f, &result, "CreateDevice", "ssa{sv}", "disk0", "slow", 0);
        fixture_wait_file(f, FILE0, true);
        assert_marked(f, FILE0);
        g_assert_cmpstr(fixture_end(f, &result), ==, "ok");
        assert_not_marked(f, FILE0);
}

/* SIGTERM in the middle of a creation: it is finished and answered, and nothing new is begun. */
static void test_drain(Fixture *f, gconstpointer data) {
        g_autofree char *result = NULL, *second = NULL, *other = fixture_create(f, "other", "memory");

        (void) data;
        g_assert_nonnull(other);
        fixture_begin(f, &result, "CreateDevice", "ssa{sv}", "disk0", "slow", 0);
        fixture_wait_file(f, "run/ublk-ruby/devices/1.conf", true);
        fixture_kill_manager(f, SIGTERM);
        fixture_begin(f, &second, "CreateDevice", "ssa{sv}", "disk1", "memory", 0);
        g_assert_cmpstr(fixture_end(f, &second), ==, "org.ublk.Error.Cancelled");
        fixture_assert_error(f, fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "other", 0), "org.ublk.Error.Cancelled",
                             "being stopped");
        g_assert_cmpstr(fixture_end(f, &result), ==, "ok");
        fixture_stop_manager(f); /* its status */
        assert_not_marked(f, "run/ublk-ruby/devices/1.conf");
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/2.conf"));
        fixture_start_manager(f, getuid());
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 2);
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/1", "State"), ==, "live");
}

/* One that fails is undone, and does not try another id. */
static void test_drain_undoes(Fixture *f, gconstpointer data) {
        g_autofree char *result = NULL;

        (void) data;
        fixture_begin(f, &result, "CreateDevice", "ssa{sv}", "disk0", "slow", 0);
        fixture_wait_file(f, FILE0, true);
        fixture_write(f, "foreign-0", "");
        fixture_kill_manager(f, SIGTERM);
        g_assert_cmpstr(fixture_end(f, &result), ==, "org.ublk.Error.DeviceExists");
        fixture_stop_manager(f);
        g_assert_false(fixture_has(f, FILE0));
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/1.conf"));
        fixture_start_manager(f, getuid());
}

/* Asked twice it ends at once; the next manager undoes what the unit comes to, as soon as it has come to nothing. */
static void test_end_at_once(Fixture *f, gconstpointer data) {
        g_autofree char *result = NULL;

        (void) data;
        fixture_begin(f, &result, "CreateDevice", "ssa{sv}", "disk0", "stuck", 0);
        fixture_wait_file(f, FILE0, true);
        fixture_kill_manager(f, SIGTERM);
        g_usleep(100000);
        fixture_stop_manager(f);
        assert_marked(f, FILE0);
        fixture_start_manager(f, getuid());
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        fixture_assert_error(f, fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 0),
                             "org.ublk.Error.OperationInProgress", "being created");
        assert_marked(f, FILE0);
        fixture_set_unit(f, UNIT, "activating", "auto-restart", "exit-code", "");
        fixture_wait_file(f, FILE0, false);
        g_autofree char *path = fixture_create(f, "disk0", "memory");
        g_assert_cmpstr(path, ==, "/org/ublk/device/0");
}

/* SIGKILL in the middle of a creation that then goes well. */
static void test_killed(Fixture *f, gconstpointer data) {
        g_autofree char *result = NULL;

        (void) data;
        fixture_begin(f, &result, "CreateDevice", "ssa{sv}", "disk0", "slow", 0);
        for (bool asked = false; !asked;) {
                g_autofree char *calls = fixture_calls(f);
                asked = strstr(calls, "StartUnit " UNIT);
        }
        fixture_kill_manager(f, SIGKILL);
        g_assert_cmpstr(fixture_end(f, &result), !=, "ok");
        assert_marked(f, FILE0);
        fixture_wait_file(f, "run/ublk-ruby/0/worker.sock", true);
        fixture_start_manager(f, getuid());
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 1);
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/0", "State"), ==, "live");
        assert_not_marked(f, FILE0);
}

/* One that was never started; one whose unit failed, persistent; one that failed, but was live once: its data may be dear. */
static void test_found(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_stop_manager(f);
        fixture_write(f, FILE0, "[Device]\nName=never\nHook=memory\nCreating=yes\n");
        fixture_write(f, "etc/ublk-ruby/devices/1.conf", "[Device]\nName=failed\nHook=memory\nCreating=yes\n");
        fixture_set_unit(f, "ublk-ruby-device@1.service", "failed", "failed", "exit-code", "");
        fixture_write(f, "run/ublk-ruby/devices/2.conf", "[Device]\nName=dear\nHook=memory\nCreating=yes\n");
        fixture_write(f, "run/ublk-ruby/nodes/ublkb2.env", "UBLK_NAME=dear\n");
        fixture_set_unit(f, "ublk-ruby-device@2.service", "failed", "failed", "exit-code", "");
        fixture_write(f, "run/ublk-ruby/devices/3.conf", "[Device]\nName=idle\nHook=memory\n");
        fixture_start_manager(f, getuid());
        fixture_wait_file(f, FILE0, false);
        fixture_wait_file(f, "etc/ublk-ruby/devices/1.conf", false);
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 2);
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/2", "State"), ==, "failed");
        assert_not_marked(f, "run/ublk-ruby/devices/2.conf");
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/3", "State"), ==, "stopped");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/end/mark", test_mark);
        fixture_add("/bus/end/drain", test_drain);
        fixture_add("/bus/end/drain-undoes", test_drain_undoes);
        fixture_add("/bus/end/end-at-once", test_end_at_once);
        fixture_add("/bus/end/killed", test_killed);
        fixture_add("/bus/end/found", test_found);
        return g_test_run();
}
