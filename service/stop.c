/* SPDX-License-Identifier: MIT */
#include "service/stop.h"

#include "service/child.h"
#include "service/claim.h"
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

/* TimeoutStopSec= of the unit is 16 s. What is to be found out and done before the device is gone takes at most so long; … */
#define STEPS_USEC (6 * USEC_PER_SEC)
/* … a command to the kernel can take 2 s more to be cancelled, and 1 s is for the stop to become a restart; and the rest is for
 * the worker, which limits itself to 6 s (supervisor.c): systemd sends SIGTERM as soon as ExecStop= returns, which must not
 * meet a worker that is putting things in order. */
#define TOTAL_USEC (15 * USEC_PER_SEC)

/* For PID 1 to say what it is about, twice. It has a lot to do when the machine goes down, and then there is no way back from a
 * hand-over. */
#define JOB_USEC (10 * USEC_PER_SEC)
/* Of the steps, at most. */
#define HELLO_USEC (1 * USEC_PER_SEC)
#define RESTART_USEC (1 * USEC_PER_SEC)
#define SYNC_USEC (5 * USEC_PER_SEC)
#define STOP_USEC (5 * USEC_PER_SEC)
/* With less time left than that nothing is begun that can't be taken back. */
#define STOP_MIN_USEC (500 * USEC_PER_MSEC)
/* While the machine goes down there is no other time for it. */
#define LAST_SYNC_USEC (60 * USEC_PER_SEC)

/* How long a file system or a process may keep a machine that is going down: longer than a mount has for its unmounting
 * (DefaultTimeoutStopSec=, 90 s); … */
#define USERS_USEC (100 * USEC_PER_SEC)
/* … and dm, md or loop without one: LVM leaves its volumes active. */
#define STACK_USEC (5 * USEC_PER_SEC)
/* Between two looks, first and last. */
#define LOOK_USEC (50 * USEC_PER_MSEC)
#define LOOK_MAX_USEC (2 * USEC_PER_SEC)

typedef struct Stop {
        uint32_t id;
        pid_t pid;            /* of the worker */
        int pid_fd;           /* likewise; borrowed */
        const StopCalls *calls;
        uint64_t steps_deadline_usec, total_deadline_usec;
        bool without_recovery; /* the kernel ends the device with its worker */
        bool stop_is_asked;    /* systemd is about to stop the unit for good, … */
        bool loses_memory;     /* … and with it what the hook has in UBLK::Memory */
        bool going_down;       /* the machine is */
        bool kernel_looks;     /* it stops the device only if nobody uses it (Linux 7.0) */
        int claim_fd;          /* where it doesn't: keeps others from beginning to */
} Stop;

static uint64_t time_left(const Stop *s, uint64_t limit_usec) {
        uint64_t now = now_usec(), left = s->steps_deadline_usec > now ? s->steps_deadline_usec - now : 0;

        return left < limit_usec ? left : limit_usec;
}

static int wait_for_worker(const Stop *s) {
        int r;

        r = poll_until(s->pid_fd, POLLIN, s->total_deadline_usec);
        if (r == 0)
                log_warning("The worker is still there; leaving it to systemd.");
        return r < 0 ? r : 0;
}

/* Instead of the stop. */
static bool restart(const Stop *s) {
        _cleanup_free_ char *unit = NULL;
        int r;

        r = xasprintf(&unit, UNIT_DEVICE, s->id);
        if (r >= 0)
                r = s->calls->restart(unit, RESTART_USEC);
        if (r < 0)
                log_warning("The data of device %u is in memory, and is lost as its unit is stopped, which can't be prevented: %s", s->id,
                            strerror(-r));
        return r >= 0;
}

static int hand_over(Stop *s, const char *why) {
        /* Before the worker goes: what somebody has written meanwhile goes home with the last close. */
        s->claim_fd = safe_close(s->claim_fd);
        if (s->stop_is_asked && s->loses_memory && restart(s))
                log_notice("Device %u is not stopped but restarted: %s, and a stop would lose its data, which is in memory.", s->id, why);
        else if (s->without_recovery)
                log_warning("Device %u is not deleted, but ends with its worker, and its data is lost, as its recovery is "
                            "none: %s.",
                            s->id, why);
        else
                log_info("Device %u is kept and waits for its next worker: %s.", s->id, why);
        if (pidfd_send_signal(s->pid_fd, SIGUSR2, NULL, 0) < 0)
                return errno == ESRCH ? 0 : -errno;
        return wait_for_worker(s);
}

/* systemd is to leave us so much time from now on, beyond what the unit has for a stop anyway. */
static void take_time(Stop *s, uint64_t usec) {
        uint64_t now = now_usec();

        s->calls->more_time(usec + TOTAL_USEC + USEC_PER_SEC);
        s->steps_deadline_usec = now + usec + STEPS_USEC;
        s->total_deadline_usec = now + usec + TOTAL_USEC;
}

