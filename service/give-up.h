/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * on-failure=error: a device whose workers end again and again (activation-attempts.h) is taken out of the kernel, which fails
 * whatever waits for it. There is no milder way on any kernel: whether I/O waits or fails is settled when a device is added.
 * A note beside the marker says so. The next worker reads it and ends with status 78, by which systemd gives up as well;
 * then the note has done its work, and a start by hand begins anew.
 */

#include "service/config.h"
#include "service/failure.h"

/* StatusText of a unit, owned by the caller. */
typedef int (*UnitStatusQuery)(const char *unit, uint64_t timeout_usec, char **ret);

/* Part of `release`, after it has counted: exit_status as there, how: the end of the worker in words. Does nothing unless the
 * device is to be given up, or was and its unit knows. */
int give_up_if_due(uint32_t id, int exit_status, const char *how, UnitStatusQuery query, Failure *f);

/* 1 and what is to be reported, if the device was given up; 0 if not. */
int give_up_read(const DeviceConfig *c, Failure *ret);
void give_up_forget(uint32_t id);
