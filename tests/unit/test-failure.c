/* SPDX-License-Identifier: MIT */
#include "service/failure.h"

#include <glib.h>
#include <jansson.h>

static void round_trip(const Failure *f, Failure *ret) {
        _cleanup_free_ char *text = NULL;

        g_assert_cmpint(failure_to_text(f, &text), ==, 0);
        g_assert_cmpuint(strlen(text), <, FAILURE_MAX_TEXT);
        g_assert_null(strchr(text, '\n'));
        /* systemd drops every backslash of a STATUS=. */
        g_assert_null(strchr(text, '\\'));
        g_assert_true(g_utf8_validate(text, -1, NULL));
        g_assert_cmpint(failure_from_text(text, ret), ==, 0);
}

/* An answer of ublk-ruby-control holds it as an object. */
static void test_json(void) {
        static const char message[] = "quotes \" and \\ and %5c and \n";
        Failure f = FAILURE_NULL, back = FAILURE_NULL;
        json_t *o;

        (void) failure_set(&f, FAILURE_HOOK, ENOENT, "%s", message);
        o = failure_to_json(&f);
        g_assert_cmpstr(json_string_value(json_object_get(o, "message")), ==, "quotes \" and \\ and %5c and  ");
        g_assert_cmpint(failure_from_json(o, &back), ==, 0);
        g_assert_cmpstr(back.message, ==, "quotes \" and \\ and %5c and  ");
        json_decref(o);
        failure_done(&back);
        o = json_pack("{s:s}", "kind", "hook");
        g_assert_cmpint(failure_from_json(o, &back), ==, -EBADMSG);
        json_decref(o);
        failure_done(&f);
}

static void test_round_trip(void) {
        Failure f = FAILURE_NULL, back = FAILURE_NULL;
        _cleanup_free_ char *described = NULL;

        g_assert_cmpint(failure_set(&f, FAILURE_HOOK, ENOENT, "No such file \"%s\"", "x"), ==, -ENOENT);
        g_assert_cmpint(failure_set_origin(&f, "Errno::ENOENT", "/h/file.rb", 7), ==, 0);
        round_trip(&f, &back);
        g_assert_cmpint(back.kind, ==, FAILURE_HOOK);
        g_assert_cmpint(back.error, ==, ENOENT);
        g_assert_cmpint(failure_describe(&back, &described), ==, 0);
        g_assert_cmpstr(described, ==, "Errno::ENOENT: No such file \"x\" (/h/file.rb:7)");
        failure_done(&f);
        failure_done(&back);
}

/* Ruby's messages hold any bytes: cut in the middle of a character, binary, control characters, very long. */
static void test_any_bytes(void) {
        char *quotes = g_strnfill(5000, '"'), *controls = g_strnfill(5000, '\x01');
        const char *messages[] = { "\xff\xfe", "caf\xc3", "\xc3\xa9t\xc3\xa9", "\xed\xa0\x80", "\xf0\x9f\x92", "\x80", "\xef\xbf\xbe", quotes, controls, "" };

        for (size_t i = 0; i < ELEMENTSOF(messages); i++) {
                Failure f = FAILURE_NULL, back = FAILURE_NULL;

                (void) failure_set(&f, FAILURE_WORKER, 0, "%s", messages[i]);
                round_trip(&f, &back);
                failure_done(&f);
                failure_done(&back);
        }
        g_free(quotes);
        g_free(controls);
}

/* However long everything is. */
static void test_fits(void) {
        g_autofree char *backslashes = g_strnfill(5000, '\\'), *needs = g_strnfill(FAILURE_MAX_NEEDS, 'n');
        Failure f = FAILURE_NULL, back = FAILURE_NULL;

        (void) failure_set(&f, FAILURE_NEEDS, EPERM, "%s", backslashes);
        g_assert_cmpint(failure_set_origin(&f, backslashes, backslashes, UINT32_MAX), ==, 0);
        round_trip(&f, &back);
        g_assert_cmpuint(strlen(back.message), >, 30);
        g_assert_cmpuint(strlen(back.file), >, 30);
        failure_done(&back);
        for (size_t i = 1; i < FAILURE_MAX_NEEDS; i += 2)
                needs[i] = ' ';
        g_assert_cmpint(failure_set_needs(&f, needs), ==, 0);
        round_trip(&f, &back);
        g_assert_cmpint(back.kind, ==, FAILURE_NEEDS);
        failure_done(&f);
        failure_done(&back);
}

/* Noncharacters, which are as good as any in JSON, but not on the bus. */
static void test_noncharacters(void) {
        Failure f = FAILURE_NULL;

        g_assert_cmpint(failure_from_text("{\"kind\":\"hook\",\"message\":\"a\xef\xbf\xbe\",\"class\":\"\xef\xbf\xbf\",\"file\":\"\xef\xb7\x90\","
                                          "\"needs\":[\"\xef\xb7\xaf\"]}", &f), ==, 0);
        g_assert_cmpstr(f.message, ==, "a???");
        g_assert_cmpstr(f.class_name, ==, "???");
        g_assert_cmpstr(f.file, ==, "???");
        g_assert_cmpstr(f.needs, ==, "???");
        failure_done(&f);
}

