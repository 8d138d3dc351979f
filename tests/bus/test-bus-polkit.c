/* SPDX-License-Identifier: MIT */

/* Who may change anything: a manager that takes nobody here for root, with and without a polkit to ask. */

#include "bus-fixture.h"
#include "dbus/operation.h"

#include <sys/stat.h>

#define DENIED "org.freedesktop.DBus.Error.AccessDenied"
#define INVALID_ARGS "org.freedesktop.DBus.Error.InvalidArgs"
#define LIMITS "org.freedesktop.DBus.Error.LimitsExceeded"
#define PASSWORD "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"
#define FILE0 "run/ublk-ruby/devices/0.conf"

/* The test's user is an ordinary one from here on. */
static void be_nobody(Fixture *f) {
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
}

static void be_nobody_with_polkit(Fixture *f) {
        be_nobody(f);
        fixture_start_polkit(f);
}

static int create(Fixture *f) {
        return fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "disk0", "memory", 0);
}

static int delete(Fixture *f) {
        return fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 0);
}

/* What polkit was asked since the last look, without the callers. */
static char *asked(Fixture *f) {
        g_autofree char *text = fixture_read(f, "polkit-log"), *me = NULL;
        g_autoptr(GString) s = g_string_new(text ? text : "");
        const char *name;

        g_assert_cmpint(sd_bus_get_unique_name(f->bus, &name), >=, 0);
        me = g_strdup_printf(" caller=%s\n", name);
        g_string_replace(s, me, "\n", 0);
        fixture_write(f, "polkit-log", "");
        return g_string_free(g_steal_pointer(&s), FALSE);
}

static void assert_asked(Fixture *f, const char *wanted) {
        g_autofree char *text = asked(f);

        g_assert_cmpstr(text, ==, wanted);
}

static void wait_asked(Fixture *f, const char *part) {
        for (int i = 0; i < 5000; i++) {
                g_autofree char *text = fixture_read(f, "polkit-log");

                if (text && strstr(text, part))
                        return;
                g_usleep(1000);
        }
        g_error("polkit was not asked: %s", part);
}

static void assert_nothing(Fixture *f) {
        g_autofree char *calls = fixture_calls(f);

        g_assert_false(fixture_has(f, FILE0));
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        g_assert_null(strstr(calls, "ublk-ruby-device@"));
}

static void test_absent(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "old", "memory");

        (void) data;
        g_assert_nonnull(path);
        be_nobody(f);
        fixture_assert_error(f, create(f), DENIED, "Only root may make devices, as there is no polkit");
        fixture_assert_error(f, create(f), DENIED, "install polkitd");
        fixture_assert_error(f, fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "old", 0), DENIED, "no polkit");
        fixture_assert_error(f, fixture_call(f, path, "Delete", NULL, "a{sv}", 0), DENIED, "no polkit");
        fixture_assert_error(f, fixture_call(f, path, "Restart", NULL, "a{sv}", 0), DENIED, "no polkit");
        fixture_assert_error(f, fixture_call(f, path, "Reload", NULL, "a{sv}", 0), DENIED, "no polkit");
        fixture_assert_error(f, fixture_call(f, NULL, "RemoveStray", NULL, "ua{sv}", 3, 0), DENIED, "no polkit");
        /* Looking is for all. */
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 1);
}

static void test_refused(Fixture *f, gconstpointer data) {
        (void) data;
        be_nobody_with_polkit(f);
        fixture_assert_error(f, create(f), DENIED, "a rule for the action org.ublk.create-device");
        assert_asked(f, "create-device name=disk0 hook=memory verb=Create flags=0\n");
        fixture_assert_error(f, fixture_call(f, NULL, "CheckHook", NULL, "sa{sv}", "memory", 0), DENIED, "org.ublk.create-device");
        assert_asked(f, "create-device name= hook=memory verb=CheckHook flags=0\n");
        assert_nothing(f);
        fixture_write(f, "polkit-create-device", "error");
        fixture_assert_error(f, create(f), DENIED, "It is Monday");
        fixture_write(f, "polkit-create-device", "challenge");
        fixture_assert_error(f, create(f), PASSWORD, "only with a password");
        assert_nothing(f);
}

/* What is wrong anyhow nobody is asked about. */
static void test_validated_first(Fixture *f, gconstpointer data) {
        (void) data;
        be_nobody_with_polkit(f);
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "7", "memory", 0), INVALID_ARGS, NULL);
        fixture_assert_error(f, fixture_create_option(f, "d", "memory", "depth", "u", 0), INVALID_ARGS, NULL);
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "nowhere", 0), "org.ublk.Error.NoSuchHook", NULL);
        fixture_assert_error(f, delete(f), "org.ublk.Error.NoSuchDevice", NULL);
        assert_asked(f, "");
}

