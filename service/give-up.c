/* SPDX-License-Identifier: MIT */
#include "service/give-up.h"

#include "service/activation-attempts.h"
#include "service/control.h"
#include "service/end-reason.h"
#include "service/exit-status.h"
#include "service/log.h"
#include "service/marker.h"
#include "service/paths.h"
#include "service/probe.h"

#include <inttypes.h>

#define MAX_FILE (FAILURE_MAX_TEXT + 64)
/* TimeoutStopSec= of the unit, 16 s, also holds for ExecStopPost=. */
#define STOP_USEC (10 * USEC_PER_SEC)
#define QUERY_USEC (2 * USEC_PER_SEC)

static int note_path(uint32_t id, char **ret) {
        return config_path(ret, PATH_MARKERS "/ublkb%u.given-up", id);
}

static int note_write(const DeviceConfig *c, const Failure *f) {
        _cleanup_free_ char *path = NULL, *text = NULL, *line = NULL;
        int r;

        r = note_path(c->id, &path);
        if (r >= 0)
                r = failure_to_text(f, &text);
        if (r >= 0)
                r = xasprintf(&line, "%" PRIx64 " %s\n", device_config_kernel_tag(c), text);
        return r < 0 ? r : write_file_atomic(path, line, strlen(line), 0644);
}

int give_up_read(const DeviceConfig *c, Failure *ret) {
        _cleanup_free_ char *path = NULL, *line = NULL;
        uint64_t tag;
        char *text;

        if (note_path(c->id, &path) < 0 || read_file(path, MAX_FILE, &line, NULL) < 0)
                return 0;
        line[strcspn(line, "\n")] = 0;
        text = strchr(line, ' ');
        if (!text || sscanf(line, "%" SCNx64, &tag) != 1 || tag != device_config_kernel_tag(c))
                return 0;
        return failure_from_text(text + 1, ret) >= 0;
}

void give_up_forget(uint32_t id) {
        _cleanup_free_ char *path = NULL;

        if (note_path(id, &path) >= 0 && unlink(path) < 0 && errno != ENOENT)
                log_warning("Can't remove %s, ignoring: %s", path, strerror(errno));
}

/* What the worker, or `activate` through it, said last; else how it ended. */
static void find_reason(const DeviceConfig *c, int exit_status, const char *how, UnitStatusQuery query, Failure *ret) {
        _cleanup_free_ char *unit = NULL, *text = NULL;

        if (xasprintf(&unit, UNIT_DEVICE, c->id) >= 0 && query(unit, QUERY_USEC, &text) >= 0 &&
            failure_from_text(text, ret) >= 0)
                return;
        if (end_reason(c, exit_status, text, ret) == 0)
                (void) failure_set(ret, FAILURE_WORKER, 0, "it %s", how);
}

static int describe(const DeviceConfig *c, unsigned count, uint64_t usec, const Failure *reason, Failure *ret) {
        _cleanup_free_ char *text = NULL;
        int r;

        r = failure_describe(reason, &text);
        if (r < 0)
                return r;
        (void) failure_set(ret, reason->kind, reason->error,
                           "%u workers of %s in a row ended within %.0f s, and on-failure is error: what waited for the disk "
                           "has failed, and the disk is gone. `ublkctl restart %s` makes it again once nobody uses the old one, "
                           "`ublkctl delete %s` does without it. Of the last worker: %s",
                           count, c->name, (double) usec / USEC_PER_SEC, c->name, c->name, text);
        return 0;
}

/* -ENODEV: there is none (any more) that could be stopped. */
static int stop_in_kernel(const DeviceConfig *c, Failure *f) {
        _cleanup_(control_freep) Control *control = NULL;
        struct ublk_dev_info info;
        int r;

        r = probe_open_control(&control, f);
        if (r < 0)
                return r;
        r = control_get_info(control, c->id, &info);
        if (r >= 0 && info.ublksrv_flags != device_config_kernel_tag(c))
                r = -ENODEV;
        if (r >= 0)
                r = control_stop(control, c->id, STOP_USEC);
        if (r >= 0)
                r = control_delete(control, c->id);
        if (r < 0 && r != -ENODEV)
                return failure_set(f, FAILURE_KERNEL, -r, "the kernel did not end device %u, which was to be given up: %s",
                                   c->id, strerror(-r));
        return 0;
}

static int give_up(const DeviceConfig *c, const Failure *why, Failure *f) {
        int r;

        r = stop_in_kernel(c, f);
        if (r < 0)
                return r;
        log_error("Giving up device %u (%s): %s.", c->id, c->name, why->message);
        r = note_write(c, why);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "can't note that device %u is given up: %s", c->id,
                                   strerror(-r));
        return 0;
}

/* Its unit has taken note. `release` takes the device for stopped if somebody still has the disk open. */
static void settle(const DeviceConfig *c) {
        Failure ignored = FAILURE_NULL;
        int r;

        if (give_up_read(c, &ignored) == 0)
                return;
        failure_done(&ignored);
        r = marker_write_gone(c);
        if (r < 0)
                log_warning("Can't write the udev file of device %u, ignoring: %s", c->id, strerror(-r));
        give_up_forget(c->id);
}

int give_up_if_due(uint32_t id, int exit_status, const char *how, UnitStatusQuery query, Failure *f) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        Failure reason = FAILURE_NULL, why = FAILURE_NULL;
        _cleanup_free_ char *message = NULL;
        uint64_t usec;
        unsigned count;
        int r;

        if (device_config_load(id, &c, &message) < 0)
                return 0;
        if (exit_status == EXIT_WRONG) {
                settle(c);
                return 0;
        }
        if (!c->fail_on_failure || !attempts_are_exhausted(c, &count, &usec))
                return 0;
        find_reason(c, exit_status, how, query, &reason);
        r = describe(c, count, usec, &reason, &why);
        if (r >= 0)
                r = give_up(c, &why, f);
        failure_done(&reason);
        failure_done(&why);
        return r;
}
