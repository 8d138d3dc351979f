/* SPDX-License-Identifier: MIT */

/*
 * Device.SetPersistent: whether a device comes back after a reboot. Two things say so: that its file lies in /etc, and that its unit
 * is enabled. Each step can be done again, so that a call that came to nothing in the middle is put right by the next one,
 * also by one that asks for what seems to be so already.
 */

#include "dbus/calls.h"
#include "dbus/device-bus.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "service/log.h"

static void fail(Operation *op, int r, const char *what) {
        if (sd_bus_error_is_set(&op->step_error))
                operation_keep_step_error(op);
        else
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "%s of device %s: %s", what, op->device->config->name, strerror(-r));
        operation_fail(op);
}

static int move(Operation *op, bool persistent) {
        bool before = op->device->config->persistent;
        int r;

        r = device_config_move(op->device->config, persistent);
        if (r >= 0 && persistent != before)
                device_bus_persistent_changed(device_bus_get(op->device));
        return r;
}

/* What was not enabled would lie there for nothing. */
static void on_enabled(Operation *op, int r) {
        int k;

        if (r >= 0) {
                operation_return(op, NULL);
                return;
        }
        k = op->was_persistent ? 0 : move(op, false);
        if (k < 0)
                log_warning("The file of device %s can't be put back: %s", op->device->config->name, strerror(-k));
        fail(op, r, "The unit can't be enabled");
}

static void on_reloaded(Operation *op, int r) {
        if (r < 0)
                log_warning("systemd still wants the unit of device %s at boot, until it is reloaded: %s", op->device->config->name,
                            op->step_error.message);
        operation_return(op, NULL);
}

static void on_disabled(Operation *op, int r) {
        if (r >= 0)
                r = move(op, false);
        if (r < 0)
                fail(op, r, "The file can't be moved out of /etc");
        else
                operation_reload(op, on_reloaded);
}

static void begin(Operation *op, bool persistent) {
        int r;

        if (!persistent) {
                operation_enable(op, false, on_disabled);
                return;
        }
        r = move(op, true);
        if (r < 0)
                fail(op, r, "The file can't be moved to /etc");
        else
                operation_enable(op, true, on_enabled);
}

int persist_begin(ManagerBus *mb, sd_bus_message *m, Device *d, bool persistent, sd_bus_error *e) {
        Operation *op;
        int r;
        uid_t uid;

        r = authorise(mb, m, ACTION_MANAGE_DEVICE, d->config->name, d->config->hook, &uid, e);
        if (r <= 0)
                return r < 0 ? r : 1;
        r = operation_new(mb, m, uid, d, &op, e);
        if (r < 0)
                return r;
        op->was_persistent = d->config->persistent;
        begin(op, persistent);
        return 1;
}
