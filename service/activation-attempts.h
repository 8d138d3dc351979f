/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How often in a row a device's worker ended without the device having come (back) to life: what a worker waits by before
 * it loads Ruby. The first few starts wait for nothing. systemd's own back-off is none: 252 has no RestartSteps=,
 * and that of later versions never forgets, so that the thirteenth crash in a year would take ten seconds.
 *
 * `release` counts, in a file beside the marker (marker.h); `activate` forgets, as does an end that was asked for. A start
 * by hand waits for nothing, unless it comes within seconds of a failure.
 */

#include "service/config.h"

void attempts_note(const DeviceConfig *c);
void attempts_forget(uint32_t id);
/* In microseconds; 0 where nothing is known. */
uint64_t attempts_delay(const DeviceConfig *c);
