/* SPDX-License-Identifier: MIT */
#include "service/needs.h"

#include <glib.h>
#include <sys/stat.h>

static DeviceConfig *parse_ok(const char *text) {
        _cleanup_free_ char *message = NULL;
        DeviceConfig *c = NULL;

        g_assert_cmpint(device_config_parse(3, text, &c, &message), ==, 0);
        g_assert_nonnull(c);
        return c;
}

static void assert_refused(const char *text, const char *expected) {
        _cleanup_free_ char *message = NULL;
        DeviceConfig *c = NULL;

        g_assert_cmpint(device_config_parse(3, text, &c, &message), ==, -EBADMSG);
        g_assert_null(c);
        g_assert_nonnull(message);
        if (!strstr(message, expected))
                g_error("\"%s\" does not say \"%s\"", message, expected);
}

#define HEAD "[Device]\nName=a\nHook=b\n"

static void test_defaults(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = parse_ok(HEAD);

        g_assert_cmpuint(c->id, ==, 3);
        g_assert_cmpstr(c->name, ==, "a");
        g_assert_cmpstr(c->hook, ==, "b");
        g_assert_null(c->class_name);
        g_assert_cmpuint(c->queues, ==, 1);
        g_assert_cmpuint(c->depth, ==, 128);
        g_assert_cmpuint(c->max_io_size, ==, 524288);
        g_assert_true(c->mlock);
        g_assert_false(c->read_only);
        g_assert_cmpint(c->recovery, ==, RECOVERY_DEFAULT);
        g_assert_cmpstr(c->data_path, ==, "auto");
        g_assert_cmpuint(c->start_timeout_usec, ==, 20 * USEC_PER_SEC);
}

/* What was allowed is what is run. */
static void test_hook_paths(void) {
        static const char *const paths[] = { "/opt/a\\x2fb.rb", "/opt/a\\b.rb", "/opt/a\\", "/opt/ a b=c ", "/opt/caf\xc3\xa9.rb" };

        for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
                _cleanup_(device_config_freep) DeviceConfig *a = device_config_new(3), *b = NULL;
                _cleanup_free_ char *text = NULL;

                g_assert_cmpint(device_config_set(a, "Name", "disk", NULL), ==, 0);
                g_assert_cmpint(device_config_set(a, "Hook", paths[i], NULL), ==, 0);
                g_assert_cmpint(device_config_serialize(a, &text), ==, 0);
                b = parse_ok(text);
                g_assert_cmpstr(b->hook, ==, paths[i]);
        }
}

static void test_round_trip(void) {
        _cleanup_(device_config_freep) DeviceConfig *a = device_config_new(3), *b = NULL;
        _cleanup_free_ char *text = NULL, *again = NULL;

        g_assert_cmpint(device_config_set(a, "Name", "disk-0.x", NULL), ==, 0);
        g_assert_cmpint(device_config_set(a, "Hook", "file", NULL), ==, 0);
        g_assert_cmpint(device_config_set(a, "Class", "My::Disk", NULL), ==, 0);
        g_assert_cmpint(device_config_set(a, "Queues", "4", NULL), ==, 0);
        g_assert_cmpint(device_config_set(a, "Recovery", "fail-io", NULL), ==, 0);
        g_assert_cmpint(device_config_set(a, "OnFailure", "error", NULL), ==, 0);
        g_assert_cmpint(device_config_set(a, "DataPath", "string", NULL), ==, 0);
        g_assert_cmpint(device_config_add_argument(a, "size", 't', "18446744073709551615"), ==, 0);
        g_assert_cmpint(device_config_add_argument(a, "path", 's', "a=b\n[Device]\\x\x7f ü:"), ==, 0);
        g_assert_cmpint(device_config_add_argument(a, "empty", 's', ""), ==, 0);
        g_assert_cmpint(device_config_serialize(a, &text), ==, 0);

        b = parse_ok(text);
        g_assert_cmpint(b->recovery, ==, RECOVERY_FAIL_IO);
        g_assert_true(b->fail_on_failure);
        g_assert_cmpuint(b->n_arguments, ==, 3);
        g_assert_cmpstr(b->arguments[1].name, ==, "path");
        g_assert_cmpint(b->arguments[1].type, ==, 's');
        g_assert_cmpstr(b->arguments[1].value, ==, "a=b\n[Device]\\x\x7f ü:");
        g_assert_cmpint(device_config_serialize(b, &again), ==, 0);
        g_assert_cmpstr(text, ==, again);
}

