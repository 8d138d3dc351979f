/* SPDX-License-Identifier: MIT */
#pragma once

/* The verb `list`: every ublk device of this host, also other programs'. */

#include "service/failure.h"

#include <jansson.h>

/* [{"id":…,"node":…,"state":"live","ours":…,"pid":…,"queues":…,"depth":…,"max-io-size":…,"flags":[…]}]; of a stray (strays.h)
 * also "stray", why it is one. */
int list_devices(json_t **ret, Failure *f);
/* The same as a table. */
void list_print(const json_t *devices);
