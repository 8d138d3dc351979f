/* SPDX-License-Identifier: MIT */

/* Resize: the steps in their order, and what is left of each that fails; and ublkctl resize. */

#include "bus-fixture.h"
#include "run-ublkctl.h"


#define FILE_0 "run/ublk-ruby/devices/0.conf"

static int resize(Fixture *f, const char *path, uint64_t bytes) {
        return fixture_call(f, path, "Resize", NULL, "ta{sv}", bytes, 0);
}

static void assert_file(Fixture *f, const char *part, bool there) {
        g_autofree char *text = fixture_read(f, FILE_0);

        g_assert_nonnull(text);
        if (!strstr(text, part) == there)
                g_error("%s\"%s\" in: %s", there ? "no " : "", part, text);
}

/* With a driver that has it from the start. */
static char *begin(Fixture *f) {
        fixture_write(f, "can-resize", "");
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid());
        g_autofree char *path = fixture_create(f, "disk0", "memory");
        g_free(fixture_calls(f));
        return g_steal_pointer(&path);
}

static void test_resize(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f), *calls = NULL;

        (void) data;
        g_assert_cmpint(resize(f, path, 2 << 20), >=, 0);
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-control@resize-0-2097152.service\nStartUnit ublk-ruby-control@resize-0.service\n");
        g_assert_cmpuint(fixture_get_number(f, path, "Size", 't'), ==, 2 << 20);
        assert_file(f, "size=t:2097152\n", true);
        assert_file(f, "Resizing", false);
        /* Another size than was asked for; and a hook that is not told. */
        fixture_write(f, "resize-0", "{\"error\":0,\"size\":4194304,\"takes-size\":false}");
        fixture_write(f, "settle-0", "{\"error\":0,\"size\":4194304,\"takes-size\":false}");
        g_assert_cmpint(resize(f, path, 4194305), >=, 0);
        assert_file(f, "size=t:2097152\n", true);
        assert_file(f, "Resizing", false);
}

static void test_no_driver(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;

        (void) data;
        g_free(fixture_calls(f));
        fixture_assert_error(f, resize(f, path, 2 << 20), "org.ublk.Error.NoKernelSupport", "update-size, which came with Linux 6.16");
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "");
        assert_file(f, "Resizing", false);
}

static void test_refused(Fixture *f, gconstpointer data) {
        static const struct { const char *kind, *error; } kinds[] = {
                { "busy", "org.ublk.Error.DeviceBusy" },
                { "hook", "org.ublk.Error.HookFailed" },
                { "arguments", "org.freedesktop.DBus.Error.InvalidArgs" },
                { "unsupported", "org.freedesktop.DBus.Error.NotSupported" },
                { "kernel", "org.ublk.Error.NoKernelSupport" },
                { "worker", "org.ublk.Error.WorkerFailed" },
        };
        g_autofree char *path = begin(f);

        (void) data;
        for (int unchanged = 1; unchanged >= 0; unchanged--)
                for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
                        g_autofree char *json = g_strdup_printf("{\"error\":5,\"unchanged\":%s,\"failure\":{\"kind\":\"%s\",\"errno\":5,\"message\":\"because\"}}",
                                                                unchanged ? "true" : "false", kinds[i].kind);

                        fixture_write(f, "resize-0", json);
                        fixture_assert_error(f, resize(f, path, 2 << 20), kinds[i].error, "because");
                        assert_file(f, "Resizing=yes", !unchanged);
                        assert_file(f, "2097152", false);
                }
        fixture_assert_error(f, resize(f, path, 0), "org.freedesktop.DBus.Error.InvalidArgs", "1 to 9223372036854775296");
        fixture_assert_error(f, resize(f, path, UINT64_MAX), "org.freedesktop.DBus.Error.InvalidArgs", "not 18446744073709551615");
        fixture_assert_error(f, fixture_call(f, path, "Resize", NULL, "ta{sv}", (uint64_t) 4096, 1, "force", "b", true),
                             "org.freedesktop.DBus.Error.InvalidArgs", "takes none");
        fixture_set_unit(f, "ublk-ruby-device@0.service", "activating", "auto-restart", "signal", "");
        fixture_wait_state(f, path, "recovering");
        fixture_assert_error(f, resize(f, path, 2 << 20), "org.ublk.Error.WorkerFailed", "is recovering");
}

