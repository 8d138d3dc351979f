/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a hook declares and its unit is without unless it is told: "network" and "jit". No program but the worker runs Ruby,
 * so it is the worker that finds out. It ends before anything of the hook's class runs, with FAILURE_NEEDS; the manager notes
 * the needs in the device's file and has systemd reload, whereby ublk-ruby-generator makes a drop-in of them; and the unit is
 * started again. From then on no manager is needed: a recovery finds the drop-in, and after a reboot the generator comes first.
 */

#include "service/config.h"

/* 0 if it is noted, or was before; -EINVAL for a need that this version does not know. */
int needs_note(DeviceConfig *c, const char *need);
bool needs_any(const DeviceConfig *c);

/* The text of the drop-in; owned by the caller. */
int needs_drop_in(const DeviceConfig *c, char **ret);