/* No answer is no. */
static bool ask_for_stop(Stop *s) {
        _cleanup_free_ char *unit = NULL, *type = NULL;
        int r;

        if (xasprintf(&unit, UNIT_DEVICE, s->id) < 0)
                return false;
        take_time(s, 2 * JOB_USEC);
        r = s->calls->job_type(unit, JOB_USEC, &type);
        take_time(s, 0);
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
 * home in time, or nobody was there to do it. */
static bool flush(const Stop *s) {
        _cleanup_free_ char *node = NULL;
        int r;

        r = config_path(&node, "/dev/ublkb%u", s->id);
        if (r < 0)
                return false;
        r = child_call(sync_disk, node, s->going_down ? LAST_SYNC_USEC : time_left(s, SYNC_USEC));
        /* Without a next time it is better done by us, who may hang in it, than not at all. */
        if (r == -ECHILD && s->going_down)
                r = sync_disk(node);
        if (r == -ECHILD)
                log_warning("%s could not be synced: the process that was to do it was not to be had, or was killed", node);
        else if (r < 0)
                log_warning("%s could not be synced: %s", node, strerror(-r));
        /* Of an error the kernel keeps no pages to try again with. */
        return r != -ETIMEDOUT && r != -ECHILD;
}

static bool has_users(const Holders *h) {
        for (size_t i = 0; i < h->n; i++)
                if (h->items[i].kind != HOLDER_DEVICE)
                        return true;
        return false;
}

/* File systems first, on whatever is stacked on the disk: only without one is it worth looking through all processes. */
static int find_users(const Stop *s, Holders *ret) {
        int r;

        if (s->going_down) {
                r = holders_find_file_systems(s->id, ret);
                if (r < 0 || ret->n > 0)
                        return r;
        }
        return holders_find_lasting(s->id, s->steps_deadline_usec, ret);
}

/* systemd stops what is mounted before the device by whose node it is mounted. By LUKS or LVM that is another one, so that both
 * are stopped at once; and other users may be stopped at the same time, too. Here they get the time to finish, with the worker
 * still at work. */
static int await_users(Stop *s) {
        uint64_t users_end = now_usec() + USERS_USEC, stack_end = now_usec() + STACK_USEC, pause = LOOK_USEC;

        for (;;) {
                _cleanup_(holders_done) Holders h = HOLDERS_NULL;
                uint64_t now;
                bool users;
                int r;

                take_time(s, JOB_USEC);
                r = find_users(s, &h);
                if (r < 0)
                        log_warning("Can't tell who uses /dev/ublkb%u: %s", s->id, strerror(-r));
                /* An unmount takes the mount away first, and then writes back; and where that is mounted from is known no more. */
                users = r < 0 || has_users(&h) || (h.n > 0 && s->calls->unmounting(JOB_USEC) != 0);
                now = now_usec();
                if (users && stack_end < now + STACK_USEC)
                        stack_end = now + STACK_USEC;
                if ((r >= 0 && h.n == 0) || now >= (users ? users_end : stack_end))
                        return 0;
                r = poll_until(s->pid_fd, POLLIN, now + pause);
                if (r != 0)
                        return r < 0 ? r : -EOWNERDEAD;
                pause = pause < LOOK_MAX_USEC / 2 ? 2 * pause : LOOK_MAX_USEC;
        }
}

/* What still uses it as the machine goes down gets an error instead of an answer: later on nobody would serve the disk, and whoever
 * asked it for anything would keep the machine from going down at all. */
static void let_go(const Stop *s, const Holders *h, const char *text) {
        if (has_users(h))
                log_error("/dev/ublkb%u is still in use as the machine goes down, and what was not written to it is lost: %s.", s->id, text);
        else
                log_info("/dev/ublkb%u goes, though it is still %s, which has no data for it.", s->id, text);
}

/* 1 if the disk may go, 0 if somebody uses it. Who does is logged. */
static int is_free(const Stop *s) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        _cleanup_free_ char *text = NULL;
        int r;

        r = s->claim_fd >= 0 ? holders_find_beside_claim(s->id, s->steps_deadline_usec, &h) : find_users(s, &h);
        if (r < 0) {
                log_warning("Can't tell who uses /dev/ublkb%u: %s", s->id, strerror(-r));
                return s->going_down;
        }
        if (h.n == 0)
                return 1;
        r = holders_describe(&h, &text);
        if (s->going_down)
                let_go(s, &h, r < 0 ? "in use" : text);
        else
                log_warning("/dev/ublkb%u is in use, so it is not deleted: %s.", s->id, r < 0 ? "?" : text);
        return s->going_down;
}

