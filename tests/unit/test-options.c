/* SPDX-License-Identifier: MIT */

/* The option dictionary, in a message that never leaves the process. */

#include "dbus/options.h"

#include <glib.h>
#include <stdarg.h>
#include <sys/socket.h>

typedef struct Fixture {
        sd_bus *bus;
        int peer;
        sd_bus_message *m;
        sd_bus_error error;
        DeviceConfig *config;
} Fixture;

/* A message belongs to a bus; half of a socket pair is enough of one. */
static void set_up(Fixture *f, gconstpointer data) {
        int fds[2];

        (void) data;
        g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), ==, 0);
        f->peer = fds[1];
        g_assert_cmpint(sd_bus_new(&f->bus), >=, 0);
        g_assert_cmpint(sd_bus_set_fd(f->bus, fds[0], fds[0]), >=, 0);
        g_assert_cmpint(sd_bus_start(f->bus), >=, 0);
}

static void forget(Fixture *f) {
        f->m = sd_bus_message_unref(f->m);
        f->config = device_config_free(f->config);
        sd_bus_error_free(&f->error);
}

static void tear_down(Fixture *f, gconstpointer data) {
        (void) data;
        forget(f);
        sd_bus_close_unref(f->bus);
        safe_close(f->peer);
}

static void put_options(Fixture *f, const char *types, va_list ap) {
        forget(f);
        g_assert_cmpint(sd_bus_message_new_method_call(f->bus, &f->m, "a.b", "/", "a.b", "C"), >=, 0);
        g_assert_cmpint(sd_bus_message_appendv(f->m, types, ap), >=, 0);
        g_assert_cmpint(sd_bus_message_seal(f->m, 1, 0), >=, 0);
}

/* types: "a{sv}" or longer, as sd_bus_message_append. */
static int read_options(Fixture *f, const char *types, ...) {
        va_list ap;

        va_start(ap, types);
        put_options(f, types, ap);
        va_end(ap);
        f->config = device_config_new(OPTION_ID_ANY);
        return options_read(f->m, f->config, &f->error);
}

static int read_flag(Fixture *f, const char *name, bool *ret, const char *types, ...) {
        va_list ap;

        va_start(ap, types);
        put_options(f, types, ap);
        va_end(ap);
        return name ? options_read_flag(f->m, name, ret, &f->error) : options_read_none(f->m, &f->error);
}

static void test_own(Fixture *f, gconstpointer data) {
        const DeviceConfig *c;

        (void) data;
        g_assert_cmpint(read_options(f, "a{sv}", 14, "queues", "u", 1, "depth", "u", 64, "max-io-size", "u", 65536, "read-only", "b",
                                     1, "recovery", "s", "fail-io", "on-failure", "s", "wait", "id", "u", 7, "persistent", "b",
                                     1, "mlock", "b", 0, "hook-timeout", "t", UINT64_C(5000000), "start-timeout", "t",
                                     UINT64_C(60000000), "partscan", "b", 0, "data-path", "s", "auto", "class", "s", "My::Disk"), >=, 0);
        c = f->config;
        g_assert_cmpuint(c->depth, ==, 64);
        g_assert_cmpuint(c->max_io_size, ==, 65536);
        g_assert_true(c->read_only);
        g_assert_cmpint(c->recovery, ==, RECOVERY_FAIL_IO);
        g_assert_false(c->fail_on_failure);
        g_assert_cmpuint(c->id, ==, 7);
        g_assert_true(c->persistent);
        g_assert_false(c->mlock);
        g_assert_cmpuint(c->hook_timeout_usec, ==, 5000000);
        g_assert_cmpuint(c->start_timeout_usec, ==, 60000000);
        g_assert_false(c->partscan);
        g_assert_cmpstr(c->class_name, ==, "My::Disk");
        g_assert_cmpuint(c->n_arguments, ==, 0);
}

static void test_none(Fixture *f, gconstpointer data) {
        (void) data;
        g_assert_cmpint(read_options(f, "a{sv}", 0), >=, 0);
        g_assert_cmpuint(f->config->id, ==, OPTION_ID_ANY);
        g_assert_cmpuint(f->config->depth, ==, CONFIG_DEFAULT_DEPTH);
}

static const Argument *argument(const Fixture *f, const char *name) {
        for (size_t i = 0; i < f->config->n_arguments; i++)
                if (streq(f->config->arguments[i].name, name))
                        return &f->config->arguments[i];
        g_error("No argument %s", name);
}

static void check_argument(Fixture *f, char type, const char *value) {
        g_assert_cmpint(argument(f, "x")->type, ==, type);
        g_assert_cmpstr(argument(f, "x")->value, ==, value);
}

