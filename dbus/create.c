/* SPDX-License-Identifier: MIT */

/*
 * CreateDevice: is the kernel able → an id → N.conf → the unit → live → told to all → answered. Where the hook needs more of its
 * unit than others do, the unit is started twice. Whatever fails after N.conf was written is undone, and then the caller is
 * told why.
 */

#include "dbus/calls.h"
#include "dbus/device-bus.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "dbus/options.h"
#include "service/hookdir.h"
#include "service/log.h"
#include "service/marker.h"
#include "service/needs.h"
#include "service/state.h"

#include <inttypes.h>

static void list_units(Operation *op);
static void start(Operation *op);

/* Another program has been faster with the id. Whoever asked for no id in particular need not hear of that. */
static bool may_try_again(const Operation *op) {
        return op->any_id && !op->canceller && op->n_lost < CREATE_TRIES && !op->mb->draining && !op->file_remains &&
               sd_bus_error_has_name(&op->error, BUS_ERROR_DEVICE_EXISTS);
}

static void try_again(Operation *op, DeviceConfig *config) {
        log_notice("Creating %s with another id: %s", config->name, op->error.message);
        op->lost[op->n_lost++] = config->id;
        op->undoing = false;
        op->needs_met = false; /* the other id's unit has nothing yet */
        config->id = OPTION_ID_ANY;
        op->config = config;
        sd_bus_error_free(&op->error);
        list_units(op);
}

static void answer_canceller(Operation *op) {
        int r;

        r = sd_bus_reply_method_return(op->canceller, NULL);
        if (r < 0)
                log_warning("The answer to %s could not be sent, ignoring: %s", sd_bus_message_get_sender(op->canceller), strerror(-r));
        op->canceller = sd_bus_message_unref(op->canceller);
}

static void undo_reloaded(Operation *op, int r) {
        DeviceConfig *config = NULL;
        Device *d = op->device;

        if (r < 0)
                log_warning("The drop-in of device %u stays until systemd is reloaded: %s", d->config->id,
                            op->step_error.message);
        if (may_try_again(op))
                config = TAKE_PTR(d->config); /* one that was never announced can go without */
        op->device = NULL;
        device_bus_remove(device_bus_get(d));
        if (config) {
                try_again(op, config);
                return;
        }
        if (op->canceller && !op->file_remains)
                answer_canceller(op);
        operation_fail(op);
}

static void undo_end(Operation *op) {
        const DeviceConfig *c = op->device->config;
        int r;

        r = device_config_remove(c->id);
        if (r < 0)
                log_error_errno(r, "The file of device %u can't be removed", c->id);
        op->file_remains = r < 0;
        if (needs_drop_in_exists(c->id))
                operation_reload(op, undo_reloaded);
        else
                undo_reloaded(op, 0);
}

/* From now on it is a device like any other, and no manager will undo it. */
static int mark_created(Device *d) {
        d->config->creating = false;
        return device_config_save(d->config);
}

static void undo_disabled(Operation *op, int r) {
        (void) r;
        undo_end(op);
}

static void undo_file(Operation *op) {
        if (op->device->config->persistent)
                operation_enable(op, false, undo_disabled);
        else
                undo_end(op);
}

static void kept_started(Operation *op, int r) {
        if (r < 0 || !streq(op->job_result, "done"))
                log_error("Device %u did not start again: %s", op->device->config->id,
                          r < 0 ? op->step_error.message : op->job_result);
        operation_fail(op);
}

static void undo_removed(Operation *op, int r) {
        Device *d = op->device;

        (void) device_refresh(d);
        /* DeviceExists is activate's word for it that the kernel device was there before. */
        if (!d->kernel.has_char || operation_answer_is_foreign(op) ||
            sd_bus_error_has_name(&op->error, BUS_ERROR_DEVICE_EXISTS)) {
                undo_file(op);
                return;
        }
        /* Without its file nothing could be done about it any more. */
        log_error("Device %u could not be removed from the kernel, keeping its file: %s", d->config->id,
                  r < 0 && op->step_error.message ? op->step_error.message : "it is still there");
        if (mark_created(d) < 0)
                log_warning("The file of device %u still says that it is being created, ignoring.", d->config->id);
        device_bus_announce(device_bus_get(d));
        /* Whoever keeps it, with a mount for instance, waits for a worker. */
        operation_run_job(op, "StartUnit", "replace", kept_started);
}

