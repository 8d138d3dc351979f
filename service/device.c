/* SPDX-License-Identifier: MIT */
#include "service/device.h"

#include "service/end-reason.h"
#include "service/exit-status.h"
#include "service/marker.h"
#include "service/paths.h"

#include <signal.h>

#define SECTOR_SIZE 512
#define SYSFS_MAX 64

static const char *const state_table[_DEVICE_STATE_MAX] = {
        [DEVICE_STARTING]   = "starting",
        [DEVICE_LIVE]       = "live",
        [DEVICE_RECOVERING] = "recovering",
        [DEVICE_HELD]       = "held",
        [DEVICE_STOPPED]    = "stopped",
        [DEVICE_FAILED]     = "failed",
        [DEVICE_STOPPING]   = "stopping",
};

const char *device_state_to_string(DeviceState state) {
        return state < _DEVICE_STATE_MAX ? state_table[state] : NULL;
}

void unit_state_done(UnitState *u) {
        free(u->active_state);
        free(u->sub_state);
        free(u->result);
        free(u->status_text);
        free(u->invocation);
        *u = (UnitState) {};
}

static bool sysfs_exists(const char *prefix, uint32_t id) {
        _cleanup_free_ char *path = NULL;

        return config_path(&path, "/sys/%s%u", prefix, id) >= 0 && access(path, F_OK) >= 0;
}

/* 0 for a file that is missing or says anything but a number. */
static uint64_t sysfs_number(uint32_t id, const char *attribute) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        uint64_t v;

        if (config_path(&path, "/sys/block/ublkb%u/%s", id, attribute) < 0 ||
            read_file(path, SYSFS_MAX, &text, NULL) < 0)
                return 0;
        text[strcspn(text, "\n")] = 0;
        return parse_u64(text, UINT64_MAX, &v) < 0 ? 0 : v;
}

void kernel_state_read(uint32_t id, KernelState *ret) {
        KernelState k = {
                .has_char = sysfs_exists("class/ublk-char/ublkc", id),
                .has_disk = sysfs_exists("block/ublkb", id),
        };

        if (k.has_disk) {
                uint64_t sectors = sysfs_number(id, "size");
                k.size = sectors <= UINT64_MAX / SECTOR_SIZE ? sectors * SECTOR_SIZE : 0;
                k.block_size = (uint32_t) sysfs_number(id, "queue/logical_block_size");
                k.read_only = sysfs_number(id, "ro") != 0;
        }
        *ret = k;
}

static bool word_is(const char *s, const char *word) {
        return streq(s ? s : "", word);
}

/* A crash passes through deactivating as well, with a result that says so; only a stop ends in "success". */
static bool unit_crashed(const UnitState *u) {
        return u->result && *u->result && !streq(u->result, "success");
}

DeviceState device_state_derive(const UnitState *u, const KernelState *k, int marker) {
        if (word_is(u->active_state, "active") || word_is(u->active_state, "reloading") ||
            word_is(u->active_state, "refreshing"))
                return k->has_disk ? DEVICE_LIVE : DEVICE_STOPPING;
        if (word_is(u->active_state, "activating")) {
                bool restarting = strncmp(u->sub_state ? u->sub_state : "", "auto-restart", strlen("auto-restart")) == 0;
                /* The marker is written before the first activation ends, so it counts only between two runs. */
                return k->has_disk || (restarting && marker != MARKER_NONE) ? DEVICE_RECOVERING : DEVICE_STARTING;
        }
        if (word_is(u->active_state, "deactivating"))
                return k->has_disk && unit_crashed(u) ? DEVICE_RECOVERING : DEVICE_STOPPING;
        if (word_is(u->active_state, "failed"))
                return DEVICE_FAILED;
        return k->has_char ? DEVICE_HELD : DEVICE_STOPPED;
}

Device *device_new(DeviceConfig *config) {
        Device *d = malloc(sizeof(Device));
        char *empty = strdup("");

        if (!d || !empty) {
                free(d);
                free(empty);
                return NULL;
        }
        *d = (Device) {
                .config = config,
                .state = DEVICE_STOPPED,
                .state_usec = now_realtime_usec(),
                .failure = FAILURE_NULL,
                .last_error = empty,
                .read_only = config->read_only,
        };
        return d;
}

Device *device_free(Device *d) {
        if (!d)
                return NULL;
        device_config_free(d->config);
        unit_state_done(&d->unit);
        failure_done(&d->failure);
        free(d->last_error);
        free(d);
        return NULL;
}

