/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The verb `stop`, ExecStop= of a device's unit: the one place where a live device is deleted, and only if
 * that is what was asked for, nobody uses the disk, and its worker still serves. In every other case the
 * worker hands over, and the device waits for the next one. Only here can dirty pages still reach the hook.
 *
 * What a hook has in UBLK::Memory is kept by systemd, and thrown away when the unit is down. So a stop that is not to delete
 * such a device is turned into a restart: whoever asked for it is told that it was cancelled.
 */

#include "service/failure.h"

/* What has to be asked of others. */
typedef struct StopCalls {
        /* The type of the job that PID 1 has for a unit (dbus/unit-job.h), owned by the caller. */
        int (*job_type)(const char *unit, uint64_t timeout_usec, char **ret);
        /* Puts a restart in the place of that job; PID 1 refuses it when the machine goes down. */
        int (*restart)(const char *unit, uint64_t timeout_usec);
        /* Whether the machine is. */
        int (*going_down)(uint64_t timeout_usec);
        /* Whether PID 1 is unmounting something right now, whatever it is. */
        int (*unmounting)(uint64_t timeout_usec);
        /* systemd is to wait so long from now on, if not longer. */
        void (*more_time)(uint64_t usec);
        /* Whether the hook that the worker serves has data in UBLK::Memory. */
        int (*in_memory)(uint32_t id, pid_t pid, uint64_t timeout_usec);
} StopCalls;

/* main_pid: of the unit, 0 if there is none (the worker ended by itself). Returns once the worker is gone, and in any case
 * within TimeoutStopSec= of the unit; but when the machine goes down, that begins only when nobody uses the disk any more, or has
 * had his time. */
int stop_device(uint32_t id, pid_t main_pid, const StopCalls *calls, Failure *f);
