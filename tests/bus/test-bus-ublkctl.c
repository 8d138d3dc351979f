/* SPDX-License-Identifier: MIT */

/* ublkctl: what it prints, and its exit statuses. */

#include "bus-fixture.h"
#include "run-ublkctl.h"


#define UNIT "ublk-ruby-device@0.service"

static void test_round(Fixture *f, gconstpointer data) {
        (void) f, (void) data;
        ublkctl("list", 0, "No devices.");
        ublkctl("create disk0 memory size=2097152 queues=1 read-only=no persistent=yes", 0, "/dev/ublkb0\n");
        ublkctl("list", 0, "disk0 /dev/ublkb0 memory live           2M\n\n1 device listed.");
        ublkctl("", 0, "disk0");
        ublkctl("--no-legend list", 0, "   0 disk0 /dev/ublkb0 memory live           2M\n");
        ublkctl("status", 0, "Kernel: Linux");
        ublkctl("status disk0", 0, "Arguments: size=2097152");
        ublkctl("status 0 /dev/ublkb0", 0, "Persistent: yes");
        ublkctl("restart disk0", 0, "");
        ublkctl("reload --trial-time=1000 disk0", 0, "");
        ublkctl("reload --trial-time=5s disk0", 2, "takes 0 to 86400000000 microseconds, not \"5s\"");
        ublkctl("restart --keep-state disk0", 2, "--keep-state is for delete");
        ublkctl("delete --keep-state disk0", 0, "");
        ublkctl("list --no-legend", 0, "");
}

static void test_json(Fixture *f, gconstpointer data) {
        static const char *const commands[] = { "create disk0 memory size=4096", "list", "status", "status disk0", "probe" };

        (void) f, (void) data;
        for (size_t i = 0; i < ELEMENTSOF(commands); i++)
                for (int pretty = 0; pretty < 2; pretty++) {
                        g_autofree char *line = g_strdup_printf("--json=%s %s", pretty ? "pretty" : "short", commands[i]);
                        if (i == 0 && pretty)
                                continue;
                        json_t *j = ublkctl_json(line, 0);
                        if (i == 1)
                                g_assert_cmpstr(json_string_value(json_object_get(json_array_get(j, 0), "state")), ==, "live");
                        if (i == 3)
                                g_assert_cmpint(json_integer_value(json_object_get(j, "Depth")), ==, 128);
                        json_decref(j);
                }
}

static void test_trouble(Fixture *f, gconstpointer data) {
        (void) data;
        ublkctl("create disk0 memory", 0, "");
        fixture_set_unit(f, UNIT, "failed", "failed", "exit-code", "");
        fixture_wait_state(f, "/org/ublk/device/0", "failed");
        ublkctl("list", 3, "failed");
        ublkctl("status", 3, "failed");
        ublkctl("status disk0", 3, "State: failed");
        ublkctl("delete disk0", 0, "");
        ublkctl("list", 0, "No devices.");
}

static void test_usage(Fixture *f, gconstpointer data) {
        g_autofree char *calls = NULL;

        (void) data;
        ublkctl("--help", 0, "Exit status:");
        ublkctl("--version", 0, "ublkctl ");
        ublkctl("frobnicate", 2, "no command \"frobnicate\"");
        ublkctl("--frobnicate", 2, "--help");
        ublkctl("--json=xml list", 2, "short, pretty or off");
        ublkctl("create disk0", 2, "ublkctl create NAME HOOK");
        ublkctl("list disk0", 2, "Too many");
        ublkctl("create disk0 memory size", 2, "\"size\" is not NAME=VALUE");
        ublkctl("create disk0 memory =5", 2, "\"=5\" is not NAME=VALUE");
        ublkctl("create disk0 memory queues=two", 2, "queues takes a whole number");
        ublkctl("create disk0 memory queues=4294967296", 2, "queues takes a whole number");
        ublkctl("create disk0 memory mlock=perhaps", 2, "mlock takes yes or no");
        ublkctl("create disk0 memory que-ues=2", 2, "neither an option of the service");
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "ublk-ruby-device@"));
}

static void test_errors(Fixture *f, gconstpointer data) {
        (void) data;
        ublkctl("create disk0 nowhere", 1, "Put the hook's file into one of these directories.");
        ublkctl("create disk0 broken", 1, "Errno::ENOENT");
        ublkctl("create disk0 memory depth=5000", 1, "1 to 4096");
        ublkctl("status nothing", 1, "ublkctl list shows the devices.");
        ublkctl("delete nothing", 1, "no device \"nothing\"");
        fixture_stop_manager(f);
        ublkctl("list", 1, "systemctl start ublk-ruby.service");
        fixture_start_manager(f, getuid() + 1);
        ublkctl("create disk0 memory", 1, "Run it as root.");
}

