/* SPDX-License-Identifier: MIT */

/*
 * ListStrays and RemoveStray (service/strays.h says what a stray is). Which ublk device is one only control can tell, as the
 * driver answers nobody else. One that a worker still serves: its unit is stopped first, unless somebody uses the disk.
 */

#include "dbus/calls.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "service/paths.h"

static int append_stray(sd_bus_message *reply, const json_t *device) {
        const char *why = json_string_value(json_object_get(device, "stray"));
        json_int_t id = json_integer_value(json_object_get(device, "id"));

        return why ? sd_bus_message_append(reply, "(us)", (uint32_t) id, why) : 0;
}

static int make_list(const Operation *op, sd_bus_message *call, sd_bus_message **ret) {
        const json_t *devices = json_object_get(op->answer, "devices");
        int r;

        r = sd_bus_message_new_method_return(call, ret);
        if (r >= 0)
                r = sd_bus_message_open_container(*ret, 'a', "(us)");
        for (size_t i = 0; r >= 0 && i < json_array_size(devices); i++)
                r = append_stray(*ret, json_array_get(devices, i));
        return r < 0 ? r : sd_bus_message_close_container(*ret);
}

static int send_list(const Operation *op, sd_bus_message *call) {
        sd_bus_message *reply = NULL;
        int r;

        r = make_list(op, call, &reply);
        if (r >= 0)
                r = sd_bus_send(op->mb->bus, reply, NULL);
        sd_bus_message_unref(reply);
        return r;
}

/* Whoever came while control was at work gets the same answer. */
static void on_listed(Operation *op, int r) {
        operation_keep_step_error(op);
        for (size_t i = 0; i < op->list_askers.n; i++) {
                sd_bus_message *call = op->list_askers.all[i].message;
                int k = r < 0 ? r : send_list(op, call);

                if (k < 0)
                        (void) sd_bus_reply_method_errno(call, k, &op->error);
        }
        if (r >= 0)
                r = send_list(op, op->message);
        if (r < 0)
                operation_fail(op);
        else
                operation_free(op);
}

static Operation *find_list(const ManagerBus *mb) {
        Operation *op = mb->operations;

        while (op && !op->lists)
                op = op->next;
        return op;
}

int strays_list_begin(ManagerBus *mb, sd_bus_message *m, sd_bus_error *e) {
        Operation *op;
        uid_t uid;
        int r;

        r = authorise(mb, m, ACTION_LOOK, /* name= */ "", /* hook= */ NULL, &uid, e);
        if (r <= 0)
                return r < 0 ? r : 1;
        op = find_list(mb);
        if (op)
                return askers_add(&op->list_askers, m, uid, e);
        r = operation_new(mb, m, uid, NULL, &op, e);
        if (r < 0)
                return r;
        op->lists = true;
        manager_bus_load(mb); /* a file that fits makes a device of a stray */
        operation_run_control(op, "list", on_listed);
        return 1;
}

static void sweep(Operation *op);

static void on_stopped(Operation *op, int r) {
        (void) r; /* whether it did stop is told by control */
        op->stopped = true;
        sweep(op);
}

static void on_swept(Operation *op, int r) {
        _cleanup_free_ char *unit = NULL;
        bool served = json_is_true(json_object_get(op->answer, "served"));

        if (r >= 0 && served && !op->stopped) {
                operation_run_job_of(op, op->stray, "StopUnit", "replace", on_stopped);
                return;
        }
        /* Its unit has put it away by itself when it was stopped. */
        if (r == -ENODEV && op->stopped)
                r = 0;
        if (r >= 0 && !served) {
                if (xasprintf(&unit, UNIT_DEVICE, op->stray) >= 0)
                        systemd_reset_failed(op->mb->systemd, unit);
                operation_return(op, NULL);
                return;
        }
        operation_keep_step_error(op);
        operation_set_error(op, BUS_ERROR_DEVICE_BUSY, "/dev/ublkb%u is served although " UNIT_DEVICE " was stopped. Who does: "
                            "ublk-ruby-control list", op->stray, op->stray);
        operation_fail(op);
}

static void sweep(Operation *op) {
        char instance[64];

        (void) snprintf(instance, sizeof(instance), "%s-%u", op->force ? "purge" : "sweep", op->stray);
        operation_run_control(op, instance, on_swept);
}

int strays_remove_begin(ManagerBus *mb, sd_bus_message *m, uint32_t id, bool force, sd_bus_error *e) {
        _cleanup_free_ char *name = NULL;
        Operation *op;
        int r;
        uid_t uid;

        r = xasprintf(&name, "%u", id);
        if (r >= 0)
                r = authorise(mb, m, ACTION_MANAGE_DEVICE, name, NULL, &uid, e);
        if (r <= 0)
                return r < 0 ? r : 1;
        for (op = mb->operations; op; op = op->next)
                if (op->is_removal && op->stray == id)
                        return bus_error_setf(e, BUS_ERROR_OPERATION_IN_PROGRESS, "Another call is removing stray %u.", id);
        r = operation_new(mb, m, uid, NULL, &op, e);
        if (r < 0)
                return r;
        manager_bus_load(mb);
        op->is_removal = true;
        op->stray = id;
        op->force = force;
        sweep(op);
        return 1;
}
