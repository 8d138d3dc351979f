/* SPDX-License-Identifier: MIT */
#include "service/activation.h"
#include "service/control-node.h"
#include "service/features.h"
#include "service/holders.h"
#include "service/holders-scan.h"
#include "service/log.h"
#include "service/marker.h"
#include "service/probe.h"
#include "service/worker-hold.h"

#include <sys/sysinfo.h>
#include <sys/sysmacros.h>

#define RECOVERY_FLAGS \
        ((uint64_t) (UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE | UBLK_F_USER_RECOVERY_FAIL_IO))

/* Not UBLK_F_QUIESCE (6.16), which takes a live device from its worker: it has nothing to save. A worker that is told to hand over
 * answers all that it has and takes no more. So even with recovery fail, where the kernel fails whatever a worker leaves, no
 * request does (tests/vm/modes); and of the time that passes until the next worker answers, the kernel's part is a twentieth
 * (tests/vm/by-hand/recovery-time). A quiesce can fail half done, though: EBUSY where a queue has no idle tag in time, as with a
 * hook that is stuck, after which the device gives nobody a request until its worker is gone. And to a queue that is idle it looks
 * like the end of its device (queue.c): the worker would exit as if it had been stopped, and nobody would start it again. It can't
 * tell the two apart, as the state of a device is told to root only. */
uint64_t activation_flags(Recovery recovery) {
        uint64_t flags = UBLK_F_USER_COPY | UBLK_F_CMD_IOCTL_ENCODE;

        switch (recovery) {
        case RECOVERY_REISSUE:
                flags |= UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE;
                break;
        case RECOVERY_FAIL:
                flags |= UBLK_F_USER_RECOVERY;
                break;
        case RECOVERY_FAIL_IO:
                flags |= UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_FAIL_IO;
                break;
        default:
                break;
        }
        return flags;
}

static int kernel_failure(Failure *f, int error, const char *what) {
        return failure_set(f, FAILURE_KERNEL, -error, "the kernel did not %s: %s", what, strerror(-error));
}

static int wait_until_gone(Activation *a, Failure *f) {
        uint64_t deadline = activation_deadline(a, ACTIVATION_SETTLE_USEC), delay = USEC_PER_MSEC;
        _cleanup_free_ char *openers = NULL;
        struct ublk_dev_info info;
        char node[32];
        int r;

        while ((r = control_get_info(a->control, a->id, &info)) >= 0 && now_usec() < deadline)
                if (activation_pause(a, &delay) < 0)
                        return failure_set(f, FAILURE_WORKER, EOWNERDEAD, "the worker died");
        if (r == -ENODEV)
                return 0;
        if (r < 0)
                return kernel_failure(f, r, "say whether the device is gone");
        (void) snprintf(node, sizeof(node), "/dev/ublkb%u", a->id);
        r = node_openers_describe(node, &openers);
        return failure_set(f, FAILURE_BUSY, EBUSY, "the former %s is deleted, but still held open by %s",
                           node, r < 0 ? "something" : openers);
}

int activation_delete(Activation *a, Failure *f) {
        int r;

        r = control_delete(a->control, a->id);
        if (r == -ENODEV)
                return 0;
        if (r < 0)
                return kernel_failure(f, r, "delete the device");
        return wait_until_gone(a, f);
}

/* A masked flag is no error to ADD_DEV: 6.12 makes a queueing device where one was wanted that fails I/O. */
static int check_flags(Recovery recovery, uint64_t accepted, Failure *f) {
        uint64_t wanted = activation_flags(recovery);
        uint64_t missing = wanted & ~accepted;
        const Feature *feature;

        if (missing == 0)
                return 0;
        feature = feature_find(missing & -missing);
        return failure_set(f, FAILURE_KERNEL, EOPNOTSUPP,
                           "recovery %s takes a ublk driver with %s, which came with Linux %s, and this kernel's has it not: "
                           "boot a newer one, or choose another recovery",
                           recovery_to_string(recovery), feature ? feature->name : "a feature", feature ? feature->since : "?");
}

static int check_added(const Activation *a, const struct ublk_dev_info *info, Failure *f) {
        const DeviceConfig *c = a->config;
        int r;

        r = check_flags(a->geometry.recovery, info->flags, f);
        if (r < 0)
                return r;
        if (info->nr_hw_queues != c->queues)
                return failure_set(f, FAILURE_ARGUMENTS, EINVAL,
                                   "queues is %u, but a device can't have more than this machine has CPUs, %d",
                                   c->queues, get_nprocs());
        if (info->queue_depth != c->depth || info->max_io_buf_bytes != c->max_io_size)
                return failure_set(f, FAILURE_ARGUMENTS, EINVAL,
                                   "the kernel made depth=%u max-io-size=%u of depth=%u max-io-size=%u: "
                                   "max-io-size has to be a multiple of the page size, %ld",
                                   info->queue_depth, info->max_io_buf_bytes, c->depth, c->max_io_size,
                                   sysconf(_SC_PAGESIZE));
        return 0;
}

