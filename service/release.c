/* SPDX-License-Identifier: MIT */
#include "service/release.h"

#include "service/activation-attempts.h"
#include "service/child.h"
#include "service/control-node.h"
#include "service/control.h"
#include "service/exit-status.h"
#include "service/give-up.h"
#include "service/holders-scan.h"
#include "service/log.h"
#include "service/marker.h"
#include "service/paths.h"
#include "service/probe.h"
#include "service/state.h"
#include "service/trial.h"

#include <time.h>

/* After the death of a worker, 6.12 ends its device in a work item of its own. */
#define SETTLE_USEC (2 * USEC_PER_SEC)
/* All commands of `remove` together, and what a hook kept. Together below TimeoutStartSec= of ublk-ruby-control@.service. */
#define REMOVE_USEC (18 * USEC_PER_SEC)
#define REMOVE_STATE_USEC (7 * USEC_PER_SEC)
/* For PID 1 to answer, of which each question may take two. */
#define QUERY_USEC (2 * USEC_PER_SEC)

/* Waits as long as the device is live; nothing tells when that changes. */
static int get_settled_info(Control *c, uint32_t id, struct ublk_dev_info *ret) {
        uint64_t deadline = now_usec() + SETTLE_USEC;
        int r;

        for (;;) {
                r = control_get_info(c, id, ret);
                if (r < 0 || ret->state != UBLK_S_DEV_LIVE || now_usec() >= deadline)
                        return r;
                (void) nanosleep(&(struct timespec) { .tv_nsec = 20 * 1000 * 1000 }, NULL);
        }
}

static void drop_marker(uint32_t id) {
        int r;

        r = marker_remove(id);
        if (r < 0)
                log_warning("Can't remove the udev file of device %u, ignoring: %s", id, strerror(-r));
}

static bool has_handed_over(const WorkerEnd *end) {
        return end->exit_status == EXIT_HANDED_OVER && !end->unit_failed;
}

/* Whatever ended the worker, but for a hand-over, is held against the code that it had on trial: the next one runs the code
 * before it. Also when the worker was not even to blame: it comes back, and who asked for the trial hears of it. The worker before the
 * trial is another matter: the code has yet to be tried. Whether a trial has ended. */
static bool end_trial(uint32_t id, const DeviceConfig *config, const WorkerEnd *end) {
        bool on_trial = config && trial_includes(config, end->invocation, NULL);
        int r;

        if (has_handed_over(end) || (!on_trial && config && trial_is_on(config, NULL)))
                return false;
        if (on_trial)
                log_notice("The trial of new code for device %u (%s) is over: the next worker runs the code before it.", id,
                           config->name);
        r = trial_end(id);
        if (r < 0)
                log_warning("Can't remove the file that says that device %u is on trial, ignoring: %s", id, strerror(-r));
        return on_trial;
}

/* systemd starts a worker again at once, whatever it died of. A device that never lived is its maker's care. */
static void count_attempt(uint32_t id, const DeviceConfig *config, const WorkerEnd *end) {
        bool planned = end->exit_status == EXIT_STOPPED || end->exit_status == EXIT_WRONG || has_handed_over(end);

        if (config && !planned && (config->persistent || marker_read(config) != MARKER_NONE))
                attempts_note(config);
        else
                attempts_forget(id);
}

/* `activate` may have been killed before it took the node back. */
static void take_node(uint32_t id) {
        int r;

        r = control_node_reset(id);
        if (r < 0 && r != -ENOENT)
                log_warning("Can't take /dev/ublkc%u back from the worker, ignoring: %s", id, strerror(-r));
}

/* The device is gone, or about to be. Without recovery its data went with the worker, unless somebody had it
 * stopped: an empty disk must not take its place. has_recovery: -1 if the device is gone, so that only the
 * configuration can say. */
static void settle_marker(uint32_t id, const DeviceConfig *config, int has_recovery, int exit_status) {
        int marker, r;

        if (exit_status == EXIT_STOPPED || !config) {
                drop_marker(id);
                return;
        }
        marker = marker_read(config);
        if (marker == MARKER_NONE)
                drop_marker(id); /* of an earlier device */
        if (marker != MARKER_LIVE)
                return;
        if (has_recovery > 0)
                drop_marker(id); /* stopped by somebody else: the hook has its data */
        if (has_recovery == 0 || (has_recovery < 0 && config->recovery == RECOVERY_NONE)) {
                log_error("The data of device %u (%s) went with its worker, as its recovery is none.", id,
                          config->name);
                r = marker_write(config, /* lost= */ true);
                if (r < 0)
                        log_warning("Can't note that the data of device %u is lost, ignoring: %s", id,
                                    strerror(-r));
        }
}

/* This kernel can have no device of ours: no driver, or one (Linux 6.1) that knows no command of ours. */
static bool is_beyond_us(int r) {
        return r == -ENOENT || r == -EOPNOTSUPP || r == -EINVAL;
}