/* In the file only while it is so; and the device is the same one before and after. */
static void test_creating(void) {
        _cleanup_(device_config_freep) DeviceConfig *a = parse_ok(HEAD "CreatedUSec=5\n"), *b = NULL;
        _cleanup_free_ char *text = NULL, *marked = NULL;
        uint64_t tag = device_config_kernel_tag(a);

        g_assert_false(a->creating);
        g_assert_cmpint(device_config_serialize(a, &text), ==, 0);
        g_assert_null(strstr(text, "Creating"));
        a->creating = true;
        g_assert_cmpint(device_config_serialize(a, &marked), ==, 0);
        g_assert_nonnull(strstr(marked, "\nCreating=yes\n"));
        b = parse_ok(marked);
        g_assert_true(b->creating);
        g_assert_cmpuint(device_config_kernel_tag(b), ==, tag);
}

static bool has_file(const char *root, const char *directory) {
        g_autofree char *path = g_strconcat(root, directory, "/devices/5.conf", NULL);

        return g_file_test(path, G_FILE_TEST_EXISTS);
}

/* From one place to the other; and what can't be done leaves all as it was. */
static void test_move(void) {
        _cleanup_(device_config_freep) DeviceConfig *a = parse_ok(HEAD), *b = NULL;
        g_autofree char *root = g_dir_make_tmp("test-config-XXXXXX", NULL), *etc = g_build_filename(root, "etc", NULL);
        g_autofree char *command = g_strdup_printf("rm -r %s", root), *remove_etc = g_strdup_printf("rm -r %s", etc);

        config_set_root(root);
        a->id = 5;
        g_assert_cmpint(device_config_save(a), ==, 0);
        g_assert_true(has_file(root, "/run/ublk-ruby"));
        for (int i = 0; i < 2; i++) { /* the second time there is nothing to do */
                g_assert_cmpint(device_config_move(a, true), ==, 0);
                g_assert_true(a->persistent);
                g_assert_true(has_file(root, "/etc/ublk-ruby"));
                g_assert_false(has_file(root, "/run/ublk-ruby"));
        }
        g_assert_cmpint(device_config_load(5, &b, NULL), ==, 0);
        g_assert_true(b->persistent);
        g_assert_cmpint(device_config_move(a, false), ==, 0);
        g_assert_false(a->persistent);
        g_assert_false(has_file(root, "/etc/ublk-ruby"));
        g_assert_true(has_file(root, "/run/ublk-ruby"));

        g_assert_true(g_spawn_command_line_sync(remove_etc, NULL, NULL, NULL, NULL));
        g_assert_true(g_file_set_contents(etc, "no directory", -1, NULL));
        g_assert_cmpint(device_config_move(a, true), <, 0);
        g_assert_false(a->persistent);
        g_assert_true(has_file(root, "/run/ublk-ruby"));
        config_set_root(NULL);
        g_assert_true(g_spawn_command_line_sync(command, NULL, NULL, NULL, NULL));
}

/* What the hook needs is in the file of a device whose hook needs it. */
static void test_needs(void) {
        _cleanup_(device_config_freep) DeviceConfig *a = parse_ok(HEAD), *b = NULL;
        _cleanup_free_ char *plain = NULL, *text = NULL;

        g_assert_false(needs_any(a));
        g_assert_cmpint(device_config_serialize(a, &plain), ==, 0);
        g_assert_null(strstr(plain, "Network"));
        g_assert_null(strstr(plain, "JIT"));
        g_assert_cmpint(needs_note(a, "network"), ==, 0);
        g_assert_cmpint(needs_note(a, "network"), ==, 0);
        g_assert_cmpint(needs_note(a, "jit"), ==, 0);
        g_assert_cmpint(needs_note(a, "moon"), ==, -EINVAL);
        g_assert_cmpint(needs_note(a, ""), ==, -EINVAL);
        g_assert_cmpint(device_config_serialize(a, &text), ==, 0);
        b = parse_ok(text);
        g_assert_true(b->network);
        g_assert_true(b->jit);
        g_assert_true(needs_any(b));
}

static void test_hook_timeout(void) {
        _cleanup_(device_config_freep) DeviceConfig *none = parse_ok(HEAD "HookTimeoutUSec=0\n"), *least = parse_ok(HEAD "HookTimeoutUSec=100000\n"),
                                                    *usual = parse_ok(HEAD);

        g_assert_cmpuint(none->hook_timeout_usec, ==, 0);
        g_assert_cmpuint(least->hook_timeout_usec, ==, 100000);
        g_assert_cmpuint(usual->hook_timeout_usec, ==, 30 * USEC_PER_SEC);
}

