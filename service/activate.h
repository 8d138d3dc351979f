/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The verb `activate`, run by a device's unit once its worker is ready: makes the kernel device live, be it a
 * new one or one that waits for a new worker. Whatever goes wrong with a new device is undone; one that was
 * live before is left as it was. The worker is told, so that the failure is published as its own.
 */

#include "service/failure.h"

int activate(uint32_t id, pid_t pid, Failure *f);
