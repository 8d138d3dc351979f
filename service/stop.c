/* SPDX-License-Identifier: MIT */
#include "service/stop.h"

#include "dbus/unit-job.h"
#include "service/child.h"
#include "service/config.h"
#include "service/control.h"
#include "service/holders.h"
#include "service/log.h"
#include "service/marker.h"
#include "service/paths.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <time.h>

#define SYNC_USEC (5 * USEC_PER_SEC)
#define STOP_USEC (5 * USEC_PER_SEC)
/* systemd sends SIGTERM as soon as ExecStop= returns: it must not meet a worker that is putting things in
 * order. */
#define WORKER_USEC (8 * USEC_PER_SEC)

static int wait_for_worker(int pid_fd) {
        int r;

        r = poll_until(pid_fd, POLLIN, now_usec() + WORKER_USEC);
        if (r == 0)
                log_warning("The worker is still there after %.0f s; leaving it to systemd.",
                            (double) WORKER_USEC / USEC_PER_SEC);
        return r < 0 ? r : 0;
}

static int hand_over(uint32_t id, int pid_fd, const char *why) {
        log_info("Device %u is kept and waits for its next worker: %s.", id, why);
        if (pidfd_send_signal(pid_fd, SIGUSR2, NULL, 0) < 0)
                return errno == ESRCH ? 0 : -errno;
        return wait_for_worker(pid_fd);
}

/* Whether systemd is about to stop the unit for good. No answer is no. */
static bool stop_is_asked(uint32_t id) {
        _cleanup_free_ char *unit = NULL, *type = NULL;
        int r;

        if (xasprintf(&unit, UNIT_DEVICE, id) < 0)
                return false;
        r = unit_job_type(unit, &type);
        if (r < 0) {
                log_warning("systemd does not say what %s is to do: %s", unit, strerror(-r));
                return false;
        }
        return streq(type, "stop");
}

static int sync_disk(const void *argument) {
        /* Read-only, so that udev does not take the close for the end of a change. */
        int fd = open(argument, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* STOP_DEV throws dirty pages of a device with queueing recovery away. False if they could not be brought
 * home in time. */
static bool flush(uint32_t id) {
        char node[32];
        int r;

        (void) snprintf(node, sizeof(node), "/dev/ublkb%u", id);
        r = child_call(sync_disk, node, SYNC_USEC);
        if (r < 0)
                log_warning("%s could not be synced: %s", node, strerror(-r));
        /* Of an error the kernel keeps no pages to try again with. */
        return r != -ETIMEDOUT;
}

/* 1 if nobody uses the disk, 0 if somebody does, which is logged. */
static int is_free(uint32_t id) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        _cleanup_free_ char *text = NULL;
        int r;

        r = holders_find_lasting(id, &h);
        if (r < 0) {
                log_warning("Can't tell who uses /dev/ublkb%u: %s", id, strerror(-r));
                return 0;
        }
        if (h.n == 0)
                return 1;
        r = holders_describe(&h, &text);
        log_warning("/dev/ublkb%u is in use, so it is not deleted: %s.", id, r < 0 ? "?" : text);
        return 0;
}

static int stop_in_kernel(Control *c, uint32_t id) {
        uint64_t features = 0, deadline = now_usec() + STOP_USEC;
        int r;

        r = control_get_features(c, &features);
        if (r < 0 || !(features & UBLK_F_SAFE_STOP_DEV))
                return control_stop(c, id, STOP_USEC);
        /* udev may be looking at it just now; nothing tells when it is done. */
        while ((r = control_try_stop(c, id, STOP_USEC)) == -EBUSY && now_usec() < deadline)
                (void) nanosleep(&(struct timespec) { .tv_nsec = 50 * 1000 * 1000 }, NULL);
        return r;
}

/* The device is ours and this unit's, and can be asked about. */
static int find_device(Control *c, uint32_t id, struct ublk_dev_info *ret) {
        _cleanup_(device_config_freep) DeviceConfig *config = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = control_get_info(c, id, ret);
        if (r < 0)
                return r;
        if (!kernel_tag_is_ours(ret->ublksrv_flags))
                return -EPERM;
        r = device_config_load(id, &config, &message);
        if (r >= 0 && ret->ublksrv_flags != device_config_kernel_tag(config))
                return -EPERM;
        return 0; /* a device that lost its configuration is ours all the same */
}

static int delete_live(Control *c, uint32_t id, int pid_fd) {
        int r;

        r = stop_in_kernel(c, id);
        if (r == -EBUSY)
                return hand_over(id, pid_fd, "the kernel says that it is in use");
        if (r < 0) {
                log_warning("The kernel did not stop device %u: %s", id, strerror(-r));
                return hand_over(id, pid_fd, "it could not be stopped");
        }
        r = control_delete(c, id);
        if (r < 0 && r != -ENODEV)
                log_warning("The kernel did not delete device %u: %s", id, strerror(-r));
        r = marker_remove(id);
        if (r < 0)
                log_warning("Can't remove the udev file of device %u, ignoring: %s", id, strerror(-r));
        log_info("Device %u is deleted.", id);
        return wait_for_worker(pid_fd);
}

static int stop_or_hand_over(uint32_t id, int pid_fd) {
        _cleanup_(control_freep) Control *c = NULL;
        struct ublk_dev_info info;
        int r;

        if (!stop_is_asked(id))
                return hand_over(id, pid_fd, "no stop is asked for");
        r = control_new(&c);
        if (r >= 0)
                r = find_device(c, id, &info);
        if (r < 0)
                return hand_over(id, pid_fd, strerror(-r));
        if (!flush(id))
                return hand_over(id, pid_fd, "its dirty pages could not be written in time");
        if (is_free(id) == 0)
                return hand_over(id, pid_fd, "it is in use");
        /* A restart may have taken the stop's place by now. */
        if (!stop_is_asked(id))
                return hand_over(id, pid_fd, "no stop is asked for any more");
        return delete_live(c, id, pid_fd);
}

int stop_device(uint32_t id, pid_t main_pid, Failure *f) {
        _cleanup_close_ int pid_fd = -EBADF;
        int r;

        if (main_pid <= 0)
                return 0; /* the worker ended by itself: a crash, whatever its status */
        pid_fd = pidfd_open(main_pid, 0);
        if (pid_fd < 0 && errno == ESRCH)
                return 0;
        if (pid_fd < 0)
                return failure_set(f, FAILURE_WORKER, errno, "can't watch worker %d: %s", (int) main_pid,
                                   strerror(errno));
        r = stop_or_hand_over(id, pid_fd);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "worker %d can't be told to hand over: %s",
                                   (int) main_pid, strerror(-r));
        return 0;
}
