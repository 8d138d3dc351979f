/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where the time of the serving tasks goes, and what else a request costs: for tools/bench --profile. A worker counts it only if it
 * is started with $UBLK_RUBY_PROFILE=1. Then it is in a file, PATH_WORKER_PROFILE: a Profile, which root may read at any time.
 */

#include "service/util.h"

#include <stdatomic.h>
#include <time.h>

typedef enum Stage {
        STAGE_WAIT,     /* without the interpreter, in the call that waits for requests, and until the interpreter is had again. Answers
                         * go to the kernel with that call as well, if it has no request by then */
        STAGE_ENTER,    /* in the call that sends answers and takes what is there */
        STAGE_TIDY,     /* collecting garbage, as long as that is not Ruby's own idea */
        STAGE_FETCH,    /* taking a batch from the ring */
        STAGE_COPY_IN,  /* payload of writes */
        STAGE_HOOK,     /* Ruby, without the copies */
        STAGE_COPY_OUT, /* payload of reads */
        STAGE_COMMIT,   /* putting answers into the ring */
        _STAGE_MAX,
} Stage;

/* Of a queue. One writer, its task. */
typedef struct QueueProfile {
        _Atomic uint64_t requests;
        _Atomic uint64_t batches;
        _Atomic uint64_t nsec[_STAGE_MAX];
} QueueProfile;

/* Of the interpreter. Written by who holds it. */
typedef struct HookProfile {
        _Atomic uint64_t objects;    /* that Ruby has made so far, as of the end of a batch */
        _Atomic uint64_t hand_overs; /* how often a thread got the interpreter; 0 with Ruby below 3.2, which can't tell */
} HookProfile;

typedef struct Profile {
        HookProfile hook;
        QueueProfile queues[];
} Profile;

/* *ret is NULL if nobody asked. Stays for as long as the process. */
int profile_open(uint32_t device, uint32_t n_queues, Profile **ret);

/* To what has one writer. */
static inline void profile_add(_Atomic uint64_t *counter, uint64_t n) {
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline uint64_t profile_now(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * USEC_PER_SEC * NSEC_PER_USEC + (uint64_t) t.tv_nsec;
}
