/* SPDX-License-Identifier: MIT */

/* A hook that needs more of its unit than others: what is noted, when systemd reloads, and that nothing of it stays. */

#include "bus-fixture.h"

#include <sys/stat.h>

#define INVALID_ARGS "org.freedesktop.DBus.Error.InvalidArgs"
#define UNIT "ublk-ruby-device@0.service"
#define DROP_IN "run/systemd/generator/ublk-ruby-device@0.service.d/50-needs.conf"
#define CONF "run/ublk-ruby/devices/0.conf"

static void assert_nothing_left(Fixture *f) {
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        g_assert_false(fixture_has(f, CONF));
        g_assert_false(fixture_has(f, "etc/ublk-ruby/devices/0.conf"));
        g_assert_false(fixture_has(f, "sys/class/ublk-char/ublkc0"));
        g_assert_false(fixture_has(f, DROP_IN));
}

static void assert_calls(Fixture *f, const char *wanted) {
        g_autofree char *calls = fixture_calls(f);

        g_assert_cmpstr(calls, ==, wanted);
}

static void drop_calls(Fixture *f) {
        g_free(fixture_calls(f));
}

static void test_create(Fixture *f, gconstpointer data) {
        g_autofree char *path = NULL, *conf = NULL;

        (void) data;
        drop_calls(f);
        path = fixture_create(f, "far", "needy");
        g_assert_cmpstr(path, ==, "/org/ublk/device/0");
        assert_calls(f, "StartUnit " UNIT "\nReload\nStartUnit " UNIT "\n");
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_cmpstr(fixture_get_string(f, path, "LastError"), ==, "");
        conf = fixture_read(f, CONF);
        g_assert_nonnull(strstr(conf, "\nNetwork=yes\n"));
        g_assert_null(strstr(conf, "Creating"));
        g_assert_true(fixture_has(f, DROP_IN));
        /* The manager is not needed for that any more. */
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid());
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        drop_calls(f);
        g_assert_cmpint(fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "far", 0), >=, 0);
        assert_calls(f, "RestartUnit " UNIT "\n");
        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "far", 0), >=, 0);
        assert_calls(f, "StartUnit ublk-ruby-control@holders-0.service\nStopUnit " UNIT "\nReload\n");
        assert_nothing_left(f);
}

/* A device whose hook needs nothing costs no reload. */
static void test_plain(Fixture *f, gconstpointer data) {
        g_autofree char *path = NULL, *calls = NULL;

        (void) data;
        drop_calls(f);
        path = fixture_create(f, "near", "memory");
        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "near", 0), >=, 0);
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "Reload"));
        assert_nothing_left(f);
}

static void test_persistent(Fixture *f, gconstpointer data) {
        (void) data;
        g_assert_cmpint(fixture_create_option(f, "far", "needy", "persistent", "b", true), >=, 0);
        g_autofree char *conf = fixture_read(f, "etc/ublk-ruby/devices/0.conf");
        g_assert_nonnull(strstr(conf, "\nNetwork=yes\n"));
        g_assert_false(fixture_has(f, CONF));
        g_assert_true(fixture_is_enabled(f, UNIT));
        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "far", 0), >=, 0);
        g_assert_false(fixture_is_enabled(f, UNIT));
        assert_nothing_left(f);
}

/* Given, and still without it: a third start would be no better. */
static void test_same_need_twice(Fixture *f, gconstpointer data) {
        (void) data;
        drop_calls(f);
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "far", "insatiable", 0),
                             "org.ublk.Error.WorkerFailed", "even after systemd was reloaded (network)");
        g_assert_nonnull(strstr(f->error.message, "systemctl cat " UNIT));
        assert_calls(f, "StartUnit " UNIT "\nReload\nStartUnit " UNIT "\nStopUnit " UNIT "\nReload\n");
        assert_nothing_left(f);
}

static void test_unknown_need(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "far", "odd", 0),
                             "org.ublk.Error.WorkerFailed", "can't be noted");
        assert_nothing_left(f);
}

static void test_reload_refused(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_write(f, "refuse-reload", "");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "far", "needy", 0),
                             "org.ublk.Error.WorkerFailed", "systemd refused: no space");
        assert_nothing_left(f);
}

