/* SPDX-License-Identifier: MIT */

/* Reconfigure: arguments that are taken, arguments that are not, and what is left of either; and ublkctl set. */

#include "bus-fixture.h"
#include "run-ublkctl.h"


#define UNIT "ublk-ruby-device@0.service"
#define CONF "run/ublk-ruby/devices/0.conf"
#define TRIAL "run/ublk-ruby/devices/0.trial"
#define PROPOSED "run/ublk-ruby/devices/0.proposed"
#define INVALID_ARGS "org.freedesktop.DBus.Error.InvalidArgs"

/* Of the argument colour. */
static int reconfigure(Fixture *f, const char *path, const char *colour, uint64_t trial_usec) {
        return fixture_call(f, path, "Reconfigure", NULL, "a{sv}a{sv}", 1, "colour", "s", colour, 1, "trial-time", "t", trial_usec);
}

static void assert_conf(Fixture *f, const char *part, bool there) {
        g_autofree char *text = fixture_read(f, CONF);

        g_assert_nonnull(text);
        if (!strstr(text, part) == there)
                g_error("%s\"%s\" in: %s", there ? "no " : "", part, text);
}

static void assert_over(Fixture *f) {
        g_assert_false(fixture_has(f, TRIAL));
        g_assert_false(fixture_has(f, PROPOSED));
}

static char *begin(Fixture *f) {
        g_assert_cmpint(fixture_create_option(f, "disk0", "memory", "colour", "s", "red"), >=, 0);
        g_free(fixture_calls(f));
        return g_strdup("/org/ublk/device/0");
}

static void test_taken(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f), *calls = NULL;
        g_autoptr(GString) changed = g_string_new(NULL);

        (void) data;
        fixture_log_changes(f, path, changed);
        g_assert_cmpint(reconfigure(f, path, "green", 200000), >=, 0);
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-check@0.service\nRestartUnit " UNIT "\n");
        assert_conf(f, "colour=s:green\n", true);
        assert_conf(f, "red", false);
        assert_over(f);
        while (sd_bus_process(f->bus, NULL) > 0)
                ;
        g_assert_cmpuint(fixture_count_changes(changed, "Arguments"), ==, 1);
        /* Another one beside it, of another type; and the old one of another type. */
        g_assert_cmpint(fixture_call(f, path, "Reconfigure", NULL, "a{sv}a{sv}", 2, "depth_of_it", "u", 7U, "colour", "t", UINT64_C(3), 1, "trial-time",
                                     "t", UINT64_C(0)), >=, 0);
        assert_conf(f, "depth_of_it=u:7\n", true);
        assert_conf(f, "colour=t:3\n", true);
        assert_over(f);
}

/* Where an image is on another file system its unit comes after that, as systemd hears when it is reloaded. */
static void test_mounts(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f), *calls = NULL, *drop_in = NULL;

        (void) data;
        g_assert_cmpint(reconfigure(f, path, "/proc/version", 0), >=, 0);
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-check@0.service\nRestartUnit " UNIT "\nReload\n");
        drop_in = fixture_read(f, "run/systemd/generator/ublk-ruby-device@0.service.d/50-needs.conf");
        g_assert_nonnull(strstr(drop_in, "/proc/version"));
        /* And back, after which it comes after nothing. */
        g_assert_cmpint(reconfigure(f, path, "red", 0), >=, 0);
        g_assert_false(fixture_has(f, "run/systemd/generator/ublk-ruby-device@0.service.d/50-needs.conf"));
}

static void test_check_fails(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f), *calls = NULL;

        (void) data;
        fixture_write(f, "check-0", "{\"error\":22,\"failure\":{\"kind\":\"arguments\",\"message\":\"no such colour\"}}");
        fixture_assert_error(f, reconfigure(f, path, "green", 0), INVALID_ARGS, "no such colour");
        fixture_write(f, "check-0", "");
        fixture_assert_error(f, reconfigure(f, path, "green", 0), "org.ublk.Error.WorkerFailed", "gave no answer");
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "RestartUnit"));
        assert_conf(f, "colour=s:red\n", true);
        assert_over(f);
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
}

static void test_trial_fails(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f);

        (void) data;
        fixture_write(f, "fail-trial-0", "");
        fixture_assert_error(f, reconfigure(f, path, "green", 5000000), "org.ublk.Error.HookFailed", "The new arguments of device disk0 have failed");
        assert_conf(f, "colour=s:red\n", true);
        assert_over(f);
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        fixture_unlink(f, "fail-trial-0");
        g_assert_cmpint(reconfigure(f, path, "green", 0), >=, 0);
        assert_conf(f, "colour=s:green\n", true);
}