static int release_dead(Control *c, uint32_t id, Failure *f) {
        int r;

        r = control_delete(c, id);
        if (r < 0 && r != -ENODEV)
                return failure_set(f, FAILURE_KERNEL, -r, "the kernel did not delete device %u: %s", id,
                                   strerror(-r));
        log_info("Device %u is deleted.", id);
        return 0;
}

static int release_from_kernel(uint32_t id, const DeviceConfig *config, int exit_status, Failure *f) {
        _cleanup_(control_freep) Control *c = NULL;
        struct ublk_dev_info info;
        int r, has_recovery;

        r = probe_open_control(&c, f);
        if (r < 0)
                return is_beyond_us(r) ? 0 : r;
        r = control_get_info(c, id, &info);
        if (r == -ENODEV || is_beyond_us(r)) {
                settle_marker(id, config, -1, exit_status);
                return 0;
        }
        if (r < 0)
                return failure_set(f, FAILURE_KERNEL, -r,
                                   "the kernel does not tell the state of device %u: %s", id, strerror(-r));
        if (!kernel_tag_is_ours(info.ublksrv_flags) ||
            (config && info.ublksrv_flags != device_config_kernel_tag(config)))
                return 0;
        take_node(id);
        has_recovery = (info.flags & UBLK_F_USER_RECOVERY) != 0;
        if (!has_recovery)
                r = get_settled_info(c, id, &info);
        if (r >= 0 && info.state != UBLK_S_DEV_DEAD) {
                log_info("Device %u is kept and waits for its next worker.", id);
                return 0;
        }
        settle_marker(id, config, has_recovery, exit_status);
        return r == -ENODEV ? 0 : release_dead(c, id, f);
}

int release_device(uint32_t id, const WorkerEnd *end, Failure *f) {
        _cleanup_(device_config_freep) DeviceConfig *config = NULL;
        _cleanup_free_ char *message = NULL;
        bool trial_failed;
        int r;

        (void) device_config_load(id, &config,
                                  &message); /* it may be gone or wrong; the device is what counts */
        trial_failed = end_trial(id, config, end);
        r = release_from_kernel(id, config, end->exit_status, f);
        /* The code before it had no part in that. */
        if (!trial_failed)
                count_attempt(id, config, end);
        return r < 0 ? r : trial_failed ? RELEASE_TRIAL_FAILED : 0;
}

/* The start that has failed is still a job: it ends when `release` does. */
static int has_plan(const char *unit, UnitJobQuery job_type) {
        _cleanup_free_ char *type = NULL;
        int r;

        r = job_type(unit, QUERY_USEC, &type);
        return r < 0 ? r : !streq(type, "none") && !streq(type, "start");
}

int release_restart(uint32_t id, UnitJobQuery job_type, int (*restart)(const char *unit, uint64_t timeout_usec), Failure *f) {
        _cleanup_(device_config_freep) DeviceConfig *config = NULL;
        _cleanup_free_ char *message = NULL, *unit = NULL;
        int r;

        /* One that never lived is its maker's care. */
        if (device_config_load(id, &config, &message) < 0 || marker_read(config) == MARKER_NONE)
                return 0;
        r = xasprintf(&unit, UNIT_DEVICE, id);
        if (r >= 0)
                r = has_plan(unit, job_type);
        if (r == 0)
                r = restart(unit, QUERY_USEC);
        else if (r > 0)
                return 0;
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "systemd could not be told to start the next worker of device %u: %s; to do so: systemctl start %s",
                                   id, strerror(-r), unit ? unit : "its unit");
        return 1;
}

static bool only_processes(const Holders *h) {
        for (size_t i = 0; i < h->n; i++)
                if (h->items[i].kind != HOLDER_PROCESS)
                        return false;
        return true;
}

static int check_holders(uint32_t id, bool processes_count, Failure *f) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        _cleanup_free_ char *text = NULL;
        int r;

        r = holders_find_lasting(id, /* deadline_usec= */ 0, &h);
        if (r >= 0)
                r = holders_describe(&h, &text);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "can't tell who uses /dev/ublkb%u: %s", id,
                                   strerror(-r));
        if (h.n > 0 && (processes_count || !only_processes(&h)))
                return failure_set(f, FAILURE_BUSY, EBUSY, "/dev/ublkb%u is in use: %s", id, text);
        return 0;
}

int check_unused(uint32_t id, Failure *f) {
        return check_holders(id, /* processes_count= */ true, f);
}

/* It came to life, but its creation failed all the same: nobody was told of it yet. */
static bool is_being_undone(const struct ublk_dev_info *info) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL;

        return device_config_load(info->dev_id, &c, &message) >= 0 && c->creating &&
               info->ublksrv_flags == device_config_kernel_tag(c);
}

