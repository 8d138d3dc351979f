/* SPDX-License-Identifier: MIT */

/* The Manager object: its answers, its documentation, and what a start finds. */

#include "bus-fixture.h"

static char *introspect(Fixture *f, const char *path) {
        sd_bus_message *reply = NULL;
        const char *xml;
        char *copy;

        g_assert_cmpint(sd_bus_call_method(f->bus, "org.ublk", path, "org.freedesktop.DBus.Introspectable", "Introspect", NULL,
                                           &reply, NULL), >=, 0);
        g_assert_cmpint(sd_bus_message_read(reply, "s", &xml), >, 0);
        copy = g_strdup(xml);
        sd_bus_message_unref(reply);
        return copy;
}

/* One line for each member of an interface: kind, name, its arguments with types, names and directions, its annotation. */
typedef struct Members {
        const char *interface;
        bool inside;
        GPtrArray *lines;
} Members;

static void on_start(GMarkupParseContext *context, const char *element, const char **keys, const char **values,
                     gpointer userdata, GError **error) {
        Members *m = userdata;
        GString *line;

        (void) context, (void) error;
        if (streq(element, "interface"))
                m->inside = streq(values[0], m->interface);
        if (!m->inside || streq(element, "interface"))
                return;
        if (streq(element, "annotation") || streq(element, "arg")) {
                char *last = g_ptr_array_steal_index(m->lines, m->lines->len - 1);
                line = g_string_new(last);
                g_free(last);
        } else
                line = g_string_new(NULL);
        g_string_append_printf(line, " %s", element);
        /* The attributes' order is nobody's concern. */
        static const char *const order[] = { "name", "type", "direction", "access", "value" };
        for (size_t i = 0; i < ELEMENTSOF(order); i++)
                for (size_t k = 0; keys[k]; k++)
                        if (streq(keys[k], order[i]) && !streq(values[k], "org.freedesktop.systemd1.Privileged"))
                                g_string_append_printf(line, " %s", values[k]);
        g_ptr_array_add(m->lines, g_string_free(line, FALSE));
}

static void on_end(GMarkupParseContext *context, const char *element, gpointer userdata, GError **error) {
        Members *m = userdata;

        (void) context, (void) error;
        if (streq(element, "interface"))
                m->inside = false;
}

static int compare_lines(gconstpointer a, gconstpointer b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

static char *members_of(const char *xml, const char *interface) {
        static const GMarkupParser parser = { .start_element = on_start, .end_element = on_end };
        Members m = { .interface = interface, .lines = g_ptr_array_new_with_free_func(g_free) };
        g_autoptr(GMarkupParseContext) context = g_markup_parse_context_new(&parser, 0, &m, NULL);
        g_autoptr(GError) error = NULL;
        char *text;

        g_markup_parse_context_parse(context, xml, -1, &error);
        g_assert_no_error(error);
        g_ptr_array_sort(m.lines, compare_lines);
        g_ptr_array_add(m.lines, NULL);
        text = g_strjoinv("\n", (char **) m.lines->pdata);
        g_ptr_array_unref(m.lines);
        return text;
}

static void test_introspection(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *file = NULL;

        (void) data;
        g_assert_true(g_file_get_contents(g_getenv("BUS_XML"), &file, NULL, NULL));
        for (int device = 0; device < 2; device++) {
                const char *interface = device ? "org.ublk.Device" : "org.ublk.Manager";
                g_autofree char *live = introspect(f, device ? path : "/org/ublk");
                g_autofree char *have = members_of(live, interface), *documented = members_of(file, interface);
                g_assert_cmpuint(strlen(have), >, 100);
                g_assert_cmpstr(have, ==, documented);
        }
        g_autofree char *root = introspect(f, "/org/ublk/device");
        g_assert_nonnull(strstr(root, "<node name=\"0\"/>"));
}

static void test_properties(Fixture *f, gconstpointer data) {
        (void) data;
        g_assert_cmpuint(strlen(fixture_get_string(f, NULL, "Version")), >, 0);
        g_assert_cmpuint(strlen(fixture_get_string(f, NULL, "KernelRelease")), >, 0);
        g_assert_cmpuint(fixture_get_number(f, NULL, "Supported", 'b'), ==, 1);
        g_assert_cmpstr(fixture_get_string(f, NULL, "UnsupportedReason"), ==, "");
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 0);
        char **list;
        g_assert_cmpint(sd_bus_get_property_strv(f->bus, "org.ublk", "/org/ublk", "org.ublk.Manager", "KernelFeatures", NULL,
                                                 &list), >=, 0);
        g_assert_cmpstr(list[0], ==, "user-copy");
        g_assert_cmpstr(list[1], ==, "user-recovery");
        g_assert_null(list[2]);
        for (char **p = list; *p; p++)
                free(*p);
        free(list);
}