static void test_granted(Fixture *f, gconstpointer data) {
        (void) data;
        be_nobody_with_polkit(f);
        fixture_write(f, "polkit-create-device", "yes");
        g_assert_cmpint(create(f), >=, 0);
        assert_asked(f, "create-device name=disk0 hook=memory verb=Create flags=0\n");
        fixture_assert_error(f, delete(f), DENIED, "org.ublk.manage-device");
        assert_asked(f, "manage-device name=disk0 hook=memory verb=Delete flags=0\n");
        fixture_write(f, "polkit-manage-device", "yes");
        g_assert_cmpint(fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "disk0", 0), >=, 0);
        g_assert_cmpint(fixture_call(f, "/org/ublk/device/0", "Delete", NULL, "a{sv}", 0), >=, 0);
        assert_asked(f, "manage-device name=disk0 hook=memory verb=Restart flags=0\n"
                        "manage-device name=disk0 hook=memory verb=Delete flags=0\n");
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
}

static void test_interactive(Fixture *f, gconstpointer data) {
        sd_bus_message *m;

        (void) data;
        be_nobody_with_polkit(f);
        fixture_write(f, "polkit-create-device", "challenge");
        g_assert_cmpint(sd_bus_message_new_method_call(f->bus, &m, "org.ublk", "/org/ublk", "org.ublk.Manager", "CreateDevice"), >=, 0);
        g_assert_cmpint(sd_bus_message_append(m, "ssa{sv}", "disk0", "memory", 0), >=, 0);
        g_assert_cmpint(sd_bus_message_set_allow_interactive_authorization(m, true), >=, 0);
        g_assert_cmpint(sd_bus_call(f->bus, m, 10 * USEC_PER_SEC, &f->error, NULL), >=, 0);
        sd_bus_message_unref(m);
        assert_asked(f, "create-device name=disk0 hook=memory verb=Create flags=1\n");
}

/* What names a file or a host takes more than the right to make a device. */
static void test_any_hook(Fixture *f, gconstpointer data) {
        (void) data;
        be_nobody_with_polkit(f);
        fixture_write(f, "polkit-create-device", "yes");
        fixture_assert_error(f, fixture_create_option(f, "disk0", "memory", "path", "s", "/srv/other.img"), DENIED, "org.ublk.run-any-hook");
        fixture_assert_error(f, fixture_create_option(f, "disk0", "memory", "url", "s", "http://here"), DENIED, "org.ublk.run-any-hook");
        assert_nothing(f);
        g_assert_cmpint(fixture_create_option(f, "disk0", "memory", "size", "s", "1M"), >=, 0);
        /* Nor afterwards. */
        fixture_write(f, "polkit-manage-device", "yes");
        fixture_assert_error(f, fixture_call(f, "/org/ublk/device/0", "Reconfigure", NULL, "a{sv}a{sv}", 1, "path", "s", "/srv/other.img", 0),
                             DENIED, "org.ublk.run-any-hook");
        fixture_write(f, "polkit-log", "");
        fixture_write(f, "polkit-run-any-hook", "yes");
        g_assert_cmpint(fixture_create_option(f, "disk1", "memory", "path", "s", "/srv/other.img"), >=, 0);
        assert_asked(f, "run-any-hook name=disk1 hook=memory verb=Create flags=0\n");
}

/* That an argument is a secret only its hook can tell. */
static void test_secret(Fixture *f, gconstpointer data) {
        (void) data;
        be_nobody_with_polkit(f);
        fixture_write(f, "etc/credstore/vault", "swordfish");
        fixture_write(f, "polkit-create-device", "yes");
        fixture_assert_error(f, fixture_create_option(f, "disk0", "secretive", "key", "s", "vault"), DENIED, "or a secret");
        assert_asked(f, "create-device name=disk0 hook=secretive verb=Create flags=0\n"
                        "run-any-hook name=disk0 hook=secretive verb=Create flags=0\n");
        g_assert_false(fixture_has(f, FILE0));
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        fixture_assert_error(f, fixture_create_option(f, "disk0", "privy", "key", "s", "vault"), DENIED, "or a secret");
        g_assert_false(fixture_has(f, FILE0));
        fixture_write(f, "polkit-run-any-hook", "yes");
        g_assert_cmpint(fixture_create_option(f, "disk0", "secretive", "key", "s", "vault"), >=, 0);
}

/* Whoever wrote it: the one who names it answers for it. By name it has to be root's. */
static void test_path(Fixture *f, gconstpointer data) {
        g_autofree char *path = g_build_filename(f->root, "hooks", "memory.rb", NULL);

        (void) data;
        be_nobody_with_polkit(f);
        g_assert_cmpint(chmod(path, 0666), ==, 0);
        fixture_write(f, "polkit-create-device", "yes");
        fixture_assert_error(f, create(f), "org.ublk.Error.HookFailed", "memory.rb can be written to by others than root (mode 0666)");
        assert_asked(f, "");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "disk0", path, 0), DENIED, "org.ublk.run-any-hook");
        assert_nothing(f);
        fixture_write(f, "polkit-run-any-hook", "yes");
        g_assert_cmpint(fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "disk0", path, 0), >=, 0);
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/0", "Hook"), ==, path);
}

