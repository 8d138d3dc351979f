/* SPDX-License-Identifier: MIT */

/* The verbs that look: list, status, probe. */

#include "dbus/ctl.h"
#include "dbus/device-bus.h"
#include "dbus/manager-bus.h"
#include "service/features.h"

#include <inttypes.h>
#include <time.h>

/* How long `probe` waits for a second look. */
#define PROBE_TIMEOUT_USEC (10 * USEC_PER_SEC)

/* One element of ListDevices. */
static int read_device(sd_bus_message *m, json_t **ret) {
        const char *name, *node, *hook, *state, *path;
        uint64_t size;
        uint32_t id;
        int r;

        r = sd_bus_message_read(m, "(ussssto)", &id, &name, &node, &hook, &state, &size, &path);
        if (r <= 0)
                return r;
        *ret = json_pack("{s:I, s:s, s:s, s:s, s:s, s:I, s:s}", "id", (json_int_t) id, "name", name, "node", node, "hook", hook,
                         "state", state, "size", (json_int_t) size, "path", path);
        return *ret ? 1 : -ENOMEM;
}

json_t *ctl_list_devices(Ctl *c, const char *what) {
        sd_bus_message *m = ctl_new_call(c, "ListDevices"), *reply = NULL;
        json_t *devices, *device;

        if (!m || ctl_call(c, m, 0, what, &reply) < 0)
                return NULL;
        devices = json_array();
        if (sd_bus_message_enter_container(reply, 'a', "(ussssto)") >= 0)
                while (read_device(reply, &device) > 0)
                        (void) json_array_append_new(devices, device);
        sd_bus_message_unref(reply);
        return devices;
}

static const char *text_of(const json_t *object, const char *key) {
        const char *s = json_string_value(json_object_get(object, key));

        return s ? s : "";
}

static uint64_t number_of(const json_t *object, const char *key) {
        return (uint64_t) json_integer_value(json_object_get(object, key));
}

static int width_of(const json_t *devices, const char *key) {
        size_t width = strlen(key);

        for (size_t i = 0; i < json_array_size(devices); i++) {
                size_t n = strlen(text_of(json_array_get(devices, i), key));
                width = n > width ? n : width;
        }
        return (int) width;
}

static void print_devices(const Ctl *c, const json_t *devices) {
        int name = width_of(devices, "name"), node = width_of(devices, "node"), hook = width_of(devices, "hook");
        size_t n = json_array_size(devices);

        if (c->legend && n > 0)
                printf("%4s %-*s %-*s %-*s %-10s %6s\n", "ID", name, "NAME", node, "NODE", hook, "HOOK", "STATE", "SIZE");
        for (size_t i = 0; i < n; i++) {
                const json_t *d = json_array_get(devices, i);
                const char *state = text_of(d, "state");
                char size[16];

                format_size(number_of(d, "size"), size);
                printf("%4" PRIu64 " %-*s %-*s %-*s %s%-10s%s %6s\n", number_of(d, "id"), name, text_of(d, "name"), node,
                       text_of(d, "node"), hook, text_of(d, "hook"), ctl_colour_of_state(c, state), state, ctl_colour_off(c), size);
        }
        if (c->legend)
                printf(n > 0 ? "\n%zu device%s listed.\n" : "No devices.\n", n, n == 1 ? "" : "s");
}

static int status_of_list(const json_t *devices) {
        for (size_t i = 0; i < json_array_size(devices); i++)
                if (state_is_trouble(text_of(json_array_get(devices, i), "state")))
                        return CTL_TROUBLE;
        return CTL_OK;
}

int ctl_list(Ctl *c, int argc, char **argv) {
        json_t *devices;
        int status;

        (void) argc;
        devices = ctl_list_devices(c, argv[0]);
        if (!devices)
                return CTL_FAILED;
        status = status_of_list(devices);
        if (c->json != JSON_OFF)
                ctl_print_json(c, devices);
        else {
                ctl_make_visible(devices);
                print_devices(c, devices);
                json_decref(devices);
        }
        return status;
}

static void print_time(const char *label, uint64_t usec) {
        time_t t = (time_t) (usec / USEC_PER_SEC);
        char text[64];
        struct tm tm;

        if (usec > 0 && localtime_r(&t, &tm) && strftime(text, sizeof(text), "%a %Y-%m-%d %H:%M:%S %Z", &tm) > 0)
                printf("%14s: %s\n", label, text);
}

