/* SPDX-License-Identifier: MIT */
#include "service/activate.h"

#include "service/activation.h"
#include "service/activation-attempts.h"
#include "service/log.h"
#include "service/marker.h"
#include "service/probe.h"

#include <poll.h>
#include <signal.h>

#define HELLO_USEC (5 * USEC_PER_SEC)
/* For taking a new device away again, beyond ACTIVATION_USEC. */
#define UNDO_USEC (2 * USEC_PER_SEC)

static void activation_done(Activation *a) {
        safe_close(a->node_fd);
        worker_link_done(&a->worker);
        control_free(a->control);
        device_config_free(a->config);
}

uint64_t activation_deadline(const Activation *a, uint64_t limit_usec) {
        uint64_t deadline = now_usec() + limit_usec;

        return a->deadline_usec > 0 && a->deadline_usec < deadline ? a->deadline_usec : deadline;
}

int activation_pause(Activation *a, uint64_t *delay_usec) {
        int r;

        r = poll_until(a->worker.pid_fd, POLLIN, now_usec() + *delay_usec);
        *delay_usec = *delay_usec < 50 * USEC_PER_MSEC ? *delay_usec * 2 : 100 * USEC_PER_MSEC;
        return r < 0 ? r : r > 0 ? -EOWNERDEAD : 0;
}

static int load_config(Activation *a, Failure *f) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = device_config_load(a->id, &a->config, &message);
        if (r == -ENOENT)
                return failure_set(f, FAILURE_ARGUMENTS, ENOENT, "there is no configuration of device %u",
                                   a->id);
        if (r < 0)
                return failure_set(f, FAILURE_ARGUMENTS, -r, "the configuration of device %u is wrong: %s",
                                   a->id, message ? message : strerror(-r));
        return 0;
}

/* The worker runs foreign code with nothing to lose: no number of its is taken on trust. */
static int check_reply(const Activation *a, const WorkerReply *reply, Failure *f) {
        const DeviceConfig *c = a->config;
        _cleanup_free_ char *message = NULL;
        int r;

        r = geometry_check(&reply->geometry, &message);
        if (r < 0)
                return failure_set(f, FAILURE_HOOK, EINVAL, "hook \"%s\" describes no disk: %s", c->hook,
                                   message ? message : strerror(-r));
        if (reply->queues != c->queues || reply->depth != c->depth || reply->max_io_size != c->max_io_size)
                return failure_set(f, FAILURE_WORKER, ESTALE,
                                   "the worker has queues=%u depth=%u max-io-size=%u, the configuration says "
                                   "%u, %u, %u: it was changed under the worker",
                                   reply->queues, reply->depth, reply->max_io_size, c->queues, c->depth,
                                   c->max_io_size);
        if (c->recovery != RECOVERY_DEFAULT && reply->geometry.recovery != (uint32_t) c->recovery)
                return failure_set(f, FAILURE_WORKER, ESTALE,
                                   "the worker has recovery=%s, the configuration says %s",
                                   recovery_to_string(reply->geometry.recovery),
                                   recovery_to_string(c->recovery));
        return 0;
}

static int get_geometry(Activation *a, Failure *f) {
        WorkerReply reply;
        int r;

        r = worker_link_call(&a->worker, MESSAGE_HELLO, activation_deadline(a, HELLO_USEC), &reply, f);
        if (r < 0)
                return r;
        r = check_reply(a, &reply, f);
        if (r < 0)
                return r;
        a->geometry = reply.geometry;
        if (a->config->read_only) /* the configuration can make it stricter, never laxer */
                a->geometry.read_only = 1;
        return 0;
}

static int open_worker(Activation *a, Failure *f) {
        WorkerReply reply;
        int r, k;

        r = activation_lend_node(a, f);
        if (r < 0)
                return r;
        r = worker_link_call(&a->worker, MESSAGE_OPEN, activation_deadline(a, ACTIVATION_WORKER_USEC), &reply, f);
        if (r < 0) {
                Failure ignored = FAILURE_NULL;

                k = activation_take_node_back(a, &ignored);
                if (k < 0)
                        log_warning("%s", ignored.message);
                failure_done(&ignored);
                return r;
        }
        return activation_take_node_back(a, f);
}

static int activation_run(Activation *a, Failure *f) {
        uint64_t since;
        int r;

        r = load_config(a, f);
        if (r < 0)
                return r;
        r = get_geometry(a, f);
        if (r < 0)
                return r;
        r = probe_open_control(&a->control, f);
        if (r < 0)
                return r;
        control_set_deadline(a->control, a->deadline_usec);
        r = activation_prepare(a, f);
        if (r < 0)
                return r;
        /* Before the disk appears: udev's rule names it after this file. */
        r = marker_write(a->config, /* lost= */ false);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "can't write the device's file for udev: %s",
                                   strerror(-r));
        r = open_worker(a, f);
        if (r < 0)
                return r;
        since = now_usec();
        r = activation_start(a, f);
        if (r < 0)
                return r;
        if (a->config->partscan)
                activation_scan_partitions(a);
        if (a->is_new)
                activation_wait_for_udev(a, since);
        return 0;
}

/* Without waiting for the device to be gone: the worker has it open, and lives until this run has ended. */
static void undo(Activation *a) {
        int r;

        if (!a->is_new)
                return;
        r = marker_remove(a->id);
        if (r < 0)
                log_warning("Can't remove the udev file of device %u, ignoring: %s", a->id, strerror(-r));
        control_set_deadline(a->control, now_usec() + UNDO_USEC);
        r = control_delete(a->control, a->id);
        if (r < 0 && r != -ENODEV)
                log_warning("Can't delete device %u again: %s", a->id, strerror(-r));
}

/* systemd ends a start that takes too long with SIGTERM, to the worker too. The worker's end is what stops
 * this run, after which it still has to undo; and every step has its deadline. */
static void hold_off_sigterm(void) {
        sigset_t set;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGTERM);
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
}

int activate(uint32_t id, pid_t pid, Failure *f) {
        _cleanup_(activation_done) Activation a = {
                .id = id,
                .deadline_usec = now_usec() + ACTIVATION_USEC,
                .worker = WORKER_LINK_NULL,
                .node_fd = -EBADF,
        };
        int r;

        hold_off_sigterm();
        r = worker_link_connect(&a.worker, id, pid, activation_deadline(&a, HELLO_USEC), f);
        if (r < 0)
                return r;
        r = activation_run(&a, f);
        if (r < 0) {
                /* The worker first: deleting the device ends it, and it should have said why by then. */
                worker_link_abort(&a.worker, f);
                undo(&a);
                return r;
        }
        attempts_note_live(a.config);
        log_info("Device %u (%s) is live, served by worker %d.", id, a.config->name, (int) pid);
        return 0;
}
