/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a hook declares and its unit is without unless it is told. A need is one of the words
 *
 *     network, jit     what the hook declares
 *     secret:OPTION    that argument is a secret, and the unit does not have it yet
 *     loaded:OPTION    that argument is a secret that the unit has: to be noted, so that nobody sees what it was given
 *
 * No program but the worker runs Ruby, so it is the worker that finds out. It ends before anything of the hook's class runs, with FAILURE_NEEDS; the manager notes
 * the needs in the device's file and has systemd reload, whereby ublk-ruby-generator makes a drop-in of them; and the unit is
 * started again. From then on no manager is needed: a recovery finds the drop-in, and after a reboot the generator comes first.
 */

#include "service/config.h"

/* The option of a secret: or loaded: need, else NULL; *ret_wanted is whether the unit has to be given it. */
const char *need_secret(const char *need, bool *ret_wanted);

/* 0 if it is noted, or was before; -EINVAL for a need that this version does not know, or a secret that can't be one. */
int needs_note(DeviceConfig *c, const char *need);
bool needs_any(const DeviceConfig *c);

/* Whether an argument is the path of something that lies on another file system than /. All such arguments get into the drop-in, as
 * RequiresMountsFor=, so that the disk comes after that mount at boot, and goes before it at shutdown. Here no worker has to
 * find anything out: to a string that begins with a slash and is no path only / has to be mounted. Touches no file that is named. */
bool needs_mounts(const DeviceConfig *c);

/* 1 and the text of the drop-in, owned by the caller; 0 if the unit needs none. */
int needs_drop_in(const DeviceConfig *c, char **ret);
/* Whether the last reload made one for a device of this id. It outlives the device until the next. */
bool needs_drop_in_exists(uint32_t id);
