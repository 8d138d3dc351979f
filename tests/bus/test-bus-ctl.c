/* SPDX-License-Identifier: MIT */

/* ublkctl's manners: completion, logs, monitor, --wait, colour. What else it prints is in test-bus-ublkctl.c. */

#include "bus-fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>

#define UNIT "ublk-ruby-device@0.service"

static void put_program(Fixture *f, const char *path, const char *text) {
        g_autofree char *full = g_build_filename(f->root, path, NULL);

        fixture_write(f, path, text);
        g_assert_cmpint(chmod(full, 0755), ==, 0);
}

static char *run(char **argv, int wanted) {
        char *out = NULL, *err = NULL;
        g_autoptr(GError) error = NULL;
        int status;

        if (!g_spawn_sync(NULL, argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, &err, &status, &error))
                g_error("%s", error->message);
        g_test_message("%s%s", out, err);
        g_free(err);
        g_assert_true(WIFEXITED(status));
        g_assert_cmpint(WEXITSTATUS(status), ==, wanted);
        return out;
}

static char *ctl(const char *arguments, int wanted) {
        g_autofree char *line = g_strdup_printf("%s %s", g_getenv("UBLKCTL"), arguments);
        g_auto(GStrv) argv = NULL;

        g_assert_true(g_shell_parse_argv(line, NULL, &argv, NULL));
        g_test_message("ublkctl %s", arguments);
        return run(argv, wanted);
}

static void assert_has(const char *text, const char *part, bool wanted) {
        if ((strstr(text, part) != NULL) != wanted)
                g_error("%s \"%s\" in:\n%s", wanted ? "no" : "there is", part, text);
}

static void check(const char *arguments, const char *part) {
        g_autofree char *out = ctl(arguments, 0);

        assert_has(out, part, true);
}

static void check_equal(const char *arguments, const char *wanted) {
        g_autofree char *out = ctl(arguments, 0);

        g_assert_cmpstr(out, ==, wanted);
}

/* In the worker's place: a hook's schema. */
static void put_worker(Fixture *f) {
        g_autofree char *worker = g_build_filename(f->root, "worker", NULL);

        put_program(f, "worker",
                    "#!/bin/sh\n"
                    "[ \"$*\" = '--describe --json=short -- memory' ] || exit 1\n"
                    "printf '%s\\n' '{\"schema\":{\"options\":[{\"name\":\"size\",\"type\":\"bytes\",\"required\":true,\"doc\":\"of\\u009b it\"},"
                    "{\"name\":\"fast\",\"type\":\"bool\",\"required\":false,\"doc\":null}]}}'\n");
        g_setenv("UBLK_RUBY_WORKER", worker, TRUE);
}

static void test_complete(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *before = NULL;

        (void) data;
        g_assert_nonnull(path);
        put_worker(f);
        check("--complete st", "status\tstatus [DEVICE...]\n");
        check("--complete --no-legend ''", "\ndelete\t");
        check("--complete -", "--json=pretty\n");
        check("--complete list --", "--trial-time=\n");
        check_equal("--complete delete ''", "disk0\t/dev/ublkb0, memory, live\n");
        check_equal("--complete delete --keep-state disk0 ''", "disk0\t/dev/ublkb0, memory, live\n");
        check_equal("--complete list ''", "");
        check_equal("--complete logs disk0 ''", "");
        check_equal("--complete create ''", "");
        check("--complete create x ''", "memory\t");
        check("--complete create x memory ''", "size=\tbytes, required: of\\x9b it\nfast=\tbool\nqueues=\tof the service\n");
        check("--complete create x memory size=1 ''", "read-only=\t");
        check_equal("--complete create x memory fast=", "fast=yes\nfast=no\n");
        check_equal("--complete create x memory mlock=n", "mlock=yes\nmlock=no\n");
        check_equal("--complete create x memory recovery=", "recovery=reissue\nrecovery=fail\nrecovery=fail-io\nrecovery=none\n");
        check_equal("--complete create x memory data-path=", "data-path=auto\ndata-path=string\ndata-path=buffer\n");
        check_equal("--complete create x memory size=", "");
        check("--complete set disk0 ''", "size=\tbytes");
        check_equal("--complete persist disk0 ''", "yes\nno\n");
        check("--complete describe ''", "memory\t");
        check("--complete check memory ''", "size=\t");
        /* A hook that can't be described. */
        before = ctl("--complete create x broken ''", 0);
        g_assert_true(g_str_has_prefix(before, "queues=\t"));
        /* Without the service there are still the verbs. */
        fixture_stop_manager(f);
        check("--complete st", "status\t");
        check_equal("--complete delete ''", "");
}

