/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What became of requests that a hook failed: a structured journal entry each, no more than a burst of them at a time,
 * with a count of those left out; and the last one as the device's LastError (supervisor_publish).
 */

#include "service/failure.h"
#include "service/request.h"

#define REPORT_BURST 10
#define REPORT_INTERVAL_USEC (5 * USEC_PER_SEC)

/* request is NULL for what no request is to blame for. Any thread. */
void report_failure(const char *device, const Request *request, const Failure *failure);
