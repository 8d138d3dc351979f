/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Why a worker ended that could not say so itself: systemd never came to start it, or its hook has ended its process. What systemd
 * knows tells these two.
 */

#include "service/config.h"
#include "service/failure.h"

/* The worker's StatusText while Ruby loads the hook and builds the target. */
#define STATUS_LOADING "Loading the hook"

/* By these systemd says that it could not execute a unit's program (systemd.exec(5)): 243 what LoadCredential= names. */
#define EXIT_SYSTEMD_MIN 200
#define EXIT_SYSTEMD_MAX 245
#define EXIT_CREDENTIALS 243

/* exit_status: of the process. status_text: its unit's, or NULL. 1 and what is to be reported, or 0 if there is nothing to add. */
int end_reason(const DeviceConfig *c, int exit_status, const char *status_text, Failure *ret);

/* Whether the files are there that systemd has to load secrets from. If not, 0, and why not. */
int secrets_are_there(const DeviceConfig *c, Failure *ret);