static void print_arguments(const json_t *arguments) {
        const char *key, *label = "Arguments";
        json_t *value;

        json_object_foreach((json_t *) arguments, key, value) {
                char *text = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_ENCODE_ANY);
                printf("%14s%c %s=%s\n", label, *label ? ':' : ' ', key, text ? text : "?");
                free(text);
                label = "";
        }
}

static void print_device(const Ctl *c, json_t *d) {
        _cleanup_free_ char *error = ctl_visible(text_of(d, "LastError"), /* keep_lines= */ true);
        const char *state;
        char size[16], io[16];

        ctl_make_visible(d);
        state = text_of(d, "State");
        format_size(number_of(d, "Size"), size);
        format_size(number_of(d, "MaxIOSize"), io);
        printf("%s%s%s %s - %s\n", ctl_colour_of_state(c, state), c->colour ? "●" : "*", ctl_colour_off(c), text_of(d, "Name"),
               text_of(d, "Node"));
        printf("%14s: %s%s%s\n", "State", ctl_colour_of_state(c, state), state, ctl_colour_off(c));
        print_time("Since", number_of(d, "StateChangeTimestamp"));
        if (error && *error)
                printf("%14s: %s\n", "Last Error", error);
        printf("%14s: %s\n", "Hook", text_of(d, "Hook"));
        print_arguments(json_object_get(d, "Arguments"));
        printf("%14s: %s (%" PRIu64 " bytes), blocks of %" PRIu64 "%s\n", "Size", size, number_of(d, "Size"),
               number_of(d, "BlockSize"), json_is_true(json_object_get(d, "ReadOnly")) ? ", read-only" : "");
        printf("%14s: %" PRIu64 " of depth %" PRIu64 ", requests up to %s\n", "Queues", number_of(d, "Queues"),
               number_of(d, "Depth"), io);
        printf("%14s: %s\n", "Recovery", text_of(d, "Recovery"));
        printf("%14s: %s\n", "Data Path", text_of(d, "DataPath"));
        printf("%14s: %s\n", "Persistent", json_is_true(json_object_get(d, "Persistent")) ? "yes" : "no");
        print_time("Created", number_of(d, "CreationTimestamp"));
        printf("%14s: %s\n", "Unit", text_of(d, "Unit"));
        if (number_of(d, "WorkerPID") > 0)
                printf("%14s: %" PRIu64 ", restarted %" PRIu64 " times\n", "Worker PID", number_of(d, "WorkerPID"),
                       number_of(d, "Restarts"));
}

/* On its way to another state, by itself. */
static bool is_passing(const char *state) {
        return streq(state, "starting") || streq(state, "recovering") || streq(state, "stopping");
}

/* Its properties, with --wait those of the state that it comes to; a failure has been reported. */
static json_t *get_device(Ctl *c, const char *designation) {
        for (;;) {
                _cleanup_free_ char *path = NULL;
                json_t *device;

                if (ctl_get_device(c, designation, &path) < 0)
                        return NULL;
                device = ctl_get_all(c, path, DEVICE_INTERFACE, designation);
                if (!device || !c->wait || !is_passing(text_of(device, "State")))
                        return device;
                json_decref(device);
                (void) usleep(CTL_WAIT_USEC);
        }
}

static int status_device(Ctl *c, const char *designation) {
        json_t *device = get_device(c, designation);
        int status;

        if (!device)
                return CTL_FAILED;
        status = state_is_trouble(text_of(device, "State")) ? CTL_TROUBLE : CTL_OK;
        if (c->json != JSON_OFF)
                ctl_print_json(c, device);
        else {
                print_device(c, device);
                json_decref(device);
        }
        return status;
}

static int status_service(Ctl *c) {
        json_t *service = ctl_get_all(c, MANAGER_PATH, MANAGER_INTERFACE, "status"), *devices;
        int status;

        devices = service ? ctl_list_devices(c, "status") : NULL;
        if (!devices) {
                json_decref(service);
                return CTL_FAILED;
        }
        status = status_of_list(devices);
        if (c->json != JSON_OFF) {
                (void) json_object_set_new(service, "Devices", devices);
                ctl_print_json(c, service);
                return status;
        }
        ctl_make_visible(service);
        ctl_make_visible(devices);
        printf("%14s: ublk-ruby %s\n", "Service", text_of(service, "Version"));
        printf("%14s: Linux %s, %s\n", "Kernel", text_of(service, "KernelRelease"),
               json_is_true(json_object_get(service, "Supported")) ? "supported" : "not supported");
        if (*text_of(service, "UnsupportedReason"))
                printf("%14s: %s\n", "Reason", text_of(service, "UnsupportedReason"));
        printf("%14s: %" PRIu64 "\n\n", "Devices", number_of(service, "DeviceCount"));
        print_devices(c, devices);
        json_decref(devices);
        json_decref(service);
        return status;
}

