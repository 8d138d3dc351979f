/* SPDX-License-Identifier: MIT */
#pragma once

/* What a device or a hook may be called, and what a user may call an existing device by. */

#include "service/util.h"

#define NAME_MAX_LENGTH 64

/* [A-Za-z_][A-Za-z0-9._-]{0,63}: never a number, never a path, never "..". For devices and for hooks. */
bool name_is_valid(const char *name);

/* [a-z_][a-z0-9_]{0,63}: a Ruby keyword argument. */
bool argument_name_is_valid(const char *name);

/* "3", "/dev/ublkb3" or "ublkb3" → 3; -EINVAL for anything else (a name, perhaps). */
int device_id_parse(const char *s, uint32_t *ret);