/* Escaped, it can be four times as long as in the program. */
static void test_length(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = parse_ok(HEAD);
        g_autofree char *value = g_strnfill(CONFIG_MAX_VALUE, '\n');
        char *text = NULL;

        for (char name[] = "a"; *name < 'd'; (*name)++)
                g_assert_cmpint(device_config_add_argument(c, name, 's', value), ==, 0);
        g_assert_cmpint(device_config_serialize(c, &text), ==, 0);
        free(text);
        g_assert_cmpint(device_config_add_argument(c, "d", 's', value), ==, 0);
        g_assert_cmpint(device_config_serialize(c, &text), ==, -E2BIG);
        g_assert_cmpint(device_config_save_to(c, "/nonexistent/nowhere"), ==, -E2BIG);
}

static void test_types(void) {
        static const struct {
                char type;
                const char *least, *most, *others[4];
        } cases[] = {
                { 'y', "0", "255", { "256", "-1", "", "1 " } },
                { 'b', "true", "false", { "yes", "1", "", "True" } },
                { 'n', "-32768", "32767", { "-32769", "32768", "-", "+1" } },
                { 'q', "0", "65535", { "65536", "-1", "0x1", "1K" } },
                { 'i', "-2147483648", "2147483647", { "-2147483649", "2147483648", "--1", "" } },
                { 'u', "0", "4294967295", { "4294967296", "-1", "1.0", "" } },
                { 'x', "-9223372036854775808", "9223372036854775807", { "-9223372036854775809", "9223372036854775808", "x", "" } },
                { 't', "0", "18446744073709551615", { "18446744073709551616", "-1", "1M", "" } },
                { 'd', "-1.5", "1e300", { "1,5", "", "1.5x", "." } },
        };
        _cleanup_(device_config_freep) DeviceConfig *c = device_config_new(0);

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                g_assert_cmpint(device_config_set_argument(c, "a", cases[i].type, cases[i].least), ==, 0);
                g_assert_cmpint(device_config_set_argument(c, "a", cases[i].type, cases[i].most), ==, 0);
                for (size_t k = 0; k < ELEMENTSOF(cases[i].others); k++) {
                        g_assert_cmpint(device_config_set_argument(c, "a", cases[i].type, cases[i].others[k]), ==, -ERANGE);
                        g_assert_cmpint(device_config_add_argument(c, "b", cases[i].type, cases[i].others[k]), ==, -ERANGE);
                }
                g_assert_cmpstr(device_config_find_argument(c, "a")->value, ==, cases[i].most);
        }
}