/* A worker that hands over while it loads is told to. */
static bool find_end_reason(const Device *d, Failure *ret) {
        const UnitState *u = &d->unit;

        return u->main_pid == 0 && u->exit_code == CLD_EXITED && u->exit_status != EXIT_HANDED_OVER &&
               end_reason(d->config, u->exit_status, u->status_text, ret) > 0;
}

/* The worker reports through its unit's StatusText. A start clears that, and between two attempts it says
 * how far the next one is; so a failure stays until the device is live or another one comes. */
static void refresh_failure(Device *d) {
        Failure f = FAILURE_NULL;

        if ((d->unit.status_text && failure_from_text(d->unit.status_text, &f) >= 0) || find_end_reason(d, &f)) {
                failure_done(&d->failure);
                d->failure = f;
        } else if (d->state == DEVICE_LIVE)
                failure_done(&d->failure);
}

static bool refresh_last_error(Device *d) {
        _cleanup_free_ char *text = NULL;

        refresh_failure(d);
        if ((d->failure.message ? failure_describe(&d->failure, &text) : xstrdup("", &text)) < 0 ||
            streq(text, d->last_error))
                return false;
        free(d->last_error);
        d->last_error = TAKE_PTR(text);
        return true;
}

static bool refresh_state(Device *d) {
        DeviceState state = device_state_derive(&d->unit, &d->kernel, marker_read(d->config));

        /* The disk is there for a moment before its unit is active: that is the end of the first start, not a recovery. */
        if (state == DEVICE_RECOVERING && d->state == DEVICE_STARTING)
                state = DEVICE_STARTING;
        if (state == d->state)
                return false;
        d->state = state;
        d->state_usec = now_realtime_usec();
        return true;
}

unsigned device_refresh(Device *d) {
        uint64_t size = d->kernel.size;
        unsigned changed = 0;

        kernel_state_read(d->config->id, &d->kernel);
        if (d->kernel.has_disk) {
                if (d->block_size != d->kernel.block_size)
                        changed |= DEVICE_CHANGED_BLOCK_SIZE;
                if (d->read_only != d->kernel.read_only)
                        changed |= DEVICE_CHANGED_READ_ONLY;
                d->block_size = d->kernel.block_size;
                d->read_only = d->kernel.read_only;
        }
        if (refresh_state(d))
                changed |= DEVICE_CHANGED_STATE;
        if (refresh_last_error(d))
                changed |= DEVICE_CHANGED_LAST_ERROR;
        if (d->kernel.size != size)
                changed |= DEVICE_CHANGED_SIZE;
        if (d->worker_pid != d->unit.main_pid)
                changed |= DEVICE_CHANGED_WORKER_PID;
        if (d->restarts != d->unit.n_restarts)
                changed |= DEVICE_CHANGED_RESTARTS;
        d->worker_pid = d->unit.main_pid;
        d->restarts = d->unit.n_restarts;
        return changed;
}

void device_forget_failure(Device *d) {
        failure_done(&d->failure);
        free(d->unit.status_text);
        d->unit.status_text = NULL;
        d->unit.exit_code = 0;
}

unsigned device_take_hello(Device *d, uint32_t pid, const WorkerReply *hello) {
        const char *before = device_recovery(d), *path = device_data_path(d);
        unsigned changed = 0;

        d->recovery = (Recovery) hello->geometry.recovery;
        d->hello_pid = pid;
        d->code = (CodeState) hello->code;
        d->buffers = hello->geometry.buffers;
        if (!streq(before, device_recovery(d)))
                changed |= DEVICE_CHANGED_RECOVERY;
        if (!streq(path, device_data_path(d)))
                changed |= DEVICE_CHANGED_DATA_PATH;
        return changed;
}

bool device_has_hello(const Device *d) {
        return d->hello_pid != 0 && d->hello_pid == d->unit.main_pid;
}

int device_unit(const Device *d, char **ret) {
        return xasprintf(ret, UNIT_DEVICE, d->config->id);
}

int device_node(const Device *d, char **ret) {
        return xasprintf(ret, "/dev/ublkb%u", d->config->id);
}

const char *device_recovery(const Device *d) {
        return recovery_to_string(d->recovery != RECOVERY_DEFAULT ? d->recovery : d->config->recovery);
}

const char *device_data_path(const Device *d) {
        if (d->hello_pid != 0)
                return d->buffers ? "buffer" : "string";
        return d->config->data_path ? d->config->data_path : "auto";
}
