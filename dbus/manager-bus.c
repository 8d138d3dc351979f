/* SPDX-License-Identifier: MIT */
#include "dbus/manager-bus.h"

#include "dbus/calls.h"
#include "dbus/device-bus.h"
#include "dbus/errors.h"
#include "dbus/log-control.h"
#include "dbus/manager-vtable.h"
#include "service/control-arguments.h"
#include "service/log.h"
#include "service/name.h"

#include <systemd/sd-daemon.h>

/* How long the start waits for systemd, control and workers before it serves without their answers. */
#define START_TIMEOUT_USEC (10 * USEC_PER_SEC)
/* How long the end waits for operations. Far below TimeoutStopSec=, and as long as a hook has for its start by default. */
#define DRAIN_TIMEOUT_USEC (20 * USEC_PER_SEC)

static void emit_changed(ManagerBus *mb, char **names) {
        if (mb->ready)
                (void) sd_bus_emit_properties_changed_strv(mb->bus, MANAGER_PATH, MANAGER_INTERFACE, names);
}

void manager_bus_count_changed(ManagerBus *mb) {
        emit_changed(mb, (char *[]) { (char *) "DeviceCount", NULL });
}

void manager_bus_support_changed(ManagerBus *mb) {
        emit_changed(mb, (char *[]) { (char *) "Supported", (char *) "UnsupportedReason", (char *) "KernelFeatures", NULL });
}

static int on_name(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const sd_bus_error *e = sd_bus_message_get_error(m);
        ManagerBus *mb = userdata;
        uint32_t answer = 0;

        (void) error;
        if (!e && sd_bus_message_read(m, "u", &answer) >= 0 && answer == 1 /* DBUS_REQUEST_NAME_REPLY_PRIMARY_OWNER */) {
                (void) sd_notify(0, "READY=1");
                log_info("Serving %u device(s) on the bus as " MANAGER_NAME ".", manager_count(mb->manager));
                return 0;
        }
        log_error("The name " MANAGER_NAME " can't be had on the bus: %s", e ? e->message : "another program owns it");
        return sd_event_exit(mb->event, EXIT_FAILURE);
}

static void serve(ManagerBus *mb) {
        int r;

        if (mb->ready)
                return;
        mb->ready = true;
        mb->start_timer = sd_event_source_disable_unref(mb->start_timer);
        r = sd_bus_request_name_async(mb->bus, NULL, MANAGER_NAME, 0, on_name, mb);
        if (r < 0) {
                log_error_errno(r, "The name " MANAGER_NAME " can't be asked for");
                (void) sd_event_exit(mb->event, EXIT_FAILURE);
        }
}

void manager_bus_arrived(ManagerBus *mb) {
        if (--mb->n_awaited == 0)
                serve(mb);
}

static int on_start_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        ManagerBus *mb = userdata;

        (void) s, (void) usec;
        log_warning("%zu answer(s) are still missing, serving without them.", mb->n_awaited);
        serve(mb);
        return 0;
}

/* But for the probe, which changes nothing. */
static bool is_idle(const ManagerBus *mb) {
        return !mb->operations || (mb->operations == mb->probe && !mb->probe->next);
}

void manager_bus_operation_ended(ManagerBus *mb) {
        if (mb->draining && is_idle(mb))
                (void) sd_event_exit(mb->event, EXIT_SUCCESS);
}

static int on_drain_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        ManagerBus *mb = userdata;

        (void) s, (void) usec;
        log_warning("Ending with operations under way; the next start finishes or undoes what they left.");
        (void) sd_event_exit(mb->event, EXIT_SUCCESS);
        return 0;
}

void manager_bus_drain(ManagerBus *mb) {
        bool again = mb->draining;

        mb->draining = true;
        authorise_cancel_all(mb);
        (void) sd_notify(0, "STOPPING=1");
        if (!again && !is_idle(mb)) {
                log_info("Waiting for operations that are under way.");
                if (sd_event_add_time_relative(mb->event, &mb->drain_timer, CLOCK_MONOTONIC, DRAIN_TIMEOUT_USEC, 0,
                                               on_drain_timer, mb) >= 0)
                        return;
        }
        (void) sd_event_exit(mb->event, EXIT_SUCCESS);
}

/* Shows a device that was found, not created. At start its first news are waited for, and nobody has to be told. One that is
 * half created is shown once it is whole (create.c). */
static void adopt(ManagerBus *mb, Device *d) {
        int r;

        r = device_bus_new(mb, d);
        if (r < 0) {
                log_error_errno(r, "Device %u can't be watched, leaving it out", d->config->id);
                manager_remove(mb->manager, d);
                return;
        }
        if (!mb->ready) {
                device_bus_get(d)->awaited = true;
                mb->n_awaited++;
        }
        if (!d->config->creating)
                device_bus_announce(device_bus_get(d));
}

void manager_bus_load(ManagerBus *mb) {
        Manager *m = mb->manager;
        int r;

        r = manager_load(m);
        if (r < 0)
                log_error_errno(r, "The devices' files can't be read");
        for (size_t i = m->n_devices; i > 0; i--)
                if (!m->devices[i - 1]->userdata)
                        adopt(mb, m->devices[i - 1]);
}

/* "PREFIX@INSTANCE.service" → "INSTANCE" */
static int unit_to_instance(const char *unit, const char *prefix, char **ret) {
        size_t n = strlen(prefix), length;

        if (strncmp(unit, prefix, n) != 0)
                return -EINVAL;
        length = strcspn(unit + n, ".");
        if (!streq(unit + n + length, ".service"))
                return -EINVAL;
        *ret = strndup(unit + n, length);
        return *ret ? 0 : -ENOMEM;
}

