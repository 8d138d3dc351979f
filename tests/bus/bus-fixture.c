/* SPDX-License-Identifier: MIT */
#include "bus-fixture.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MOCK "org.ublk.Mock"
#define SYSTEMD "org.freedesktop.systemd1"
#define POLKIT "org.freedesktop.PolicyKit1"

static const char *needed_env(const char *name) {
        const char *value = g_getenv(name);

        if (!value)
                g_error("%s is not set: run the test with meson.", name);
        return value;
}

static char *below(const Fixture *f, const char *path) {
        return g_build_filename(f->root, path, NULL);
}

void fixture_write(Fixture *f, const char *path, const char *text) {
        g_autofree char *full = below(f, path), *directory = g_path_get_dirname(full);

        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_true(g_file_set_contents(full, text, -1, NULL));
}

bool fixture_has(Fixture *f, const char *path) {
        g_autofree char *full = below(f, path);

        return g_file_test(full, G_FILE_TEST_EXISTS);
}

void fixture_unlink(Fixture *f, const char *path) {
        g_autofree char *full = below(f, path);

        g_assert_cmpint(g_unlink(full), ==, 0);
}

/* Nothing outlives a test that fails. */
static void die_with_parent(gpointer data) {
        (void) data;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static GPid spawn(char **argv) {
        g_autoptr(GError) error = NULL;
        GPid pid;

        if (!g_spawn_async(NULL, argv, NULL, G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH, die_with_parent,
                           NULL, &pid, &error))
                g_error("%s", error->message);
        return pid;
}

static int stop(GPid *pid) {
        int status = 0;

        if (*pid == 0)
                return 0;
        (void) kill(*pid, SIGTERM);
        (void) waitpid(*pid, &status, 0);
        *pid = 0;
        return status;
}

/* The system bus' default policy (its system.conf), then ours, then this user's rights in place of root's. */
static void write_bus_config(Fixture *f) {
        g_autofree char *text = g_strdup_printf(
                "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN\"\n"
                " \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n"
                "<busconfig>\n"
                "  <listen>unix:path=%s/bus</listen><auth>EXTERNAL</auth>\n"
                "  <policy context=\"default\">\n"
                "    <allow user=\"*\"/><deny own=\"*\"/><deny send_type=\"method_call\"/>\n"
                "    <allow send_type=\"signal\"/><allow send_requested_reply=\"true\" send_type=\"method_return\"/>\n"
                "    <allow send_requested_reply=\"true\" send_type=\"error\"/>\n"
                "    <allow receive_type=\"method_call\"/><allow receive_type=\"method_return\"/>\n"
                "    <allow receive_type=\"error\"/><allow receive_type=\"signal\"/>\n"
                "    <allow send_destination=\"org.freedesktop.DBus\"/>\n"
                "  </policy>\n"
                "  <include>%s</include>\n"
                "  <policy user=\"%u\">\n"
                "    <allow own=\"org.ublk\"/><allow own=\"" SYSTEMD "\"/>\n"
                "    <allow send_destination=\"" SYSTEMD "\"/>\n"
                "    <allow own=\"" POLKIT "\"/><allow send_destination=\"" POLKIT "\"/>\n"
                "  </policy>\n"
                "</busconfig>\n",
                f->root, needed_env("BUS_POLICY"), getuid());

        fixture_write(f, "bus.conf", text);
}

/* The socket is there before the daemon listens on it. */
static void connect_bus(Fixture *f) {
        int r = -EAGAIN;

        for (int i = 0; i < 500 && r < 0; i++) {
                r = sd_bus_open_system(&f->bus);
                if (r < 0)
                        g_usleep(10000);
        }
        g_assert_cmpint(r, >=, 0);
}

static void wait_for_owner(Fixture *f, const char *name, bool wanted) {
        for (int i = 0; i < 500; i++) {
                if ((sd_bus_get_name_creds(f->bus, name, 0, NULL) >= 0) == wanted)
                        return;
                g_usleep(10000);
        }
        g_error("%s has the name %s.", wanted ? "Nobody" : "Somebody", name);
}

static void wait_for_name(Fixture *f, const char *name) {
        wait_for_owner(f, name, true);
}

static void write_hooks(Fixture *f) {
        static const char *const names[] = { "memory", "broken", "silent", "brief", "slow", "stuck", "keeps", "keeps-broken", "none", "mute", "forgetful", "huge", "liar",
                                             "shapeless", "impostor", "symlink", "needy", "insatiable", "odd", "secretive", "privy" };
        g_autofree char *directory = below(f, "hooks");

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                g_autofree char *path = g_strdup_printf("hooks/%s.rb", names[i]);
                fixture_write(f, path, "# mock\n");
        }
        g_setenv("UBLK_RUBY_HOOK_PATH", directory, TRUE);
}

