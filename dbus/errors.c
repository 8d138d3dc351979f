/* SPDX-License-Identifier: MIT */
#include "dbus/errors.h"

#include "service/text.h"

#include <stdarg.h>

/* What sd-bus makes of these names where an errno is wanted. */
static const sd_bus_error_map error_map[] = {
        SD_BUS_ERROR_MAP(BUS_ERROR_DEVICE_EXISTS, EEXIST),
        SD_BUS_ERROR_MAP(BUS_ERROR_NO_SUCH_DEVICE, ENODEV),
        SD_BUS_ERROR_MAP(BUS_ERROR_DEVICE_BUSY, EBUSY),
        SD_BUS_ERROR_MAP(BUS_ERROR_NO_SUCH_HOOK, ENOENT),
        SD_BUS_ERROR_MAP(BUS_ERROR_HOOK_FAILED, EREMOTEIO),
        SD_BUS_ERROR_MAP(BUS_ERROR_NO_KERNEL_SUPPORT, ENOSYS),
        SD_BUS_ERROR_MAP(BUS_ERROR_WORKER_FAILED, EIO),
        SD_BUS_ERROR_MAP(BUS_ERROR_OPERATION_IN_PROGRESS, EINPROGRESS),
        SD_BUS_ERROR_MAP(BUS_ERROR_CANCELLED, ECANCELED),
        SD_BUS_ERROR_MAP_END,
};

static const char *const name_table[_FAILURE_MAX] = {
        [FAILURE_WORKER]    = BUS_ERROR_WORKER_FAILED,
        [FAILURE_HOOK]      = BUS_ERROR_HOOK_FAILED,
        [FAILURE_NO_HOOK]   = BUS_ERROR_NO_SUCH_HOOK,
        [FAILURE_ARGUMENTS] = SD_BUS_ERROR_INVALID_ARGS,
        [FAILURE_KERNEL]    = BUS_ERROR_NO_KERNEL_SUPPORT,
        [FAILURE_EXISTS]    = BUS_ERROR_DEVICE_EXISTS,
        [FAILURE_BUSY]      = BUS_ERROR_DEVICE_BUSY,
        [FAILURE_NEEDS]     = BUS_ERROR_WORKER_FAILED,
        [FAILURE_UNSUPPORTED] = SD_BUS_ERROR_NOT_SUPPORTED,
};

int bus_errors_register(void) {
        return sd_bus_error_add_map(error_map);
}

const char *bus_error_name(FailureKind kind) {
        return kind >= 0 && kind < _FAILURE_MAX ? name_table[kind] : BUS_ERROR_WORKER_FAILED;
}

int bus_error_setfv(sd_bus_error *e, const char *name, const char *format, va_list ap) {
        _cleanup_free_ char *text = NULL;

        if (vasprintf(&text, format, ap) < 0) {
                text = NULL;
                return sd_bus_error_set_errno(e, -ENOMEM);
        }
        text_clean(text);
        return sd_bus_error_set(e, name, text);
}

int bus_error_setf(sd_bus_error *e, const char *name, const char *format, ...) {
        va_list ap;
        int r;

        va_start(ap, format);
        r = bus_error_setfv(e, name, format, ap);
        va_end(ap);
        return r;
}

int bus_error_set_failure(sd_bus_error *e, const Failure *f) {
        _cleanup_free_ char *text = NULL;

        if (failure_describe(f, &text) < 0)
                return sd_bus_error_set_errno(e, -ENOMEM);
        return bus_error_setf(e, bus_error_name(f->kind), "%s", text);
}
