/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Keeps others from beginning to use a disk that is about to get smaller, or to go. A look at who uses it (holders.h) says nothing of
 * the next moment.
 */

#include "service/util.h"

/* As long as the descriptor is open, nothing else can have the disk for itself: no mount, swap, dm or md, nor one on a partition. Who
 * just opens it is not kept from that. -EBUSY: something has it already. -ENOENT, -ENXIO, -ENODEV: there is no such disk. */
int disk_claim(uint32_t id, int *ret_fd);