static void test_list(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");
        const char *name, *node, *hook, *state, *object;
        sd_bus_message *reply = NULL;
        uint64_t size;
        uint32_t id;

        (void) data;
        g_assert_cmpint(fixture_call(f, NULL, "ListDevices", &reply, NULL), >=, 0);
        g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(ussssto)"), >, 0);
        g_assert_cmpint(sd_bus_message_read(reply, "(ussssto)", &id, &name, &node, &hook, &state, &size, &object), >, 0);
        g_assert_cmpuint(id, ==, 0);
        g_assert_cmpstr(name, ==, "disk0");
        g_assert_cmpstr(node, ==, "/dev/ublkb0");
        g_assert_cmpstr(hook, ==, "memory");
        g_assert_cmpstr(state, ==, "live");
        g_assert_cmpuint(size, ==, 1048576);
        g_assert_cmpstr(object, ==, path);
        g_assert_cmpint(sd_bus_message_read(reply, "(ussssto)", &id, &name, &node, &hook, &state, &size, &object), ==, 0);
        sd_bus_message_unref(reply);
        g_assert_cmpint(fixture_call(f, NULL, "ListHooks", &reply, NULL), >=, 0);
        g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(ss)"), >, 0);
        g_assert_cmpint(sd_bus_message_read(reply, "(ss)", &name, &node), >, 0);
        g_assert_cmpstr(name, ==, "brief");
        g_assert_true(g_str_has_suffix(node, "/hooks/brief.rb"));
        sd_bus_message_unref(reply);
}

static void test_get_device(Fixture *f, gconstpointer data) {
        static const char *const good[] = { "disk0", "0", "/dev/ublkb0", "ublkb0" }, *const bad[] = { "disk", "1", "", "00x" };
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                sd_bus_message *reply = NULL;
                const char *object;
                g_assert_cmpint(fixture_call(f, NULL, "GetDevice", &reply, "s", good[i]), >=, 0);
                g_assert_cmpint(sd_bus_message_read(reply, "o", &object), >, 0);
                g_assert_cmpstr(object, ==, path);
                sd_bus_message_unref(reply);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                fixture_assert_error(f, fixture_call(f, NULL, "GetDevice", NULL, "s", bad[i]), "org.ublk.Error.NoSuchDevice", NULL);
        g_assert_null(fixture_get_string(f, "/org/ublk/device/00", "Name"));
}

static unsigned count_managed(Fixture *f) {
        sd_bus_message *reply = NULL;
        unsigned n = 0;

        g_assert_cmpint(sd_bus_call_method(f->bus, "org.ublk", "/org/ublk", "org.freedesktop.DBus.ObjectManager",
                                           "GetManagedObjects", NULL, &reply, NULL), >=, 0);
        g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "{oa{sa{sv}}}"), >=, 0);
        while (sd_bus_message_skip(reply, "{oa{sa{sv}}}") > 0)
                n++;
        sd_bus_message_unref(reply);
        return n;
}

