/* SPDX-License-Identifier: MIT */

/* The Device object while things happen to it: signals, crashes, restarts; and who may do what. */

#include "bus-fixture.h"

#define UNIT "ublk-ruby-device@0.service"

/* The names of the signals, in their order. */
static int on_signal(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        GString *log = userdata;

        (void) error;
        g_string_append_printf(log, "%s %s;", sd_bus_message_get_path(m), sd_bus_message_get_member(m));
        return 0;
}

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        GString *log = userdata;

        (void) error;
        g_string_append(log, sd_bus_message_is_method_error(m, NULL) ? "error;" : "reply;");
        return 0;
}

static void process_until(Fixture *f, GString *log, const char *part) {
        for (int i = 0; i < 1000 && !strstr(log->str, part); i++) {
                int r = sd_bus_process(f->bus, NULL);
                g_assert_cmpint(r, >=, 0);
                if (r == 0)
                        g_assert_cmpint(sd_bus_wait(f->bus, 100 * USEC_PER_MSEC), >=, 0);
        }
        if (!strstr(log->str, part))
                g_error("No %s in %s", part, log->str);
}

static void test_signals(Fixture *f, gconstpointer data) {
        g_autoptr(GString) log = g_string_new(NULL);

        (void) data;
        sd_bus_match_signal(f->bus, NULL, "org.ublk", NULL, "org.freedesktop.DBus.ObjectManager", NULL, on_signal, log);
        sd_bus_call_method_async(f->bus, NULL, "org.ublk", "/org/ublk", "org.ublk.Manager", "CreateDevice", on_reply, log,
                                 "ssa{sv}", "disk0", "memory", 0);
        process_until(f, log, "reply;");
        g_assert_cmpstr(log->str, ==, "/org/ublk InterfacesAdded;reply;");
        g_string_truncate(log, 0);
        sd_bus_call_method_async(f->bus, NULL, "org.ublk", "/org/ublk", "org.ublk.Manager", "DeleteDevice", on_reply, log,
                                 "sa{sv}", "disk0", 0);
        process_until(f, log, "reply;");
        g_assert_cmpstr(log->str, ==, "/org/ublk InterfacesRemoved;reply;");
}

static void test_crash(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");
        g_autoptr(GString) log = g_string_new(NULL);

        (void) data;
        sd_bus_match_signal(f->bus, NULL, "org.ublk", path, "org.freedesktop.DBus.Properties", "PropertiesChanged", on_signal, log);
        fixture_set_unit(f, UNIT, "deactivating", "stop-post", "signal", "");
        fixture_wait_state(f, path, "recovering");
        fixture_set_unit(f, UNIT, "activating", "auto-restart", "signal", "");
        fixture_set_unit(f, UNIT, "active", "running", "success", "");
        fixture_wait_state(f, path, "live");
        g_assert_cmpuint(fixture_get_number(f, path, "Restarts", 'u'), ==, 1);
        g_assert_cmpuint(fixture_get_number(f, path, "Size", 't'), ==, 1048576);
        process_until(f, log, "PropertiesChanged");
}

static void test_last_error(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_set_unit(f, UNIT, "active", "running", "success",
                         "{\"kind\":\"hook\",\"class\":\"IOError\",\"message\":\"bad sector\",\"file\":\"/x.rb\",\"line\":3}");
        for (int i = 0; i < 100 && streq(fixture_get_string(f, path, "LastError"), ""); i++)
                g_usleep(10000);
        g_assert_nonnull(strstr(f->text, "bad sector"));
        fixture_set_unit(f, UNIT, "active", "running", "success", "Serving.");
        for (int i = 0; i < 100 && !streq(fixture_get_string(f, path, "LastError"), ""); i++)
                g_usleep(10000);
        g_assert_cmpstr(f->text, ==, "");
}

