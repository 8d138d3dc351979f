/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The verb `stop`, ExecStop= of a device's unit: the one place where a live device is deleted, and only if
 * that is what was asked for, nobody uses the disk, and its worker still serves. In every other case the
 * worker hands over, and the device waits for the next one. Only here can dirty pages still reach the hook.
 */

#include "service/failure.h"

/* Gives the type of the job that PID 1 has for a unit (dbus/unit-job.h), owned by the caller. */
typedef int (*UnitJobQuery)(const char *unit, uint64_t timeout_usec, char **ret);

/* main_pid: of the unit, 0 if there is none (the worker ended by itself). Returns once the worker is gone, and in any case
 * within TimeoutStopSec= of the unit. */
int stop_device(uint32_t id, pid_t main_pid, UnitJobQuery job_query, Failure *f);
