/* SPDX-License-Identifier: MIT */

/* Arguments against the schema: what is taken, and how clearly the rest is refused. */

#include "test-hook.h"

#include <glib/gstdio.h>

/* Raises with the values that arrived, so that a case can look at them. */
#define SCHEMA "class Typed < UBLK::Target\n" \
        "  option :text, :string\n" \
        "  option :count, :integer, default: 7\n" \
        "  option :bytes, :bytes, default: '1K'\n" \
        "  option :flag, :bool\n" \
        "  option :ratio, :float\n" \
        "  option :pause, :duration\n" \
        "  option :where, :path, doc: 'the image'\n" \
        "  def initialize(**given) = raise(given.inspect)\n" \
        "  def read(offset, length) = nil\n" \
        "end\n"

static void assert_arrives(const char *name, const char *type, const char *value, const char *inspected) {
        const char *arguments[] = { name, type, value, NULL };

        g_assert_cmpint(rig_load("typed", SCHEMA, arguments), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS(inspected));
}

static void assert_refused(const char *name, const char *type, const char *value, const char *word) {
        const char *arguments[] = { name, type, value, NULL };

        g_assert_cmpint(rig_load("typed", SCHEMA, arguments), ==, -EINVAL);
        rig_assert_failure(FAILURE_ARGUMENTS, WORDS(name, word));
}

static void test_strings_are_parsed(void) {
        assert_arrives("text", "s", "caf\xc3\xa9", ":text=>\"caf\xc3\xa9\"");
        assert_arrives("count", "s", "-12", ":count=>-12");
        if (mode_collects()) /* the others take the same way, a second each */
                return;
        assert_arrives("bytes", "s", "256M", ":bytes=>268435456");
        assert_arrives("bytes", "s", "1GiB", ":bytes=>1073741824");
        assert_arrives("bytes", "s", "4096", ":bytes=>4096");
        assert_arrives("flag", "s", "yes", ":flag=>true");
        assert_arrives("flag", "s", "0", ":flag=>false");
        assert_arrives("ratio", "s", "0.5", ":ratio=>0.5");
        assert_arrives("pause", "s", "250ms", ":pause=>0.25");
        assert_arrives("pause", "s", "2", ":pause=>2.0");
        assert_arrives("where", "s", "/srv/disk.img", ":where=>\"/srv/disk.img\"");
}

static void test_types_are_matched(void) {
        assert_arrives("count", "i", "-3", ":count=>-3");
        assert_arrives("count", "y", "255", ":count=>255");
        assert_arrives("bytes", "t", "18446744073709551615", ":bytes=>18446744073709551615");
        assert_arrives("bytes", "u", "512", ":bytes=>512");
        assert_arrives("flag", "b", "true", ":flag=>true");
        assert_arrives("flag", "b", "false", ":flag=>false");
        assert_arrives("ratio", "d", "2.5", ":ratio=>2.5");
        assert_arrives("pause", "d", "1.5", ":pause=>1.5");
        assert_arrives("pause", "t", "1500000", ":pause=>1.5");
}

static void test_defaults(void) {
        g_assert_cmpint(rig_load("typed", SCHEMA, NULL), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("{:count=>7, :bytes=>1024}"));
}

static void test_wrong_types(void) {
        assert_refused("text", "u", "1", "wants a string (D-Bus type s), not D-Bus type u");
        assert_refused("count", "d", "1", "wants an integer");
        assert_refused("count", "b", "true", "not D-Bus type b");
        assert_refused("bytes", "b", "true", "wants a number of bytes");
        assert_refused("bytes", "x", "-1", "wants a number of bytes");
        assert_refused("flag", "u", "1", "wants yes or no (D-Bus type s, b)");
        assert_refused("ratio", "u", "1", "wants a number (D-Bus type s, d)");
        assert_refused("pause", "u", "1", "wants a duration");
        assert_refused("where", "b", "true", "wants an absolute path");
}

static void test_wrong_texts(void) {
        assert_refused("count", "s", "12x", "\"12x\"");
        assert_refused("count", "s", "", "wants an integer");
        assert_refused("bytes", "s", "1GB", "\"1GB\"");
        assert_refused("bytes", "s", "-1", "\"-1\"");
        assert_refused("bytes", "s", "16E", "\"16E\"");
        assert_refused("bytes", "s", "1M\n", "wants a number of bytes");
        assert_refused("flag", "s", "maybe", "\"maybe\"");
        assert_refused("ratio", "s", "nan", "\"nan\"");
        assert_refused("ratio", "d", "inf", "no value of D-Bus type d");
        assert_refused("pause", "s", "5 weeks", "\"5 weeks\"");
        assert_refused("where", "s", "disk.img", "\"disk.img\"");
}

#define KEEPER "class Keeper < UBLK::Target\n" \
        "  option :key, :secret, required: true\n" \
        "  def initialize(key:)\n" \
        "    raise \"not with #{key}, that is #{key.value}\" if key.value == 'wrong-one'\n" \
        "    @key = key.value\n" \
        "    super(size: 1 << 20)\n" \
        "  end\n" \
        "  def read_only? = true\n" \
        "  def read(offset, length) = offset.zero? ? @key.ljust(length, '.') : raise(\"no #{@key} at #{offset}\")\n" \
        "end\n"

