/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the host remembers of a kernel device of ours, beside its configuration: one small file per device under
 * PATH_MARKERS, written by `control activate` before the device goes live and removed with it. It doubles as
 * the environment that our udev rule imports:
 *
 *     UBLK_NAME=disk0
 *     UBLK_PARTSCAN=1      (its partitions are looked for)
 *     UBLK_LOST=1          (only after the data of a device without recovery went with its process)
 *     UBLK_GONE=1          (only after its disk was given up, give-up.h)
 *
 * With UBLK_LOST or UBLK_GONE the rule gives no names: the disk of that number is somebody else's.
 */

#include "service/config.h"

int marker_write(const DeviceConfig *c, bool lost);
/* Its disk is no more, but it was live: as before, what it kept in memory is not to be replaced by nothing. */
int marker_write_gone(const DeviceConfig *c);
int marker_remove(uint32_t id);

enum {
        MARKER_NONE, /* never was live, or was deleted */
        MARKER_LIVE, /* went live; the kernel device may still be there */
        MARKER_LOST, /* its data is gone: a start must fail until it is deleted */
};
/* Positive or zero: one of the above. Also MARKER_NONE for a device of another name that had this id. */
int marker_read(const DeviceConfig *c);
