/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The verb `stop`, ExecStop= of a device's unit: the one place where a live device is deleted, and only if
 * that is what was asked for, nobody uses the disk, and its worker still serves. In every other case the
 * worker hands over, and the device waits for the next one. Only here can dirty pages still reach the hook.
 */

#include "service/failure.h"

/* main_pid: of the unit, 0 if there is none (the worker ended by itself). Returns once the worker is gone, or
 * a few seconds later. */
int stop_device(uint32_t id, pid_t main_pid, Failure *f);
