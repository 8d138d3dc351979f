/* SPDX-License-Identifier: MIT */

/* The manager's part of service/needs.h, as a step. */

#include "dbus/errors.h"
#include "dbus/operation.h"
#include "service/log.h"
#include "service/needs.h"
#include "service/secret.h"

bool operation_lacks_needs(const Operation *op) {
        const Failure *f = &op->device->failure;

        return f->message && f->kind == FAILURE_NEEDS && !op->needs_met;
}

/* Calls fn for each of a failure's needs, until one fails. */
static int for_each_need(const char *needs, int (*fn)(void *userdata, const char *need), void *userdata) {
        _cleanup_free_ char *copy = NULL;
        char *state, *need;
        int r;

        r = xstrdup(needs ? needs : "", &copy);
        for (state = copy; r >= 0 && (need = strsep(&state, " "));)
                r = fn(userdata, need);
        return r;
}

static int note_need(void *userdata, const char *need) {
        return needs_note(userdata, need);
}

/* Into the file as it is now: somebody may have edited it since it was read. */
static int note_needs_in_file(uint32_t id, const char *needs) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = device_config_load(id, &c, &message);
        if (r >= 0)
                r = for_each_need(needs, note_need, c);
        return r < 0 ? r : device_config_save(c);
}

static int check_secret(Operation *op, const Argument *a) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = secret_check(a->name, a->value, &message);
        if (r < 0)
                operation_set_error(op, SD_BUS_ERROR_INVALID_ARGS, "%s", message ? message : strerror(-r));
        return r;
}

/* systemd would say no more than that the credentials can't be set up. */
static int check_need(void *userdata, const char *need) {
        Operation *op = userdata;
        const Argument *a;
        const char *option;
        bool wanted;

        option = need_secret(need, &wanted);
        a = option && wanted ? device_config_find_argument(op->device->config, option) : NULL;
        return a ? check_secret(op, a) : 0;
}

int operation_check_secrets(Operation *op) {
        const DeviceConfig *c = op->device->config;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < c->n_arguments; i++)
                if (secret_is_listed(c->secrets, c->arguments[i].name) && secret_reference(c->arguments[i].value) == SECRET_FILE)
                        r = check_secret(op, &c->arguments[i]);
        return r;
}

/* Whether all of it can be given: noted in a file that is not kept. */
int operation_check_needs(Operation *op, const char *needs) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = for_each_need(needs, check_need, op);
        if (r >= 0)
                r = device_config_load(op->device->config->id, &c, &message);
        if (r >= 0)
                r = for_each_need(needs, note_need, c);
        if (r < 0)
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "What the hook needs (%s) can't be given to the unit: %s", needs,
                                    message ? message : strerror(-r));
        return r;
}

int operation_note_needs(Operation *op, const char *needs) {
        DeviceConfig *c = op->device->config;
        int r;

        r = note_needs_in_file(c->id, needs);
        if (r >= 0)
                r = for_each_need(needs, note_need, c);
        if (r < 0)
                operation_set_error(op, BUS_ERROR_WORKER_FAILED, "What the hook needs can't be noted in the device's file: %s",
                                    strerror(-r));
        return r;
}

void operation_say_needs(const Operation *op, const char *needs) {
        const DeviceConfig *c = op->device->config;

        log_info("Device %u (%s): its unit gets what the hook needs: %s", c->id, c->name, needs ? needs : "nothing");
}

static int find_secret(void *userdata, const char *need) {
        bool wanted, *found = userdata;

        *found = *found || need_secret(need, &wanted);
        return 0;
}

static bool includes_secret(const char *needs) {
        bool found = false;

        return for_each_need(needs, find_secret, &found) < 0 || found;
}

/* systemd reads a secret as root, for whatever hook it is given to, which may send it anywhere. */
void operation_authorise_needs(Operation *op, const char *needs, OperationNext then) {
        if (op->message && !op->may_any_hook && includes_secret(needs))
                operation_authorise(op, ACTION_RUN_ANY_HOOK, then);
        else
                then(op, 0);
}

static void meet_needs(Operation *op, int authorised) {
        OperationNext then = op->needs_then;
        Device *d = op->device;
        int r = authorised;

        if (r < 0) {
                then(op, r);
                return;
        }
        operation_say_needs(op, d->failure.needs);
        op->needs_met = true;
        r = for_each_need(d->failure.needs, check_need, op);
        if (r >= 0)
                r = operation_note_needs(op, d->failure.needs);
        if (r < 0) {
                then(op, r);
                return;
        }
        /* What comes of the next start is not to be taken for what came of this one. */
        device_forget_failure(d);
        operation_reload(op, then);
}

void operation_meet_needs(Operation *op, OperationNext then) {
        op->needs_then = then;
        operation_authorise_needs(op, op->device->failure.needs, meet_needs);
}