static void test_refused(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f), *calls = NULL;

        (void) data;
        fixture_assert_error(f, fixture_call(f, path, "Reconfigure", NULL, "a{sv}a{sv}", 0, 0), INVALID_ARGS, "No argument is given");
        fixture_assert_error(f, fixture_call(f, path, "Reconfigure", NULL, "a{sv}a{sv}", 1, "depth", "u", 4U, 0), INVALID_ARGS,
                             "depth is an option of the service");
        fixture_assert_error(f, fixture_call(f, path, "Reconfigure", NULL, "a{sv}a{sv}", 1, "co-lour", "s", "x", 0), INVALID_ARGS, "Unknown option");
        fixture_assert_error(f, fixture_call(f, path, "Reconfigure", NULL, "a{sv}a{sv}", 1, "colour", "as", 1, "x", 0), INVALID_ARGS, "D-Bus type as");
        fixture_assert_error(f, fixture_call(f, path, "Reconfigure", NULL, "a{sv}a{sv}", 1, "colour", "s", "x", 1, "force", "b", true), INVALID_ARGS,
                             "trial-time");
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "");
        assert_conf(f, "colour=s:red\n", true);
        assert_over(f);
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
        fixture_wait_state(f, path, "live");
        fixture_assert_error(f, reconfigure(f, path, "green", 0), "org.freedesktop.DBus.Error.AccessDenied", "root");
        assert_over(f);
}

/* Data that ends with its worker; and a secret. */
static void test_not_supported(Fixture *f, gconstpointer data) {
        g_autofree char *none = fixture_create(f, "disk0", "none");

        (void) data;
        fixture_assert_error(f, reconfigure(f, none, "green", 0), "org.freedesktop.DBus.Error.NotSupported", "recovery none");
        assert_over(f);
        fixture_stop_manager(f);
        fixture_write(f, "run/ublk-ruby/devices/1.conf", "[Device]\nName=vault\nHook=memory\nSecrets=key\n[Arguments]\nkey=s:/etc/key\n");
        fixture_start_manager(f, getuid());
        fixture_assert_error(f, fixture_call(f, "/org/ublk/device/1", "Reconfigure", NULL, "a{sv}a{sv}", 1, "key", "s", "/etc/other", 0),
                             "org.freedesktop.DBus.Error.NotSupported", "is a secret");
}

/* What a manager has left before the trial began is nobody's. */
static void test_left(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f), *conf = fixture_read(f, CONF);
        g_autoptr(GString) other = g_string_new(conf);

        (void) data;
        g_string_replace(other, "red", "blue", 0);
        fixture_write(f, PROPOSED, other->str);
        g_assert_cmpint(fixture_call(f, path, "Reload", NULL, "a{sv}", 1, "trial-time", "t", UINT64_C(0)), >=, 0);
        assert_conf(f, "colour=s:red\n", true);
        assert_over(f);
}

/* A manager that is killed while they are on trial: the next one sees it to its end. */
static void test_resumed(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f);

        (void) data;
        g_assert_cmpint(sd_bus_call_method_async(f->bus, NULL, "org.ublk", path, "org.ublk.Device", "Reconfigure", NULL, NULL, "a{sv}a{sv}", 1,
                                                 "colour", "s", "green", 1, "trial-time", "t", UINT64_C(2000000)), >=, 0);
        g_assert_cmpint(sd_bus_flush(f->bus), >=, 0);
        fixture_wait_file(f, TRIAL, true);
        for (bool asked = false; !asked;) {
                g_autofree char *calls = fixture_calls(f);
                asked = strstr(calls, "RestartUnit " UNIT);
        }
        fixture_kill_manager(f, SIGKILL);
        g_assert_true(fixture_has(f, PROPOSED));
        fixture_start_manager(f, getuid());
        fixture_wait_file(f, TRIAL, false);
        fixture_wait_file(f, PROPOSED, false);
        assert_conf(f, "colour=s:green\n", true);
}

static void test_ublkctl(Fixture *f, gconstpointer data) {
        (void) data;
        g_free(begin(f));
        ublkctl("set --trial-time=0 disk0 colour=blue note=a=b", 0, "");
        ublkctl("status disk0", 0, "colour=blue");
        assert_conf(f, "note=s:a=b\n", true);
        ublkctl("set disk0 depth=4", 1, "depth is an option of the service");
        ublkctl("set disk0 colour", 2, "is not NAME=VALUE");
        ublkctl("set disk0", 2, "set DEVICE NAME=VALUE");
        ublkctl("set nothing colour=x", 1, "no device \"nothing\"");
        ublkctl("set --trial-time=5s disk0 colour=x", 2, "not \"5s\"");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/reconfigure/taken", test_taken);
        fixture_add("/bus/reconfigure/mounts", test_mounts);
        fixture_add("/bus/reconfigure/check-fails", test_check_fails);
        fixture_add("/bus/reconfigure/trial-fails", test_trial_fails);
        fixture_add("/bus/reconfigure/refused", test_refused);
        fixture_add("/bus/reconfigure/not-supported", test_not_supported);
        fixture_add("/bus/reconfigure/left", test_left);
        fixture_add("/bus/reconfigure/resumed", test_resumed);
        fixture_add("/bus/reconfigure/ublkctl", test_ublkctl);
        return g_test_run();
}