static void undo_stopped(Operation *op, int r) {
        _cleanup_free_ char *unit = NULL;

        (void) r; /* whether it did stop is told by the kernel */
        if (device_unit(op->device, &unit) >= 0)
                systemd_reset_failed(op->mb->systemd, unit);
        (void) device_refresh(op->device);
        if (op->device->kernel.has_char || marker_read(op->device->config) != MARKER_NONE ||
            state_exists(op->device->config->name))
                operation_run_remove(op, "state", undo_removed); /* what was there before stays: it reads Creating= */
        else
                undo_file(op);
}

/* systemd goes on restarting a unit whose start has failed, so it has to be told to stop. */
static void undo(Operation *op) {
        op->undoing = true;
        operation_run_job(op, "StopUnit", "replace", undo_stopped);
}

static void created(Operation *op, int r) {
        _cleanup_free_ char *path = NULL;

        if (r < 0)
                log_warning("The worker of device %u says nothing of its geometry: %s", op->device->config->id,
                            op->step_error.message);
        /* Clients may use the path as soon as they have the answer, so the signal goes first. */
        device_bus_announce(device_bus_get(op->device));
        if (device_bus_path(op->device, &path) < 0)
                operation_fail(op);
        else
                operation_return(op, "o", path);
}

static void on_needs_met(Operation *op, int r) {
        if (r < 0) {
                operation_keep_step_error(op);
                undo(op);
        } else
                start(op);
}

static void on_fetched(Operation *op, int r) {
        Device *d = op->device;
        bool live = r >= 0 && streq(op->job_result, "done") && d->state == DEVICE_LIVE;

        if (r < 0)
                operation_keep_step_error(op);
        else if (!live && operation_lacks_needs(op)) {
                operation_meet_needs(op, on_needs_met);
                return;
        } else if (!live)
                operation_set_unit_error(op);
        else {
                r = mark_created(d);
                if (r >= 0) {
                        operation_ask_worker(op, created);
                        return;
                }
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "The device's file can't be written: %s", strerror(-r));
        }
        undo(op);
}

static void on_started(Operation *op, int r) {
        if (r < 0) {
                operation_keep_step_error(op);
                undo(op);
                return;
        }
        /* Now: systemd clears StatusText with the next attempt. */
        operation_fetch(op, on_fetched);
}

static void start(Operation *op) {
        operation_run_job(op, "StartUnit", "fail", on_started);
}

/* A unit with an image on another file system is ordered after that by its drop-in. */
static void prepare_unit(Operation *op) {
        if (needs_mounts(op->device->config))
                operation_reload(op, on_needs_met);
        else
                start(op);
}

static void on_enabled(Operation *op, int r) {
        if (r < 0) {
                operation_keep_step_error(op);
                undo_file(op);
                return;
        }
        prepare_unit(op);
}

/* From here on there is a device, if an unannounced one. */
static int make_device(Operation *op) {
        Device *d;
        int r;

        op->config->created_usec = now_realtime_usec();
        op->config->creating = true;
        d = device_new(op->config);
        if (!d)
                return -ENOMEM;
        op->config = NULL;
        r = manager_add(op->mb->manager, d);
        if (r < 0) {
                device_free(d);
                return r;
        }
        r = device_bus_new(op->mb, d);
        if (r < 0) {
                manager_remove(op->mb->manager, d);
                return r;
        }
        op->device = d;
        device_bus_get(d)->operation = op;
        return 0;
}

static void write_device(Operation *op) {
        int r;

        r = make_device(op);
        if (r < 0) {
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "The device can't be set up: %s", strerror(-r));
                operation_fail(op);
                return;
        }
        r = device_config_save(op->device->config);
        if (r < 0) {
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "The device's file can't be written: %s", strerror(-r));
                undo_end(op);
        } else if (op->device->config->persistent)
                operation_enable(op, true, on_enabled);
        else
                prepare_unit(op);
}

static bool contains(const uint32_t *ids, size_t n, uint32_t id) {
        for (size_t i = 0; i < n; i++)
                if (ids[i] == id)
                        return true;
        return false;
}

