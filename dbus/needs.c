/* SPDX-License-Identifier: MIT */

/* The manager's part of service/needs.h, as a step. */

#include "dbus/errors.h"
#include "dbus/operation.h"
#include "service/log.h"
#include "service/needs.h"

bool operation_lacks_needs(const Operation *op) {
        const Failure *f = &op->device->failure;

        return f->message && f->kind == FAILURE_NEEDS && !op->needs_met;
}

static int note_needs(DeviceConfig *c, const char *needs) {
        _cleanup_free_ char *copy = NULL;
        char *state, *need;
        int r;

        r = xstrdup(needs ? needs : "", &copy);
        for (state = copy; r >= 0 && (need = strsep(&state, " "));)
                r = needs_note(c, need);
        return r;
}

/* Into the file as it is now: somebody may have edited it since it was read. */
static int note_needs_in_file(uint32_t id, const char *needs) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = device_config_load(id, &c, &message);
        if (r >= 0)
                r = note_needs(c, needs);
        return r < 0 ? r : device_config_save(c);
}

void operation_meet_needs(Operation *op, OperationNext then) {
        Device *d = op->device;
        int r;

        log_info("Device %u (%s): its unit gets what the hook needs: %s", d->config->id, d->config->name,
                 d->failure.needs ? d->failure.needs : "nothing");
        op->needs_met = true;
        r = note_needs_in_file(d->config->id, d->failure.needs);
        if (r >= 0)
                r = note_needs(d->config, d->failure.needs);
        if (r < 0) {
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "What the hook needs can't be noted in the device's file: %s",
                                    strerror(-r));
                then(op, r);
                return;
        }
        /* What comes of the next start is not to be taken for what came of this one. */
        device_forget_failure(d);
        operation_reload(op, then);
}
