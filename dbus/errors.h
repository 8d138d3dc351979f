/* SPDX-License-Identifier: MIT */
#pragma once

/* The names of our D-Bus errors, and how a Failure becomes one. */

#include "service/failure.h"

#include <stdarg.h>

#include <systemd/sd-bus.h>

#define BUS_ERROR_DEVICE_EXISTS "org.ublk.Error.DeviceExists"
#define BUS_ERROR_NO_SUCH_DEVICE "org.ublk.Error.NoSuchDevice"
#define BUS_ERROR_DEVICE_BUSY "org.ublk.Error.DeviceBusy"
#define BUS_ERROR_NO_SUCH_HOOK "org.ublk.Error.NoSuchHook"
#define BUS_ERROR_HOOK_FAILED "org.ublk.Error.HookFailed"
#define BUS_ERROR_NO_KERNEL_SUPPORT "org.ublk.Error.NoKernelSupport"
#define BUS_ERROR_WORKER_FAILED "org.ublk.Error.WorkerFailed"
#define BUS_ERROR_OPERATION_IN_PROGRESS "org.ublk.Error.OperationInProgress"
#define BUS_ERROR_CANCELLED "org.ublk.Error.Cancelled"

/* Makes them known to sd-bus, once a process. */
int bus_errors_register(void);

/* "org.ublk.Error.HookFailed", …: one name for each kind. */
const char *bus_error_name(FailureKind kind);

/* As sd_bus_error_setf(3), which lets a text pass that sd-bus then does not send (text.h): one that was cut within a character, for
 * instance. The caller would get no answer. For every text that is not ours alone. */
int bus_error_setf(sd_bus_error *e, const char *name, const char *format, ...) _printf_(3, 4);
int bus_error_setfv(sd_bus_error *e, const char *name, const char *format, va_list ap) _printf_(3, 0);

/* Fills e with the failure's error, described for a person; returns the negative errno of it. */
int bus_error_set_failure(sd_bus_error *e, const Failure *f);
