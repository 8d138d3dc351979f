/* SPDX-License-Identifier: MIT */
#include "dbus/unit-job.h"

#include <systemd/sd-bus.h>

#define PRIVATE_BUS "unix:path=/run/systemd/private"
#define UNIT_PATH "/org/freedesktop/systemd1/unit"

static void bus_freep(sd_bus **bus) {
        sd_bus_close_unref(*bus);
}

static void message_freep(sd_bus_message **m) {
        sd_bus_message_unref(*m);
}

static int connect_private(uint64_t timeout_usec, sd_bus **ret) {
        _cleanup_(bus_freep) sd_bus *bus = NULL;
        int r;

        r = sd_bus_new(&bus);
        if (r < 0)
                return r;
        r = sd_bus_set_address(bus, PRIVATE_BUS);
        if (r < 0)
                return r;
        r = sd_bus_set_method_call_timeout(bus, timeout_usec);
        if (r < 0)
                return r;
        r = sd_bus_start(bus);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(bus);
        return 0;
}

/* There is no destination: the peer at the other end is PID 1 itself. */
static int get_job(sd_bus *bus, const char *unit, uint32_t *ret_id, char **ret_path) {
        _cleanup_(message_freep) sd_bus_message *reply = NULL;
        _cleanup_free_ char *path = NULL;
        const char *job;
        uint32_t id;
        int r;

        r = sd_bus_path_encode(UNIT_PATH, unit, &path);
        if (r < 0)
                return r;
        r = sd_bus_get_property(bus, NULL, path, "org.freedesktop.systemd1.Unit", "Job", NULL, &reply, "(uo)");
        if (r < 0)
                return r;
        r = sd_bus_message_read(reply, "(uo)", &id, &job);
        if (r < 0)
                return r;
        r = xstrdup(job, ret_path);
        if (r >= 0)
                *ret_id = id;
        return r;
}

int unit_job_type(const char *unit, uint64_t timeout_usec, char **ret) {
        _cleanup_(bus_freep) sd_bus *bus = NULL;
        _cleanup_free_ char *path = NULL;
        uint32_t id;
        int r;

        r = connect_private(timeout_usec, &bus);
        if (r < 0)
                return r;
        r = get_job(bus, unit, &id, &path);
        if (r < 0)
                return r;
        if (id == 0)
                return xstrdup("none", ret);
        r = sd_bus_get_property_string(bus, NULL, path, "org.freedesktop.systemd1.Job", "JobType", NULL, ret);
        return r < 0 ? r : 0;
}

int system_is_going_down(uint64_t timeout_usec) {
        _cleanup_(bus_freep) sd_bus *bus = NULL;
        _cleanup_free_ char *state = NULL;
        int r;

        r = connect_private(timeout_usec, &bus);
        if (r < 0)
                return r;
        r = sd_bus_get_property_string(bus, NULL, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "SystemState", NULL,
                                       &state);
        return r < 0 ? r : streq(state, "stopping");
}

static bool has_suffix(const char *s, const char *suffix) {
        size_t n = strlen(s), k = strlen(suffix);

        return n >= k && streq(s + n - k, suffix);
}

/* What waits for our own unit is no reason to wait for it: only what is running. */
static int read_jobs(sd_bus_message *m) {
        const char *unit, *type, *state;
        bool found = false;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "(usssoo)");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_read(m, "(usssoo)", NULL, &unit, &type, &state, NULL, NULL)) > 0)
                if (streq(type, "stop") && streq(state, "running") && (has_suffix(unit, ".mount") || has_suffix(unit, ".swap")))
                        found = true;
        return r < 0 ? r : found;
}

int system_is_unmounting(uint64_t timeout_usec) {
        _cleanup_(message_freep) sd_bus_message *reply = NULL;
        _cleanup_(bus_freep) sd_bus *bus = NULL;
        int r;

        r = connect_private(timeout_usec, &bus);
        if (r >= 0)
                r = sd_bus_call_method(bus, NULL, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "ListJobs", NULL, &reply,
                                       NULL);
        return r < 0 ? r : read_jobs(reply);
}

int unit_restart(const char *unit, uint64_t timeout_usec) {
        _cleanup_(bus_freep) sd_bus *bus = NULL;
        sd_bus_error error = SD_BUS_ERROR_NULL;
        int r;

        r = connect_private(timeout_usec, &bus);
        if (r < 0)
                return r;
        r = sd_bus_call_method(bus, NULL, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "RestartUnit", &error,
                               NULL, "ss", unit, "replace");
        sd_bus_error_free(&error);
        return r < 0 ? r : 0;
}

int unit_status_text(const char *unit, uint64_t timeout_usec, char **ret) {
        _cleanup_(bus_freep) sd_bus *bus = NULL;
        _cleanup_free_ char *path = NULL;
        int r;

        r = connect_private(timeout_usec, &bus);
        if (r >= 0)
                r = sd_bus_path_encode(UNIT_PATH, unit, &path);
        if (r >= 0)
                r = sd_bus_get_property_string(bus, NULL, path, "org.freedesktop.systemd1.Service", "StatusText", NULL, ret);
        return r < 0 ? r : 0;
}
