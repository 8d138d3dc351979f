/* SPDX-License-Identifier: MIT */

/*
 * ReloadDevice and Device.Reload: the hook's code on the disk takes the place of the code that the device runs, under its users.
 * The code is looked at first, in a process that has nothing to do with the device; then a new worker takes over with it, on trial
 * (trial.h). If that worker does not come up or does not last, the old code comes back, with or without this service; here that
 * is waited for, so that the caller is told why only when the device is well again.
 *
 * Device.Reconfigure is the same with other arguments, which are on trial with the code (trial.h), and become the device's own
 * when that has ended well.
 */

#include "dbus/calls.h"
#include "dbus/device-bus.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "dbus/options.h"
#include "service/log.h"
#include "service/needs.h"
#include "service/paths.h"
#include "service/trial.h"

/* For a worker to come up, beside the hook's own start. */
#define COME_UP_USEC (60 * USEC_PER_SEC)
/* How often a worker is asked that has requests in hand as yet. It says itself when they take too long; this is for one that does not. */
#define KEEP_TICK_USEC (200 * USEC_PER_MSEC)
#define KEEP_USEC (TRIAL_MAX_CALL_USEC + 30 * USEC_PER_SEC)
/* How often a unit that is down is looked at meanwhile: one that restarts is down for a moment. */
#define TICK_USEC (2 * USEC_PER_SEC)

static void end_trial(const Operation *op) {
        int r;

        r = trial_end(op->device->config->id);
        if (r < 0)
                log_error_errno(r, "The file that says that device %u is on trial can't be removed", op->device->config->id);
}

static const char *present_invocation(const Operation *op) {
        const char *id = op->device->unit.invocation;

        return id ? id : "";
}

static bool is_live(const Operation *op) {
        return op->device->state == DEVICE_LIVE;
}

/* And stays so. In the middle of a restart it is down as well, for as long as it takes until all is there that its start waits for. */
static bool is_down(const Operation *op) {
        DeviceState state = op->device->state;

        if (op->device->unit.job != 0)
                return false;
        return state == DEVICE_HELD || state == DEVICE_STOPPED || state == DEVICE_FAILED;
}

static bool trial_is_over(const Operation *op) {
        return !trial_is_on(op->device->config, NULL);
}

static bool is_live_or_over(const Operation *op) {
        return is_live(op) || trial_is_over(op);
}

static void on_tick(Operation *op, int r) {
        if (r >= 0 || is_down(op) || now_usec() >= op->deadline_usec)
                op->after(op, r);
        else
                operation_wait(op, TICK_USEC, op->awaited, on_tick);
}

/* Until awaited says so, the unit is down and stays so, or no worker can be expected to come up any more. */
static void await_worker(Operation *op, bool (*awaited)(const Operation *op), OperationNext after) {
        op->awaited = awaited;
        op->after = after;
        op->deadline_usec = now_usec() + COME_UP_USEC + op->device->config->start_timeout_usec;
        operation_wait(op, TICK_USEC, awaited, on_tick);
}

static const char *outcome(const Operation *op) {
        if (is_live(op))
                return "It goes on with the code that it had.";
        if (is_down(op))
                return "Its unit has been stopped meanwhile.";
        return "It is not back with the code that it had, either; systemd goes on trying.";
}

/* The unit is as it was. */
static void on_without_needs(Operation *op, int r) {
        if (r < 0)
                log_warning("Device %s keeps what its new code needed (%s) until it is restarted: %s", op->device->config->name,
                            op->trial_needs, op->step_error.message);
        operation_fail(op);
}

/* A worker that was started meanwhile has what was given for the new code: the next one does not. */
static void on_needs_taken_back(Operation *op, int r) {
        if (r < 0 || !is_live(op) || streq_ptr(op->before_trial, present_invocation(op)))
                on_without_needs(op, r);
        else
                operation_run_job(op, "RestartUnit", "fail", on_without_needs);
}

/* The error is set, and there is nothing on trial any more. */
static void end(Operation *op) {
        end_trial(op);
        if (op->trial_needs)
                operation_reload(op, on_needs_taken_back);
        else
                operation_fail(op);
}

/* What was wrong with the new code is set; here is what became of the device. */
static void on_back(Operation *op, int r) {
        const char *name = op->device->config->name;
        sd_bus_error error = SD_BUS_ERROR_NULL;

        (void) r;
        if (!op->message)
                log_notice("New code of device %s, which an earlier manager had put on trial, has failed: %s", name, op->error.message);
        (void) bus_error_setf(&error, op->error.name, op->config ? "%s. The new arguments of device %s have failed. %s" :
                              "%s. New code of device %s has failed. %s", op->error.message, name, outcome(op));
        sd_bus_error_free(&op->error);
        op->error = error;
        end(op);
}