/* It has what it needs, and fails at something else. */
static void test_fails_later(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_write(f, "cancel", "");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "far", "needy", 0), "org.ublk.Error.Cancelled",
                             NULL);
        assert_nothing_left(f);
}

/* Another program has the id by the time that the unit has what it needs: with the next id all of it begins anew. */
static void test_id_lost(Fixture *f, gconstpointer data) {
        g_autofree char *path = NULL;

        (void) data;
        fixture_write(f, "foreign-0", "");
        path = fixture_create(f, "far", "needy");
        g_assert_cmpstr(path, ==, "/org/ublk/device/1");
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_false(fixture_has(f, CONF));
        g_assert_false(fixture_has(f, DROP_IN));
        g_assert_true(fixture_has(f, "run/systemd/generator/ublk-ruby-device@1.service.d/50-needs.conf"));
}

/* The hook was changed under a live device. */
static void test_restart(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *conf = NULL;

        (void) data;
        drop_calls(f);
        fixture_write(f, "needs-0", "");
        g_assert_cmpint(fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "disk0", 0), >=, 0);
        assert_calls(f, "RestartUnit " UNIT "\nReload\nRestartUnit " UNIT "\n");
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_cmpstr(fixture_get_string(f, path, "LastError"), ==, "");
        conf = fixture_read(f, CONF);
        g_assert_nonnull(strstr(conf, "\nNetwork=yes\n"));
        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 0), >=, 0);
        assert_nothing_left(f);
}

/* What somebody wrote into the file meanwhile is kept. */
static void test_restart_edited(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *before = fixture_read(f, CONF), *after = NULL, *edited = NULL;
        g_auto(GStrv) parts = g_strsplit(before, "Depth=128\n", 2);

        (void) data;
        g_assert_nonnull(path);
        edited = g_strjoin("Depth=64\n", parts[0], parts[1], NULL);
        fixture_write(f, CONF, edited);
        fixture_write(f, "needs-0", "");
        g_assert_cmpint(fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "disk0", 0), >=, 0);
        after = fixture_read(f, CONF);
        g_assert_nonnull(strstr(after, "\nDepth=64\n"));
        g_assert_nonnull(strstr(after, "\nNetwork=yes\n"));
}

static int create_secret(Fixture *f, const char *hook, const char *value) {
        return fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "far", hook, 2, "url", "s", "http://example", "key", "s", value);
}

/* The keys of Arguments. */
static char *arguments_of(Fixture *f, const char *path) {
        g_autoptr(GString) keys = g_string_new(NULL);
        sd_bus_message *reply = NULL;
        const char *key;

        g_assert_cmpint(sd_bus_get_property(f->bus, "org.ublk", path, "org.ublk.Device", "Arguments", NULL, &reply, "a{sv}"), >=, 0);
        sd_bus_message_enter_container(reply, 'a', "{sv}");
        while (sd_bus_message_enter_container(reply, 'e', "sv") > 0) {
                g_assert_cmpint(sd_bus_message_read(reply, "s", &key), >, 0);
                g_string_append_printf(keys, "%s;", key);
                g_assert_cmpint(sd_bus_message_skip(reply, "v"), >, 0);
                sd_bus_message_exit_container(reply);
        }
        sd_bus_message_unref(reply);
        return g_strdup(keys->str);
}

static void write_key(Fixture *f, mode_t mode) {
        g_autofree char *full = g_build_filename(f->root, "srv/key", NULL);

        fixture_write(f, "srv/key", "swordfish");
        g_assert_cmpint(chmod(full, mode), ==, 0);
}

static void test_secret(Fixture *f, gconstpointer data) {
        g_autofree char *arguments = NULL, *drop_in = NULL, *conf = NULL, *again = NULL;

        (void) data;
        write_key(f, 0600);
        drop_calls(f);
        g_assert_cmpint(create_secret(f, "secretive", "/srv/key"), >=, 0);
        assert_calls(f, "StartUnit " UNIT "\nReload\nStartUnit " UNIT "\n");
        arguments = arguments_of(f, "/org/ublk/device/0");
        g_assert_cmpstr(arguments, ==, "url;");
        drop_in = fixture_read(f, DROP_IN);
        g_assert_nonnull(strstr(drop_in, "\nLoadCredential=key:/srv/key\n"));
        conf = fixture_read(f, CONF);
        g_assert_nonnull(strstr(conf, "\nSecrets=key\n"));
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid());
        again = arguments_of(f, "/org/ublk/device/0");
        g_assert_cmpstr(again, ==, "url;");
        /* A restart without the file would stop a disk that serves. */
        fixture_unlink(f, "srv/key");
        drop_calls(f);
        fixture_assert_error(f, fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "far", 0), INVALID_ARGS, "no such file");
        assert_calls(f, "");
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/0", "State"), ==, "live");
        write_key(f, 0600);
        g_assert_cmpint(fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "far", 0), >=, 0);
        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "far", 0), >=, 0);
        assert_nothing_left(f);
}