/* From the directory that systemd has made to the hook, and into no message. */
static void test_secret(void) {
        g_autofree char *file = g_build_filename(rig.directory, "key", NULL);
        const char *arguments[] = { "key", "s", "/srv/key", NULL };
        Grants grants = { .credentials = rig.directory };
        HookSettings settings = { .grants = &grants };
        char buffer[512];

        g_assert_true(g_file_set_contents(file, "sword\0fish", 10, NULL));
        g_assert_cmpint(rig_load_with("keeper", KEEPER, arguments, &settings), ==, -EPERM);
        rig_assert_failure(FAILURE_NEEDS, WORDS("secret:key"));
        g_assert_cmpstr(rig.failure.needs, ==, "secret:key");
        grants.secrets = "other key";
        g_assert_cmpint(rig_load_with("keeper", KEEPER, arguments, &settings), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_READ, 0, 512, buffer), ==, 512);
        g_assert_cmpmem(buffer, 11, "sword\0fish.", 11);
        g_assert_cmpint(rig_request(OPERATION_READ, 512, 512, buffer), ==, -EIO);
        rig_assert_report(1, EIO, "RuntimeError", "no [secret key] at 512");

        g_assert_true(g_file_set_contents(file, "wrong-one", -1, NULL));
        g_assert_cmpint(rig_load_with("keeper", KEEPER, arguments, &settings), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("not with [secret key], that is [secret key]"));
        g_assert_cmpint(g_unlink(file), ==, 0);
        g_assert_cmpint(rig_load_with("keeper", KEEPER, arguments, &settings), ==, -EPERM);
        rig_assert_failure(FAILURE_NEEDS, WORDS("secret:key"));
}

/* Given instead of what says where it is. */
static void test_secret_itself(void) {
        const char *arguments[] = { "key", "s", "sword fish", NULL };
        HookSettings settings = { .grants = &(Grants) { 0 } };

        g_assert_cmpint(rig_load_with("keeper", KEEPER, arguments, &settings), ==, -EINVAL);
        rig_assert_failure(FAILURE_ARGUMENTS, WORDS("option \"key\" wants the name of a credential", "without spaces", "never give the secret itself"));
        g_assert_null(strstr(rig.failure.message, "sword fish"));
}

static void test_unknown_option(void) {
        const char *arguments[] = { "sise", "t", "4096", NULL };

        g_assert_cmpint(rig_load("typed", SCHEMA, arguments), ==, -EINVAL);
        rig_assert_failure(FAILURE_ARGUMENTS, WORDS("the hook typed has no option \"sise\"", "text (string)",
                                                    "count (integer, default 7)", "where (path, the image)"));
        g_assert_null(rig.failure.class_name);
        g_assert_cmpint(rig_load("none", "class None < UBLK::Target\n  def initialize = super(size: 512)\nend\n", arguments), ==, -EINVAL);
        rig_assert_failure(FAILURE_ARGUMENTS, WORDS("it takes no options"));
}

static void test_missing_option(void) {
        g_assert_cmpint(rig_load("needs", "class Needs < UBLK::Target\n  option :size, :bytes, required: true\nend\n", NULL), ==, -EINVAL);
        rig_assert_failure(FAILURE_ARGUMENTS, WORDS("the hook needs needs the option \"size\"", "size (bytes, required)"));
}

static void test_declarations(void) {
        static const struct {
                const char *line, *word;
        } cases[] = {
                { "option :depth, :integer", "the service has one of this name" },
                { "option :read_only, :bool", "the service has one of this name" },
                { "option 'Size', :bytes", "can't be the name" },
                { "option :size, :blob", "unknown type :blob" },
                { "option :key, :secret, default: '/k'", "has no default" },
                { "option :size, :bytes, default: 'lots'", "the default of option \"size\"" },
                { "concurrency 0", "concurrency is an Integer" },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                g_autofree char *body = g_strdup_printf("class Declares < UBLK::Target\n  %s\nend\n", cases[i].line);

                g_assert_cmpint(rig_load("declares", body, NULL), <, 0);
                rig_assert_failure(FAILURE_HOOK, WORDS(cases[i].word));
                g_assert_cmpuint(rig.failure.line, ==, 2);
        }
}

void add_argument_tests(void) {
        g_test_add_func("/hook/arguments/strings-are-parsed", test_strings_are_parsed);
        g_test_add_func("/hook/arguments/defaults", test_defaults);
        g_test_add_func("/hook/arguments/unknown-option", test_unknown_option);
        g_test_add_func("/hook/arguments/missing-option", test_missing_option);
        g_test_add_func("/hook/arguments/secret", test_secret);
        g_test_add_func("/hook/arguments/secret-itself", test_secret_itself);
        if (mode_collects()) /* minutes: many scripts that do no more than load */
                return;
        g_test_add_func("/hook/arguments/types-are-matched", test_types_are_matched);
        g_test_add_func("/hook/arguments/wrong-types", test_wrong_types);
        g_test_add_func("/hook/arguments/wrong-texts", test_wrong_texts);
        g_test_add_func("/hook/arguments/declarations", test_declarations);
}
