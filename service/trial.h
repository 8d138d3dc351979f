/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * That a device's code is on trial: N.trial beside the transient N.conf, written by the manager before it has a worker take
 * over. While it is there, a worker runs what is on the disk, and what the unit keeps stays as it was (kept-code.h): `release`
 * removes the file as soon as such a worker ends otherwise than by handing over, so that the next one runs the old code
 * again, whether or not there is a manager. The manager removes it when the trial has ended well.
 */

#include "service/config.h"

#define TRIAL_DEFAULT_USEC (5 * USEC_PER_SEC)
#define TRIAL_MAX_USEC CONFIG_MAX_TIMEOUT_USEC

/* time_usec: how long it lasts once the device is live. */
int trial_begin(const DeviceConfig *c, uint64_t time_usec);
/* No error if there is none. */
int trial_end(uint32_t id);
/* False also for one of an earlier device of this id. ret_usec may be NULL. */
bool trial_is_on(const DeviceConfig *c, uint64_t *ret_usec);
