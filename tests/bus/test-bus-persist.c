/* SPDX-License-Identifier: MIT */

/* SetPersistent: where the device's file lies, and whether its unit is enabled; and ublkctl persist. */

#include "bus-fixture.h"
#include "run-ublkctl.h"


#define UNIT "ublk-ruby-device@0.service"

static int set_persistent(Fixture *f, const char *path, bool persistent) {
        return fixture_call(f, path, "SetPersistent", NULL, "ba{sv}", persistent, 0);
}

static void assert_is(Fixture *f, const char *path, bool persistent) {
        g_assert_cmpint((int) fixture_get_number(f, path, "Persistent", 'b'), ==, persistent);
        g_assert_cmpint(fixture_is_enabled(f, UNIT), ==, persistent);
        g_assert_cmpint(fixture_has(f, "etc/ublk-ruby/devices/0.conf"), ==, persistent);
        g_assert_cmpint(fixture_has(f, "run/ublk-ruby/devices/0.conf"), ==, !persistent);
}

static void test_round(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *file = NULL;
        g_autoptr(GString) changed = g_string_new(NULL);

        (void) data;
        fixture_log_changes(f, path, changed);
        assert_is(f, path, false);
        for (int i = 0; i < 2; i++) {
                g_assert_cmpint(set_persistent(f, path, true), >=, 0);
                assert_is(f, path, true);
        }
        file = fixture_read(f, "etc/ublk-ruby/devices/0.conf");
        g_assert_nonnull(strstr(file, "Name=disk0\n"));
        /* It is what the next manager finds. */
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid());
        fixture_wait_state(f, path, "live");
        assert_is(f, path, true);
        for (int i = 0; i < 2; i++) {
                g_assert_cmpint(set_persistent(f, path, false), >=, 0);
                assert_is(f, path, false);
        }
        while (sd_bus_process(f->bus, NULL) > 0)
                ;
        g_assert_cmpuint(fixture_count_changes(changed, "Persistent"), ==, 2);
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 0), >=, 0);
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/0.conf"));
}

static void test_fails(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_write(f, "refuse-enable", "");
        fixture_assert_error(f, set_persistent(f, path, true), "org.ublk.Error.WorkerFailed", "not today");
        assert_is(f, path, false);
        fixture_unlink(f, "refuse-enable");
        g_assert_cmpint(set_persistent(f, path, true), >=, 0);
        fixture_write(f, "refuse-enable", "");
        fixture_assert_error(f, set_persistent(f, path, false), "org.ublk.Error.WorkerFailed", "not today");
        fixture_assert_error(f, set_persistent(f, path, true), "org.ublk.Error.WorkerFailed", "not today");
        assert_is(f, path, true);
        fixture_assert_error(f, fixture_call(f, path, "SetPersistent", NULL, "ba{sv}", true, 1, "now", "b", true),
                             "org.freedesktop.DBus.Error.InvalidArgs", "takes none");
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
        fixture_wait_state(f, path, "live");
        fixture_assert_error(f, set_persistent(f, path, false), "org.freedesktop.DBus.Error.AccessDenied", "root");
}

static void test_ublkctl(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        ublkctl("persist disk0 yes", 0, "");
        assert_is(f, path, true);
        ublkctl("status disk0", 0, "Persistent: yes");
        ublkctl("persist 0 no", 0, "");
        assert_is(f, path, false);
        ublkctl("persist disk0 perhaps", 2, "persist takes yes or no");
        ublkctl("persist disk0", 2, "persist DEVICE yes|no");
        ublkctl("persist nothing yes", 1, "no device \"nothing\"");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/persist/round", test_round);
        fixture_add("/bus/persist/fails", test_fails);
        fixture_add("/bus/persist/ublkctl", test_ublkctl);
        return g_test_run();
}