/* "ublk-ruby-device@7.service" → 7 */
static int unit_to_id(const char *unit, uint32_t *ret) {
        _cleanup_free_ char *id = NULL;
        int r;

        r = unit_to_instance(unit, "ublk-ruby-device@", &id);
        return r < 0 ? r : parse_u32(id, UINT32_MAX, ret);
}

static void on_unit_new(void *userdata, const char *unit) {
        ManagerBus *mb = userdata;
        uint32_t id;
        Device *d;
        int r;

        if (unit_to_id(unit, &id) < 0)
                return;
        r = manager_load_one(mb->manager, id, &d);
        if (r < 0)
                log_error_errno(r, "The file of device %u can't be read", id);
        else if (r > 0)
                adopt(mb, d);
}

/* A verb of control may have taken the kernel device away, of which no unit of a device tells. */
static void on_job_removed(void *userdata, const char *unit) {
        _cleanup_free_ char *instance = NULL;
        ManagerBus *mb = userdata;
        uint32_t id;
        Device *d;

        if (unit_to_instance(unit, "ublk-ruby-control@", &instance) < 0 || control_instance_to_id(instance, &id) < 0)
                return;
        d = manager_get(mb->manager, id);
        if (d && d->userdata)
                device_bus_update(device_bus_get(d));
}

static int on_listed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        ManagerBus *mb = userdata;
        const char *unit;
        bool in_use;
        uint32_t id;

        (void) error;
        if (!sd_bus_message_get_error(m) && sd_bus_message_enter_container(m, 'a', "(ssssssouso)") >= 0)
                while (systemd_read_listed(m, &unit, &in_use) > 0)
                        if (in_use && unit_to_id(unit, &id) >= 0 && !manager_get(mb->manager, id))
                                log_warning("%s runs, but has no file that can be read; leaving it alone.", unit);
        mb->listing = sd_bus_slot_unref(mb->listing);
        manager_bus_arrived(mb);
        return 0;
}

/* Getters don't tell: sd-bus calls them for its own signals, too. */
static int on_message(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        ManagerBus *mb = userdata;

        (void) error;
        if (streq_ptr(sd_bus_message_get_path(m), MANAGER_PATH) &&
            (sd_bus_message_is_method_call(m, "org.freedesktop.DBus.Properties", "Get") ||
             sd_bus_message_is_method_call(m, "org.freedesktop.DBus.Properties", "GetAll")))
                probe_note_read(mb);
        return 0;
}

static int connect_bus(ManagerBus *mb) {
        int r;

        r = bus_errors_register();
        if (r >= 0)
                r = sd_bus_open_system_with_description(&mb->bus, "ublk-rubyd");
        if (r < 0)
                return log_error_errno(r, "The system bus can't be reached");
        (void) sd_bus_set_exit_on_disconnect(mb->bus, true);
        r = sd_bus_attach_event(mb->bus, mb->event, SD_EVENT_PRIORITY_NORMAL);
        if (r >= 0)
                r = sd_bus_add_filter(mb->bus, NULL, on_message, mb);
        if (r >= 0)
                r = manager_vtable_register(mb);
        if (r >= 0)
                r = log_control_register(mb);
        if (r >= 0)
                r = device_bus_register(mb);
        if (r >= 0)
                r = sd_bus_add_object_manager(mb->bus, NULL, MANAGER_PATH);
        if (r >= 0)
                r = systemd_new(mb->bus, on_unit_new, on_job_removed, mb, &mb->systemd);
        return r < 0 ? log_error_errno(r, "The bus objects can't be set up") : 0;
}

static int begin(ManagerBus *mb) {
        int r;

        mb->n_awaited++;
        r = systemd_list_units(mb->systemd, &mb->listing, "ublk-ruby-device@*.service", on_listed, mb);
        if (r < 0)
                return log_error_errno(r, "systemd can't be asked for its units");
        r = sd_event_add_time_relative(mb->event, &mb->start_timer, CLOCK_MONOTONIC, START_TIMEOUT_USEC, 0,
                                       on_start_timer, mb);
        if (r < 0)
                return log_error_errno(r, "No timer");
        manager_bus_load(mb);
        r = probe_begin(mb);
        return r < 0 ? log_error_errno(r, "The probe can't be started") : 0;
}

int manager_bus_new(Manager *m, sd_event *event, uid_t trusted_uid, ManagerBus **ret) {
        _cleanup_(manager_bus_freep) ManagerBus *mb = malloc(sizeof(ManagerBus));
        int r;

        if (!mb)
                return -ENOMEM;
        *mb = (ManagerBus) { .manager = m, .event = event, .trusted_uid = trusted_uid };
        r = connect_bus(mb);
        if (r >= 0)
                r = begin(mb);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(mb);
        return 0;
}

ManagerBus *manager_bus_free(ManagerBus *mb) {
        if (!mb)
                return NULL;
        while (mb->operations)
                operation_free(mb->operations);
        while (mb->authorisations)
                authorisation_free(mb->authorisations);
        for (size_t i = 0; i < mb->manager->n_devices; i++)
                device_bus_free(mb->manager->devices[i]->userdata);
        sd_bus_slot_unref(mb->listing);
        sd_event_source_disable_unref(mb->start_timer);
        sd_event_source_disable_unref(mb->drain_timer);
        sd_event_source_disable_unref(mb->probe_timer);
        systemd_free(mb->systemd);
        sd_bus_flush_close_unref(mb->bus);
        free(mb);
        return NULL;
}