/* The id that was asked for, or the lowest free one. */
static int take_id(Operation *op, const uint32_t *busy, size_t n) {
        Manager *m = op->mb->manager;
        uint32_t id = op->config->id;
        Device *other;

        op->any_id = id == OPTION_ID_ANY;
        if (op->any_id)
                return manager_choose_id(m, busy, n, &op->config->id);
        if (!manager_id_is_used(m, id) && !contains(busy, n, id))
                return 0;
        other = manager_get(m, id);
        operation_set_error(op, BUS_ERROR_DEVICE_EXISTS,
                            "Id %" PRIu32 " is taken by %s%s. Leave the id out, and a free one is found.", id,
                            other ? "device " : "something that is not a device of this service",
                            other ? other->config->name : "");
        return -EEXIST;
}

static int append_id(uint32_t **ids, size_t *n, uint32_t id) {
        uint32_t *grown = realloc(*ids, (*n + 1) * sizeof(uint32_t));

        if (!grown)
                return -ENOMEM;
        *ids = grown;
        grown[(*n)++] = id;
        return 0;
}

/* Units of devices that run, or want to, whether this service knows them or not; and ids that others had. */
static int read_busy(const Operation *op, sd_bus_message *m, uint32_t **ret, size_t *ret_n) {
        _cleanup_free_ uint32_t *ids = NULL;
        const char *unit;
        bool in_use;
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < op->n_lost; i++)
                r = append_id(&ids, &n, op->lost[i]);
        if (r < 0)
                return r;
        r = sd_bus_message_enter_container(m, 'a', "(ssssssouso)");
        if (r < 0)
                return r;
        while ((r = systemd_read_listed(m, &unit, &in_use)) > 0) {
                uint32_t id;

                if (!in_use || sscanf(unit, "ublk-ruby-device@%" SCNu32 ".service", &id) != 1)
                        continue;
                r = append_id(&ids, &n, id);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(ids);
        *ret_n = n;
        return 0;
}

static int on_listed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const sd_bus_error *e = sd_bus_message_get_error(m);
        _cleanup_free_ uint32_t *busy = NULL;
        Operation *op = userdata;
        size_t n = 0;
        int r;

        (void) error;
        op->slot = sd_bus_slot_unref(op->slot);
        r = e ? -sd_bus_error_get_errno(e) : read_busy(op, m, &busy, &n);
        if (r >= 0)
                r = take_id(op, busy, n);
        if (r < 0) {
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "No id could be found: %s", e ? e->message : strerror(-r));
                operation_fail(op);
        } else
                write_device(op);
        return 0;
}

static void list_units(Operation *op) {
        int r;

        r = systemd_list_units(op->mb->systemd, &op->slot, "ublk-ruby-device@*.service", on_listed, op);
        if (r < 0) {
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "systemd can't be asked: %s", strerror(-r));
                operation_fail(op);
        }
}

static void on_probed(Operation *op, int r) {
        const Support *s = &op->mb->manager->support;

        if (r < 0 || !s->supported) {
                operation_set_error(op, BUS_ERROR_NO_KERNEL_SUPPORT, "%s", r < 0 ? strerror(-r) : s->reason);
                operation_fail(op);
        } else
                list_units(op);
}

/* Its start has come to nothing, or was not even tried. What is not known of the unit yet, or still going on, is waited for. */
static bool is_down(const UnitState *u) {
        if (!u->active_state)
                return false;
        return streq(u->active_state, "inactive") || streq(u->active_state, "failed") ||
               strncmp(u->sub_state ? u->sub_state : "", "auto-restart", strlen("auto-restart")) == 0;
}

static void undo_abandoned(ManagerBus *mb, Device *d) {
        Operation *op;
        int r;

        log_notice("Device %u (%s) was never finished, undoing it.", d->config->id, d->config->name);
        r = operation_new(mb, NULL, 0, d, &op, NULL);
        if (r < 0)
                log_error_errno(r, "Device %u can't be undone", d->config->id);
        else
                undo(op);
}

static void keep_abandoned(Device *d) {
        DeviceBus *db = device_bus_get(d);

        log_notice("Device %u (%s) was finished without its manager.", d->config->id, d->config->name);
        if (mark_created(d) < 0)
                log_warning("The file of device %u still says that it is being created, ignoring.", d->config->id);
        device_bus_announce(db);
        device_bus_update(db);
}

