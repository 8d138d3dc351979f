/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The memories of a worker's hook (UBLK::Memory): files in memory, kept in the descriptor store of the unit as
 * "memory-CREATED-NAME", so that the next worker finds them. CREATED is the device's CreatedUSec=: no other device gets them,
 * whatever a store may outlive. A memory that a device had and that the store has lost is never replaced by an empty one.
 */

#include "service/config.h"
#include "service/failure.h"
#include "service/memory-file.h"
#include "service/store.h"

typedef struct Memories {
        Store *store;               /* borrowed, as the configuration is */
        const DeviceConfig *config;
        bool known;                 /* the device was live before */
        bool lost;                  /* one was asked for that the store should have had: the data of the device is gone */
        Failure failure;            /* that says so */
} Memories;

/* Takes what is another device's out of the store. */
void memories_open(Memories *m, Store *store, const DeviceConfig *config, bool known);

/* For HookSettings.memory: *ret_fd is the caller's. 1: with what a former worker wrote; 0: empty. Else a negative errno and
 * *f: lost; of another size than before; a further one on a device that was live without it; systemd does not take it. */
int memories_get(Memories *m, const char *name, uint64_t size, int *ret_fd, Failure *f);
