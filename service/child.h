/* SPDX-License-Identifier: MIT */
#pragma once

/* A call that may hang for ever, such as fsync(2) on a disk whose worker is stuck, in a process of its own.
 */

#include "service/util.h"

/* f(argument) gives 0 or a negative errno; it shares no memory with the caller and has no open files but
 * standard ones. -ETIMEDOUT: the child is killed, and dies whenever the kernel lets it. -ECHILD, which f never gives: there
 * was no child, for want of memory for example, or it was killed; whether f has done its work nobody can say. */
int child_call(int (*f)(const void *argument), const void *argument, uint64_t timeout_usec);