static void test_refused(void) {
        static const struct {
                const char *text, *expected;
        } cases[] = {
                { "", "Name=" },
                { "[Device]\nName=a\n", "Hook=" },
                { "Name=a\n", "before [Device]" },
                { HEAD "Name=c\n", "twice" },
                { HEAD "Colour=red\n", "unknown key" },
                { "[Elsewhere]\n", "unknown section" },
                { HEAD "nonsense\n", "line 4" },
                { "[Device]\nName=7\n", "Name must be" },
                { "[Device]\nName=..\n", "Name must be" },
                { HEAD "Queues=0\n", "Queues must be" },
                { HEAD "Depth=4097\n", "1 to 4096" },
                { HEAD "Depth=-1\n", "1 to 4096" },
                { HEAD "Depth=12x\n", "1 to 4096" },
                { HEAD "Depth=99999999999999999999999\n", "1 to 4096" },
                { HEAD "MaxIOSize=4608\n", "multiple of 4096" },
                { HEAD "MaxIOSize=67108864\n", "33554432" },
                { HEAD "HookTimeoutUSec=99999\n", "0 (none), or 100000" },
                { HEAD "HookTimeoutUSec=86400000001\n", "to one day" },
                { HEAD "Recovery=default\n", "reissue" },
                { HEAD "DataPath=teleport\n", "string" },
                { HEAD "Mlock=maybe\n", "yes or no" },
                { HEAD "Network=eth0\n", "yes or no" },
                { HEAD "JIT=yes\nJIT=no\n", "twice" },
                { HEAD "Class=lower\n", "Ruby class" },
                { HEAD "[Arguments]\nsize=1\n", "TYPE:VALUE" },
                { HEAD "[Arguments]\nsize=z:1\n", "bad name or type" },
                { HEAD "[Arguments]\nSize=t:1\n", "bad name or type" },
                { HEAD "[Arguments]\nsize=t:1\nsize=t:2\n", "twice" },
                { HEAD "[Arguments]\nsize=s:\\x0\n", "\\xNN" },
                { HEAD "[Arguments]\nsize=s:\\x00\n", "\\xNN" },
                { HEAD "[Arguments]\nsize=s:\\n\n", "\\xNN" },
                { HEAD "[Arguments]\npath=s:/caf\xe9\n", "line 5: not UTF-8" },
                { HEAD "[Arguments]\npath=s:/caf\\xe9\n", "not UTF-8" },
                { HEAD "[Arguments]\nsize=s:a\tb\n", "control character" },
                { HEAD "[Arguments]\nsize=t:1M\n", "none of its type: size" },
                { HEAD "# \xef\xbf\xbe\n", "line 4: not UTF-8" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_refused(cases[i].text, cases[i].expected);
}

static void test_limits_of_arguments(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = device_config_new(0);
        char name[16], *big = g_strnfill(CONFIG_MAX_VALUE + 1, 'x');

        g_assert_cmpint(device_config_add_argument(c, "big", 's', big), ==, -E2BIG);
        for (int i = 0; i < CONFIG_MAX_ARGUMENTS; i++) {
                g_snprintf(name, sizeof(name), "a%i", i);
                g_assert_cmpint(device_config_add_argument(c, name, 's', ""), ==, 0);
        }
        g_assert_cmpint(device_config_add_argument(c, "more", 's', ""), ==, -E2BIG);
        g_assert_cmpint(device_config_add_argument(c, "a1", 's', ""), ==, -E2BIG);
        g_free(big);
}

static void test_files(void) {
        char *root = g_dir_make_tmp("ublk-config-XXXXXX", NULL);
        _cleanup_(device_config_freep) DeviceConfig *c = parse_ok(HEAD), *loaded = NULL;
        _cleanup_free_ char *message = NULL, *path = NULL, *file = NULL;
        _cleanup_free_ uint32_t *ids = NULL;
        struct stat st;
        size_t n;

        config_set_root(root);
        g_assert_cmpint(device_config_list(&ids, &n), ==, 0);
        g_assert_cmpuint(n, ==, 0);
        g_assert_cmpint(device_config_load(3, &loaded, &message), ==, -ENOENT);
        g_assert_cmpint(device_config_save(c), ==, 0);
        file = g_strdup_printf("%s/run/ublk-ruby/devices/3.conf", root);
        g_assert_cmpint(stat(file, &st), ==, 0);
        g_assert_cmpint(st.st_mode & 07777, ==, 0640);
        c->id = 12;
        c->persistent = true;
        g_assert_cmpint(device_config_save(c), ==, 0);
        g_assert_cmpint(device_config_save(c), ==, 0);
        /* Not ours: no id, a leading zero, a temporary file. */
        path = g_strdup_printf("%s/run/ublk-ruby/devices/07.conf", root);
        g_assert_true(g_file_set_contents(path, "", 0, NULL));
        free(ids);
        g_assert_cmpint(device_config_list(&ids, &n), ==, 0);
        g_assert_cmpuint(n, ==, 2);
        g_assert_cmpuint(ids[0], ==, 3);
        g_assert_cmpuint(ids[1], ==, 12);
        g_assert_cmpint(device_config_load(12, &loaded, &message), ==, 0);
        g_assert_true(loaded->persistent);
        g_assert_cmpint(device_config_remove(12), ==, 0);
        g_assert_cmpint(device_config_remove(12), ==, 0);
        g_assert_cmpint(device_config_remove(3), ==, 0);
        config_set_root(NULL);
        g_free(root);
}

static void test_kernel_tag(void) {
        _cleanup_(device_config_freep) DeviceConfig *a = parse_ok(HEAD), *b = parse_ok(HEAD "CreatedUSec=1\n");

        g_assert_true(kernel_tag_is_ours(device_config_kernel_tag(a)));
        g_assert_cmpuint(device_config_kernel_tag(a), !=, device_config_kernel_tag(b));
        g_assert_false(kernel_tag_is_ours(0));
        g_assert_false(kernel_tag_is_ours(UINT64_MAX));
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/config/defaults", test_defaults);
        g_test_add_func("/config/round-trip", test_round_trip);
        g_test_add_func("/config/hook-paths", test_hook_paths);
        g_test_add_func("/config/creating", test_creating);
        g_test_add_func("/config/move", test_move);
        g_test_add_func("/config/needs", test_needs);
        g_test_add_func("/config/hook-timeout", test_hook_timeout);
        g_test_add_func("/config/length", test_length);
        g_test_add_func("/config/types", test_types);
        g_test_add_func("/config/refused", test_refused);
        g_test_add_func("/config/limits-of-arguments", test_limits_of_arguments);
        g_test_add_func("/config/files", test_files);
        g_test_add_func("/config/kernel-tag", test_kernel_tag);
        return g_test_run();
}
