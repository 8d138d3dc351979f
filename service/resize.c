/* SPDX-License-Identifier: MIT */
#include "service/resize.h"

#include "service/claim.h"
#include "service/config.h"
#include "service/control.h"
#include "service/holders.h"
#include "service/log.h"
#include "service/probe.h"
#include "service/worker-link.h"

/* Below TimeoutStartSec= of ublk-ruby-control@.service, all together. */
#define ANSWER_USEC (3 * USEC_PER_SEC)
#define HOOK_USEC (18 * USEC_PER_SEC)

typedef struct Resize {
        uint32_t id;
        DeviceConfig *config;
        Control *control;
        WorkerLink worker;
        Geometry geometry;    /* as the worker says */
        uint64_t kernel_size; /* bytes */
        int disk_fd;          /* keeps others from using a disk that is getting smaller */
} Resize;

static void resize_done(Resize *z) {
        safe_close(z->disk_fd);
        worker_link_done(&z->worker);
        control_free(z->control);
        device_config_free(z->config);
}

static int load(Resize *z, Failure *f) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = device_config_load(z->id, &z->config, &message);
        return r < 0 ? failure_set(f, FAILURE_WORKER, -r, "the file of device %u can't be read: %s", z->id, message ? message : strerror(-r)) : 0;
}

static int check_kernel(Resize *z, Failure *f) {
        uint64_t features;
        int r;

        r = probe_open_control(&z->control, f);
        if (r < 0)
                return r;
        r = control_get_features(z->control, &features);
        if (r < 0)
                return failure_set(f, FAILURE_KERNEL, -r, "the driver does not say what it can do: %s", strerror(-r));
        if (!(features & UBLK_F_UPDATE_SIZE))
                return failure_set(f, FAILURE_KERNEL, EOPNOTSUPP,
                                   "to change the size of a live disk takes a ublk driver with update-size, which came with Linux 6.16, and this "
                                   "kernel's has it not: boot a newer one, or delete the device and create it with the other size");
        return 0;
}

/* The disk that is live, and is ours. Its server is who the kernel says. */
static int find_worker(Resize *z, pid_t *ret, Failure *f) {
        struct ublk_dev_info info;
        struct ublk_params p;
        int r;

        r = control_get_info(z->control, z->id, &info);
        if (r >= 0)
                r = control_get_params(z->control, z->id, &p);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "the kernel does not tell of device %u: %s", z->id, strerror(-r));
        if (info.ublksrv_flags != device_config_kernel_tag(z->config) || info.state != UBLK_S_DEV_LIVE)
                return failure_set(f, FAILURE_WORKER, ENODEV, "device %s is not live: its size can be changed once it is", z->config->name);
        z->kernel_size = p.basic.dev_sectors << 9;
        *ret = info.ublksrv_pid;
        return 0;
}

/* The kernel takes any size, and the worker runs other people's code. */
static int take_geometry(Resize *z, const WorkerReply *reply, Failure *f) {
        _cleanup_free_ char *message = NULL;

        if (geometry_check(&reply->geometry, &message) < 0)
                return failure_set(f, FAILURE_WORKER, EBADMSG, "the worker's answer makes no sense: %s", message ? message : "out of memory");
        z->geometry = reply->geometry;
        return 0;
}

static int ask_worker(Resize *z, Failure *f) {
        WorkerReply reply;
        int r;

        r = worker_link_call(&z->worker, MESSAGE_HELLO, now_usec() + ANSWER_USEC, &reply, f);
        return r < 0 ? r : take_geometry(z, &reply, f);
}

static int begin(Resize *z, Failure *f) {
        pid_t pid = 0;
        int r;

        r = load(z, f);
        if (r >= 0)
                r = check_kernel(z, f);
        if (r >= 0)
                r = find_worker(z, &pid, f);
        if (r >= 0)
                r = worker_link_connect(&z->worker, z->id, pid, now_usec() + ANSWER_USEC, f);
        return r < 0 ? r : ask_worker(z, f);
}

static int update_kernel(Resize *z, uint64_t bytes, Failure *f) {
        int r;

        if (bytes == z->kernel_size)
                return 0;
        r = control_update_size(z->control, z->id, bytes);
        if (r < 0)
                return failure_set(f, FAILURE_KERNEL, -r, "the kernel did not change the disk's size: %s", strerror(-r));
        z->kernel_size = bytes;
        return 0;
}