/* The first error that is set stays. */
static void set_trial_error(Operation *op) {
        const Device *d = op->device;

        if (d->failure.message && !sd_bus_error_is_set(&op->error))
                (void) bus_error_set_failure(&op->error, &d->failure);
}

static void on_failed_fetched(Operation *op, int r) {
        const Device *d = op->device;
        uint32_t id = d->config->id;

        (void) r; /* the signals of the unit go on to tell */
        set_trial_error(op);
        operation_set_error(op, BUS_ERROR_WORKER_FAILED, "Its worker has ended (result: %s); journalctl -u " UNIT_DEVICE " says more",
                            d->unit.result ? d->unit.result : "none", id);
        await_worker(op, is_live, on_back);
}

/* The error now, as it may be gone with the next start. Then systemd is asked afresh: its last signal may be from before the
 * worker's end. */
static void fail_trial(Operation *op) {
        set_trial_error(op);
        operation_fetch(op, on_failed_fetched);
}

/* If systemd refuses, somebody else is at work on the unit; without the file it is the old code that comes. */
static void on_sent_back(Operation *op, int r) {
        (void) r;
        fail_trial(op);
}

/* The worker with the new code must not stay. */
static void send_back(Operation *op) {
        end_trial(op);
        operation_run_job(op, "RestartUnit", "fail", on_sent_back);
}

static int clone(const DeviceConfig *c, DeviceConfig **ret) {
        _cleanup_free_ char *text = NULL, *message = NULL;
        int r;

        r = device_config_serialize(c, &text);
        if (r >= 0)
                r = device_config_parse(c->id, text, ret, &message);
        if (r >= 0)
                (*ret)->persistent = c->persistent;
        return r;
}

/* What was proposed, by this manager or by one before it, is what the device has from now on. 1 if there was anything. */
static int keep_arguments(Operation *op) {
        DeviceConfig *c = op->device->config;
        _cleanup_(device_config_freep) DeviceConfig *changed = NULL;
        int r;

        r = clone(c, &changed);
        if (r >= 0)
                r = trial_take_proposed(changed);
        if (r > 0)
                r = device_config_save(changed);
        if (r < 0 || trial_take_proposed(c) <= 0)
                return r;
        device_bus_update_arguments(device_bus_get(op->device));
        return 1;
}

static void on_drop_in_made(Operation *op, int r) {
        if (r < 0)
                log_warning("The unit of device %s is ordered as its former arguments want it, until systemd is reloaded: %s",
                            op->device->config->name, op->step_error.message);
        operation_return(op, NULL);
}

/* For good: so is what it needs. If that can't be noted, the next start of the unit brings a worker that says so. */
static void stay(Operation *op) {
        int r;

        r = keep_arguments(op);
        if (r < 0) {
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "Its arguments can't be kept for the next worker: %s", strerror(-r));
                send_back(op);
                return;
        }
        if (op->trial_needs && operation_note_needs(op, op->trial_needs) < 0)
                log_error("Device %s: %s", op->device->config->name, op->error.message);
        end_trial(op);
        log_info("Device %s runs new code%s.", op->device->config->name, r > 0 ? " with new arguments" : "");
        /* Its unit comes after the mounts that its arguments name. */
        if (r > 0 && (needs_mounts(op->device->config) || needs_drop_in_exists(op->device->config->id)))
                operation_reload(op, on_drop_in_made);
        else
                operation_return(op, NULL);
}

static void on_came_up(Operation *op, int r);
static void on_trial_ended(Operation *op, int r);

/* The worker is gone, or about to go: soon there are news of it. */
static bool is_worker_gone(int r) {
        return r == -ECONNRESET || r == -ECONNREFUSED || r == -ESRCH || r == -EPIPE;
}

static void on_kept(Operation *op, int r) {
        if (r >= 0) {
                stay(op);
                return;
        }
        if ((r == -EAGAIN || is_worker_gone(r)) && now_usec() < op->deadline_usec) {
                operation_wait(op, KEEP_TICK_USEC, trial_is_over, on_trial_ended);
                return;
        }
        if (r == -EBUSY)
                operation_keep_step_error(op);
        operation_set_error(op, BUS_ERROR_WORKER_FAILED, "It can't be kept for the next worker: %s", strerror(-r));
        send_back(op);
}

/* Another worker may come to be asked, by whoever's hand. */
static void await_end(Operation *op) {
        op->deadline_usec = now_usec() + op->trial_usec + KEEP_USEC;
        operation_wait(op, op->trial_usec, trial_is_over, on_trial_ended);
}