static void test_secret_by_name(Fixture *f, gconstpointer data) {
        g_autofree char *drop_in = NULL;

        (void) data;
        fixture_assert_error(f, create_secret(f, "secretive", "vault"), INVALID_ARGS, "no credential of the name");
        g_assert_null(strstr(f->error.message, "vault"));
        assert_nothing_left(f);
        fixture_write(f, "etc/credstore/vault", "swordfish");
        g_assert_cmpint(create_secret(f, "secretive", "vault"), >=, 0);
        drop_in = fixture_read(f, DROP_IN);
        g_assert_nonnull(strstr(drop_in, "\nLoadCredential=vault\n"));
}

/* The administrator's own drop-in has it: there is nothing to load, and something to hide. */
static void test_secret_loaded(Fixture *f, gconstpointer data) {
        g_autofree char *drop_in = NULL, *arguments = NULL;

        (void) data;
        g_assert_cmpint(create_secret(f, "privy", "vault"), >=, 0);
        arguments = arguments_of(f, "/org/ublk/device/0");
        g_assert_cmpstr(arguments, ==, "url;");
        drop_in = fixture_read(f, DROP_IN);
        g_assert_null(strstr(drop_in, "LoadCredential"));
}

static void test_secret_refused(Fixture *f, gconstpointer data) {
        static const char *const values[] = { "sword fish", "c3dvcmQgZmlzaA==", "/c3dvcmQgZmlzaA==", "hunter2" };

        (void) data;
        write_key(f, 0644);
        fixture_assert_error(f, create_secret(f, "secretive", "/srv/key"), INVALID_ARGS, "chown root: /srv/key && chmod 600 /srv/key");
        assert_nothing_left(f);
        fixture_assert_error(f, create_secret(f, "secretive", "/root/key"), INVALID_ARGS, "can't look at files below /home, /root");
        assert_nothing_left(f);
        /* The secret itself, by mistake. */
        for (size_t i = 0; i < ELEMENTSOF(values); i++) {
                fixture_assert_error(f, create_secret(f, "secretive", values[i]), INVALID_ARGS, "option \"key\"");
                g_assert_null(strstr(f->error.message, values[i]));
                assert_nothing_left(f);
        }
}

/* A device that is not being made: whoever looks at it hears what to do. */
static void test_last_error(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_set_unit(f, UNIT, "activating", "auto-restart", "exit-code",
                         "{\"kind\":\"needs\",\"message\":\"ublkctl restart disk0\",\"needs\":[\"network\"]}");
        fixture_wait_state(f, path, "recovering");
        g_assert_cmpstr(fixture_get_string(f, path, "LastError"), ==, "ublkctl restart disk0");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/needs/create", test_create);
        fixture_add("/bus/needs/plain", test_plain);
        fixture_add("/bus/needs/persistent", test_persistent);
        fixture_add("/bus/needs/same-need-twice", test_same_need_twice);
        fixture_add("/bus/needs/unknown-need", test_unknown_need);
        fixture_add("/bus/needs/reload-refused", test_reload_refused);
        fixture_add("/bus/needs/fails-later", test_fails_later);
        fixture_add("/bus/needs/id-lost", test_id_lost);
        fixture_add("/bus/needs/restart", test_restart);
        fixture_add("/bus/needs/restart-edited", test_restart_edited);
        fixture_add("/bus/needs/secret", test_secret);
        fixture_add("/bus/needs/secret-by-name", test_secret_by_name);
        fixture_add("/bus/needs/secret-loaded", test_secret_loaded);
        fixture_add("/bus/needs/secret-refused", test_secret_refused);
        fixture_add("/bus/needs/last-error", test_last_error);
        return g_test_run();
}