void fixture_start_manager(Fixture *f, uid_t trusted_uid) {
        g_autofree char *root = g_strdup_printf("--root=%s", f->root);
        g_autofree char *uid = g_strdup_printf("--trusted-uid=%u", trusted_uid);

        /* The bus may take a moment to see that the last one has gone. */
        wait_for_owner(f, "org.ublk", false);
        f->manager = spawn((char *[]) { (char *) needed_env("UBLK_RUBYD"), root, uid, NULL });
        wait_for_name(f, "org.ublk");
}

void fixture_start_polkit(Fixture *f) {
        f->polkit = spawn((char *[]) { (char *) needed_env("MOCK_POLKIT"), f->root, NULL });
        wait_for_name(f, POLKIT);
}

void fixture_release_polkit(Fixture *f, bool yes) {
        g_assert_cmpint(sd_bus_call_method(f->bus, POLKIT, "/org/freedesktop/PolicyKit1/Authority", MOCK, "Release", NULL, NULL, "b",
                                           (int) yes), >=, 0);
}

void fixture_kill_manager(Fixture *f, int signal) {
        g_assert_cmpint(kill(f->manager, signal), ==, 0);
        if (signal != SIGKILL)
                return;
        (void) waitpid(f->manager, NULL, 0);
        f->manager = 0;
}

void fixture_wait_file(Fixture *f, const char *path, bool there) {
        for (int i = 0; i < 5000 && fixture_has(f, path) != there; i++)
                g_usleep(1000);
        if (fixture_has(f, path) != there)
                g_error("%s is %s.", path, there ? "not there" : "still there");
}

char *fixture_read(Fixture *f, const char *path) {
        g_autofree char *full = below(f, path);
        char *text;

        return g_file_get_contents(full, &text, NULL, NULL) ? text : NULL;
}

/* A manager that does not end with status 0 has crashed, or a sanitizer has found something. */
void fixture_stop_manager(Fixture *f) {
        g_assert_cmpint(stop(&f->manager), ==, 0);
}

void fixture_set_up(Fixture *f, gconstpointer data) {
        g_autofree char *address = NULL, *config = NULL;
        g_autoptr(GError) error = NULL;

        (void) data;
        (void) umask(022); /* who else could write to hooks would not be trusted */
        f->root = g_dir_make_tmp("ublk-bus-XXXXXX", &error);
        g_assert_no_error(error);
        g_assert_cmpint(chmod(f->root, 0755), ==, 0);
        write_bus_config(f);
        write_hooks(f);
        address = g_strdup_printf("unix:path=%s/bus", f->root);
        config = g_strdup_printf("--config-file=%s/bus.conf", f->root);
        g_setenv("DBUS_SYSTEM_BUS_ADDRESS", address, TRUE);
        f->daemon = spawn((char *[]) { (char *) "dbus-daemon", config, (char *) "--nofork", (char *) "--nopidfile", NULL });
        connect_bus(f);
        f->systemd = spawn((char *[]) { (char *) needed_env("MOCK_SYSTEMD"), f->root, NULL });
        wait_for_name(f, SYSTEMD);
        fixture_start_manager(f, getuid());
}

void fixture_tear_down(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_stop_manager(f);
        sd_bus_error_free(&f->error);
        sd_bus_flush_close_unref(f->bus);
        stop(&f->polkit);
        stop(&f->systemd);
        stop(&f->daemon);
        if (g_getenv("BUS_KEEP") == NULL) {
                g_autofree char *command = g_strdup_printf("rm -rf '%s'", f->root);
                g_assert_cmpint(system(command), ==, 0);
        }
        g_free(f->root);
        g_free(f->text);
}