/* Somebody else's stop has taken the place of all this. */
static void end_stopped(Operation *op) {
        operation_set_error(op, BUS_ERROR_CANCELLED, UNIT_DEVICE " was told to stop meanwhile.", op->device->config->id);
        end(op);
}

/* One that was restarted by somebody meanwhile is still on trial. */
static void on_trial_ended(Operation *op, int r) {
        if (r >= 0)
                fail_trial(op);
        else if (is_live(op))
                operation_keep_code(op, on_kept);
        else
                await_worker(op, is_live_or_over, on_came_up);
}

static void on_came_up(Operation *op, int r) {
        if (r >= 0 && !trial_is_over(op))
                await_end(op);
        else if (trial_is_over(op))
                fail_trial(op);
        else if (is_down(op))
                end_stopped(op);
        else {
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "Its worker does not come up");
                send_back(op);
        }
}

static void on_fetched(Operation *op, int r) {
        if (r < 0)
                operation_keep_step_error(op);
        if (r >= 0 && streq(op->job_result, "done"))
                await_worker(op, is_live_or_over, on_came_up);
        else if (streq(op->job_result, "canceled"))
                end_stopped(op);
        else {
                end_trial(op); /* as the worker's end has done by now, or will */
                fail_trial(op);
        }
}

static void on_restarted(Operation *op, int r) {
        if (r < 0) {
                operation_keep_step_error(op);
                end(op);
        } else
                operation_fetch(op, on_fetched);
}

static int write_trial(Operation *op, int r) {
        const DeviceConfig *c = op->device->config;

        if (r < 0)
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "The file that says that device %s is on trial can't be written: %s", c->name,
                                    strerror(-r));
        return r;
}

/* The file has to name the last worker that was started without it. If systemd says afterwards that there is another one by now, that
 * may have been started just before or just after. So it is not on trial: if it dies by itself, that says nothing of the new code. */
static void on_before_trial(Operation *op, int r) {
        const char *present = present_invocation(op);

        if (r < 0)
                operation_keep_step_error(op);
        else if (streq_ptr(op->before_trial, present)) {
                device_forget_failure(op->device);
                operation_run_job(op, "RestartUnit", "fail", on_restarted);
                return;
        } else {
                free(op->before_trial);
                op->before_trial = NULL;
                r = xstrdup(present, &op->before_trial);
                if (r >= 0)
                        r = trial_begin(op->device->config, op->trial_usec, op->trial_needs, present);
                if (write_trial(op, r) >= 0) {
                        operation_fetch(op, on_before_trial);
                        return;
                }
        }
        end(op);
}

static void on_prepared(Operation *op, int r) {
        if (r < 0) {
                operation_keep_step_error(op);
                end(op);
        } else
                operation_fetch(op, on_before_trial);
}

/* Nothing was tried. */
static void refuse(Operation *op) {
        end_trial(op);
        operation_fail(op);
}

static void try_code(Operation *op) {
        if (operation_check_secrets(op) < 0 || (op->trial_needs && operation_check_needs(op, op->trial_needs) < 0))
                refuse(op);
        else if (!op->trial_needs)
                on_prepared(op, 0);
        else if (write_trial(op, trial_prepare(op->device->config, op->trial_usec, op->trial_needs)) < 0)
                refuse(op);
        else {
                operation_say_needs(op, op->trial_needs);
                operation_reload(op, on_prepared);
        }
}

/* The new code declares more than the unit has. Nothing else is wrong with it: that was looked at before. */
static bool code_lacks_needs(Operation *op) {
        json_t *object = json_object_get(op->answer, "failure");
        Failure f = FAILURE_NULL;

        if (!object || failure_from_json(object, &f) < 0)
                return false;
        if (f.kind == FAILURE_NEEDS)
                op->trial_needs = TAKE_PTR(f.needs);
        failure_done(&f);
        return op->trial_needs != NULL;
}

static void on_needs_authorised(Operation *op, int r) {
        if (r >= 0)
                try_code(op);
        else {
                operation_keep_step_error(op);
                refuse(op);
        }
}

static void on_checked(Operation *op, int r) {
        if (r < 0 && code_lacks_needs(op))
                operation_authorise_needs(op, op->trial_needs, on_needs_authorised);
        else
                on_needs_authorised(op, r);
}

/* One that a manager has left before it began is none. */
static int propose(Operation *op) {
        int r;

        r = op->config ? trial_propose(op->config) : trial_forget_proposed(op->device->config->id);
        if (r < 0)
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "The arguments of device %s that are to be tried can't be written: %s",
                                    op->device->config->name, strerror(-r));
        return r;
}

