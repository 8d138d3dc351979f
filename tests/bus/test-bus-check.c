/* SPDX-License-Identifier: MIT */

/* CheckHook: what is asked, and what is made of the answer; and ublkctl create --dry-run. */

#include "bus-fixture.h"
#include "run-ublkctl.h"


#define SCHEMA "\"schema\":{\"class\":\"RamDisk\",\"options\":[{\"name\":\"size\",\"type\":\"bytes\",\"required\":true,\"default\":null,\"doc\":\"of it\"}]," \
               "\"recovery\":\"reissue\",\"concurrency\":1,\"network\":false,\"jit\":false,\"sink\":false}"
#define GEOMETRY "\"geometry\":{\"size\":1048576,\"logical-block-size\":512,\"physical-block-size\":4096,\"recovery\":\"reissue\",\"read-only\":false}"
#define WRONG "{\"error\":22," SCHEMA ",\"failure\":{\"kind\":\"arguments\",\"errno\":22,\"message\":\"it needs size\"}}"

/* What CheckHook answers, the way a program of today would read it. */
static json_t *report(const char *more, int expected) {
        g_autofree char *line = g_strdup_printf("--json=short create --dry-run disk0 memory %s", more);

        return ublkctl_json(line, expected);
}

static void test_report(Fixture *f, gconstpointer data) {
        g_autofree char *calls = NULL, *proposed = NULL;
        json_t *j, *option;

        (void) data;
        fixture_write(f, "check-hook", "{\"error\":0," SCHEMA "," GEOMETRY "}");
        g_free(fixture_calls(f));
        j = report("size=1M depth=4", 0);
        g_assert_cmpstr(json_string_value(json_object_get(j, "class")), ==, "RamDisk");
        g_assert_cmpint(json_integer_value(json_object_get(json_object_get(j, "geometry"), "size")), ==, 1048576);
        g_assert_cmpuint(json_array_size(json_object_get(j, "options")), ==, 1);
        option = json_array_get(json_object_get(j, "options"), 0);
        g_assert_cmpstr(json_string_value(json_object_get(option, "type")), ==, "bytes");
        g_assert_true(json_is_true(json_object_get(option, "required")));
        g_assert_null(json_object_get(option, "default"));
        g_assert_null(json_object_get(j, "error"));
        json_decref(j);
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-check@hook-0.service\n");
        proposed = fixture_read(f, "proposed");
        g_assert_nonnull(strstr(proposed, "Hook=memory\n"));
        g_assert_nonnull(strstr(proposed, "Depth=4\n"));
        g_assert_nonnull(strstr(proposed, "size=s:1M\n"));
        /* Nothing was made, and nothing stays. */
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        g_assert_false(fixture_has(f, "run/ublk-ruby/proposals/0.conf"));
        g_assert_false(fixture_has(f, "run/ublk-ruby/devices/0.conf"));
        g_assert_false(fixture_has(f, "run/ublk-ruby-check/hook-0.json"));
}

static void test_error(Fixture *f, gconstpointer data) {
        json_t *j;

        (void) data;
        fixture_write(f, "check-hook", WRONG);
        j = report("", 1);
        g_assert_cmpstr(json_string_value(json_object_get(j, "error")), ==, "org.freedesktop.DBus.Error.InvalidArgs");
        g_assert_cmpstr(json_string_value(json_object_get(j, "message")), ==, "it needs size");
        g_assert_cmpstr(json_string_value(json_object_get(j, "class")), ==, "RamDisk");
        json_decref(j);
        fixture_write(f, "check-hook", "{\"error\":22,\"failure\":{\"kind\":\"hook\",\"errno\":5,\"class\":\"SyntaxError\",\"message\":\"eh\"}}");
        j = report("", 1);
        g_assert_cmpstr(json_string_value(json_object_get(j, "error")), ==, "org.ublk.Error.HookFailed");
        json_decref(j);
        /* No errno, but no success. */
        fixture_write(f, "check-hook", "{\"error\":4294967296}");
        j = report("", 1);
        g_assert_cmpstr(json_string_value(json_object_get(j, "error")), ==, "org.ublk.Error.WorkerFailed");
        json_decref(j);
}