/* A mount that began after we looked would have its disk stopped under it, and there is time for that: systemd is asked again
 * meanwhile. A kernel that looks by itself would take us for a user. And when the machine goes down the disk goes in any case. */
static int keep_others_out(Stop *s) {
        int r;

        if (s->kernel_looks || s->going_down)
                return 0;
        r = disk_claim(s->id, &s->claim_fd);
        return r == -ENOENT || r == -ENXIO || r == -ENODEV ? 0 : r;
}

static int stop_in_kernel(const Stop *s, Control *c) {
        uint64_t deadline = now_usec() + time_left(s, STOP_USEC);
        int r;

        if (time_left(s, STOP_MIN_USEC) < STOP_MIN_USEC)
                return -ETIMEDOUT;
        if (!s->kernel_looks || s->going_down)
                return control_stop(c, s->id, STOP_USEC);
        /* udev may be looking at it just now; nothing tells when it is done. */
        while ((r = control_try_stop(c, s->id, STOP_USEC)) == -EBUSY && now_usec() < deadline)
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

static int delete_live(Stop *s, Control *c) {
        uint32_t id = s->id;
        int r;

        control_set_deadline(c, s->steps_deadline_usec);
        r = stop_in_kernel(s, c);
        if (r == -EBUSY)
                return hand_over(s, "the kernel says that it is in use");
        if (r < 0) {
                log_warning("The kernel did not stop device %u: %s", id, strerror(-r));
                return hand_over(s, "it could not be stopped");
        }
        s->claim_fd = safe_close(s->claim_fd);
        control_set_deadline(c, s->total_deadline_usec); /* there is no way back from here */
        r = control_delete(c, id);
        if (r < 0 && r != -ENODEV)
                log_warning("The kernel did not delete device %u: %s", id, strerror(-r));
        r = marker_remove(id);
        if (r < 0)
                log_warning("Can't remove the udev file of device %u, ignoring: %s", id, strerror(-r));
        log_info("Device %u is deleted.", id);
        return wait_for_worker(s);
}

static int stop_or_hand_over(Stop *s) {
        _cleanup_(control_freep) Control *c = NULL;
        struct ublk_dev_info info;
        uint64_t features;
        int r;

        r = control_new(&c);
        if (r >= 0) {
                control_set_deadline(c, s->steps_deadline_usec);
                s->kernel_looks = control_get_features(c, &features) >= 0 && (features & UBLK_F_SAFE_STOP_DEV);
                r = find_device(c, s->id, &info);
        }
        if (r >= 0)
                s->without_recovery = !(info.flags & UBLK_F_USER_RECOVERY);
        s->stop_is_asked = ask_for_stop(s);
        if (!s->stop_is_asked)
                return hand_over(s, "no stop is asked for");
        /* A worker that does not say where its data is may have it there. */
        s->loses_memory = !s->without_recovery && s->calls->in_memory(s->id, s->pid, time_left(s, HELLO_USEC)) != 0;
        if (r < 0)
                return hand_over(s, strerror(-r));
        take_time(s, JOB_USEC);
        s->going_down = s->calls->going_down(JOB_USEC) > 0;
        take_time(s, 0);
        if (s->going_down) {
                r = await_users(s);
                if (r < 0)
                        return r == -EOWNERDEAD ? 0 : r; /* a crash, and nobody to come */
                take_time(s, LAST_SYNC_USEC);
        }
        if (!flush(s) && !s->going_down)
                return hand_over(s, "its dirty pages could not be written");
        if (is_free(s) == 0)
                return hand_over(s, "it is in use");
        r = keep_others_out(s);
        if (r < 0)
                return hand_over(s, r == -EBUSY ? "it is in use" : strerror(-r));
        if (s->claim_fd >= 0) {
                take_time(s, 0);
                if (!flush(s))
                        return hand_over(s, "its dirty pages could not be written");
        }
        /* A restart may have taken the stop's place by now, unless the machine goes down. */
        s->stop_is_asked = s->going_down || ask_for_stop(s);
        if (!s->stop_is_asked)
                return hand_over(s, "no stop is asked for any more");
        /* Who just opens it is not kept from that. */
        if (s->claim_fd >= 0 && is_free(s) == 0)
                return hand_over(s, "it is in use");
        return delete_live(s, c);
}

int stop_device(uint32_t id, pid_t main_pid, const StopCalls *calls, Failure *f) {
        Stop s = { .id = id, .pid = main_pid, .calls = calls, .claim_fd = -EBADF };
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
        s.pid_fd = pid_fd;
        take_time(&s, 0);
        r = stop_or_hand_over(&s);
        safe_close(s.claim_fd);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "worker %d can't be told to hand over: %s",
                                   (int) main_pid, strerror(-r));
        return 0;
}