static void begin_create(Fixture *f, char **result) {
        fixture_begin(f, result, "CreateDevice", "ssa{sv}", "disk0", "memory", 0);
}

/* The service goes on meanwhile, for all others. */
static void test_waits(Fixture *f, gconstpointer data) {
        g_autofree char *result = NULL, *again = NULL;

        (void) data;
        be_nobody_with_polkit(f);
        fixture_write(f, "polkit-create-device", "wait");
        begin_create(f, &result);
        wait_asked(f, "create-device");
        assert_nothing(f);
        fixture_release_polkit(f, false);
        g_assert_cmpstr(fixture_end(f, &result), ==, DENIED);
        fixture_write(f, "polkit-log", "");
        begin_create(f, &again);
        wait_asked(f, "create-device");
        fixture_release_polkit(f, true);
        g_assert_cmpstr(fixture_end(f, &again), ==, "ok");
        g_assert_true(fixture_has(f, FILE0));
}

static void test_leaves(Fixture *f, gconstpointer data) {
        sd_bus *other;

        (void) data;
        be_nobody_with_polkit(f);
        fixture_write(f, "polkit-create-device", "wait");
        g_assert_cmpint(sd_bus_open_system(&other), >=, 0);
        g_assert_cmpint(sd_bus_call_method_async(other, NULL, "org.ublk", "/org/ublk", "org.ublk.Manager", "CreateDevice", NULL, NULL,
                                                 "ssa{sv}", "disk0", "memory", 0), >=, 0);
        g_assert_cmpint(sd_bus_flush(other), >=, 0);
        wait_asked(f, "create-device");
        sd_bus_flush_close_unref(other);
        wait_asked(f, "\ncancel\n");
        fixture_release_polkit(f, true);
        assert_nothing(f);
}

/* Looked up anew: what is gone by then is not deleted twice. */
static void test_vanishes(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *result = NULL;

        (void) data;
        g_assert_nonnull(path);
        be_nobody_with_polkit(f);
        fixture_write(f, "polkit-manage-device", "wait");
        fixture_begin(f, &result, "RestartDevice", "sa{sv}", "disk0", 0);
        wait_asked(f, "Restart");
        fixture_write(f, "polkit-manage-device", "yes");
        g_assert_cmpint(delete(f), >=, 0);
        fixture_release_polkit(f, true);
        g_assert_cmpstr(fixture_end(f, &result), ==, "org.ublk.Error.NoSuchDevice");
}

/* A new device with the old one's name is not what was asked about. */
static void test_changes(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *result = NULL;

        (void) data;
        g_assert_nonnull(path);
        be_nobody_with_polkit(f);
        fixture_write(f, "polkit-manage-device", "wait");
        fixture_begin(f, &result, "DeleteDevice", "sa{sv}", "disk0", 0);
        wait_asked(f, "Delete");
        fixture_write(f, "polkit-manage-device", "yes");
        fixture_write(f, "polkit-create-device", "yes");
        g_assert_cmpint(delete(f), >=, 0);
        g_assert_cmpint(fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "disk0", "none", 0), >=, 0);
        fixture_release_polkit(f, true);
        g_assert_cmpstr(fixture_end(f, &result), ==, DENIED);
        g_assert_true(fixture_has(f, FILE0));
}

static void test_many(Fixture *f, gconstpointer data) {
        char *results[AUTHORISE_MAX_PER_USER + 1] = {};

        (void) data;
        be_nobody_with_polkit(f);
        fixture_write(f, "polkit-create-device", "wait");
        for (size_t i = 0; i < ELEMENTSOF(results); i++)
                begin_create(f, &results[i]);
        g_assert_cmpstr(fixture_end(f, &results[AUTHORISE_MAX_PER_USER]), ==, LIMITS);
        fixture_release_polkit(f, false);
        for (size_t i = 0; i < ELEMENTSOF(results); i++) {
                const char *wanted = i < AUTHORISE_MAX_PER_USER ? DENIED : LIMITS;

                g_assert_cmpstr(fixture_end(f, &results[i]), ==, wanted);
                g_free(results[i]);
        }
        fixture_write(f, "polkit-create-device", "yes");
        g_assert_cmpint(create(f), >=, 0);
}