void create_resume(ManagerBus *mb, Device *d) {
        bool down = is_down(&d->unit);

        /* One that ever was live may have data, so it is kept; so is one of which that can't be told. */
        if (d->state == DEVICE_LIVE || (down && marker_read(d->config) != MARKER_NONE)) {
                keep_abandoned(d);
                return;
        }
        device_bus_first_news(device_bus_get(d));
        if (down)
                undo_abandoned(mb, d);
}

static int check_name_is_free(ManagerBus *mb, const char *name, sd_bus_error *e) {
        Device *d = manager_find(mb->manager, name);
        bool taken = d && streq(d->config->name, name);

        for (Operation *op = mb->operations; op && !taken; op = op->next)
                taken = op->config && streq(op->config->name, name);
        return taken ? bus_error_setf(e, BUS_ERROR_DEVICE_EXISTS, "There is a device %s already.", name) : 0;
}

/* A hook that anybody may have written runs as the workers' user. A text with a slash in it can be a file that the workers' user may read and write, or a host. What is none of these but the name
 * of a credential is known once the hook has been loaded: see needs.c. */
Action create_action(const DeviceConfig *c) {
        for (size_t i = 0; i < c->n_arguments; i++)
                if (c->arguments[i].type == 's' && strchr(c->arguments[i].value, '/'))
                        return ACTION_RUN_ANY_HOOK;
        return hook_is_path(c->hook) ? ACTION_RUN_ANY_HOOK : ACTION_CREATE_DEVICE;
}

int create_begin(ManagerBus *mb, sd_bus_message *m, DeviceConfig *config, sd_bus_error *e) {
        Action action = create_action(config);
        int r, authorised;
        Operation *op;
        uid_t uid;

        authorised = authorise(mb, m, action, config->name, config->hook, &uid, e);
        if (authorised <= 0)
                return authorised;
        manager_bus_load(mb);
        r = check_name_is_free(mb, config->name, e);
        if (r < 0)
                return r;
        r = operation_new(mb, m, uid, NULL, &op, e);
        if (r < 0)
                return r;
        op->config = config;
        op->creates = true;
        op->may_any_hook = authorised == AUTHORISE_ROOT || action == ACTION_RUN_ANY_HOOK;
        /* A module may have been loaded since; what is supported stays so. */
        if (mb->manager->support.supported)
                list_units(op);
        else
                operation_await_probe(op, on_probed);
        return 1;
}

static int take_canceller(Operation *op, sd_bus_message *m, const char *name, sd_bus_error *e) {
        if (op->canceller)
                return bus_error_setf(e, BUS_ERROR_OPERATION_IN_PROGRESS, "The creation of %s is being cancelled.", name);
        op->canceller = sd_bus_message_ref(m);
        operation_set_error(op, BUS_ERROR_CANCELLED, "Device %s was deleted while it was being created.", name);
        return 0;
}

int create_cancel(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e) {
        Operation *op = device_bus_get(d)->operation;
        int r;

        r = authorise(mb, m, ACTION_MANAGE_DEVICE, d->config->name, d->config->hook, NULL, e);
        if (r <= 0)
                return r < 0 ? r : 1;
        /* What an earlier manager has begun is waited for: it may have been live, and have data. */
        if (!op || !op->creates)
                return bus_error_setf(e, BUS_ERROR_OPERATION_IN_PROGRESS, "Device %s is being created.", d->config->name);
        r = take_canceller(op, m, d->config->name, e);
        if (r < 0)
                return r;
        log_notice("The creation of device %s is cancelled.", d->config->name);
        if (!op->undoing)
                undo(op);
        return 1;
}

int create_cancel_early(ManagerBus *mb, sd_bus_message *m, const char *name, sd_bus_error *e) {
        int r;

        for (Operation *op = mb->operations; op; op = op->next) {
                if (!op->config || !streq(op->config->name, name))
                        continue;
                r = authorise(mb, m, ACTION_MANAGE_DEVICE, name, op->config->hook, NULL, e);
                if (r == AUTHORISE_LATER)
                        return 1;
                if (r > 0)
                        r = take_canceller(op, m, name, e);
                if (r < 0)
                        return r;
                answer_canceller(op); /* nothing was made yet */
                operation_fail(op);
                return 1;
        }
        return 0;
}
