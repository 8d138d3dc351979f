/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who owns /dev/ublkcN. It is a worker's only while `activate` waits for that worker to open it; a run that is
 * killed in between leaves it so, and every worker has the same uid.
 */

#include "service/util.h"

/* Makes /dev/ublkcN root's again, mode 0600, if it isn't. -ENOENT if there is no such node, -ENXIO if that is no
 * character device. */
int control_node_reset(uint32_t id);
/* The same for one that is open, O_PATH is enough. */
int control_node_take(int fd);