/* Of which the bus would take none. */
static void test_noncharacters(Fixture *f, gconstpointer data) {
        json_t *j;

        (void) data;
        fixture_write(f, "check-hook", "{\"error\":22,\"schema\":{\"class\":\"A\xef\xbf\xbe\",\"\xef\xbf\xbf\":\"b\"},"
                                       "\"failure\":{\"kind\":\"hook\",\"errno\":5,\"message\":\"not \xef\xb7\x90\"}}");
        j = report("", 1);
        g_assert_cmpstr(json_string_value(json_object_get(j, "class")), ==, "A???");
        g_assert_cmpstr(json_string_value(json_object_get(j, "message")), ==, "not ???");
        g_assert_cmpuint(json_object_size(j), ==, 3);
        json_decref(j);
}

/* What no hook can be asked with is an error of the call. */
static void test_refused(Fixture *f, gconstpointer data) {
        g_autofree char *calls = NULL;

        (void) data;
        g_free(fixture_calls(f));
        fixture_assert_error(f, fixture_call(f, NULL, "CheckHook", NULL, "sa{sv}", "nowhere", 0), "org.ublk.Error.NoSuchHook", "nowhere.rb");
        fixture_assert_error(f, fixture_call(f, NULL, "CheckHook", NULL, "sa{sv}", "/etc/../passwd", 0), "org.freedesktop.DBus.Error.InvalidArgs",
                             "no absolute path");
        fixture_assert_error(f, fixture_call(f, NULL, "CheckHook", NULL, "sa{sv}", "memory", 1, "depth", "u", 5000U),
                             "org.freedesktop.DBus.Error.InvalidArgs", "1 to 4096");
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "");
        fixture_write(f, "no-answer", "");
        fixture_assert_error(f, fixture_call(f, NULL, "CheckHook", NULL, "sa{sv}", "memory", 0), "org.ublk.Error.WorkerFailed", "gave no answer");
        g_assert_false(fixture_has(f, "run/ublk-ruby/proposals/0.conf"));
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
        fixture_assert_error(f, fixture_call(f, NULL, "CheckHook", NULL, "sa{sv}", "memory", 0), "org.freedesktop.DBus.Error.AccessDenied", "root");
}

/* A hook has had a hand in it. */
static void test_nonsense(Fixture *f, gconstpointer data) {
        static const char *const answers[] = {
                "{\"error\":0,\"schema\":[],\"geometry\":7}",
                "{\"error\":0,\"schema\":{\"a\":[1,2,[3]],\"b\":1.5,\"c\":null,\"d\":[{\"e\":{}}],\"\":-1}}",
                "{\"error\":0,\"schema\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}",
                "{\"error\":0,\"schema\":{\"caf\xc3\xa9\":\"\xc3\xa9\"}}",
        };

        (void) data;
        for (size_t i = 0; i < G_N_ELEMENTS(answers); i++) {
                fixture_write(f, "check-hook", answers[i]);
                (void) fixture_call(f, NULL, "CheckHook", NULL, "sa{sv}", "memory", 0);
                g_test_message("%s", f->error.message ? f->error.message : "ok");
                g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0); /* it lives */
        }
}

static void test_ublkctl(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_write(f, "check-hook", "{\"error\":0," SCHEMA "," GEOMETRY "}");
        ublkctl("create --dry-run disk0 memory size=1M", 0, "disk0: 1M (1048576 bytes) in blocks of 512 bytes, recovery reissue\n");
        fixture_write(f, "check-hook", "{\"error\":0," SCHEMA "}");
        ublkctl("create --dry-run disk0 memory", 0, "disk0: the hook loads; what disk it makes");
        fixture_write(f, "check-hook", WRONG);
        ublkctl("create --dry-run disk0 memory", 1, "ublkctl: disk0: it needs size\n");
        ublkctl("list --dry-run", 2, "");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/check/report", test_report);
        fixture_add("/bus/check/error", test_error);
        fixture_add("/bus/check/noncharacters", test_noncharacters);
        fixture_add("/bus/check/refused", test_refused);
        fixture_add("/bus/check/nonsense", test_nonsense);
        fixture_add("/bus/check/ublkctl", test_ublkctl);
        return g_test_run();
}