/* The call's end: "ok", or the error's name. */
static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        char **result = userdata;

        (void) error;
        *result = g_strdup(sd_bus_message_is_method_error(m, NULL) ? sd_bus_message_get_error(m)->name : "ok");
        return 0;
}

void fixture_begin(Fixture *f, char **result, const char *method, const char *types, ...) {
        va_list ap;

        va_start(ap, types);
        g_assert_cmpint(sd_bus_call_method_asyncv(f->bus, NULL, "org.ublk", "/org/ublk", "org.ublk.Manager", method, on_reply, result,
                                                  types, ap), >=, 0);
        va_end(ap);
        g_assert_cmpint(sd_bus_flush(f->bus), >=, 0);
}

const char *fixture_end(Fixture *f, char **result) {
        while (!*result) {
                int r = sd_bus_process(f->bus, NULL);

                g_assert_cmpint(r, >=, 0);
                if (r == 0)
                        g_assert_cmpint(sd_bus_wait(f->bus, USEC_PER_SEC), >=, 0);
        }
        return *result;
}

static const char *interface_of(const char *path) {
        return path ? "org.ublk.Device" : "org.ublk.Manager";
}

static int send_call(Fixture *f, sd_bus_message *m, sd_bus_message **ret) {
        sd_bus_message *reply = NULL;
        int r;

        sd_bus_error_free(&f->error);
        r = sd_bus_call(f->bus, m, 10 * USEC_PER_SEC, &f->error, &reply);
        sd_bus_message_unref(m);
        if (ret)
                *ret = reply;
        else
                sd_bus_message_unref(reply);
        return r;
}

static sd_bus_message *new_call(Fixture *f, const char *path, const char *method) {
        sd_bus_message *m;

        g_assert_cmpint(sd_bus_message_new_method_call(f->bus, &m, "org.ublk", path ? path : "/org/ublk", interface_of(path),
                                                       method), >=, 0);
        return m;
}

int fixture_call(Fixture *f, const char *path, const char *method, sd_bus_message **ret, const char *types, ...) {
        sd_bus_message *m = new_call(f, path, method);
        va_list ap;

        va_start(ap, types);
        g_assert_cmpint(types ? sd_bus_message_appendv(m, types, ap) : 0, >=, 0);
        va_end(ap);
        return send_call(f, m, ret);
}

char *fixture_create(Fixture *f, const char *name, const char *hook) {
        sd_bus_message *reply = NULL;
        char *copy = NULL;
        const char *path;

        if (fixture_call(f, NULL, "CreateDevice", &reply, "ssa{sv}", name, hook, 1, "size", "t", UINT64_C(1048576)) >= 0) {
                g_assert_cmpint(sd_bus_message_read(reply, "o", &path), >, 0);
                copy = g_strdup(path);
        }
        sd_bus_message_unref(reply);
        return copy;
}

int fixture_create_option(Fixture *f, const char *name, const char *hook, const char *key, const char *type, ...) {
        sd_bus_message *m = new_call(f, NULL, "CreateDevice");
        va_list ap;
        int r;

        r = sd_bus_message_append(m, "ss", name, hook);
        r = r < 0 ? r : sd_bus_message_open_container(m, 'a', "{sv}");
        r = r < 0 ? r : sd_bus_message_open_container(m, 'e', "sv");
        r = r < 0 ? r : sd_bus_message_append(m, "s", key);
        r = r < 0 ? r : sd_bus_message_open_container(m, 'v', type);
        va_start(ap, type);
        r = r < 0 ? r : sd_bus_message_appendv(m, type, ap);
        va_end(ap);
        for (int i = 0; i < 3; i++)
                r = r < 0 ? r : sd_bus_message_close_container(m);
        g_assert_cmpint(r, >=, 0);
        return send_call(f, m, NULL);
}

