/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The back-off of workers that systemd can't even start, as a file is gone that LoadCredential= names: such a worker can't wait by
 * itself (activation-attempts.h), so `release` waits for the one after it. Not any longer than it takes: the files may come back, and
 * somebody may want the unit to stop or to start afresh.
 */

#include "service/config.h"

/* Of PID 1's job for a unit: "none" if there is none (dbus/unit-job.h). */
typedef int (*UnitJobQuery)(const char *unit, uint64_t timeout_usec, char **ret);

/* exit_status: how it ended. Returns at once unless that was systemd's doing. Takes up to 10 s. */
void turn_await(uint32_t id, int exit_status, UnitJobQuery job_type);