static void test_utf8_is_kept(void) {
        Failure f = FAILURE_NULL, back = FAILURE_NULL;

        (void) failure_set(&f, FAILURE_HOOK, EIO, "été, 日本, 😀, \xff!");
        round_trip(&f, &back);
        g_assert_cmpstr(back.message, ==, "été, 日本, 😀, ?!");
        failure_done(&back);
        (void) failure_set(&f, FAILURE_HOOK, EIO, "100%% \\ %%5c \"quoted\" %%25%%");
        round_trip(&f, &back);
        g_assert_cmpstr(back.message, ==, "100% \\ %5c \"quoted\" %25%");
        failure_done(&f);
        failure_done(&back);
}

static void test_foreign_text(void) {
        static const char *const texts[] = {
                "", "Serving /dev/ublkb0", "{}", "[]", "{\"kind\":\"hook\"}", "{\"kind\":\"nonsense\",\"message\":\"x\"}",
                "{\"kind\":\"hook\",\"message\":3}", "{\"kind\":\"hook\",\"message\":\"x\",\"errno\":-1}",
                "{\"kind\":\"hook\",\"message\":\"x\",\"errno\":5000}", "{\"kind\":\"hook\",\"message\":\"x\",\"line\":99999999999}",
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                Failure f = FAILURE_NULL;
                g_assert_cmpint(failure_from_text(texts[i], &f), ==, -EBADMSG);
        }
}

static void test_needs(void) {
        Failure f = FAILURE_NULL, back = FAILURE_NULL;
        _cleanup_free_ char *text = NULL;
        g_autofree char *most = g_strnfill(FAILURE_MAX_NEEDS, 'n'), *long_message = g_strnfill(4000, '"');
        g_autofree char *more = g_strconcat(most, "n", NULL);

        (void) failure_set(&f, FAILURE_NEEDS, EPERM, "%s", "not yet");
        round_trip(&f, &back);
        g_assert_null(back.needs);
        failure_done(&back);
        g_assert_cmpint(failure_set_needs(&f, "network jit"), ==, 0);
        g_assert_cmpint(failure_to_text(&f, &text), ==, 0);
        g_assert_nonnull(strstr(text, "\"needs\":[\"network\",\"jit\"]"));
        round_trip(&f, &back);
        g_assert_cmpint(back.kind, ==, FAILURE_NEEDS);
        g_assert_cmpstr(back.needs, ==, "network jit");
        failure_done(&back);
        /* As long as can be, beside a message that is too long. */
        (void) failure_set(&f, FAILURE_NEEDS, EPERM, "%s", long_message);
        g_assert_cmpint(failure_set_needs(&f, more), ==, -E2BIG);
        g_assert_cmpint(failure_set_needs(&f, most), ==, 0);
        round_trip(&f, &back);
        g_assert_cmpstr(back.needs, ==, most);
        failure_done(&back);
        failure_done(&f);
        g_assert_cmpint(failure_from_text("{\"kind\":\"needs\",\"message\":\"x\",\"needs\":[7,\"jit\"]}", &back), ==, 0);
        g_assert_cmpstr(back.needs, ==, "? jit");
        failure_done(&back);
}

static void test_backtrace(void) {
        Failure f = FAILURE_NULL, back = FAILURE_NULL;
        _cleanup_free_ char *described = NULL, *plain = NULL;

        (void) failure_set(&f, FAILURE_HOOK, EIO, "no");
        (void) failure_set_origin(&f, "RuntimeError", "/h/file.rb", 7);
        g_assert_cmpint(failure_describe_fully(&f, &plain), ==, 0);
        g_assert_cmpstr(plain, ==, "RuntimeError: no (/h/file.rb:7)");
        g_assert_cmpint(failure_set_backtrace(&f, "    from /h/file.rb:7:in `read'\n    from /h/file.rb:9:in `each'"), ==, 0);
        round_trip(&f, &back);
        g_assert_null(back.backtrace);
        g_assert_cmpint(failure_describe_fully(&f, &described), ==, 0);
        g_assert_cmpstr(described, ==, "RuntimeError: no (/h/file.rb:7)\n    from /h/file.rb:7:in `read'\n    from /h/file.rb:9:in `each'");
        (void) failure_set(&f, FAILURE_HOOK, EIO, "next");
        g_assert_null(f.backtrace);
        failure_done(&f);
        failure_done(&back);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/failure/round-trip", test_round_trip);
        g_test_add_func("/failure/json", test_json);
        g_test_add_func("/failure/any-bytes", test_any_bytes);
        g_test_add_func("/failure/fits", test_fits);
        g_test_add_func("/failure/noncharacters", test_noncharacters);
        g_test_add_func("/failure/utf8-is-kept", test_utf8_is_kept);
        g_test_add_func("/failure/foreign-text", test_foreign_text);
        g_test_add_func("/failure/needs", test_needs);
        g_test_add_func("/failure/backtrace", test_backtrace);
        return g_test_run();
}