void fixture_assert_error(Fixture *f, int r, const char *name, const char *part) {
        g_assert_cmpint(r, <, 0);
        g_assert_cmpstr(f->error.name, ==, name);
        g_test_message("%s: %s", f->error.name, f->error.message);
        if (part && !strstr(f->error.message, part))
                g_error("\"%s\" does not say \"%s\".", f->error.message, part);
}

const char *fixture_get_string(Fixture *f, const char *path, const char *property) {
        char *s = NULL;

        sd_bus_error_free(&f->error);
        g_free(f->text);
        f->text = NULL;
        if (sd_bus_get_property_string(f->bus, "org.ublk", path ? path : "/org/ublk", interface_of(path), property, &f->error,
                                       &s) >= 0)
                f->text = g_strdup(s);
        free(s);
        return f->text;
}

uint64_t fixture_get_number(Fixture *f, const char *path, const char *property, char type) {
        union {
                uint32_t u;
                uint64_t t;
                int b;
        } v = {};

        sd_bus_error_free(&f->error);
        if (sd_bus_get_property_trivial(f->bus, "org.ublk", path ? path : "/org/ublk", interface_of(path), property, &f->error,
                                        type, &v) < 0)
                g_error("%s: %s", property, f->error.message);
        return type == 't' ? v.t : type == 'b' ? (uint64_t) v.b : v.u;
}

void fixture_wait_state(Fixture *f, const char *path, const char *state) {
        for (int i = 0; i < 500; i++) {
                if (g_strcmp0(fixture_get_string(f, path, "State"), state) == 0)
                        return;
                g_usleep(10000);
        }
        g_error("%s is %s, not %s.", path, f->text, state);
}

static int on_changed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        GString *log = userdata;
        const char *name;

        (void) error;
        g_assert_cmpint(sd_bus_message_skip(m, "s"), >=, 0);
        g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "{sv}"), >=, 0);
        while (sd_bus_message_enter_container(m, 'e', "sv") > 0) {
                g_assert_cmpint(sd_bus_message_read(m, "s", &name), >, 0);
                g_assert_cmpint(sd_bus_message_skip(m, "v"), >=, 0);
                g_assert_cmpint(sd_bus_message_exit_container(m), >=, 0);
                g_string_append_printf(log, "%s;", name);
        }
        return 0;
}

void fixture_log_changes(Fixture *f, const char *path, GString *log) {
        g_assert_cmpint(sd_bus_match_signal(f->bus, NULL, "org.ublk", path, "org.freedesktop.DBus.Properties", "PropertiesChanged",
                                            on_changed, log), >=, 0);
}

unsigned fixture_count_changes(const GString *log, const char *property) {
        g_autofree char *entry = g_strdup_printf("%s;", property);
        unsigned n = 0;

        for (const char *p = log->str; (p = strstr(p, entry)); p += strlen(entry))
                n++;
        return n;
}

static void mock_call(Fixture *f, const char *method, sd_bus_message **ret, const char *types, const char *a,
                      const char *b, const char *c, const char *d, const char *e) {
        if (sd_bus_call_method(f->bus, SYSTEMD, "/org/freedesktop/systemd1", MOCK, method, NULL, ret, types, a, b, c, d, e) < 0)
                g_error("The mock does not answer.");
}

void fixture_set_unit(Fixture *f, const char *unit, const char *active, const char *sub, const char *result,
                      const char *status) {
        mock_call(f, "Set", NULL, "sssss", unit, active, sub, result, status);
}

char *fixture_calls(Fixture *f) {
        sd_bus_message *reply = NULL;
        const char *s;
        char *copy;

        mock_call(f, "Calls", &reply, NULL, NULL, NULL, NULL, NULL, NULL);
        g_assert_cmpint(sd_bus_message_read(reply, "s", &s), >, 0);
        copy = g_strdup(s);
        sd_bus_message_unref(reply);
        return copy;
}

bool fixture_is_enabled(Fixture *f, const char *unit) {
        sd_bus_message *reply = NULL;
        int b;

        mock_call(f, "IsEnabled", &reply, "s", unit, NULL, NULL, NULL, NULL);
        g_assert_cmpint(sd_bus_message_read(reply, "b", &b), >, 0);
        sd_bus_message_unref(reply);
        return b;
}
