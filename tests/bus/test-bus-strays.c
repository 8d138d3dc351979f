/* SPDX-License-Identifier: MIT */

/* ListStrays and RemoveStray: what control says, and what is done about a unit that still serves one. */

#include "bus-fixture.h"
#include "dbus/askers.h"

#define INVALID_ARGS "org.freedesktop.DBus.Error.InvalidArgs"

static const char devices[] = "[{\"id\":0,\"ours\":true},{\"id\":3,\"ours\":true,\"stray\":\"there is no file of it\"},"
                              "{\"id\":5,\"ours\":false},{\"id\":9,\"ours\":true,\"stray\":\"its file can't be read\"}]";

static void assert_strays(Fixture *f, const char *expected) {
        g_autoptr(GString) got = g_string_new(NULL);
        sd_bus_message *reply = NULL;
        const char *why;
        uint32_t id;

        g_assert_cmpint(fixture_call(f, NULL, "ListStrays", &reply, ""), >=, 0);
        g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(us)"), >, 0);
        while (sd_bus_message_read(reply, "(us)", &id, &why) > 0)
                g_string_append_printf(got, "%u %s. ", id, why);
        sd_bus_message_unref(reply);
        g_assert_cmpstr(got->str, ==, expected);
}

static int remove_stray(Fixture *f, uint32_t id) {
        return fixture_call(f, NULL, "RemoveStray", NULL, "ua{sv}", id, 0);
}

static void test_list(Fixture *f, gconstpointer data) {
        (void) data;
        assert_strays(f, "");
        fixture_write(f, "list", devices);
        assert_strays(f, "3 there is no file of it. 9 its file can't be read. ");
        fixture_write(f, "no-answer", "");
        fixture_assert_error(f, fixture_call(f, NULL, "ListStrays", NULL, ""), "org.ublk.Error.WorkerFailed", "gave no answer");
}

/* Anybody may ask, and at the same time: control runs once for all of them. */
static void test_list_together(Fixture *f, gconstpointer data) {
        g_autofree char *results[3] = {}, *calls = NULL, *first = NULL;

        (void) data;
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
        fixture_write(f, "slow-list", "");
        g_free(fixture_calls(f));
        for (size_t i = 0; i < ELEMENTSOF(results); i++)
                fixture_begin(f, &results[i], "ListStrays", "");
        for (size_t i = 0; i < ELEMENTSOF(results); i++) {
                g_assert_cmpstr(fixture_end(f, &results[i]), ==, "ok");
                g_clear_pointer(&results[i], g_free);
        }
        calls = fixture_calls(f);
        first = g_strdup(strstr(calls, "ublk-ruby-control@list.service"));
        g_assert_nonnull(first);
        g_assert_null(strstr(first + 1, "ublk-ruby-control@list.service"));
        fixture_assert_error(f, remove_stray(f, 3), "org.freedesktop.DBus.Error.AccessDenied", "root");
}

/* Those who wait for a list keep nobody from anything else, and are not more than so many. */
static void test_list_crowd(Fixture *f, gconstpointer data) {
        char *results[ASKERS_MAX_PER_USER + 7] = {};
        unsigned limited = 0;

        (void) data;
        fixture_write(f, "slow-list", "");
        fixture_write(f, "hold", "");
        for (size_t i = 0; i < ELEMENTSOF(results); i++)
                fixture_begin(f, &results[i], "ListStrays", "");
        g_free(fixture_create(f, "disk0", "memory"));
        g_assert_cmpstr(f->error.name, ==, NULL);
        fixture_unlink(f, "hold");
        for (size_t i = 0; i < ELEMENTSOF(results); i++) {
                limited += streq(fixture_end(f, &results[i]), "org.freedesktop.DBus.Error.LimitsExceeded");
                g_free(results[i]);
        }
        g_assert_cmpuint(limited, ==, 6); /* the first one is what the others wait for */
        fixture_unlink(f, "slow-list");
        assert_strays(f, "");
}

static void test_remove(Fixture *f, gconstpointer data) {
        g_autofree char *calls = NULL, *more = NULL, *forced = NULL;

        (void) data;
        g_free(fixture_calls(f));
        g_assert_cmpint(remove_stray(f, 3), >=, 0);
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-control@sweep-3.service\n");
        /* One that is served still. */
        fixture_write(f, "served-3", "");
        g_assert_cmpint(remove_stray(f, 3), >=, 0);
        more = fixture_calls(f);
        g_assert_cmpstr(more, ==, "StartUnit ublk-ruby-control@sweep-3.service\nStopUnit ublk-ruby-device@3.service\n"
                                  "StartUnit ublk-ruby-control@sweep-3.service\n");
        g_assert_cmpint(fixture_call(f, NULL, "RemoveStray", NULL, "ua{sv}", 3U, 1, "force", "b", true), >=, 0);
        forced = fixture_calls(f);
        g_assert_cmpstr(forced, ==, "StartUnit ublk-ruby-control@purge-3.service\n");
}

/* What control refuses is not tried otherwise. */
static void test_refused(Fixture *f, gconstpointer data) {
        g_autofree char *calls = NULL;

        (void) data;
        fixture_write(f, "swept-5", "{\"error\":1,\"failure\":{\"kind\":\"arguments\",\"errno\":1,\"message\":\"another program\"}}");
        fixture_write(f, "swept-3", "{\"error\":16,\"failure\":{\"kind\":\"busy\",\"errno\":16,\"message\":\"mounted on /mnt\"}}");
        g_free(fixture_calls(f));
        fixture_assert_error(f, remove_stray(f, 5), INVALID_ARGS, "another program");
        fixture_assert_error(f, remove_stray(f, 3), "org.ublk.Error.DeviceBusy", "/mnt");
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "StopUnit"));
        fixture_assert_error(f, remove_stray(f, 1U << 20), INVALID_ARGS, "1048576");
        fixture_assert_error(f, fixture_call(f, NULL, "RemoveStray", NULL, "ua{sv}", 3U, 1, "colour", "s", "red"), INVALID_ARGS,
                             "colour");
        fixture_assert_error(f, fixture_call(f, NULL, "RemoveStray", NULL, "ua{sv}", 3U, 1, "force", "s", "yes"), INVALID_ARGS,
                             "force (b)");
        /* Its unit took it away itself, when it was stopped. */
        fixture_write(f, "served-7", "");
        fixture_write(f, "swept-7", "{\"error\":19,\"failure\":{\"kind\":\"arguments\",\"errno\":19,\"message\":\"no such device\"}}");
        g_assert_cmpint(remove_stray(f, 7), >=, 0);
        fixture_assert_error(f, remove_stray(f, 7), INVALID_ARGS, "no such device");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/strays/list", test_list);
        fixture_add("/bus/strays/list-together", test_list_together);
        fixture_add("/bus/strays/list-crowd", test_list_crowd);
        fixture_add("/bus/strays/remove", test_remove);
        fixture_add("/bus/strays/refused", test_refused);
        return g_test_run();
}
