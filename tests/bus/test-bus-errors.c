/* SPDX-License-Identifier: MIT */

/* Every refusal has a name that a program can go by: as a client gets it, and that ublkctl fails of it. */

#include "bus-fixture.h"
#include "run-ublkctl.h"


#define INVALID_ARGS "org.freedesktop.DBus.Error.InvalidArgs"
#define NOT_SUPPORTED "org.freedesktop.DBus.Error.NotSupported"
#define DENIED "org.freedesktop.DBus.Error.AccessDenied"
#define OURS(name) "org.ublk.Error." name

/* CreateDevice with one string option, or none; then what ublkctl makes of the same. */
typedef struct Refusal {
        const char *name, *hook, *key, *type, *value;
        const char *error;
} Refusal;

static const Refusal refusals[] = {
        { "7", "memory", NULL, NULL, NULL, INVALID_ARGS },
        { "ublkb7", "memory", NULL, NULL, NULL, INVALID_ARGS },
        { "d", "../memory", NULL, NULL, NULL, INVALID_ARGS },
        { "d", "nowhere", NULL, NULL, NULL, OURS("NoSuchHook") },
        { "d", "broken", NULL, NULL, NULL, OURS("HookFailed") },
        { "d", "silent", NULL, NULL, NULL, OURS("WorkerFailed") },
        { "taken", "memory", NULL, NULL, NULL, OURS("DeviceExists") },
        { "d", "memory", "queues", "u", "5000", INVALID_ARGS },
        { "d", "memory", "depth", "u", "0", INVALID_ARGS },
        { "d", "memory", "id", "u", "0", OURS("DeviceExists") },
        { "d", "memory", "id", "u", "4294967295", INVALID_ARGS },
        { "d", "memory", "recovery", "s", "perhaps", INVALID_ARGS },
        { "d", "memory", "class", "s", "lower", INVALID_ARGS },
        { "d", "memory", "start-timeout", "t", "1", INVALID_ARGS },
        { "d", "memory", "hook-timeout", "t", "5000", INVALID_ARGS },
        { "d", "memory", "on-failure", "s", "panic", INVALID_ARGS },
        { "d", "memory", "data-path", "s", "routed-copy", NOT_SUPPORTED },
        { "d", "memory", "processes", "u", "2", NOT_SUPPORTED },
        { "d", "memory", "concurrency", "u", "2", NOT_SUPPORTED },
};

static int create(Fixture *f, const Refusal *r) {
        guint64 n = r->value ? g_ascii_strtoull(r->value, NULL, 10) : 0;

        if (!r->key)
                return fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", r->name, r->hook, 0);
        if (streq(r->type, "u"))
                return fixture_create_option(f, r->name, r->hook, r->key, "u", (uint32_t) n);
        if (streq(r->type, "t"))
                return fixture_create_option(f, r->name, r->hook, r->key, "t", n);
        if (streq(r->type, "b"))
                return fixture_create_option(f, r->name, r->hook, r->key, "b", streq(r->value, "true"));
        return fixture_create_option(f, r->name, r->hook, r->key, "s", r->value);
}

/* The message that the name comes with is what ublkctl prints. */
static void check_ublkctl(Fixture *f, const char *arguments) {
        g_autofree char *err = ublkctl_errors(arguments, 1);

        if (!strstr(err, f->error.message))
                g_error("ublkctl %s does not say \"%s\" but: %s", arguments, f->error.message, err);
}

static void test_create(Fixture *f, gconstpointer data) {
        g_autofree char *taken = fixture_create(f, "taken", "memory");

        (void) data;
        g_assert_nonnull(taken);
        for (size_t i = 0; i < ELEMENTSOF(refusals); i++) {
                const Refusal *r = &refusals[i];
                g_autofree char *arguments = g_strdup_printf("create %s %s %s%s%s", r->name, r->hook, r->key ? r->key : "",
                                                             r->key ? "=" : "", r->key ? r->value : "");
                g_test_message("%s", arguments);
                fixture_assert_error(f, create(f, r), r->error, r->key);
                check_ublkctl(f, arguments);
        }
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 1);
}

