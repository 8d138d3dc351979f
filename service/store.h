/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The descriptor store of the worker's unit: systemd keeps a descriptor for the worker after this one, over crashes and
 * restarts, until the unit is stopped (sd_pid_notify_with_fds(3), FDSTORE=1). Entries go by names of our own, which say
 * who uses them: "memory-…" memories.c, "code-N" kept-code.c. One name stands for one entry.
 *
 * Functions may be called by any thread.
 */

#include "service/util.h"

#include <pthread.h>

#define STORE_MAX_NAME 128

typedef struct StoreEntry {
        char *name;
        int fd;
} StoreEntry;

typedef struct Store {
        pthread_mutex_t lock; /* over all of it */
        StoreEntry *entries;
        size_t n_entries;
} Store;

/* Takes what systemd has passed to this process, all of it. Once, before anything else opens or closes descriptors. When the
 * process ends systemd still keeps the store. */
int store_open(Store *s);

/* Borrowed; -ENOENT. */
int store_find(Store *s, const char *name);
/* Takes fd, whatever comes of it. When this returns systemd has it, as far as can be told: it does not say that its
 * FileDescriptorStoreMax= is reached. -EEXIST, -EINVAL for a name that can't be one. */
int store_add(Store *s, const char *name, int fd);
/* No error if there is none. */
void store_remove(Store *s, const char *name);
/* What is kept goes with its device: a store can outlive it, and the next device of this id must not find it. */
void store_clear(Store *s);
