/* SPDX-License-Identifier: MIT */

/* RestartDevice and Device.Restart: a hand-over from one worker to the next, who runs the same code. Whatever comes of it, the
 * device is kept. */

#include "dbus/calls.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "service/paths.h"

static void restart(Operation *op);

static void on_needs_met(Operation *op, int r) {
        if (r < 0) {
                operation_keep_step_error(op);
                operation_fail(op);
        } else
                restart(op);
}

static void on_fetched(Operation *op, int r) {
        if (r < 0)
                operation_keep_step_error(op);
        else if (streq(op->job_result, "done") && op->device->state == DEVICE_LIVE) {
                operation_return(op, NULL);
                return;
        } else if (operation_lacks_needs(op)) {
                operation_meet_needs(op, on_needs_met);
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

static void restart(Operation *op) {
        if (operation_check_secrets(op) < 0) {
                operation_fail(op);
                return;
        }
        device_forget_failure(op->device);
        /* "fail": a stop that is under way would be replaced by a restart, which brings back an empty device. */
        operation_run_job(op, "RestartUnit", "fail", on_restarted);
}

static void on_recovery_known(Operation *op, int r) {
        const Device *d = op->device;
        const char *name = d->config->name;

        if (r >= 0 && d->recovery == RECOVERY_NONE)
                operation_set_error(op, SD_BUS_ERROR_NOT_SUPPORTED,
                                    "Device %s has recovery none: its data would end with its worker. "
                                    "Delete it and create it anew.",
                                    name);
        else if (r < 0 || !device_has_hello(d))
                operation_set_error(op, BUS_ERROR_WORKER_FAILED,
                                    "The worker of device %s does not say what its recovery is (%s), and if that is none, its data "
                                    "would end with it. If the data may go: systemctl restart " UNIT_DEVICE,
                                    name, r < 0 ? strerror(-r) : "another one has taken its place", d->config->id);
        else {
                op->begin(op);
                return;
        }
        operation_fail(op);
}

/* Data that is nowhere but in the worker can be there only while there is a worker and a disk. One that is on its way back to
 * a disk has nothing that it did not find; a hook that never gets there would not be rid of otherwise. */
static void on_unit_known(Operation *op, int r) {
        const Device *d = op->device;

        if (r < 0) {
                operation_keep_step_error(op);
                operation_fail(op);
        } else if (d->unit.main_pid == 0 || !d->kernel.has_disk || d->state == DEVICE_RECOVERING)
                op->begin(op);
        else if (device_has_hello(d))
                on_recovery_known(op, 0);
        else
                operation_ask_worker(op, on_recovery_known);
}

void restart_when_safe(Operation *op, void (*begin)(Operation *op)) {
        op->begin = begin;
        operation_fetch(op, on_unit_known);
}

int restart_begin(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e) {
        int r, authorised;
        Operation *op;
        uid_t uid;

        authorised = authorise(mb, m, ACTION_MANAGE_DEVICE, d->config->name, d->config->hook, &uid, e);
        if (authorised <= 0)
                return authorised < 0 ? authorised : 1;
        r = operation_new(mb, m, uid, d, &op, e);
        if (r < 0)
                return r;
        op->may_any_hook = authorised == AUTHORISE_ROOT;
        restart_when_safe(op, restart);
        return 1;
}
