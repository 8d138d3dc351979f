/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * That a device's code is on trial: N.trial beside the transient N.conf, written by the manager before it has a worker take
 * over. While it is there, a worker runs what is on the disk, and what the unit keeps stays as it was (kept-code.h): `release`
 * removes the file as soon as such a worker ends otherwise than by handing over, so that the next one runs the old code
 * again, whether or not there is a manager. The manager removes it when the trial has ended well.
 *
 * The worker that was there before the file was is not on trial, however it ends: the file says which one that is, by the id that
 * systemd gives to each start of a unit ($INVOCATION_ID of all of its processes, `release` included).
 *
 * The file also has what the new code needs of its unit and the old one did not (needs.h): ublk-ruby-generator gives it that as
 * long as the file is there.
 *
 * Other arguments are on trial in the same way: beside it lies N.proposed, a device's file that has them, from which workers on
 * trial take them, and which goes with it.
 */

#include "service/config.h"

#define TRIAL_DEFAULT_USEC (5 * USEC_PER_SEC)
#define TRIAL_MAX_USEC CONFIG_MAX_TIMEOUT_USEC
/* When the time is over, what is in the hook has to come back first: a call of code on trial may take as long as the trial, but at
 * least and at most so long. */
#define TRIAL_MIN_CALL_USEC (5 * USEC_PER_SEC)
#define TRIAL_MAX_CALL_USEC (60 * USEC_PER_SEC)

/* Nobody is on trial yet, but the unit is to be given what is needed. needs: with spaces between them, or NULL. */
int trial_prepare(const DeviceConfig *c, uint64_t time_usec, const char *needs);
/* Every worker is on trial from now on, but for the one that invocation tells; "": all. time_usec: how long it lasts once the device is
 * live. */
int trial_begin(const DeviceConfig *c, uint64_t time_usec, const char *needs, const char *invocation);
/* No error if there is none. */
int trial_end(uint32_t id);

/* Before the trial begins: proposed is the device, but for its arguments. */
int trial_propose(const DeviceConfig *proposed);
/* Replaces the device's arguments by the proposed ones: 1, or 0 if there are none for it. */
int trial_take_proposed(DeviceConfig *c);
/* No error if there are none. */
int trial_forget_proposed(uint32_t id);

/* Both are also false for one of an earlier device of this id. ret_usec may be NULL. */
bool trial_is_on(const DeviceConfig *c, uint64_t *ret_usec);
/* Whether it is, for a process of the unit with this $INVOCATION_ID; NULL: one that systemd did not start. */
bool trial_includes(const DeviceConfig *c, const char *invocation, uint64_t *ret_usec);

/* What the trial needs, with spaces between them, owned by the caller; NULL if it needs nothing, or there is none, begun or not. */
char *trial_needs(const DeviceConfig *c);
/* Adds it to what the configuration has, as long as nobody saves that. Unknown needs are left out. */
void trial_add_needs(DeviceConfig *c);
