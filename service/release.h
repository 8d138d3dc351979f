/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The verbs `release` and `remove`. `release` is ExecStopPost= of a device's unit: the worker is gone, and
 * what is deleted is only what the kernel has ended already. `remove` is the manager's last resort for a
 * device of ours that no worker serves.
 */

#include "service/control.h"
#include "service/failure.h"
#include "service/turn.h"

/* How a worker ended. It hands over because that was asked for, or because `activate` failed: its status is the same. */
typedef struct WorkerEnd {
        int exit_status;        /* as last-word.h has it; -1 if it was killed or never ran */
        bool unit_failed;       /* what systemd makes of it ($SERVICE_RESULT) */
        const char *invocation; /* $INVOCATION_ID, or NULL; borrowed */
} WorkerEnd;

/* It had new code on trial, and that is over: the device had no worker that failed. */
#define RELEASE_TRIAL_FAILED 1

int release_device(uint32_t id, const WorkerEnd *end, Failure *f);

/* After a worker that ended with a status that was not its own to give (last-word.h): systemd may have taken it for the reason not
 * to start another one. A device that was live needs one all the same, unless PID 1 has a job for its unit that says what is to
 * become of it. restart: as in dbus/unit-job.h. 1 if it is asked for, 0 if there is no need. */
int release_restart(uint32_t id, UnitJobQuery job_type, int (*restart)(const char *unit, uint64_t timeout_usec), Failure *f);

/* When the machine goes down: a device of ours that is waiting for a worker, and would wait for ever, is deleted. Who waits for an
 * answer gets an error, instead of keeping the machine from going down. */
int release_for_ever(uint32_t id, Failure *f);

/* What becomes of what its hook keeps (state.h). */
typedef enum RemoveState {
        REMOVE_LEAVES_STATE, /* the device stays configured, and has it when it is made anew */
        REMOVE_STATE,        /* goes with the device; of one that is still being created, what the creation made */
        REMOVE_KEEPS_STATE,  /* is there for the next device of the name */
} RemoveState;

/* FAILURE_BUSY, naming who, while it is served or in use. No error if there is no such device of ours; *ret_foreign says
 * that the id belongs to a device of another program, which is left alone. */
int remove_device(uint32_t id, RemoveState state, bool *ret_foreign, Failure *f);

/* Of `remove`, for others as well (strays.h). FAILURE_BUSY, naming who has the disk mounted or open. */
int check_unused(uint32_t id, Failure *f);
/* Stops and deletes it, and waits a moment for it to be gone. */
int remove_from_kernel(Control *c, uint32_t id, Failure *f);
/* It is gone for good: what is known of it beside its file. */
void forget_device(uint32_t id);
