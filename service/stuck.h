/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Judges the requests that the hook does not give back, in three stages:
 *
 * 1. A journal entry with the Ruby backtrace, if Ruby runs. Once for each request.
 * 2. After hook-timeout UBLK::HookTimeout is raised in the method. If that ends it, the request fails with ETIMEDOUT, which is
 *    reported as any failure of the hook is, and the queue goes on.
 * 3. If it does not end it within a time of grace, since the hook catches the exception or C code keeps the interpreter to
 *    itself, the process has to end: the next worker takes the device over.
 *
 * hook-timeout 0: the first stage only. Used by the supervisor's thread alone, which lends its clock. A time in which that
 * thread did not run (a frozen cgroup, a suspended machine) is nobody's fault and does not count.
 */

#include "service/calls.h"
#include "service/failure.h"
#include "service/protocol.h"

/* From when on a request is one that stuck_list lists. */
#define STUCK_MIN_AGE_USEC USEC_PER_SEC

typedef struct StuckLimits {
        uint64_t log_usec;       /* in the hook */
        uint64_t interrupt_usec; /* likewise; UINT64_MAX: never */
        uint64_t grace_usec;     /* beyond the interruption */
        uint64_t tick_usec;      /* how often to look for new ones */
} StuckLimits;

StuckLimits stuck_limits(uint64_t hook_timeout_usec);

typedef struct Stuck Stuck;

/* device: its name. Both are borrowed. */
int stuck_new(const char *device, uint64_t hook_timeout_usec, Calls *calls, Stuck **ret);
Stuck *stuck_free(Stuck *s);
static inline void stuck_freep(Stuck **s) {
        stuck_free(*s);
}

/* Looks at all calls and does what is due. *ret_wait: in how many microseconds to look again. -ETIMEDOUT: the process has to
 * end because of *ret_call; the journal knows, and *ret_failure says why. */
int stuck_check(Stuck *s, uint64_t now_usec, uint64_t *ret_wait, CallView *ret_call, Failure *ret_failure);

/* The same for a task that waits for its turn in the interpreter while requests may wait for it, and has no call: some other
 * thread of the hook is in the way. queue: below calls_max(). waiting: whether it does; round: tells one wait from the next (queue.h). */
int stuck_check_turn(Stuck *s, size_t queue, bool waiting, uint64_t round, uint64_t now_usec, Failure *ret_failure);

/* Whether code on trial may stay. Not while something is in the hook that was there when this was asked first: -EAGAIN, it may be done
 * soon. -EBUSY: it has been there for limit_usec, and *ret_failure says what and where. The same of a task that waits for its turn. To be
 * asked after the two above, with the same time. */
int stuck_judge_trial(Stuck *s, uint64_t now_usec, uint64_t limit_usec, Failure *ret_failure);

/* Has the backtraces of those that are listed taken anew; stuck_is_tracing is false once that is done. */
void stuck_trace(Stuck *s, uint64_t now_usec);
bool stuck_is_tracing(Stuck *s, uint64_t now_usec);
/* The requests that were longest in the hook, at most max, the oldest first. */
size_t stuck_list(Stuck *s, uint64_t now_usec, StuckRequest *ret, size_t max);