static void test_restart(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");
        uint64_t pid = fixture_get_number(f, path, "WorkerPID", 'u');

        (void) data;
        g_assert_cmpint(fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "disk0", 0), >=, 0);
        g_assert_cmpuint(fixture_get_number(f, path, "WorkerPID", 'u'), !=, pid);
        g_assert_cmpint(fixture_call(f, path, "Restart", NULL, "a{sv}", 0), >=, 0);
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        fixture_write(f, "refuse-restart", "");
        fixture_assert_error(f, fixture_call(f, path, "Restart", NULL, "a{sv}", 0), "org.ublk.Error.HookFailed", "not today");
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "recovering");
        g_assert_true(fixture_has(f, "run/ublk-ruby/devices/0.conf"));
}

static void test_restart_without_recovery(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "none"), *calls = NULL;

        (void) data;
        g_assert_cmpstr(fixture_get_string(f, path, "Recovery"), ==, "none");
        fixture_assert_error(f, fixture_call(f, path, "Restart", NULL, "a{sv}", 0), "org.freedesktop.DBus.Error.NotSupported",
                             "recovery none");
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "RestartUnit"));
}

/* The worker was not heard: what a restart would cost is not known. */
static void test_restart_unknown_recovery(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "mute"), *calls = NULL;

        (void) data;
        g_assert_cmpstr(fixture_get_string(f, path, "Recovery"), ==, "default");
        fixture_assert_error(f, fixture_call(f, path, "Restart", NULL, "a{sv}", 0), "org.ublk.Error.WorkerFailed",
                             "does not say what its recovery is");
        g_assert_nonnull(strstr(f->error.message, "systemctl restart ublk-ruby-device@0.service"));
        fixture_assert_error(f, fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "disk0", 0), "org.ublk.Error.WorkerFailed", NULL);
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "RestartUnit"));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        fixture_write(f, "speak", "");
        g_assert_cmpint(fixture_call(f, path, "Restart", NULL, "a{sv}", 0), >=, 0);
        g_assert_cmpstr(fixture_get_string(f, path, "Recovery"), ==, "reissue");
}

/* What a device's last worker said does not hold for the next: the hook may have been changed while it was stopped. */
static void test_restart_changed_recovery(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;

        (void) data;
        g_assert_cmpstr(fixture_get_string(f, path, "Recovery"), ==, "reissue");
        fixture_write(f, "run/ublk-ruby/devices/0.conf", "[Device]\nName=disk0\nHook=none\n");
        g_assert_cmpint(sd_bus_call_method(f->bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                           "org.freedesktop.systemd1.Manager", "RestartUnit", NULL, NULL, "ss", UNIT, "replace"), >=, 0);
        g_free(fixture_calls(f));
        fixture_assert_error(f, fixture_call(f, path, "Restart", NULL, "a{sv}", 0), "org.freedesktop.DBus.Error.NotSupported",
                             "recovery none");
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "RestartUnit"));
}

/* Down, and nobody to ask: nothing that a start could lose. */
static void test_restart_held(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "mute");

        (void) data;
        fixture_set_unit(f, UNIT, "inactive", "dead", "success", "");
        fixture_wait_state(f, path, "held");
        g_assert_cmpint(fixture_call(f, path, "Restart", NULL, "a{sv}", 0), >=, 0);
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
}

/* Not every answer is believed. */
static void test_hello(Fixture *f, gconstpointer data) {
        static const char *const hooks[] = { "liar", "shapeless", "impostor", "symlink" };

        (void) data;
        for (size_t i = 0; i < ELEMENTSOF(hooks); i++) {
                g_autofree char *path = fixture_create(f, hooks[i], hooks[i]);
                g_test_message("%s", hooks[i]);
                g_assert_nonnull(path);
                g_assert_cmpstr(fixture_get_string(f, path, "Recovery"), ==, "default");
                g_assert_cmpuint(fixture_get_number(f, path, "Depth", 'u'), ==, 128);
                fixture_assert_error(f, fixture_call(f, path, "Restart", NULL, "a{sv}", 0), "org.ublk.Error.WorkerFailed",
                                     "does not say what its recovery is");
        }
}

