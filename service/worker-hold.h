/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Keeps a worker that is killed from getting to its end for a moment.
 *
 * The driver takes note of a server's death only while the device is live, and START_DEV and END_USER_RECOVERY do not look
 * (Linux 6.5 … 6.14; 7.2 in part). If the worker dies between its last fetch and the end of that command, END_USER_RECOVERY makes a
 * device live that nobody serves, and no command but STOP_DEV gets it out of that again; START_DEV leaves requests to a ring that
 * is freed, which can crash the kernel. That the worker is alive when the command is given is not enough. So a process traces the
 * worker's tasks (PTRACE_O_TRACEEXIT): one that is killed waits, before it lets go of its ring, until that process ends.
 */

#include "service/util.h"

#include <sys/types.h>

typedef struct Hold {
        pid_t tracer;
        int fd; /* the tracer lives as long as this is open */
} Hold;

#define HOLD_NULL ((Hold) { .fd = -EBADF })

/* Every task that the process has by now. That none of them was on its way out already is for the caller to find out: whoever answers
 * after this was not. -EOWNERDEAD: there is no such process. -EPERM: a security module, or a debugger that traces it. */
int hold_begin(pid_t pid, Hold *ret);
void hold_end(Hold *h);