static void check(Operation *op) {
        const Device *d = op->device;
        const char *name = d->config->name;

        if (is_live(op) && device_has_hello(d) && d->code == CODE_NOT_KEPT) {
                operation_set_error(op, SD_BUS_ERROR_NOT_SUPPORTED,
                                    "The code that device %s runs could not be kept (journalctl -u " UNIT_DEVICE " says why), so that there "
                                    "would be no way back to it. RestartDevice takes what is on the disk.",
                                    name, d->config->id);
                operation_fail(op);
        } else if (propose(op) < 0)
                refuse(op);
        else
                operation_run_check(op, on_checked);
}

int reload_begin(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e) {
        uint64_t trial = TRIAL_DEFAULT_USEC;
        int r, authorised;
        Operation *op;
        uid_t uid;

        r = options_read_time(m, "trial-time", TRIAL_MAX_USEC, &trial, e);
        if (r < 0)
                return r;
        authorised = authorise(mb, m, ACTION_MANAGE_DEVICE, d->config->name, d->config->hook, &uid, e);
        if (authorised <= 0)
                return authorised < 0 ? authorised : 1;
        r = operation_new(mb, m, uid, d, &op, e);
        if (r < 0)
                return r;
        op->may_any_hook = authorised == AUTHORISE_ROOT;
        op->trial_usec = trial;
        restart_when_safe(op, check);
        return 1;
}

/* Of a device that has a secret any argument may be where to send it. */
static Action reconfigure_action(const DeviceConfig *proposed) {
        return proposed->secrets || create_action(proposed) == ACTION_RUN_ANY_HOOK ? ACTION_RUN_ANY_HOOK : ACTION_MANAGE_DEVICE;
}

int reconfigure_begin(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e) {
        _cleanup_(device_config_freep) DeviceConfig *proposed = NULL;
        uint64_t trial = TRIAL_DEFAULT_USEC;
        int r, authorised;
        Operation *op;
        Action action;
        uid_t uid;

        r = clone(d->config, &proposed);
        if (r >= 0)
                r = arguments_change(m, proposed, e);
        if (r >= 0)
                r = options_read_time(m, "trial-time", TRIAL_MAX_USEC, &trial, e);
        if (r < 0)
                return r;
        action = reconfigure_action(proposed);
        authorised = authorise(mb, m, action, d->config->name, d->config->hook, &uid, e);
        if (authorised <= 0)
                return authorised < 0 ? authorised : 1;
        r = operation_new(mb, m, uid, d, &op, e);
        if (r < 0)
                return r;
        op->may_any_hook = authorised == AUTHORISE_ROOT || action == ACTION_RUN_ANY_HOOK;
        op->config = TAKE_PTR(proposed);
        op->trial_usec = trial;
        restart_when_safe(op, check);
        return 1;
}

static void on_nothing_on_trial(Operation *op, int r) {
        if (r < 0)
                log_warning("Device %s: what new code needed (%s) can't be taken back yet: %s", op->device->config->name, op->trial_needs,
                            op->step_error.message);
        operation_return(op, NULL);
}

/* Either the code on trial, or, if that was never begun or is through with it, the code to stay with. */
static void on_asked(Operation *op, int r) {
        if (r >= 0 && op->device->code == CODE_ON_TRIAL)
                await_end(op);
        else if (r >= 0 && trial_includes(op->device->config, present_invocation(op), NULL))
                stay(op);
        else {
                end_trial(op);
                if (op->trial_needs)
                        operation_reload(op, on_nothing_on_trial);
                else
                        operation_return(op, NULL);
        }
}

static void on_resumed_up(Operation *op, int r) {
        if (r < 0 || !is_live(op))
                on_asked(op, -ESHUTDOWN); /* nobody is there to be tried */
        else
                operation_ask_worker(op, on_asked);
}

static void on_resumed(Operation *op, int r) {
        if (r < 0)
                on_asked(op, r);
        else
                await_worker(op, is_live_or_over, on_resumed_up);
}

void reload_resume(ManagerBus *mb, Device *d) {
        _cleanup_free_ char *needs = NULL;
        uint64_t trial = 0;
        Operation *op;
        int r;

        if (!d->unit.active_state)
                return;
        needs = trial_needs(d->config);
        if (!trial_is_on(d->config, &trial) && !needs)
                return;
        r = operation_new(mb, NULL, 0, d, &op, NULL);
        if (r < 0) {
                log_error_errno(r, "The trial of new code for device %u can't be seen to its end", d->config->id);
                return;
        }
        log_notice("Device %s has new code on trial, since before this start of the service.", d->config->name);
        op->trial_usec = trial;
        op->trial_needs = TAKE_PTR(needs);
        operation_fetch(op, on_resumed);
}