static char *bash(const char *line) {
        g_autofree char *bin = g_path_get_dirname(g_getenv("UBLKCTL")),
                        *path = g_strdup_printf("%s:%s", bin, g_getenv("PATH")),
                        *script = g_strdup_printf("PATH='%s'; . '%s' || exit; compopt() { echo \"compopt $*\"; }; COMP_LINE='%s'; COMP_POINT=${#COMP_LINE}; "
                                                  "_ublkctl; printf '%%s\\n' \"${COMPREPLY[@]}\"", path, g_getenv("BASH_COMPLETION_FILE"), line);

        g_test_message("%s", line);
        return run((char *[]) { (char *) "bash", (char *) "-c", script, NULL }, 0);
}

static void check_bash(const char *line, const char *wanted) {
        g_autofree char *out = bash(line);

        g_assert_cmpstr(out, ==, wanted);
}

static void test_bash(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *files = g_strdup_printf("ublkctl create x memory size=%s/mock-", f->root),
                        *listed = g_strdup_printf("compopt -o filenames\n%s/mock-file\n", f->root);

        (void) data;
        g_assert_nonnull(path);
        put_worker(f);
        fixture_write(f, "mock-file", "");
        check_bash("ublkctl st", "status\nstats\nstuck\nstrays\n");
        check_bash("ublkctl delete ", "disk0\n");
        check_bash("ublkctl delete d", "disk0\n");
        check_bash("ublkctl delete x", "\n");
        check_bash("ublkctl create x memory si", "compopt -o nospace\nsize=\n");
        /* bash has taken what is before the "=" for another word. */
        check_bash("ublkctl create x memory fast=", "yes\nno\n");
        check_bash("ublkctl create x memory fast=y", "yes\n");
        check_bash("ublkctl --js", "--json=off\n--json=short\n--json=pretty\n");
        check_bash(files, listed);
}

static void test_logs(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *bin = g_build_filename(f->root, "bin", NULL),
                        *old = g_strdup(g_getenv("PATH")), *new = g_strdup_printf("%s:%s", bin, old), *none = NULL;

        (void) data;
        g_assert_nonnull(path);
        put_program(f, "bin/journalctl", "#!/bin/sh\necho \"$@\"\n");
        g_setenv("PATH", new, TRUE);
        check_equal("logs disk0", "-u " UNIT "\n");
        check_equal("logs -f -n 5 /dev/ublkb0", "-u " UNIT " --lines=5 --follow\n");
        check_equal("--json=short logs --lines=2 disk0", "-u " UNIT " --lines=2 --output=json\n");
        check_equal("logs 7", "-u ublk-ruby-device@7.service\n");
        none = ctl("logs nothing", 1);
        g_free(ctl("list -f", 2));
        g_setenv("PATH", old, TRUE);
}

typedef struct Child {
        GPid pid;
        FILE *out;
} Child;

static void die_with_parent(gpointer data) {
        (void) data;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void spawn(Child *c, const char *arguments) {
        g_autofree char *line = g_strdup_printf("%s %s", g_getenv("UBLKCTL"), arguments);
        g_auto(GStrv) argv = NULL;
        int fd;

        g_assert_true(g_shell_parse_argv(line, NULL, &argv, NULL));
        g_assert_true(g_spawn_async_with_pipes(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, die_with_parent, NULL, &c->pid, NULL, &fd,
                                               NULL, NULL));
        c->out = fdopen(fd, "r");
}

static int end(Child *c) {
        int status = 0;

        g_assert_cmpint(waitpid(c->pid, &status, 0), ==, c->pid);
        fclose(c->out);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void await_line(Child *c, const char *part) {
        char line[4096];

        while (fgets(line, sizeof(line), c->out)) {
                g_test_message("%s", line);
                if (strstr(line, part))
                        return;
        }
        g_error("It ended without \"%s\".", part);
}

/* Until it hears what happens: as JSON it does not say that it is ready. */
static void await_monitor(const Child *c) {
        struct pollfd p = { .fd = fileno(c->out), .events = POLLIN };

        do {
                g_free(ctl("persist disk0 yes", 0));
                g_free(ctl("persist disk0 no", 0));
        } while (poll(&p, 1, 100) == 0);
}

static void test_monitor(Fixture *f, gconstpointer data) {
        g_autofree char *path = NULL;
        Child plain, json;

        (void) data;
        spawn(&plain, "monitor");
        await_line(&plain, "Waiting for signals");
        spawn(&json, "--json=short monitor");
        path = fixture_create(f, "disk0", "memory");
        g_assert_nonnull(path);
        await_line(&plain, " disk0 added Name=disk0 Node=/dev/ublkb0 Hook=memory State=live");
        await_monitor(&json);
        fixture_set_unit(f, UNIT, "failed", "failed", "exit-code", "");
        await_line(&plain, " disk0 changed State=failed");
        fixture_set_unit(f, UNIT, "failed", "failed", "exit-code", "{\"kind\":\"hook\",\"message\":\"a\\u001b\\u009b\\nb\"}");
        await_line(&plain, " disk0 changed LastError=a\\x1b\\x9b\\x0ab\n");
        await_line(&json, "\"device\":\"disk0\",\"path\":\"/org/ublk/device/0\",\"event\":\"changed\",\"values\":{\"State\":\"failed\"");
        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 0), >=, 0);
        await_line(&plain, " disk0 removed");
        await_line(&plain, " org.ublk changed DeviceCount=0");
        fixture_stop_manager(f);
        await_line(&plain, " org.ublk stopped");
        fixture_start_manager(f, getuid());
        await_line(&plain, " org.ublk started");
        (void) kill(plain.pid, SIGTERM);
        (void) kill(json.pid, SIGTERM);
        (void) end(&plain);
        (void) end(&json);
}