/* Started anew it shows the same, whatever happened meanwhile; and a file that it can't read stops nothing. */
static void test_rebuild(Fixture *f, gconstpointer data) {
        g_autofree char *first = fixture_create(f, "disk0", "memory"), *second = fixture_create(f, "disk1", "memory");
        g_autofree char *calls = NULL;
        uint64_t created = fixture_get_number(f, first, "CreationTimestamp", 't');

        (void) data;
        fixture_write(f, "run/ublk-ruby/devices/7.conf", "[Device]\nName=half\nHoo");
        fixture_write(f, "etc/ublk-ruby/devices/8.conf", "[Device]\nName=disk0\nHook=memory\n");
        fixture_write(f, "etc/ublk-ruby/devices/9.conf", "[Device]\nName=idle\nHook=memory\n");
        fixture_stop_manager(f);
        g_free(fixture_calls(f));
        fixture_set_unit(f, "ublk-ruby-device@1.service", "inactive", "dead", "success", "");
        fixture_start_manager(f, getuid());
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-control@probe.service\n");
        g_assert_cmpuint(fixture_get_number(f, NULL, "DeviceCount", 'u'), ==, 3);
        g_assert_cmpuint(count_managed(f), ==, 3);
        g_assert_cmpstr(fixture_get_string(f, first, "State"), ==, "live");
        g_assert_cmpstr(fixture_get_string(f, first, "Recovery"), ==, "reissue");
        g_assert_cmpuint(fixture_get_number(f, first, "Size", 't'), ==, 1048576);
        g_assert_cmpuint(fixture_get_number(f, first, "CreationTimestamp", 't'), ==, created);
        g_assert_cmpstr(fixture_get_string(f, second, "State"), ==, "held");
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/9", "State"), ==, "stopped");
        g_assert_cmpuint(fixture_get_number(f, "/org/ublk/device/9", "Persistent", 'b'), ==, 1);
        g_assert_cmpint(fixture_call(f, NULL, "RestartDevice", NULL, "sa{sv}", "idle", 0), >=, 0);
        g_assert_cmpstr(fixture_get_string(f, "/org/ublk/device/9", "State"), ==, "live");
}

/* A file written and a unit started by hand. */
static void test_appears(Fixture *f, gconstpointer data) {
        (void) data;
        fixture_write(f, "run/ublk-ruby/devices/4.conf", "[Device]\nName=by-hand\nHook=memory\n");
        fixture_write(f, "sys/class/ublk-char/ublkc4/dev", "");
        fixture_write(f, "sys/block/ublkb4/size", "2048\n");
        fixture_set_unit(f, "ublk-ruby-device@4.service", "active", "running", "success", "");
        for (int i = 0; i < 500 && fixture_get_number(f, NULL, "DeviceCount", 'u') == 0; i++)
                g_usleep(10000);
        fixture_wait_state(f, "/org/ublk/device/4", "live");
        g_assert_cmpuint(fixture_get_number(f, "/org/ublk/device/4", "Size", 't'), ==, 1048576);
}

#define LOG_PATH "/org/freedesktop/LogControl1"
#define LOG_INTERFACE "org.freedesktop.LogControl1"

static void assert_log(Fixture *f, const char *property, const char *expected) {
        char *s = NULL;

        g_assert_cmpint(sd_bus_get_property_string(f->bus, "org.ublk", LOG_PATH, LOG_INTERFACE, property, NULL, &s), >=, 0);
        g_assert_cmpstr(s, ==, expected);
        free(s);
}

static int set_log(Fixture *f, const char *property, const char *value) {
        sd_bus_error_free(&f->error);
        return sd_bus_set_property(f->bus, "org.ublk", LOG_PATH, LOG_INTERFACE, property, &f->error, "s", value);
}

/* As `systemctl service-log-level` asks. */
static void test_log_control(Fixture *f, gconstpointer data) {
        static const char *const levels[] = { "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug" };
        g_autofree char *xml = introspect(f, LOG_PATH);

        (void) data;
        g_assert_nonnull(strstr(xml, LOG_INTERFACE));
        assert_log(f, "LogLevel", "info");
        assert_log(f, "SyslogIdentifier", "ublk-rubyd");
        for (size_t i = 0; i < G_N_ELEMENTS(levels); i++) {
                g_assert_cmpint(set_log(f, "LogLevel", levels[i]), >=, 0);
                assert_log(f, "LogLevel", levels[i]);
        }
        fixture_assert_error(f, set_log(f, "LogLevel", "loud"), "org.freedesktop.DBus.Error.InvalidArgs", "not \"loud\"");
        fixture_assert_error(f, set_log(f, "LogTarget", "syslog"), "org.freedesktop.DBus.Error.NotSupported", "StandardError=");
        g_assert_cmpint(set_log(f, "LogTarget", ""), >=, 0);
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
        fixture_assert_error(f, set_log(f, "LogLevel", "debug"), "org.freedesktop.DBus.Error.AccessDenied", "root");
        assert_log(f, "LogLevel", "info"); /* of this one */
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/manager/introspection", test_introspection);
        fixture_add("/bus/manager/properties", test_properties);
        fixture_add("/bus/manager/list", test_list);
        fixture_add("/bus/manager/get-device", test_get_device);
        fixture_add("/bus/manager/rebuild", test_rebuild);
        fixture_add("/bus/manager/appears", test_appears);
        fixture_add("/bus/manager/log-control", test_log_control);
        return g_test_run();
}
