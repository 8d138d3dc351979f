/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A live disk gets another size, in steps between which anything may die. Hook and kernel each have a size, and what is
 * true of the data is the hook's; so while the two may differ the device's file says Resizing=, which lets the next worker's
 * activation have the kernel follow the hook.
 *
 * The manager writes that, asks for resize_device, writes the size into the device's file as what later workers are told, asks
 * for resize_settle, and takes Resizing= back. A disk that grows does so in the kernel last, when later workers will have the
 * new size; one that shrinks does so in the kernel first, and only while nobody uses it.
 */

#include "service/failure.h"

typedef struct Resized {
        uint64_t size;   /* the hook's, in bytes */
        bool takes_size; /* a worker is told by the argument `size` */
        bool unchanged;  /* of a failure: hook and kernel are as they were */
} Resized;

/* FAILURE_KERNEL where the driver can't, FAILURE_UNSUPPORTED where the hook can't, FAILURE_ARGUMENTS for what is no size,
 * FAILURE_BUSY where the disk would get smaller and is in use, FAILURE_HOOK for what the hook raised. *ret is also set on an
 * error. */
int resize_device(uint32_t id, uint64_t bytes, Resized *ret, Failure *f);
/* The kernel's disk gets the size that the hook's has. */
int resize_settle(uint32_t id, Resized *ret, Failure *f);
