/* SPDX-License-Identifier: MIT */

/* RestartDevice and Device.Restart: a hand-over from one worker to the next. Whatever comes of it, the device is kept. */

#include "dbus/calls.h"
#include "dbus/manager-bus.h"

static void on_fetched(Operation *op, int r) {
        if (r < 0)
                operation_keep_step_error(op);
        else if (streq(op->job_result, "done") && op->device->state == DEVICE_LIVE) {
                operation_return(op, NULL);
                return;
        }
        operation_set_unit_error(op);
        operation_fail(op);
}

static void on_restarted(Operation *op, int r) {
        if (r < 0) {
                operation_keep_step_error(op);
                operation_fail(op);
                return;
        }
        operation_fetch(op, on_fetched);
}

int restart_begin(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e) {
        Operation *op;
        int r;

        r = manager_bus_authorise(mb, m, e);
        if (r < 0)
                return r;
        if (d->state == DEVICE_LIVE && streq(device_recovery(d), "none"))
                return sd_bus_error_setf(e, SD_BUS_ERROR_NOT_SUPPORTED,
                                         "Device %s has recovery none: its data would end with its worker. "
                                         "Delete it and create it anew.",
                                         d->config->name);
        r = operation_new(mb, m, d, &op, e);
        if (r < 0)
                return r;
        device_forget_failure(d);
        /* "fail": a stop that is under way would be replaced by a restart, which brings back an empty device. */
        operation_run_job(op, "RestartUnit", "fail", on_restarted);
        return 1;
}