static int read_params(Activation *a, struct ublk_params *ret, Failure *f) {
        int r;

        r = control_get_params(a->control, a->id, ret);
        if (r < 0)
                return kernel_failure(f, r, "tell the device's parameters");
        a->node_number = makedev(ret->devt.char_major, ret->devt.char_minor);
        return 0;
}

static int set_params(Activation *a, Failure *f) {
        struct ublk_params wanted, got;
        int r;

        geometry_to_params(&a->geometry, a->config->max_io_size, &wanted);
        r = control_set_params(a->control, a->id, &wanted);
        if (r < 0)
                return kernel_failure(f, r, "take the disk's parameters");
        r = read_params(a, &got, f);
        if (r < 0)
                return r;
        /* Types that a kernel does not know are dropped in silence. */
        if ((got.types & wanted.types) != wanted.types ||
            memcmp(&got.basic, &wanted.basic, sizeof(got.basic)) != 0 ||
            memcmp(&got.discard, &wanted.discard, sizeof(got.discard)) != 0)
                return failure_set(f, FAILURE_KERNEL, EOPNOTSUPP,
                                   "the kernel took the disk's parameters, but not all of them");
        return 0;
}

static int add(Activation *a, Failure *f) {
        struct ublk_dev_info info = {
                .dev_id = a->id,
                .nr_hw_queues = (uint16_t) a->config->queues,
                .queue_depth = (uint16_t) a->config->depth,
                .max_io_buf_bytes = a->config->max_io_size,
                .ublksrv_flags = device_config_kernel_tag(a->config),
        };
        uint64_t kernel_features;
        int r;

        r = control_get_features(a->control, &kernel_features);
        if (r < 0 || (kernel_features & FEATURES_NEEDED) != FEATURES_NEEDED) {
                Probe p;

                probe_run(&p);
                return failure_set(f, FAILURE_KERNEL, EOPNOTSUPP, "%s", p.reason);
        }
        info.flags = activation_flags(a->geometry.recovery);
        /* Before the kernel is asked: where it would mask a flag, it would also make a device for nothing. */
        r = check_flags(a->geometry.recovery, kernel_features | UBLK_F_CMD_IOCTL_ENCODE, f);
        if (r < 0)
                return r;
        r = control_add(a->control, &info);
        if (r == -EEXIST)
                return failure_set(f, FAILURE_EXISTS, EEXIST,
                                   "the id %u was taken by another ublk device just now", a->id);
        if (r < 0)
                return kernel_failure(f, r, "add the device");
        a->is_new = true;
        r = check_added(a, &info, f);
        if (r < 0)
                return r;
        return set_params(a, f);
}

/* There is no device (any more) where the marker says that one was live. Only without recovery does that cost
 * data: what the worker held went with it, and an empty disk must not take its place. */
static int add_unless_lost(Activation *a, Failure *f) {
        int r;

        r = marker_read(a->config);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "can't read what is known of the device's past: %s",
                                   strerror(-r));
        if (r != MARKER_LOST && (r != MARKER_LIVE || a->geometry.recovery != RECOVERY_NONE))
                return add(a, f);
        r = marker_write(a->config, /* lost= */ true);
        if (r < 0)
                log_warning("Can't note that the data of device %u is lost, ignoring: %s", a->id,
                            strerror(-r));
        return failure_set(f, FAILURE_WORKER, ENODATA,
                           "the data of %s went with the worker that held it (recovery is none): delete the "
                           "device and create it anew",
                           a->config->name);
}

static const char *foreign_server(const struct ublk_dev_info *info, char buffer[static 64]) {
        char comm[16] = "?";

        if (info->ublksrv_pid <= 0)
                return "no process at present";
        process_name(info->ublksrv_pid, comm);
        (void) snprintf(buffer, 64, "%s (pid %d)", comm, info->ublksrv_pid);
        return buffer;
}

