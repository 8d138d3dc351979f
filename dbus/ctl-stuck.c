/* SPDX-License-Identifier: MIT */

/* The verb stuck: requests that are in hooks for long, and where. */

#include "dbus/ctl.h"
#include "dbus/device-bus.h"
#include "dbus/manager-bus.h"

#include <inttypes.h>

/* Appends what GetStuckRequests of one device answered. */
static int read_requests(sd_bus_message *m, const char *device, json_t *list) {
        int r;

        r = sd_bus_message_enter_container(m, 'a', "(stttas)");
        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'r', "stttas")) > 0) {
                uint64_t offset, length, age;
                json_t *backtrace;
                const char *op;

                r = sd_bus_message_read(m, "sttt", &op, &offset, &length, &age);
                if (r >= 0)
                        r = json_from_message(m, &backtrace);
                if (r < 0)
                        return r;
                (void) json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "device", device, "op", op, "offset",
                                                             (json_int_t) offset, "length", (json_int_t) length, "age",
                                                             (json_int_t) age, "backtrace", backtrace));
                r = sd_bus_message_exit_container(m);
        }
        return r;
}

static int ask(Ctl *c, const char *device, const char *path, json_t *list) {
        sd_bus_message *m = NULL, *reply = NULL;
        int r;

        r = sd_bus_message_new_method_call(c->bus, &m, MANAGER_NAME, path, DEVICE_INTERFACE, "GetStuckRequests");
        if (r < 0)
                return r;
        r = ctl_call(c, m, 0, device, &reply);
        if (r >= 0)
                r = read_requests(reply, device, list);
        sd_bus_message_unref(reply);
        return r;
}

static int ask_all(Ctl *c, const char *what, json_t *list) {
        json_t *devices = ctl_list_devices(c, what);
        int r = 0;

        if (!devices)
                return -EIO;
        for (size_t i = 0; i < json_array_size(devices); i++) {
                const json_t *d = json_array_get(devices, i);
                int k;

                k = ask(c, json_string_value(json_object_get(d, "name")), json_string_value(json_object_get(d, "path")), list);
                r = k < 0 ? k : r;
        }
        json_decref(devices);
        return r;
}

static int ask_some(Ctl *c, char **designations, json_t *list) {
        int r = 0;

        for (; *designations; designations++) {
                _cleanup_free_ char *path = NULL;
                int k;

                k = ctl_get_device(c, *designations, &path);
                if (k >= 0)
                        k = ask(c, *designations, path, list);
                r = k < 0 ? k : r;
        }
        return r;
}

static void print_requests(const Ctl *c, const json_t *list) {
        int width = 6;

        for (size_t i = 0; i < json_array_size(list); i++) {
                int n = (int) strlen(json_string_value(json_object_get(json_array_get(list, i), "device")));
                width = n > width ? n : width;
        }
        if (c->legend && json_array_size(list) > 0)
                printf("%-*s %-12s %16s %12s %9s\n", width, "DEVICE", "OPERATION", "OFFSET", "LENGTH", "AGE");
        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *r = json_array_get(list, i), *frames = json_object_get(r, "backtrace");

                printf("%-*s %-12s %16" PRIu64 " %12" PRIu64 " %8.1fs\n", width, json_string_value(json_object_get(r, "device")),
                       json_string_value(json_object_get(r, "op")),
                       (uint64_t) json_integer_value(json_object_get(r, "offset")),
                       (uint64_t) json_integer_value(json_object_get(r, "length")),
                       (double) json_integer_value(json_object_get(r, "age")) / (double) USEC_PER_SEC);
                for (size_t j = 0; j < json_array_size(frames); j++)
                        printf("    from %s\n", json_string_value(json_array_get(frames, j)));
                if (json_array_size(frames) == 0)
                        printf("    no backtrace: C code keeps the interpreter to itself\n");
        }
        if (c->legend && json_array_size(list) == 0)
                puts("No requests are stuck.");
}

int ctl_stuck(Ctl *c, int argc, char **argv) {
        json_t *list = json_array();
        int r, status;

        r = argc > 1 ? ask_some(c, argv + 1, list) : ask_all(c, argv[0], list);
        status = r < 0 ? CTL_FAILED : json_array_size(list) > 0 ? CTL_TROUBLE : CTL_OK;
        if (c->json != JSON_OFF)
                ctl_print_json(c, list);
        else {
                ctl_make_visible(list);
                if (r >= 0 || json_array_size(list) > 0)
                        print_requests(c, list);
                json_decref(list);
        }
        return status;
}
