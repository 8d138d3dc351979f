/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How often in a row a device's worker ended without the device having come (back) to life for good: what a worker waits by
 * before it loads Ruby, and by which on-failure=error gives up. The first few starts wait for nothing. systemd's own back-off
 * is none: 252 has no RestartSteps=, and that of later versions never forgets, so that the thirteenth crash in a year would
 * take ten seconds.
 *
 * `release` counts, in a file beside the marker (marker.h); a worker that serves for a while ends the row, as does an end
 * that was asked for. A start by hand waits for nothing, unless it comes within seconds of a failure.
 */

#include "service/config.h"

/* For so long a worker serves before its end is not one more of the row. A request that ends every worker does so at once, as
 * it is given to the next one first of all. */
#define ATTEMPTS_STABLE_USEC (10 * USEC_PER_SEC)
/* It takes so many in a row, and so long, before a row is taken for one without an end. */
#define ATTEMPTS_MAX 8
#define ATTEMPTS_MAX_USEC (20 * USEC_PER_SEC)

/* A worker ended, and nobody had asked for that. */
void attempts_note(const DeviceConfig *c);
/* A worker has brought the device (back) to life. */
void attempts_note_live(const DeviceConfig *c);
/* Somebody has waited in the place of the next worker. */
void attempts_note_waited(const DeviceConfig *c);
void attempts_forget(uint32_t id);
/* In microseconds; 0 where nothing is known. */
uint64_t attempts_delay(const DeviceConfig *c);
/* How many there were, and in what time. */
bool attempts_are_exhausted(const DeviceConfig *c, unsigned *ret_count, uint64_t *ret_usec);