/* Every type as text, and back as the same value: appended to a second message, which is read again. */
static void test_arguments(Fixture *f, gconstpointer data) {
        static const char types[] = "ybnqiuxtds";
        static const char *const values[] = { "255", "true", "-32768", "65535", "-2147483648", "4294967295",
                                              "-9223372036854775808", "18446744073709551615", "0.10000000000000001", "a\n=b" };
        sd_bus_message *m;
        DeviceConfig *c;

        (void) data;
        g_assert_cmpint(read_options(f, "a{sv}", 1, "x", "y", 255), >=, 0);
        check_argument(f, 'y', "255");
        g_assert_cmpint(read_options(f, "a{sv}", 1, "x", "n", -32768), >=, 0);
        check_argument(f, 'n', "-32768");
        g_assert_cmpint(read_options(f, "a{sv}", 1, "x", "x", INT64_MIN), >=, 0);
        check_argument(f, 'x', "-9223372036854775808");
        g_assert_cmpint(read_options(f, "a{sv}", 1, "x", "t", UINT64_MAX), >=, 0);
        check_argument(f, 't', "18446744073709551615");
        g_assert_cmpint(read_options(f, "a{sv}", 1, "x", "d", 0.1), >=, 0);
        check_argument(f, 'd', "0.10000000000000001");
        for (size_t i = 0; i < strlen(types); i++) {
                forget(f);
                c = device_config_new(0);
                g_assert_cmpint(device_config_add_argument(c, "x", types[i], values[i]), ==, 0);
                g_assert_cmpint(sd_bus_message_new_method_call(f->bus, &m, "a.b", "/", "a.b", "C"), >=, 0);
                g_assert_cmpint(arguments_append(m, c), >=, 0);
                g_assert_cmpint(sd_bus_message_seal(m, 1, 0), >=, 0);
                f->config = device_config_new(OPTION_ID_ANY);
                f->m = m;
                g_assert_cmpint(options_read(m, f->config, &f->error), >=, 0);
                check_argument(f, types[i], values[i]);
                device_config_free(c);
        }
}

static void check_error(Fixture *f, int r, const char *part) {
        g_assert_cmpint(r, <, 0);
        g_assert_cmpstr(f->error.name, ==, SD_BUS_ERROR_INVALID_ARGS);
        g_test_message("%s", f->error.message);
        g_assert_nonnull(strstr(f->error.message, part));
}

static void test_errors(Fixture *f, gconstpointer data) {
        g_autofree char *huge = g_strnfill(CONFIG_MAX_VALUE + 1, 'x');

        (void) data;
        check_error(f, read_options(f, "a{sv}", 1, "depth", "t", UINT64_C(5)), "must have type u");
        check_error(f, read_options(f, "a{sv}", 1, "depth", "u", 0), "1 to 4096");
        check_error(f, read_options(f, "a{sv}", 1, "start-timeout", "t", UINT64_MAX), "one day");
        check_error(f, read_options(f, "a{sv}", 1, "class", "s", "lower"), "class");
        check_error(f, read_options(f, "a{sv}", 1, "", "s", ""), "Unknown option");
        check_error(f, read_options(f, "a{sv}", 1, "a-b", "s", ""), "a-b");
        check_error(f, read_options(f, "a{sv}", 1, "x", "o", "/"), "type o");
        check_error(f, read_options(f, "a{sv}", 1, "x", "(ss)", "a", "b"), "type (ss)");
        check_error(f, read_options(f, "a{sv}", 1, "x", "v", "s", "a"), "type v");
        check_error(f, read_options(f, "a{sv}", 1, "x", "s", huge), "4096 bytes");
        /* Each fits, but four times as long in the file. */
        memset(huge, '\n', CONFIG_MAX_VALUE);
        huge[CONFIG_MAX_VALUE] = 0;
        check_error(f, read_options(f, "a{sv}", 4, "a", "s", huge, "b", "s", huge, "c", "s", huge, "d", "s", huge), "65536 bytes");
        check_error(f, read_options(f, "a{sv}", 2, "x", "s", "a", "x", "s", "b"), "twice");
        check_error(f, read_options(f, "a{sv}", 2, "id", "u", 1, "id", "u", 2), "twice");
}

#define add(path, function) g_test_add(path, Fixture, NULL, set_up, function, tear_down)

/* Of the methods on one device. */
static void test_flag(Fixture *f, gconstpointer data) {
        bool flag = true;

        (void) data;
        g_assert_cmpint(read_flag(f, "keep-state", &flag, "a{sv}", 0), ==, 0);
        g_assert_false(flag);
        g_assert_cmpint(read_flag(f, "keep-state", &flag, "a{sv}", 1, "keep-state", "b", 1), ==, 0);
        g_assert_true(flag);
        g_assert_cmpint(read_flag(f, "keep-state", &flag, "a{sv}", 1, "keep-state", "b", 0), ==, 0);
        g_assert_false(flag);
        g_assert_cmpint(read_flag(f, "keep-state", &flag, "a{sv}", 1, "keep-state", "s", "yes"), <, 0);
        g_assert_nonnull(strstr(f->error.message, "must have type b"));
        g_assert_cmpint(read_flag(f, "keep-state", &flag, "a{sv}", 2, "keep-state", "b", 1, "keep-state", "b", 1), <, 0);
        g_assert_nonnull(strstr(f->error.message, "twice"));
        g_assert_cmpint(read_flag(f, "keep-state", &flag, "a{sv}", 2, "keep-state", "b", 1, "force", "b", 1), <, 0);
        g_assert_nonnull(strstr(f->error.message, "\"force\": this method takes keep-state"));
        g_assert_false(flag);
        g_assert_cmpint(read_flag(f, NULL, NULL, "a{sv}", 0), ==, 0);
        g_assert_cmpint(read_flag(f, NULL, NULL, "a{sv}", 1, "keep-state", "b", 1), <, 0);
        g_assert_cmpstr(f->error.name, ==, SD_BUS_ERROR_INVALID_ARGS);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        add("/options/own", test_own);
        add("/options/none", test_none);
        add("/options/arguments", test_arguments);
        add("/options/errors", test_errors);
        add("/options/flag", test_flag);
        return g_test_run();
}
