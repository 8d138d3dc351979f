/* SPDX-License-Identifier: MIT */

/*
 * Device.Resize, in the steps that service/resize.h tells of: the device's file says that it is being resized, control has the
 * hook (and, to smaller, the kernel) do it, the file says the new size, control has the kernel follow, and the file says that it
 * is over.
 */

#include "dbus/calls.h"
#include "dbus/device-bus.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "service/features.h"
#include "service/log.h"
#include "service/uapi.h"

#include <inttypes.h>

static bool kernel_can(const ManagerBus *mb) {
        const char *name = feature_find(UBLK_F_UPDATE_SIZE)->name;

        for (char **f = mb->manager->support.features; f && *f; f++)
                if (streq(*f, name))
                        return true;
        return false;
}

static int save(Operation *op, bool resizing) {
        DeviceConfig *c = op->device->config;
        int r;

        c->resizing = resizing;
        r = device_config_save(c);
        if (r < 0)
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "The file of device %s can't be written: %s", c->name, strerror(-r));
        return r;
}

static uint64_t answered_size(const Operation *op) {
        return (uint64_t) json_integer_value(json_object_get(op->answer, "size"));
}

/* What later workers are told, if their hook wants to be told. */
static int take_size(Operation *op, uint64_t size) {
        DeviceConfig *c = op->device->config;
        char text[32];
        int r;

        if (!json_is_true(json_object_get(op->answer, "takes-size")))
                return 0;
        (void) snprintf(text, sizeof(text), "%" PRIu64, size);
        r = device_config_set_argument(c, "size", 't', text);
        if (r < 0)
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "The new size of device %s can't be kept: %s", c->name, strerror(-r));
        return r;
}

/* Resizing= stays where it is not known that both are agreed: the next start of a worker will see to it. */
static void fail(Operation *op, bool agreed) {
        if (agreed)
                (void) save(op, false);
        device_bus_update_arguments(device_bus_get(op->device));
        operation_fail(op);
}

static void on_settled(Operation *op, int r) {
        uint64_t size = answered_size(op);

        if (r < 0) {
                operation_keep_step_error(op);
                fail(op, /* agreed= */ false);
                return;
        }
        if (take_size(op, size) < 0 || save(op, false) < 0) {
                fail(op, false);
                return;
        }
        device_bus_update_arguments(device_bus_get(op->device));
        if (op->message && size != op->size)
                operation_set_error(op, BUS_ERROR_WORKER_FAILED,
                                    "Another worker came in between, and the disk of device %s has %" PRIu64 " bytes again; try it once more.",
                                    op->device->config->name, size);
        if (sd_bus_error_is_set(&op->error))
                operation_fail(op);
        else
                operation_return(op, NULL);
}

static void settle(Operation *op) {
        operation_run_device_control(op, "resize", on_settled);
}

static void on_resized(Operation *op, int r) {
        if (r < 0) {
                bool unchanged = json_is_true(json_object_get(op->answer, "unchanged"));

                operation_keep_step_error(op);
                fail(op, unchanged);
                return;
        }
        op->size = answered_size(op);
        if (take_size(op, op->size) < 0 || save(op, true) < 0)
                fail(op, false);
        else
                settle(op);
}

static void begin(Operation *op) {
        char instance[64];

        if (save(op, true) < 0) {
                op->device->config->resizing = false;
                operation_fail(op);
                return;
        }
        (void) snprintf(instance, sizeof(instance), "resize-%u-%" PRIu64, op->device->config->id, op->size);
        operation_run_control(op, instance, on_resized);
}

static int check(ManagerBus *mb, const Device *d, sd_bus_error *e) {
        const char *name = d->config->name;

        if (!kernel_can(mb))
                return bus_error_setf(e, BUS_ERROR_NO_KERNEL_SUPPORT,
                                      "To change the size of a live disk takes a ublk driver with update-size, which came with Linux 6.16, and "
                                      "Linux %s has it not. Boot a newer one, or delete the device and create it with the other size.",
                                      mb->manager->kernel);
        if (d->state != DEVICE_LIVE)
                return bus_error_setf(e, BUS_ERROR_WORKER_FAILED, "Device %s is %s; its size can be changed while it is live.", name,
                                      device_state_to_string(d->state));
        return 0;
}

int resize_begin(ManagerBus *mb, sd_bus_message *m, Device *d, uint64_t bytes, sd_bus_error *e) {
        Operation *op;
        int r;
        uid_t uid;

        r = authorise(mb, m, ACTION_MANAGE_DEVICE, d->config->name, d->config->hook, &uid, e);
        if (r <= 0)
                return r < 0 ? r : 1;
        r = check(mb, d, e);
        if (r < 0)
                return r;
        r = operation_new(mb, m, uid, d, &op, e);
        if (r < 0)
                return r;
        op->size = bytes;
        device_bus_get(d)->resize_resumed = true; /* from here on it is this manager's own */
        begin(op);
        return 1;
}

void resize_resume(ManagerBus *mb, Device *d) {
        DeviceBus *db = device_bus_get(d);
        Operation *op;
        int r;

        if (!d->config->resizing || d->state != DEVICE_LIVE || db->resize_resumed)
                return;
        db->resize_resumed = true; /* once: what can't be done now the next worker's start does */
        r = operation_new(mb, NULL, 0, d, &op, NULL);
        if (r < 0) {
                log_error_errno(r, "The size of device %u can't be settled", d->config->id);
                return;
        }
        log_notice("Device %s was being resized, since before this start of the service.", d->config->name);
        settle(op);
}