/* A device of ours that another configuration of this id left behind. It goes, unless somebody uses it. */
static int replace_leftover(Activation *a, const struct ublk_dev_info *info, Failure *f) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        _cleanup_free_ char *who = NULL;
        int r;

        if (info->state == UBLK_S_DEV_LIVE)
                return failure_set(f, FAILURE_EXISTS, EEXIST,
                                   "/dev/ublkb%u is a live disk of another configuration", a->id);
        r = holders_find(a->id, a->deadline_usec, &h);
        if (r >= 0 && h.n > 0)
                r = holders_describe(&h, &who);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "can't tell who uses /dev/ublkb%u: %s", a->id,
                                   strerror(-r));
        if (h.n > 0)
                return failure_set(f, FAILURE_BUSY, EBUSY,
                                   "/dev/ublkb%u is a disk of another configuration, and %s", a->id, who);
        r = activation_delete(a, f);
        return r < 0 ? r : add(a, f);
}

/* The former worker is dead, or there would be no new one; what follows from that takes its time. */
static int wait_until_settled(Activation *a, struct ublk_dev_info *info, Failure *f) {
        uint64_t deadline = activation_deadline(a, ACTIVATION_SETTLE_USEC), delay = USEC_PER_MSEC;
        _cleanup_free_ char *openers = NULL;
        char node[32];
        int r;

        while (info->state == UBLK_S_DEV_LIVE && now_usec() < deadline) {
                r = activation_pause(a, &delay);
                if (r < 0)
                        return failure_set(f, FAILURE_WORKER, -r, "the worker died");
                r = control_get_info(a->control, a->id, info);
                if (r == -ENODEV) {
                        info->state = UBLK_S_DEV_DEAD;
                        return 0;
                }
                if (r < 0)
                        return kernel_failure(f, r, "tell the device's state");
        }
        if (info->state != UBLK_S_DEV_LIVE)
                return 0;
        (void) snprintf(node, sizeof(node), "/dev/ublkc%u", a->id);
        r = node_openers_describe(node, &openers);
        return failure_set(f, FAILURE_BUSY, EBUSY,
                           "the former server of device %u is not gone: %s is open in %s", a->id, node,
                           r < 0 ? "something" : openers);
}

static int start_recovery_once(Activation *a, bool *round_is_open) {
        int r;

        if (*round_is_open) {
                r = activation_finish_round(a);
                if (r == -EBUSY)
                        return r;
                if (r < 0)
                        log_warning("The last round of device %u could not be finished, going on: %s", a->id,
                                    strerror(-r));
                *round_is_open = false;
                return -EBUSY; /* now the node has to be let go of again */
        }
        return control_start_recovery(a->control, a->id);
}

static int start_recovery(Activation *a, Failure *f) {
        uint64_t deadline = activation_deadline(a, ACTIVATION_SETTLE_USEC), delay = USEC_PER_MSEC;
        bool rounds_last = activation_rounds_last(a);
        bool round_is_open = rounds_last && a->config->queues > 1, finished = round_is_open;
        _cleanup_free_ char *openers = NULL;
        char node[32];
        int r;

        for (;;) {
                r = start_recovery_once(a, &round_is_open);
                if (r >= 0)
                        return 0;
                /* The last worker did not come to fetching one whole queue, so there is nothing that the
                 * kernel would reset. */
                if (r == -EINVAL && (finished || !rounds_last))
                        return 0;
                if (r == -EINVAL)
                        round_is_open = finished = true;
                else if (r != -EBUSY)
                        return kernel_failure(f, r, "begin the device's recovery");
                if (now_usec() >= deadline)
                        break;
                r = activation_pause(a, &delay);
                if (r < 0)
                        return failure_set(f, FAILURE_WORKER, -r, "the worker died");
        }
        (void) snprintf(node, sizeof(node), "/dev/ublkc%u", a->id);
        r = node_openers_describe(node, &openers);
        return failure_set(f, FAILURE_BUSY, EBUSY,
                           "device %u can't be recovered while %s is open, which it is in %s", a->id, node,
                           r < 0 ? "something" : openers);
}

/* A resize was not seen to its end: hook and kernel are not agreed, and it is the hook that has the data. */
static int follow_size(Activation *a, struct ublk_params *p, Failure *f) {
        int r;

        if (p->basic.dev_sectors == a->geometry.size >> 9)
                return 0;
        log_notice("Device %u was being resized: it has %llu bytes now.", a->id, (unsigned long long) a->geometry.size);
        r = control_update_size(a->control, a->id, a->geometry.size);
        if (r < 0)
                return kernel_failure(f, r, "change the disk's size");
        return read_params(a, p, f);
}

