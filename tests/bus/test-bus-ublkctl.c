/* SPDX-License-Identifier: MIT */

/* ublkctl: what it prints, and its exit statuses. */

#include "bus-fixture.h"

#include <jansson.h>
#include <sys/wait.h>

#define UNIT "ublk-ruby-device@0.service"

typedef struct Output {
        int status;
        char *out, *err;
} Output;

static void output_done(Output *o) {
        g_free(o->out);
        g_free(o->err);
}

static Output run(const char *arguments) {
        g_autofree char *line = g_strdup_printf("%s %s", g_getenv("UBLKCTL"), arguments);
        g_autoptr(GError) error = NULL;
        Output o;
        int status;

        if (!g_spawn_command_line_sync(line, &o.out, &o.err, &status, &error))
                g_error("%s", error->message);
        g_assert_true(WIFEXITED(status));
        o.status = WEXITSTATUS(status);
        g_test_message("ublkctl %s: %d\n%s%s", arguments, o.status, o.out, o.err);
        return o;
}

/* Runs, and checks the status and a part of what it prints, to stdout if status is 0 or 3 and to stderr if not. */
static void check(const char *arguments, int status, const char *part) {
        _cleanup_(output_done) Output o = run(arguments);
        const char *text = status == 0 || status == 3 ? o.out : o.err;

        g_assert_cmpint(o.status, ==, status);
        if (!strstr(text, part))
                g_error("ublkctl %s: no \"%s\" in:\n%s", arguments, part, text);
}

static void test_round(Fixture *f, gconstpointer data) {
        (void) f, (void) data;
        check("list", 0, "No devices.");
        check("create disk0 memory size=2097152 queues=1 read-only=no persistent=yes", 0, "/dev/ublkb0\n");
        check("list", 0, "disk0 /dev/ublkb0 memory live           2M\n\n1 device listed.");
        check("", 0, "disk0");
        check("--no-legend list", 0, "   0 disk0 /dev/ublkb0 memory live           2M\n");
        check("status", 0, "Kernel: Linux");
        check("status disk0", 0, "Arguments: size=2097152");
        check("status 0 /dev/ublkb0", 0, "Persistent: yes");
        check("restart disk0", 0, "");
        check("reload --trial-time=1000 disk0", 0, "");
        check("reload --trial-time=5s disk0", 2, "takes 0 to 86400000000 microseconds, not \"5s\"");
        check("restart --keep-state disk0", 2, "--keep-state is for delete");
        check("delete --keep-state disk0", 0, "");
        check("list --no-legend", 0, "");
}

static void test_json(Fixture *f, gconstpointer data) {
        static const char *const commands[] = { "create disk0 memory size=4096", "list", "status", "status disk0", "probe" };

        (void) f, (void) data;
        for (size_t i = 0; i < ELEMENTSOF(commands); i++)
                for (int pretty = 0; pretty < 2; pretty++) {
                        g_autofree char *line = g_strdup_printf("--json=%s %s", pretty ? "pretty" : "short", commands[i]);
                        if (i == 0 && pretty)
                                continue;
                        _cleanup_(output_done) Output o = run(line);
                        json_t *j = json_loads(o.out, 0, NULL);
                        g_assert_cmpint(o.status, ==, 0);
                        g_assert_nonnull(j);
                        if (i == 1)
                                g_assert_cmpstr(json_string_value(json_object_get(json_array_get(j, 0), "state")), ==, "live");
                        if (i == 3)
                                g_assert_cmpint(json_integer_value(json_object_get(j, "Depth")), ==, 128);
                        json_decref(j);
                }
}

static void test_trouble(Fixture *f, gconstpointer data) {
        (void) data;
        check("create disk0 memory", 0, "");
        fixture_set_unit(f, UNIT, "failed", "failed", "exit-code", "");
        fixture_wait_state(f, "/org/ublk/device/0", "failed");
        check("list", 3, "failed");
        check("status", 3, "failed");
        check("status disk0", 3, "State: failed");
        check("delete disk0", 0, "");
        check("list", 0, "No devices.");
}

static void test_usage(Fixture *f, gconstpointer data) {
        g_autofree char *calls = NULL;

        (void) data;
        check("--help", 0, "Exit status:");
        check("--version", 0, "ublkctl ");
        check("frobnicate", 2, "no command \"frobnicate\"");
        check("--frobnicate", 2, "--help");
        check("--json=xml list", 2, "short, pretty or off");
        check("create disk0", 2, "ublkctl create NAME HOOK");
        check("list disk0", 2, "Too many");
        check("create disk0 memory size", 2, "\"size\" is not NAME=VALUE");
        check("create disk0 memory =5", 2, "\"=5\" is not NAME=VALUE");
        check("create disk0 memory queues=two", 2, "queues takes a whole number");
        check("create disk0 memory queues=4294967296", 2, "queues takes a whole number");
        check("create disk0 memory mlock=perhaps", 2, "mlock takes yes or no");
        check("create disk0 memory que-ues=2", 2, "neither an option of the service");
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "ublk-ruby-device@"));
}

static void test_errors(Fixture *f, gconstpointer data) {
        (void) data;
        check("create disk0 nowhere", 1, "Put the hook's file into one of these directories.");
        check("create disk0 broken", 1, "Errno::ENOENT");
        check("create disk0 memory depth=5000", 1, "1 to 4096");
        check("status nothing", 1, "ublkctl list shows the devices.");
        check("delete nothing", 1, "no device \"nothing\"");
        fixture_stop_manager(f);
        check("list", 1, "systemctl start ublk-ruby.service");
        fixture_start_manager(f, getuid() + 1);
        check("create disk0 memory", 1, "Run it as root.");
}

static void test_probe(Fixture *f, gconstpointer data) {
        (void) data;
        check("probe", 0, "+ user-copy");
        check("probe", 0, "- update-size");
        fixture_write(f, "unsupported", "Load the module: modprobe ublk_drv");
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid());
        for (int i = 0; i < 2; i++) {
                _cleanup_(output_done) Output o = run("probe");
                g_assert_cmpint(o.status, ==, 1);
                g_assert_nonnull(strstr(o.out, "modprobe ublk_drv"));
        }
        /* Loaded meanwhile. */
        fixture_unlink(f, "unsupported");
        check("probe", 0, "+ user-copy");
}

static void test_strays(Fixture *f, gconstpointer data) {
        (void) data;
        check("strays", 0, "No strays.");
        fixture_write(f, "list", "[{\"id\":3,\"stray\":\"there is no file of it; its I/O waits\"}]");
        check("strays", 0, "   3 there is no file of it; its I/O waits\n\n1 stray listed. To remove one: ublkctl strays --remove=ID\n");
        check("--json=short strays", 0, "[{\"id\":3,\"why\":\"there is no file of it; its I/O waits\"}]\n");
        check("--no-legend strays", 0, "   3 there is no file of it; its I/O waits\n");
        check("strays --remove=3", 0, "");
        check("strays --remove 3 --force", 0, "");
        fixture_write(f, "swept-3", "{\"error\":16,\"failure\":{\"kind\":\"busy\",\"errno\":16,\"message\":\"mounted on /mnt\"}}");
        check("strays --remove=3", 1, "mounted on /mnt");
        check("strays --remove=disk0", 2, "takes the id of a stray");
        check("strays --force", 2, "--force is for --remove");
        check("list --remove=3", 2, "are for strays");
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
        return g_test_run();
}