static void check_device(Fixture *f, const char *method, const char *device, const char *error) {
        g_autofree char *arguments = g_strdup_printf("%s %s", streq(method, "DeleteDevice") ? "delete" : "restart", device);

        fixture_assert_error(f, fixture_call(f, NULL, method, NULL, "sa{sv}", device, 0), error, NULL);
        check_ublkctl(f, arguments);
}

static void test_devices(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "none"), *result = NULL;

        (void) data;
        check_device(f, "DeleteDevice", "nothing", OURS("NoSuchDevice"));
        check_device(f, "RestartDevice", "17", OURS("NoSuchDevice"));
        check_device(f, "RestartDevice", "disk0", NOT_SUPPORTED);
        fixture_assert_error(f, fixture_call(f, NULL, "GetDevice", NULL, "s", "nothing"), OURS("NoSuchDevice"), NULL);
        fixture_assert_error(f, fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "disk0", 1, "x", "b", 1), INVALID_ARGS, "x");
        fixture_assert_error(f, fixture_call(f, path, "Delete", NULL, "a{sv}", 1, "x", "b", 1), INVALID_ARGS, "x");
        fixture_write(f, "holders-0", "[{\"kind\":\"mount\",\"what\":\"/mnt\"}]");
        check_device(f, "DeleteDevice", "disk0", OURS("DeviceBusy"));
        fixture_unlink(f, "holders-0");
        fixture_write(f, "no-answer", "");
        check_device(f, "DeleteDevice", "disk0", OURS("WorkerFailed"));
        fixture_unlink(f, "no-answer");
        fixture_begin(f, &result, "CreateDevice", "ssa{sv}", "late", "slow", 0);
        fixture_wait_file(f, "run/ublk-ruby/devices/1.conf", true);
        fixture_assert_error(f, fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "late", 0), OURS("OperationInProgress"), NULL);
        g_assert_cmpstr(fixture_end(f, &result), ==, "ok");
        fixture_write(f, "cancel", "");
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "memory", 0), OURS("Cancelled"), NULL);
}

static void test_service(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ss", "d", "memory"), INVALID_ARGS, NULL);
        fixture_assert_error(f, fixture_call(f, NULL, "DestroyDevice", NULL, NULL), "org.freedesktop.DBus.Error.UnknownMethod", NULL);
        fixture_assert_error(f, fixture_call(f, "/org/ublk/device/9", "Delete", NULL, "a{sv}", 0),
                             "org.freedesktop.DBus.Error.UnknownObject", NULL);
        g_assert_null(fixture_get_string(f, NULL, "Colour"));
        g_assert_cmpstr(f->error.name, ==, "org.freedesktop.DBus.Error.UnknownProperty");
        fixture_write(f, "unsupported", "Load the module: modprobe ublk_drv");
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid());
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "memory", 0), OURS("NoKernelSupport"), NULL);
        check_ublkctl(f, "create d memory");
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
        fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", "memory", 0), DENIED, NULL);
        check_ublkctl(f, "create d memory");
}

/* What is repeated of a call is cut where a character ends: sd-bus sends no other, and closes the service's connection over it. */
static void test_cut(Fixture *f, gconstpointer data) {
        (void) data;
        for (int n = 60; n < 84; n++) {
                g_autofree char *start = g_strnfill((gsize) n, 'x'), *name = g_strdup_printf("%s\xe2\x82\xac\xe2\x82\xac", start);

                fixture_assert_error(f, fixture_call(f, NULL, "GetDevice", NULL, "s", name), OURS("NoSuchDevice"), "xxxx");
                fixture_assert_error(f, fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "d", 1, name, "b", 1), INVALID_ARGS, "xxxx");
                fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", name, "memory", 0), INVALID_ARGS, "xxxx");
                fixture_assert_error(f, fixture_call(f, NULL, "CreateDevice", NULL, "ssa{sv}", "d", name, 0), INVALID_ARGS, "xxxx");
                fixture_assert_error(f, fixture_create_option(f, "d", "memory", name, "o", "/"), INVALID_ARGS, "xxxx");
                fixture_assert_error(f, fixture_create_option(f, "d", "memory", "recovery", "s", name), INVALID_ARGS, "xxxx");
        }
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/errors/cut", test_cut);
        fixture_add("/bus/errors/create", test_create);
        fixture_add("/bus/errors/devices", test_devices);
        fixture_add("/bus/errors/service", test_service);
        return g_test_run();
}