/* What can't change as long as the kernel device lives. */
static int check_known(Activation *a, const struct ublk_dev_info *info, Failure *f) {
        uint64_t wanted = activation_flags(a->geometry.recovery);
        const DeviceConfig *c = a->config;
        _cleanup_free_ char *message = NULL;
        struct ublk_params p;
        int r;

        if (info->nr_hw_queues != c->queues || info->queue_depth != c->depth ||
            info->max_io_buf_bytes != c->max_io_size)
                return failure_set(f, FAILURE_ARGUMENTS, ESTALE,
                                   "the live device has queues=%u depth=%u max-io-size=%u, which the "
                                   "configuration can't change to %u, %u, %u",
                                   info->nr_hw_queues, info->queue_depth, info->max_io_buf_bytes, c->queues,
                                   c->depth, c->max_io_size);
        if ((info->flags ^ wanted) & RECOVERY_FLAGS)
                return failure_set(f, FAILURE_ARGUMENTS, ESTALE,
                                   "the recovery of a live device can't be changed to %s",
                                   recovery_to_string(a->geometry.recovery));
        r = read_params(a, &p, f);
        if (r >= 0 && c->resizing)
                r = follow_size(a, &p, f);
        if (r < 0)
                return r;
        r = geometry_match_params(&a->geometry, &p, &message);
        if (r < 0)
                return failure_set(f, FAILURE_HOOK, ESTALE,
                                   "hook \"%s\" describes another disk than the one that is in use: %s",
                                   c->hook, message ? message : strerror(-r));
        return 0;
}

int activation_prepare(Activation *a, Failure *f) {
        struct ublk_dev_info info;
        char buffer[64];
        int r;

        r = control_get_info(a->control, a->id, &info);
        /* The latter two: Linux 6.1, and add() says so. */
        if (r == -ENODEV || r == -EOPNOTSUPP || r == -EINVAL)
                return add_unless_lost(a, f);
        if (r < 0)
                return kernel_failure(f, r, "tell the device's state");
        if (!kernel_tag_is_ours(info.ublksrv_flags))
                return failure_set(f, FAILURE_EXISTS, EEXIST,
                                   "/dev/ublkb%u belongs to another program, served by %s: choose another id",
                                   a->id, foreign_server(&info, buffer));
        if (info.ublksrv_flags != device_config_kernel_tag(a->config))
                return replace_leftover(a, &info, f);
        r = control_node_reset(a->id); /* an earlier run may have been killed before it took it back */
        if (r < 0 && r != -ENOENT)
                log_warning("Can't take /dev/ublkc%u back from an earlier worker, ignoring: %s", a->id, strerror(-r));
        r = wait_until_settled(a, &info, f);
        if (r < 0)
                return r;
        if (info.state == UBLK_S_DEV_DEAD) {
                r = activation_delete(a, f);
                return r < 0 ? r : add_unless_lost(a, f);
        }
        r = check_known(a, &info, f);
        if (r < 0)
                return r;
        return start_recovery(a, f);
}

/* That the worker will live until it is let go; or, where it can't be held, that it does now. Its answer says that it was not
 * dying when it was held. */
static int hold_worker(Activation *a, Hold *h, Failure *f) {
        WorkerReply reply;
        int r;

        r = hold_begin(a->worker.pid, h);
        if (r < 0 && r != -EOWNERDEAD)
                log_notice("Worker %d can't be held while its device is started, going on: %s", (int) a->worker.pid, strerror(-r));
        return worker_link_call(&a->worker, MESSAGE_STATISTICS, activation_deadline(a, ACTIVATION_WORKER_USEC), &reply, f);
}

int activation_start(Activation *a, Failure *f) {
        int (*start)(Control *, uint32_t, pid_t, int, uint64_t) =
                a->is_new ? control_start : control_end_recovery;
        uint64_t begin = now_usec();
        Hold h = HOLD_NULL;
        int r;

        /* With a dead worker START_DEV hangs for ever or worse on 6.12, and makes a zombie of the device
         * on 7.2; END_USER_RECOVERY leaves a live device to nobody on 6.12. */
        r = hold_worker(a, &h, f);
        if (r < 0) {
                hold_end(&h);
                return r;
        }
        r = start(a->control, a->id, a->worker.pid, a->worker.pid_fd, ACTIVATION_WORKER_USEC);
        hold_end(&h);
        if (r >= 0 && !worker_link_is_alive(&a->worker))
                r = -EOWNERDEAD;
        if (r == -EOWNERDEAD)
                return failure_set(f, FAILURE_WORKER, EOWNERDEAD,
                                   "the worker died before the device was live");
        if (r == -ETIMEDOUT)
                return failure_set(f, FAILURE_WORKER, ETIMEDOUT,
                                   "the kernel still waits for the worker to fetch requests after %.0f s",
                                   (double) (now_usec() - begin) / USEC_PER_SEC);
        if (r < 0)
                return kernel_failure(f, r, a->is_new ? "start the device" : "end the device's recovery");
        return 0;
}
