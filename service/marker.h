/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the host remembers of a kernel device of ours, beside its configuration: one small file per device under
 * PATH_MARKERS, written by `control activate` before the device goes live and removed with it. It doubles as
 * the environment that our udev rule imports:
 *
 *     UBLK_NAME=disk0
 *     UBLK_LOST=1          (only after the data of a device without recovery went with its process)
 */

#include "service/config.h"

int marker_write(const DeviceConfig *c, bool lost);
int marker_remove(uint32_t id);

enum {
        MARKER_NONE, /* never was live, or was deleted */
        MARKER_LIVE, /* went live; the kernel device may still be there */
        MARKER_LOST, /* its data is gone: a start must fail until it is deleted */
};
/* Positive or zero: one of the above. Also MARKER_NONE for a device of another name that had this id. */
int marker_read(const DeviceConfig *c);
