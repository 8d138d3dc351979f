/* SPDX-License-Identifier: MIT */
#include "service/end-reason.h"

#include "service/paths.h"
#include "service/secret.h"

/* The path was that of a file when the device got it, so it is no secret that somebody took for a path. */
static int explain_missing(const Argument *a, int error, const char *message, Failure *ret) {
        if (error == -ENOENT)
                (void) failure_set(ret, FAILURE_ARGUMENTS, ENOENT,
                                   "%s is not there, of which option \"%s\" has its secret: no worker can start until it is back", a->value,
                                   a->name);
        else
                (void) failure_set(ret, FAILURE_ARGUMENTS, -error, "%s", message ? message : strerror(-error));
        return 0;
}

int secrets_are_there(const DeviceConfig *c, Failure *ret) {
        for (size_t i = 0; i < c->n_arguments; i++) {
                const Argument *a = &c->arguments[i];
                _cleanup_free_ char *message = NULL;
                int r;

                if (!secret_is_listed(c->secrets, a->name) || secret_reference(a->value) != SECRET_FILE)
                        continue;
                r = secret_check(a->name, a->value, &message);
                if (r < 0)
                        return explain_missing(a, r, message, ret);
        }
        return 1;
}

int end_reason(const DeviceConfig *c, int exit_status, const char *status_text, Failure *ret) {
        if (exit_status == EXIT_CREDENTIALS) {
                if (secrets_are_there(c, ret))
                        (void) failure_set(ret, FAILURE_WORKER, EIO,
                                           "systemd could not load the credentials of the worker; journalctl -u " UNIT_DEVICE " says more",
                                           c->id);
                return 1;
        }
        if (!streq_ptr(status_text, STATUS_LOADING))
                return 0;
        (void) failure_set(ret, FAILURE_HOOK, EIO, "the hook ended the worker's process while it was loaded (exit status %d)", exit_status);
        return 1;
}