static bool is_running(const Child *c) {
        return waitpid(c->pid, NULL, WNOHANG) == 0;
}

static void test_wait(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");
        Child c;

        (void) data;
        fixture_set_unit(f, UNIT, "activating", "auto-restart", "exit-code", "");
        fixture_wait_state(f, path, "recovering");
        check("status disk0", "State: recovering");
        spawn(&c, "status --wait disk0");
        g_usleep(300000);
        g_assert_true(is_running(&c));
        fixture_set_unit(f, UNIT, "active", "running", "success", "");
        await_line(&c, "State: live");
        g_assert_cmpint(end(&c), ==, 0);
        fixture_write(f, "holders-0", "[{\"kind\":\"mount\",\"what\":\"/mnt\"}]");
        g_free(ctl("delete disk0", 1));
        spawn(&c, "delete --wait disk0");
        g_usleep(300000);
        g_assert_true(is_running(&c));
        fixture_unlink(f, "holders-0");
        g_assert_cmpint(end(&c), ==, 0);
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        g_free(ctl("delete --wait disk0", 1));
        g_free(ctl("list --wait", 2));
}

static void take_terminal(gpointer data) {
        die_with_parent(NULL);
        (void) dup2(*(int *) data, STDOUT_FILENO);
}

/* "list" with its output to a terminal. */
static char *list_on_terminal(void) {
        int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;
        char *argv[] = { (char *) g_getenv("UBLKCTL"), (char *) "list", NULL };
        GString *text = g_string_new(NULL);
        char buffer[4096];
        ssize_t n;
        GPid pid;

        g_assert_cmpint(master, >=, 0);
        g_assert_cmpint(grantpt(master) | unlockpt(master), ==, 0);
        slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
        g_assert_cmpint(slave, >=, 0);
        g_assert_true(g_spawn_async(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD, take_terminal, &slave, &pid, NULL));
        g_assert_cmpint(waitpid(pid, NULL, 0), ==, pid);
        (void) close(slave);
        while ((n = read(master, buffer, sizeof(buffer))) > 0)
                g_string_append_len(text, buffer, n);
        (void) close(master);
        return g_string_free(text, FALSE);
}

static void check_colour(const char *term, const char *no_color, bool wanted) {
        g_autofree char *text = NULL;

        g_setenv("TERM", term, TRUE);
        if (no_color)
                g_setenv("NO_COLOR", no_color, TRUE);
        else
                g_unsetenv("NO_COLOR");
        text = list_on_terminal();
        assert_has(text, "disk0", true);
        assert_has(text, "\033[", wanted);
}

static void test_colour(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *piped = NULL;

        (void) data;
        g_assert_nonnull(path);
        check_colour("xterm", NULL, true);
        check_colour("xterm", "", true);
        check_colour("xterm", "1", false);
        check_colour("dumb", NULL, false);
        g_setenv("TERM", "xterm", TRUE);
        piped = ctl("list", 0);
        assert_has(piped, "\033[", false);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/ctl/complete", test_complete);
        fixture_add("/bus/ctl/bash", test_bash);
        fixture_add("/bus/ctl/logs", test_logs);
        fixture_add("/bus/ctl/monitor", test_monitor);
        fixture_add("/bus/ctl/wait", test_wait);
        fixture_add("/bus/ctl/colour", test_colour);
        return g_test_run();
}