/* What a manager that starts learns only later is told as a change, not as a new object. */
static void test_late_properties(Fixture *f, gconstpointer data) {
        g_autoptr(GString) added = g_string_new(NULL), changed = g_string_new(NULL);
        const char *path = "/org/ublk/device/4";

        (void) data;
        fixture_write(f, "run/ublk-ruby/devices/4.conf", "[Device]\nName=late\nHook=memory\nReadOnly=yes\n");
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid());
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "stopped");
        g_assert_cmpstr(fixture_get_string(f, path, "Recovery"), ==, "default");
        g_assert_cmpuint(fixture_get_number(f, path, "BlockSize", 'u'), ==, 0);
        sd_bus_match_signal(f->bus, NULL, "org.ublk", NULL, "org.freedesktop.DBus.ObjectManager", NULL, on_signal, added);
        fixture_log_changes(f, path, changed);
        g_assert_cmpint(sd_bus_call_method(f->bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                           "org.freedesktop.systemd1.Manager", "StartUnit", NULL, NULL, "ss",
                                           "ublk-ruby-device@4.service", "replace"), >=, 0);
        process_until(f, changed, "Recovery;");
        g_assert_nonnull(strstr(changed->str, "BlockSize;"));
        g_assert_cmpstr(added->str, ==, "");
        g_assert_cmpstr(fixture_get_string(f, path, "Recovery"), ==, "reissue");
        g_assert_cmpuint(fixture_get_number(f, path, "BlockSize", 'u'), ==, 4096);
}

static void assert_denied(Fixture *f, int r) {
        fixture_assert_error(f, r, "org.freedesktop.DBus.Error.AccessDenied", "Only root");
}

static void test_access(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;

        (void) data;
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
        g_free(fixture_calls(f));
        assert_denied(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "disk1", "memory", 0));
        assert_denied(f, fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 0));
        assert_denied(f, fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "disk0", 0));
        assert_denied(f, fixture_call(f, path, "Delete", NULL, "a{sv}", 0));
        assert_denied(f, fixture_call(f, path, "Restart", NULL, "a{sv}", 0));
        assert_denied(f, fixture_call(f, NULL, "ReloadDevice", NULL, "sa{sv}", "disk0", 0));
        assert_denied(f, fixture_call(f, path, "Reload", NULL, "a{sv}", 0));
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "");
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_cmpint(fixture_call(f, NULL, "ListDevices", NULL, NULL), >=, 0);
        g_assert_cmpint(fixture_call(f, NULL, "ListHooks", NULL, NULL), >=, 0);
}

/* Of what a verb of control does to a kernel device no unit of a device tells. */
static void test_control_verb(Fixture *f, gconstpointer data) {
        g_autofree char *first = fixture_create(f, "disk0", "memory"), *second = fixture_create(f, "disk1", "memory");

        (void) data;
        g_assert_cmpstr(second, ==, "/org/ublk/device/1");
        fixture_set_unit(f, "ublk-ruby-device@1.service", "inactive", "dead", "success", "");
        fixture_wait_state(f, second, "held");
        g_assert_cmpint(sd_bus_call_method(f->bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                           "org.freedesktop.systemd1.Manager", "StartUnit", NULL, NULL, "ss",
                                           "ublk-ruby-control@remove-1-state.service", "replace"), >=, 0);
        fixture_wait_state(f, second, "stopped");
        g_assert_cmpstr(fixture_get_string(f, first, "State"), ==, "live");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/device/signals", test_signals);
        fixture_add("/bus/device/crash", test_crash);
        fixture_add("/bus/device/last-error", test_last_error);
        fixture_add("/bus/device/restart", test_restart);
        fixture_add("/bus/device/restart-without-recovery", test_restart_without_recovery);
        fixture_add("/bus/device/restart-unknown-recovery", test_restart_unknown_recovery);
        fixture_add("/bus/device/restart-changed-recovery", test_restart_changed_recovery);
        fixture_add("/bus/device/restart-held", test_restart_held);
        fixture_add("/bus/device/hello", test_hello);
        fixture_add("/bus/device/late-properties", test_late_properties);
        fixture_add("/bus/device/access", test_access);
        fixture_add("/bus/device/control-verb", test_control_verb);
        return g_test_run();
}