/* The kernel does not follow, or another worker has come in between. */
static void test_unsettled(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f);

        (void) data;
        fixture_write(f, "settle-0", "{\"error\":5,\"failure\":{\"kind\":\"kernel\",\"errno\":5,\"message\":\"it won't\"}}");
        fixture_assert_error(f, resize(f, path, 2 << 20), "org.ublk.Error.NoKernelSupport", "it won't");
        assert_file(f, "Resizing=yes", true);
        assert_file(f, "size=t:2097152\n", true);
        fixture_write(f, "settle-0", "{\"error\":0,\"size\":1048576,\"takes-size\":true}");
        fixture_assert_error(f, resize(f, path, 2 << 20), "org.ublk.Error.WorkerFailed", "has 1048576 bytes again");
        assert_file(f, "Resizing", false);
        assert_file(f, "size=t:1048576\n", true);
}

/* A manager that died in the midst of it. */
static void test_resumed(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f), *text = NULL;
        g_autoptr(GString) half = NULL;
        bool over = false;

        (void) data;
        fixture_stop_manager(f);
        text = fixture_read(f, FILE_0);
        half = g_string_new(text);
        g_string_replace(half, "[Arguments]", "Resizing=yes\n[Arguments]", 1);
        fixture_write(f, FILE_0, half->str);
        fixture_write(f, "settle-0", "{\"error\":0,\"size\":8388608,\"takes-size\":true}");
        fixture_start_manager(f, getuid());
        fixture_wait_state(f, path, "live");
        for (int i = 0; i < 500 && !over; i++) {
                g_autofree char *now = fixture_read(f, FILE_0);

                over = now && !strstr(now, "Resizing") && strstr(now, "size=t:8388608\n");
                g_usleep(10000);
        }
        g_assert_true(over);
}

static void test_denied(Fixture *f, gconstpointer data) {
        g_autofree char *path = begin(f);

        (void) data;
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
        fixture_wait_state(f, path, "live");
        fixture_assert_error(f, resize(f, path, 2 << 20), "org.freedesktop.DBus.Error.AccessDenied", "root");
}

static void test_ublkctl(Fixture *f, gconstpointer data) {
        static const char *const wrong[] = { "x", "-1", "1.5G", "1g", "1GB", "16E", "M", "18446744073709551616" };

        (void) data;
        g_free(begin(f));
        ublkctl("resize disk0 2M", 0, "2097152\n");
        ublkctl("resize /dev/ublkb0 4096KiB", 0, "4194304\n");
        ublkctl("resize 0 8388608", 0, "8388608\n");
        ublkctl("resize 0 1024B", 0, "1024\n");
        ublkctl("--json=short resize disk0 1G", 0, "\"Size\":1073741824");
        ublkctl("status disk0", 0, "size=1073741824");
        ublkctl("resize disk0", 2, "ublkctl resize DEVICE SIZE");
        ublkctl("resize nothing 1G", 1, "no device \"nothing\"");
        for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
                g_autofree char *arguments = g_strdup_printf("resize disk0 -- %s", wrong[i]);
                ublkctl(arguments, 2, "is no size");
        }
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/resize/resize", test_resize);
        fixture_add("/bus/resize/no-driver", test_no_driver);
        fixture_add("/bus/resize/refused", test_refused);
        fixture_add("/bus/resize/unsettled", test_unsettled);
        fixture_add("/bus/resize/resumed", test_resumed);
        fixture_add("/bus/resize/denied", test_denied);
        fixture_add("/bus/resize/ublkctl", test_ublkctl);
        return g_test_run();
}