int ctl_status(Ctl *c, int argc, char **argv) {
        int status = CTL_OK;

        if (argc < 2)
                return status_service(c);
        for (int i = 1; i < argc; i++) {
                int s = status_device(c, argv[i]);
                /* That one could not be looked at outweighs what the others are in. */
                status = status == CTL_FAILED || s == CTL_OK ? status : s;
        }
        return status;
}

static bool has_feature(const json_t *list, const char *name) {
        for (size_t i = 0; i < json_array_size(list); i++)
                if (streq_ptr(json_string_value(json_array_get(list, i)), name))
                        return true;
        return false;
}

static void print_features(const Ctl *c, const json_t *list) {
        if (c->legend)
                printf("\n  %-28s %-6s %s\n", "FEATURE", "SINCE", "WHAT");
        for (size_t i = 0; i < UBLK_N_FEATURES; i++) {
                bool has = has_feature(list, features[i].name);
                printf("%s%c %-28s %-6s %s%s\n", has && c->colour ? "\033[32m" : "", has ? '+' : '-', features[i].name,
                       features[i].since, features[i].what, has ? ctl_colour_off(c) : "");
        }
}

static int on_support_changed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *name;
        bool *seen = userdata;

        (void) error;
        if (sd_bus_message_skip(m, "s") < 0 || sd_bus_message_enter_container(m, 'a', "{sv}") < 0)
                return 0;
        while (sd_bus_message_enter_container(m, 'e', "sv") > 0)
                if (sd_bus_message_read(m, "s", &name) < 0 || sd_bus_message_skip(m, "v") < 0 ||
                    sd_bus_message_exit_container(m) < 0)
                        break;
                else if (streq(name, "Supported"))
                        *seen = true;
        return 0;
}

/* That this kernel can't serve may be no longer so: the service looks again since it was asked, and then says what it found. */
static json_t *get_verdict(Ctl *c, const char *what) {
        uint64_t deadline = now_usec() + PROBE_TIMEOUT_USEC, now;
        sd_bus_slot *slot = NULL;
        json_t *service;
        bool seen = false;
        int r;

        r = sd_bus_match_signal(c->bus, &slot, MANAGER_NAME, MANAGER_PATH, "org.freedesktop.DBus.Properties", "PropertiesChanged",
                                on_support_changed, &seen);
        service = ctl_get_all(c, MANAGER_PATH, MANAGER_INTERFACE, what);
        if (r < 0 || !service || json_is_true(json_object_get(service, "Supported"))) {
                sd_bus_slot_unref(slot);
                return service;
        }
        while (!seen && (now = now_usec()) < deadline) {
                r = sd_bus_process(c->bus, NULL);
                if (r == 0)
                        r = sd_bus_wait(c->bus, deadline - now);
                if (r < 0 && r != -EINTR)
                        break;
        }
        sd_bus_slot_unref(slot);
        json_decref(service);
        return ctl_get_all(c, MANAGER_PATH, MANAGER_INTERFACE, what);
}

int ctl_probe(Ctl *c, int argc, char **argv) {
        json_t *service = get_verdict(c, argv[0]), *list;
        bool supported;

        (void) argc;
        if (!service)
                return CTL_FAILED;
        supported = json_is_true(json_object_get(service, "Supported"));
        list = json_object_get(service, "KernelFeatures");
        if (c->json != JSON_OFF)
                ctl_print_json(c, json_pack("{s:b, s:s, s:s, s:O}", "supported", supported, "kernel",
                                            text_of(service, "KernelRelease"), "reason", text_of(service, "UnsupportedReason"),
                                            "features", list));
        else {
                ctl_make_visible(service);
                printf("Linux %s: %s\n", text_of(service, "KernelRelease"), supported ? "supported" : "not supported");
                if (!supported)
                        printf("%s\n", text_of(service, "UnsupportedReason"));
                else
                        print_features(c, list);
        }
        json_decref(service);
        return supported ? CTL_OK : CTL_FAILED;
}