/* That nobody serves or uses it. Who only looks at a disk that is being undone, as partx or lsblk may at any new one, waits in a
 * read for the worker that will not come, and so can't go before the disk does. */
static int check_removable(uint32_t id, const struct ublk_dev_info *info, Failure *f) {
        _cleanup_free_ char *server = NULL;
        char node[32];
        int r;

        (void) snprintf(node, sizeof(node), "/dev/ublkc%u", id);
        r = node_openers_describe(node, &server);
        if (r > 0 && info->state == UBLK_S_DEV_LIVE)
                return failure_set(f, FAILURE_BUSY, EBUSY,
                                   "/dev/ublkb%u is live, served by %s: stop its unit first", id, server);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "can't tell who serves /dev/ublkb%u: %s", id, strerror(-r));
        return check_holders(id, !is_being_undone(info), f);
}

int remove_from_kernel(Control *c, uint32_t id, Failure *f) {
        uint64_t deadline = now_usec() + SETTLE_USEC;
        struct ublk_dev_info info;
        int r;

        r = control_stop(c, id, CONTROL_TIMEOUT_USEC);
        if (r >= 0)
                r = control_delete(c, id);
        if (r < 0 && r != -ENODEV)
                return failure_set(f, FAILURE_KERNEL, -r, "the kernel did not delete device %u: %s", id,
                                   strerror(-r));
        /* So that its id can be used again at once; that it can't be is no error. */
        while (control_get_info(c, id, &info) >= 0 && now_usec() < deadline)
                (void) nanosleep(&(struct timespec) { .tv_nsec = 5 * 1000 * 1000 }, NULL);
        return 0;
}

/* Nothing that a hook has put there keeps its device from being deleted. */
static void settle_state(uint32_t id, RemoveState state) {
        _cleanup_(device_config_freep) DeviceConfig *config = NULL;
        _cleanup_free_ char *path = NULL, *message = NULL;
        int r;

        r = device_config_load(id, &config, &message);
        if (r >= 0)
                r = state_path(config->name, &path);
        if (r >= 0)
                r = child_call(state_remove, &(StateRemoval) {
                        .path = path,
                        .owner = config->created_usec,
                        .end = state == REMOVE_KEEPS_STATE ? STATE_KEPT : config->creating ? STATE_UNDONE : STATE_DELETED,
                        .deadline_usec = now_usec() + REMOVE_STATE_USEC,
                }, REMOVE_STATE_USEC + USEC_PER_SEC);
        if (r < 0 && r != -ENOENT)
                log_warning("Can't delete all of what the hook of device %u kept below " PATH_STATE ", going on: %s. What is left "
                            "is deleted at the next boot, or with the next device.",
                            id, strerror(-r));
}

int release_for_ever(uint32_t id, Failure *f) {
        _cleanup_(control_freep) Control *c = NULL;
        struct ublk_dev_info info;
        int r;

        r = probe_open_control(&c, f);
        if (r < 0)
                return r;
        control_set_deadline(c, now_usec() + SETTLE_USEC);
        r = control_get_info(c, id, &info);
        if (r < 0 || !kernel_tag_is_ours(info.ublksrv_flags) || info.state != UBLK_S_DEV_QUIESCED)
                return 0;
        log_error("Device %u was not stopped in order, and goes with the machine: what was not written to it is lost.", id);
        return remove_from_kernel(c, id, f);
}

void forget_device(uint32_t id) {
        drop_marker(id);
        attempts_forget(id);
        give_up_forget(id);
        (void) trial_end(id);
}

/* The device is gone for good. */
static void forget(uint32_t id, RemoveState state) {
        forget_device(id);
        if (state != REMOVE_LEAVES_STATE)
                settle_state(id, state);
}

int remove_device(uint32_t id, RemoveState state, bool *ret_foreign, Failure *f) {
        _cleanup_(control_freep) Control *c = NULL;
        struct ublk_dev_info info;
        int r;

        *ret_foreign = false;
        r = probe_open_control(&c, f);
        if (r >= 0) {
                control_set_deadline(c, now_usec() + REMOVE_USEC);
                r = get_settled_info(c, id, &info);
        } else if (!is_beyond_us(r))
                return r;
        if (r == -ENODEV || is_beyond_us(r)) {
                forget(id, state);
                return 0;
        }
        if (r < 0)
                return failure_set(f, FAILURE_KERNEL, -r,
                                   "the kernel does not tell the state of device %u: %s", id, strerror(-r));
        if (!kernel_tag_is_ours(info.ublksrv_flags)) {
                /* Ours is gone, and its id was given to another program's. */
                forget(id, state);
                *ret_foreign = true;
                return 0;
        }
        r = check_removable(id, &info, f);
        if (r < 0)
                return r;
        r = remove_from_kernel(c, id, f);
        if (r < 0)
                return r;
        forget(id, state);
        log_info("Device %u is deleted.", id);
        return 0;
}