/* Begins as many creations as a user may have at work, and waits until they are. */
static void begin_creations(Fixture *f, Fixture *user, unsigned number, char *results[static OPERATIONS_MAX_PER_USER]) {
        unsigned n = 0;

        for (unsigned i = 0; i < OPERATIONS_MAX_PER_USER; i++) {
                g_autofree char *name = g_strdup_printf("d%u-%u", number, i);

                fixture_begin(user, &results[i], "CreateDevice", "ssa{sv}", name, "slow", 0);
        }
        while (n < OPERATIONS_MAX_PER_USER) {
                g_autofree char *calls = fixture_calls(f);

                for (const char *p = calls; (p = strstr(p, "StartUnit ublk-ruby-device@")); p++)
                        n++;
                g_usleep(1000);
        }
}

static void end_creations(Fixture *f, char *results[static OPERATIONS_MAX_PER_USER]) {
        for (unsigned i = 0; i < OPERATIONS_MAX_PER_USER; i++) {
                g_assert_cmpstr(fixture_end(f, &results[i]), ==, "ok");
                g_free(results[i]);
        }
}

static void assert_limited(Fixture *f, const char *part) {
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "more", "slow", 0), LIMITS, part);
}

static void test_operations(Fixture *f, gconstpointer data) {
        char *results[OPERATIONS_MAX_PER_USER] = {};

        (void) data;
        be_nobody_with_polkit(f);
        fixture_write(f, "polkit-create-device", "yes");
        fixture_write(f, "hold", "");
        begin_creations(f, f, 0, results);
        assert_limited(f, "16 calls of user id ");
        fixture_unlink(f, "hold");
        end_creations(f, results);
}

/* The same bus, as another user, whom the bus must know. */
static void connect_as(const Fixture *f, uid_t uid, Fixture *ret) {
        *ret = (Fixture) { .root = f->root };
        g_assert_cmpint(seteuid(uid), ==, 0);
        g_assert_cmpint(sd_bus_open_system(&ret->bus), >=, 0);
        g_assert_cmpint(seteuid(0), ==, 0);
}

/* All others together don't keep root out. */
static void test_operations_of_users(Fixture *f, gconstpointer data) {
        enum { USERS = OPERATIONS_MAX / OPERATIONS_MAX_PER_USER };
        char *results[USERS][OPERATIONS_MAX_PER_USER] = {};
        Fixture users[USERS + 1];

        (void) data;
        fixture_start_polkit(f);
        fixture_write(f, "polkit-create-device", "yes");
        fixture_write(f, "hold", "");
        for (unsigned i = 0; i <= USERS; i++)
                connect_as(f, 1 + i, &users[i]);
        for (unsigned i = 0; i < USERS; i++) {
                begin_creations(f, &users[i], i, results[i]);
                assert_limited(&users[i], "16 calls of user id ");
        }
        assert_limited(&users[USERS], "64 calls of other users than root");
        g_free(fixture_create(f, "disk0", "memory"));
        g_assert_cmpstr(f->error.name, ==, NULL);
        fixture_unlink(f, "hold");
        for (unsigned i = 0; i < USERS; i++)
                end_creations(&users[i], results[i]);
        for (unsigned i = 0; i <= USERS; i++) {
                sd_bus_error_free(&users[i].error);
                sd_bus_flush_close_unref(users[i].bus);
        }
}

static void test_stopped(Fixture *f, gconstpointer data) {
        g_autofree char *result = NULL;

        (void) data;
        be_nobody_with_polkit(f);
        fixture_write(f, "polkit-create-device", "wait");
        begin_create(f, &result);
        wait_asked(f, "create-device");
        fixture_stop_manager(f);
        g_assert_cmpstr(fixture_end(f, &result), ==, "org.ublk.Error.Cancelled");
        fixture_start_manager(f, getuid());
        assert_nothing(f);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/polkit/absent", test_absent);
        fixture_add("/bus/polkit/refused", test_refused);
        fixture_add("/bus/polkit/validated-first", test_validated_first);
        fixture_add("/bus/polkit/granted", test_granted);
        fixture_add("/bus/polkit/interactive", test_interactive);
        fixture_add("/bus/polkit/any-hook", test_any_hook);
        fixture_add("/bus/polkit/secret", test_secret);
        fixture_add("/bus/polkit/path", test_path);
        fixture_add("/bus/polkit/waits", test_waits);
        fixture_add("/bus/polkit/leaves", test_leaves);
        fixture_add("/bus/polkit/vanishes", test_vanishes);
        fixture_add("/bus/polkit/changes", test_changes);
        fixture_add("/bus/polkit/many", test_many);
        fixture_add("/bus/polkit/operations", test_operations);
        if (getuid() == 0) /* tools/test runs it so, too: nobody else can be several users */
                fixture_add("/bus/polkit/operations-of-users", test_operations_of_users);
        fixture_add("/bus/polkit/stopped", test_stopped);
        return g_test_run();
}
