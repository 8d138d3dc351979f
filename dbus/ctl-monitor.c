/* SPDX-License-Identifier: MIT */

/* The verb monitor: what the service says of itself and of its devices, as it says so, until it is interrupted. */

#include "dbus/ctl.h"
#include "dbus/device-bus.h"
#include "dbus/manager-bus.h"

#include <time.h>

typedef struct Monitor {
        Ctl *ctl;
        json_t *names; /* by path: what is gone still has one when it goes */
} Monitor;

/* "disk0", "org.ublk" for the service itself. */
static const char *name_of(const Monitor *m, const char *path) {
        const char *name = json_string_value(json_object_get(m->names, path));

        return name ? name : streq(path, MANAGER_PATH) ? MANAGER_NAME : path;
}

static void print_value(const json_t *value) {
        _cleanup_free_ char *text = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_ENCODE_ANY);
        _cleanup_free_ char *visible = text ? ctl_visible(text, /* keep_lines= */ false) : NULL;

        fputs(visible ? visible : "?", stdout);
}

static void print_time(void) {
        struct timespec now;
        char text[16];
        struct tm tm;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        if (localtime_r(&now.tv_sec, &tm) && strftime(text, sizeof(text), "%H:%M:%S", &tm) > 0)
                printf("%s.%03ld ", text, now.tv_nsec / 1000000);
}

/* Takes values, which may be NULL. One line, at once. */
static void print_event(const Monitor *m, const char *path, const char *event, json_t *values) {
        const char *key;
        json_t *value;

        if (m->ctl->json != JSON_OFF)
                ctl_print_json(m->ctl, json_pack("{s:I, s:s, s:s, s:s, s:o}", "usec", (json_int_t) now_realtime_usec(), "device",
                                                 name_of(m, path), "path", path, "event", event, "values",
                                                 values ? values : json_object()));
        else {
                print_time();
                printf("%s %s", name_of(m, path), event);
                json_object_foreach(values, key, value) {
                        printf(" %s=", key);
                        print_value(value);
                }
                putchar('\n');
                json_decref(values);
        }
        (void) fflush(stdout);
}

static int on_changed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *interface;
        json_t *values;

        (void) error;
        if (sd_bus_message_read(m, "s", &interface) >= 0 && strncmp(interface, "org.ublk.", strlen("org.ublk.")) == 0 &&
            json_from_message(m, &values) >= 0)
                print_event(userdata, sd_bus_message_get_path(m), "changed", values);
        return 0;
}

/* Of all that it is, its name, its hook and its state are told. */
static void take_added(Monitor *m, const char *path, const json_t *all) {
        static const char *const keys[] = { "Name", "Node", "Hook", "State" };
        json_t *properties = json_object_get(all, DEVICE_INTERFACE), *values = json_object();

        (void) json_object_set(m->names, path, json_object_get(properties, "Name"));
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                (void) json_object_set(values, keys[i], json_object_get(properties, keys[i]));
        print_event(m, path, "added", values);
}

static int on_added(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *path;
        json_t *all;

        (void) error;
        if (sd_bus_message_read(m, "o", &path) < 0 || json_from_message(m, &all) < 0)
                return 0;
        if (json_object_get(all, DEVICE_INTERFACE))
                take_added(userdata, path, all);
        json_decref(all);
        return 0;
}

static int on_removed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        Monitor *monitor = userdata;
        const char *path;

        (void) error;
        if (sd_bus_message_read(m, "o", &path) < 0)
                return 0;
        print_event(monitor, path, "removed", NULL);
        (void) json_object_del(monitor->names, path);
        return 0;
}

static int on_owner(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *name, *old, *new;

        (void) error;
        if (sd_bus_message_read(m, "sss", &name, &old, &new) >= 0)
                print_event(userdata, MANAGER_PATH, *new ? "started" : "stopped", NULL);
        return 0;
}

static int subscribe(Monitor *m) {
        sd_bus *bus = m->ctl->bus;
        int r;

        r = sd_bus_add_match(bus, NULL, "type='signal',sender='" MANAGER_NAME "',path_namespace='" MANAGER_PATH "',"
                             "interface='org.freedesktop.DBus.Properties',member='PropertiesChanged'", on_changed, m);
        if (r >= 0)
                r = sd_bus_match_signal(bus, NULL, MANAGER_NAME, MANAGER_PATH, "org.freedesktop.DBus.ObjectManager", "InterfacesAdded",
                                        on_added, m);
        if (r >= 0)
                r = sd_bus_match_signal(bus, NULL, MANAGER_NAME, MANAGER_PATH, "org.freedesktop.DBus.ObjectManager",
                                        "InterfacesRemoved", on_removed, m);
        if (r >= 0)
                r = sd_bus_add_match(bus, NULL, "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',"
                                     "member='NameOwnerChanged',arg0='" MANAGER_NAME "'", on_owner, m);
        return r;
}

static int learn_names(Monitor *m, const char *what) {
        json_t *devices = ctl_list_devices(m->ctl, what);

        if (!devices)
                return -EIO;
        for (size_t i = 0; i < json_array_size(devices); i++) {
                const json_t *d = json_array_get(devices, i);

                (void) json_object_set(m->names, json_string_value(json_object_get(d, "path")), json_object_get(d, "name"));
        }
        json_decref(devices);
        return 0;
}

int ctl_monitor(Ctl *c, int argc, char **argv) {
        Monitor m = { .ctl = c, .names = json_object() };
        int r;

        (void) argc;
        r = subscribe(&m);
        if (r < 0)
                fprintf(stderr, "ublkctl: The bus can't be listened to: %s\n", strerror(-r));
        else if (learn_names(&m, argv[0]) >= 0) {
                if (c->legend && c->json == JSON_OFF) {
                        puts("Waiting for signals; Ctrl-C ends it.");
                        (void) fflush(stdout);
                }
                while (r >= 0) {
                        r = sd_bus_process(c->bus, NULL);
                        if (r == 0)
                                r = sd_bus_wait(c->bus, UINT64_MAX);
                }
                fprintf(stderr, "ublkctl: The bus is gone: %s\n", strerror(-r));
        }
        json_decref(m.names);
        return CTL_FAILED;
}