static void test_probe(Fixture *f, gconstpointer data) {
        (void) data;
        ublkctl("probe", 0, "+ user-copy");
        ublkctl("probe", 0, "- update-size");
        fixture_write(f, "unsupported", "Load the module: modprobe ublk_drv");
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid());
        for (int i = 0; i < 2; i++) {
                g_autofree char *out = ublkctl_output("probe", 1);
                g_assert_nonnull(strstr(out, "modprobe ublk_drv"));
        }
        /* Loaded meanwhile. */
        fixture_unlink(f, "unsupported");
        ublkctl("probe", 0, "+ user-copy");
}

static void test_strays(Fixture *f, gconstpointer data) {
        (void) data;
        ublkctl("strays", 0, "No strays.");
        fixture_write(f, "list", "[{\"id\":3,\"stray\":\"there is no file of it; its I/O waits\"}]");
        ublkctl("strays", 0, "   3 there is no file of it; its I/O waits\n\n1 stray listed. To remove one: ublkctl strays --remove=ID\n");
        ublkctl("--json=short strays", 0, "[{\"id\":3,\"why\":\"there is no file of it; its I/O waits\"}]\n");
        ublkctl("--no-legend strays", 0, "   3 there is no file of it; its I/O waits\n");
        ublkctl("strays --remove=3", 0, "");
        ublkctl("strays --remove 3 --force", 0, "");
        fixture_write(f, "swept-3", "{\"error\":16,\"failure\":{\"kind\":\"busy\",\"errno\":16,\"message\":\"mounted on /mnt\"}}");
        ublkctl("strays --remove=3", 1, "mounted on /mnt");
        ublkctl("strays --remove=disk0", 2, "takes the id of a stray");
        ublkctl("strays --force", 2, "--force is for --remove");
        ublkctl("list --remove=3", 2, "are for strays");
}

#define VISIBLE "a\\x1b[2Jb\\x7f\\x9bc\\x0d"

static void assert_tame(const char *text, const char *part) {
        for (const char *p = text; *p; p++)
                g_assert_true(*p == '\n' || ((unsigned char) *p >= ' ' && *p != 0x7f && strncmp(p, "\xc2\x9b", 2) != 0));
        if (!strstr(text, part))
                g_error("no \"%s\" in:\n%s", part, text);
}

static void check_tame(const char *arguments, int status, const char *part) {
        g_autofree char *out = ublkctl_output(arguments, status), *err = ublkctl_errors(arguments, status);

        assert_tame(status == 1 ? err : out, part);
}

/* What others could have a terminal do is shown and not done. */
static void test_terminal(Fixture *f, gconstpointer data) {
        json_t *device;

        (void) data;
        g_assert_cmpint(fixture_create_option(f, "disk0", "memory", "label", "s", "a\033[2Jb\x7f\xc2\x9b" "c\r\nx\xc3\xa9"), >=, 0);
        check_tame("status disk0", 0, "label=" VISIBLE "\\x0ax\xc3\xa9\n");
        device = ublkctl_json("--json=short status disk0", 0);
        g_assert_cmpstr(json_string_value(json_object_get(json_object_get(device, "Arguments"), "label")), ==,
                        "a\033[2Jb\x7f\xc2\x9b" "c\r\nx\xc3\xa9");
        json_decref(device);
        fixture_write(f, "holders-0", "[{\"kind\":\"process\",\"pid\":7,\"comm\":\"a\\u001b[2Jb\\u007f\\u009bc\\r\"}]");
        check_tame("delete disk0", 1, "(" VISIBLE ")");
        fixture_write(f, "stuck-0", "read 0 512 61000000 a\xc2\x9b.rb:1\n");
        check_tame("stuck", 3, "from a\\x9b.rb:1\n");
        fixture_write(f, "list", "[{\"id\":3,\"stray\":\"a\\u001b[2Jb\\u007f\\u009bc\\r\"}]");
        check_tame("strays", 0, "   3 " VISIBLE "\n");
        fixture_set_unit(f, UNIT, "failed", "failed", "exit-code",
                         "{\"kind\":\"hook\",\"class\":\"IOError\",\"message\":\"a\\u001b[2Jb\\u007f\\u009bc\\r\\nline 2\"}");
        fixture_wait_state(f, "/org/ublk/device/0", "failed");
        check_tame("status disk0", 3, VISIBLE "\nline 2");
        fixture_write(f, "check-hook",
                      "{\"error\":5,\"failure\":{\"kind\":\"hook\",\"errno\":5,\"message\":\"a\\u001b[2Jb\\u007f\\u009bc\\r\"}}");
        check_tame("create --dry-run disk1 memory", 1, VISIBLE);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/ublkctl/round", test_round);
        fixture_add("/bus/ublkctl/json", test_json);
        fixture_add("/bus/ublkctl/trouble", test_trouble);
        fixture_add("/bus/ublkctl/strays", test_strays);
        fixture_add("/bus/ublkctl/usage", test_usage);
        fixture_add("/bus/ublkctl/errors", test_errors);
        fixture_add("/bus/ublkctl/probe", test_probe);
        fixture_add("/bus/ublkctl/terminal", test_terminal);
        return g_test_run();
}
