/* SPDX-License-Identifier: MIT */

/*
 * DeleteDevice and Device.Delete: nothing that is in use is stopped. Held before → DeviceBusy. Held by the time its unit is
 * down → the unit is started again, DeviceBusy. Else unit, kernel device and file go, in this order.
 */

#include "dbus/calls.h"
#include "dbus/device-bus.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "service/log.h"
#include "service/marker.h"
#include "service/needs.h"
#include "service/state.h"

/* {"kind":…,"what":…,"pid":…,"comm":…} as a person would say it. */
static void put_holder(FILE *f, const json_t *h) {
        const char *kind = json_string_value(json_object_get(h, "kind"));
        const char *what = json_string_value(json_object_get(h, "what"));
        const char *comm = json_string_value(json_object_get(h, "comm"));

        if (streq_ptr(kind, "mount"))
                fprintf(f, "mounted on %s", what ? what : "?");
        else if (streq_ptr(kind, "swap"))
                fputs("used as swap", f);
        else if (streq_ptr(kind, "process"))
                fprintf(f, "open in process %lld (%s)", (long long) json_integer_value(json_object_get(h, "pid")),
                        comm ? comm : "?");
        else
                fprintf(f, "used by %s", what ? what : "something unknown");
}

/* Sets DeviceBusy if there is a holder in the answer. outcome: what that means for the device. */
static bool check_held(Operation *op, const char *outcome) {
        const json_t *holders = json_object_get(op->answer, "holders");
        _cleanup_free_ char *text = NULL;
        size_t size, n = json_array_size(holders);
        FILE *f;

        if (n == 0)
                return false;
        f = open_memstream(&text, &size);
        for (size_t i = 0; f && i < n; i++) {
                fputs(i > 0 ? ", " : "", f);
                put_holder(f, json_array_get(holders, i));
        }
        if (f)
                (void) fclose(f);
        operation_set_error(op, BUS_ERROR_DEVICE_BUSY, "Device %s is in use: %s. %s; end that use first.",
                            op->device->config->name, text ? text : "?", outcome);
        return true;
}

static void finish(Operation *op, int r) {
        Device *d = op->device;

        if (r < 0)
                log_warning("The drop-in of device %u stays until systemd is reloaded: %s", d->config->id,
                            op->step_error.message);
        op->device = NULL;
        device_bus_remove(device_bus_get(d));
        operation_return(op, NULL);
}

static void remove_file(Operation *op) {
        const DeviceConfig *c = op->device->config;
        int r;

        r = device_config_remove(c->id);
        if (r < 0) {
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "The file of device %s can't be removed: %s", c->name,
                                    strerror(-r));
                operation_fail(op);
                return;
        }
        (void) marker_remove(c->id);
        /* Takes its unit's drop-in away, and what wanted the unit at boot: as `systemctl disable` does. */
        if (needs_drop_in_exists(c->id) || c->persistent)
                operation_reload(op, finish);
        else
                finish(op, 0);
}

static void on_disabled(Operation *op, int r) {
        if (r < 0)
                log_warning("The unit of device %u was not disabled, ignoring: %s", op->device->config->id,
                            op->step_error.message);
        remove_file(op);
}

static void forget(Operation *op) {
        _cleanup_free_ char *unit = NULL;

        if (device_unit(op->device, &unit) >= 0)
                systemd_reset_failed(op->mb->systemd, unit);
        if (op->device->config->persistent)
                operation_enable(op, false, on_disabled);
        else
                remove_file(op);
}

static void on_started_again(Operation *op, int r) {
        if (r < 0 || !streq(op->job_result, "done"))
                log_error("Device %u is in use, but did not start again: %s", op->device->config->id,
                          r < 0 ? op->step_error.message : op->job_result);
        operation_fail(op);
}

static bool is_down(const Device *d) {
        return d->state == DEVICE_HELD || d->state == DEVICE_STOPPED || d->state == DEVICE_FAILED;
}

static void start_again(Operation *op) {
        operation_run_job(op, "StartUnit", "replace", on_started_again);
}

/* The kernel device of this id was never ours, or is not any more: it is no part of what is deleted. A marker that can't be
 * read may be anything. */
static bool is_foreign(const Device *d) {
        return is_down(d) && marker_read(d->config) == MARKER_NONE;
}

static void on_removed(Operation *op, int r) {
        (void) r; /* the kernel tells */
        device_refresh(op->device);
        if (!op->device->kernel.has_char || operation_answer_is_foreign(op)) {
                forget(op);
                return;
        }
        operation_keep_step_error(op);
        operation_set_error(op, BUS_ERROR_WORKER_FAILED, "The kernel still has device %s.", op->device->config->name);
        if (sd_bus_error_has_name(&op->error, BUS_ERROR_DEVICE_BUSY))
                start_again(op);
        else
                operation_fail(op);
}

static void remove_device(Operation *op) {
        operation_run_remove(op, op->keep_state ? "keep" : "state", on_removed);
}

static void on_held_after(Operation *op, int r) {
        if (r >= 0 && check_held(op, "It has been started again"))
                start_again(op);
        else
                remove_device(op);
}

static void on_fetched(Operation *op, int r) {
        Device *d = op->device;

        if (r < 0)
                operation_keep_step_error(op);
        else if (!is_down(d))
                operation_set_error(op, BUS_ERROR_CANCELLED, "The unit of device %s was started again meanwhile (job: %s).",
                                    d->config->name, op->job_result);
        if (sd_bus_error_is_set(&op->error)) {
                operation_fail(op);
                return;
        }
        /* Who uses a disk that is not ours is nothing to us; `remove` has a look at whose it is. */
        if (d->kernel.has_disk && !is_foreign(d))
                operation_run_device_control(op, "holders", on_held_after);
        else if (d->kernel.has_char || op->was_down || marker_read(d->config) != MARKER_NONE || state_exists(d->config->name))
                /* Its unit's stop did not get to tidy up, or left what the hook kept, since a unit can be started again. */
                remove_device(op);
        else
                forget(op);
}

static void on_stopped(Operation *op, int r) {
        /* A unit that systemd does not know, or can't load, runs as little as one that was stopped. */
        (void) r;
        operation_fetch(op, on_fetched);
}

static void stop(Operation *op) {
        op->was_down = is_down(op->device);
        operation_run_job(op, "StopUnit", "replace", on_stopped);
}

static void on_held_before(Operation *op, int r) {
        if (r < 0)
                operation_keep_step_error(op);
        if (r < 0 || check_held(op, "Nothing was stopped"))
                operation_fail(op);
        else
                stop(op);
}

int delete_begin(ManagerBus *mb, sd_bus_message *m, Device *d, bool keep_state, sd_bus_error *e) {
        Operation *op;
        int r;
        uid_t uid;

        r = authorise(mb, m, ACTION_MANAGE_DEVICE, d->config->name, d->config->hook, &uid, e);
        if (r <= 0)
                return r < 0 ? r : 1;
        r = operation_new(mb, m, uid, d, &op, e);
        if (r < 0)
                return r;
        op->keep_state = keep_state;
        device_refresh(d);
        if (d->kernel.has_disk && !is_foreign(d))
                operation_run_device_control(op, "holders", on_held_before);
        else
                stop(op);
        return 1;
}
