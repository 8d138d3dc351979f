/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Strays: ublk devices in the kernel that bear our tag, but that no device file describes, since it was removed, can't be read,
 * or is another device's of the same id. No worker can serve them again, so they are shown and can be removed; where a file
 * that fits turns up, they are none. What other programs have made never is one.
 */

#include "service/failure.h"
#include "service/uapi.h"

/* 1 and why (owned by the caller): what is wrong with it, and what becomes of its I/O. 0: it is none. */
int stray_judge(const struct ublk_dev_info *info, char **ret_why);

/* The verbs `sweep` and, with force, `purge`: takes a stray out of the kernel. FAILURE_ARGUMENTS if it is none; FAILURE_BUSY,
 * naming who, while it is in use. With force that is no matter: what waits for the disk fails. *ret_served: a worker has it,
 * whose unit has to be stopped first; then nothing was done. */
int stray_remove(uint32_t id, bool force, bool *ret_served, Failure *f);
