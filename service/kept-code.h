/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The hook's code between the workers of a device: found in the unit's descriptor store, added to as files are loaded,
 * put into the store again. Every version has an entry of its own, "code-N", so that the new one is there before the old
 * one goes: whatever happens in between, the latest entry is a whole one.
 *
 * Functions may be called by any thread.
 */

#include "service/code.h"
#include "service/store.h"

#include <pthread.h>

typedef struct KeptCode {
        pthread_mutex_t lock; /* over all of it */
        Store *store;         /* borrowed */
        uint32_t version;     /* of the entry in the store, 0: none */
        Code code;            /* what this worker runs, so far */
        bool is_found;        /* that began as what the store had */
        bool is_kept;         /* the entry has all of it */
        bool is_kept_on;      /* what is added goes to the store at once */
        bool is_on_trial;     /* the store has another one, which comes back unless this is kept */
        bool is_too_long;
} KeptCode;

/* store: open, and stays so. ignore: the worker runs what is on the disk; the entry stays until kept_code_keep. */
void kept_code_open(KeptCode *k, Store *store, bool ignore);

/* What the store had: borrowed, and NULL if there was nothing. */
const Code *kept_code_found(const KeptCode *k);

/* A file that was loaded from the disk. */
void kept_code_add(KeptCode *k, const char *path, const char *real_path, const void *source, size_t size);

/* Puts all of it into the store in place of what is there, now and whenever there is more. 0, or a negative errno, which
 * was logged: -E2BIG if it is too long to be kept; then nothing is. Code on trial that can't be kept is not kept later. */
int kept_code_keep(KeptCode *k);
