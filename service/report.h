/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What became of requests that a hook failed: a structured journal entry each, no more than a burst of them at a time,
 * with a count of those left out; and the last one as the device's LastError (supervisor_publish). The entry's message
 * has the backtrace. Its fields: UBLK_DEVICE, UBLK_OP, UBLK_OFFSET, UBLK_LENGTH, UBLK_ERRNO, RUBY_CLASS, and
 * UBLK_SUPPRESSED, how many before it were left out.
 */

#include "service/calls.h"
#include "service/failure.h"
#include "service/request.h"

#define REPORT_BURST 10
#define REPORT_INTERVAL_USEC (5 * USEC_PER_SEC)

/* request is NULL for what no request is to blame for. Any thread. */
void report_failure(const char *device, const Request *request, const Failure *failure);

/* A request that the hook does not give back: an entry with the first four of these fields, UBLK_STAGE (stuck.h) and
 * UBLK_AGE_USEC. Any thread. */
void report_stuck(const char *device, const CallView *call, unsigned stage, uint64_t age_usec, const char *text);