static int check_size(const Resize *z, uint64_t bytes, Failure *f) {
        _cleanup_free_ char *message = NULL;
        Geometry wanted = z->geometry;

        if (!z->geometry.can_resize)
                return failure_set(f, FAILURE_UNSUPPORTED, EOPNOTSUPP, "the hook \"%s\" can't change its size: it defines no resize(bytes)",
                                   z->config->hook);
        if (z->geometry.read_only)
                return failure_set(f, FAILURE_UNSUPPORTED, EROFS, "device %s is read-only, and so is its size", z->config->name);
        wanted.size = bytes;
        if (geometry_check(&wanted, &message) < 0)
                return failure_set(f, FAILURE_ARGUMENTS, EINVAL, "%s", message ? message : "that is no size");
        return 0;
}

/* Whoever opens the disk from now on for more than a look is refused: a mount, swap, LVM. */
static int keep_others_out(Resize *z, Failure *f) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        _cleanup_free_ char *who = NULL;
        int r;

        r = holders_find_lasting(z->id, /* deadline_usec= */ 0, &h);
        if (r >= 0 && h.n > 0)
                r = holders_describe(&h, &who);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "can't tell who uses /dev/ublkb%u: %s", z->id, strerror(-r));
        if (h.n > 0)
                return failure_set(f, FAILURE_BUSY, EBUSY, "/dev/ublkb%u is in use: %s; it can't be made smaller before that ends", z->id, who);
        r = disk_claim(z->id, &z->disk_fd);
        if (r < 0)
                return failure_set(f, FAILURE_BUSY, -r, "/dev/ublkb%u is in use: %s; it can't be made smaller before that ends", z->id,
                                   strerror(-r));
        return 0;
}

static int shrink_kernel(Resize *z, uint64_t bytes, Failure *f) {
        int r;

        if (bytes >= z->kernel_size)
                return 0;
        r = keep_others_out(z, f);
        return r < 0 ? r : update_kernel(z, bytes, f);
}

static int ask_hook(Resize *z, uint64_t bytes, Failure *f) {
        WorkerReply reply;
        int r;

        r = worker_link_resize(&z->worker, bytes, now_usec() + HOOK_USEC, &reply, f);
        return r < 0 ? r : take_geometry(z, &reply, f);
}

/* After a hook's refusal. One that is still at it has not said what it will do. */
static bool go_back(Resize *z, const Failure *f) {
        Failure ignored = FAILURE_NULL;
        uint64_t before = z->geometry.size;
        int r;

        if (f->kind == FAILURE_WORKER && f->error == ETIMEDOUT)
                return false;
        r = ask_worker(z, &ignored);
        if (r >= 0)
                r = update_kernel(z, z->geometry.size, &ignored);
        if (r < 0)
                log_warning("Device %u: %s", z->id, ignored.message ? ignored.message : strerror(-r));
        failure_done(&ignored);
        return r >= 0 && z->geometry.size == before;
}

static int resize_run(Resize *z, uint64_t bytes, bool *ret_unchanged, Failure *f) {
        int r;

        *ret_unchanged = true;
        r = begin(z, f);
        if (r >= 0)
                r = check_size(z, bytes, f);
        if (r < 0)
                return r;
        r = shrink_kernel(z, bytes, f);
        if (r < 0) {
                *ret_unchanged = r != -ETIMEDOUT; /* it may take effect yet */
                return r;
        }
        r = ask_hook(z, bytes, f);
        if (r < 0)
                *ret_unchanged = go_back(z, f);
        return r;
}

int resize_device(uint32_t id, uint64_t bytes, Resized *ret, Failure *f) {
        _cleanup_(resize_done) Resize z = { .id = id, .worker = WORKER_LINK_NULL, .disk_fd = -EBADF };
        int r;

        *ret = (Resized) { 0 };
        r = resize_run(&z, bytes, &ret->unchanged, f);
        if (r < 0)
                return r;
        *ret = (Resized) { .size = z.geometry.size, .takes_size = z.geometry.takes_size };
        return 0;
}

int resize_settle(uint32_t id, Resized *ret, Failure *f) {
        _cleanup_(resize_done) Resize z = { .id = id, .worker = WORKER_LINK_NULL, .disk_fd = -EBADF };
        int r;

        *ret = (Resized) { 0 };
        r = begin(&z, f);
        if (r >= 0)
                r = shrink_kernel(&z, z.geometry.size, f);
        if (r >= 0)
                r = update_kernel(&z, z.geometry.size, f);
        if (r < 0)
                return r;
        *ret = (Resized) { .size = z.geometry.size, .takes_size = z.geometry.takes_size };
        return 0;
}
