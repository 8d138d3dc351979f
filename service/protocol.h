/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What control and manager say to a worker over its SOCK_SEQPACKET socket (PATH_WORKER_SOCKET): one packet
 * each way, a fixed struct with a version. The socket is an input like any other: the worker accepts only peers of uid
 * 0, checks version, size and type, answers or closes. The worker's supervisor thread serves it, so that it is answered
 * while Ruby is busy or stuck: a handful of connections, of which a further one replaces that which was silent longest.
 */

#include "service/failure.h"
#include "service/geometry.h"

#define PROTOCOL_VERSION 2

typedef enum MessageType {
        MESSAGE_HELLO = 1,  /* → REPLY with geometry, queues, depth, max_io_size */
        MESSAGE_OPEN,       /* ublkcN is yours: open it, map it, fetch every tag → REPLY once it serves, error if not */
        MESSAGE_ABORT,      /* activation failed: text says why (failure.h); report it as yours → no reply. The worker goes on:
                             * it is the unit that ends it */
        MESSAGE_STATISTICS, /* → REPLY with statistics */
        MESSAGE_STUCK,      /* → StuckReply, half a second later if Ruby does not answer */
        MESSAGE_KEEP_CODE,  /* the trial has ended well (trial.h): the unit is to keep the code that runs in place of the code
                             * before it → REPLY, error if it can't be done: ENOENT if that is on no trial; EAGAIN while requests are
                             * in the hook that were when this was first asked: to be asked again; EBUSY if one of them has been there
                             * too long, and text says which */
        MESSAGE_COUNTERS,   /* → CountersReply, at any time */
        MESSAGE_RESIZE,     /* the disk is to be so long (text: bytes, decimal) → REPLY once the hook has seen to that, with the
                             * geometry that results; error if not */
        _MESSAGE_MAX,
} MessageType;

/* What becomes of the hook's code when the worker ends: kept-code.h. */
typedef enum CodeState {
        CODE_NOT_KEPT, /* it can't be kept: the next worker takes what is on the disk. Also before the device is open */
        CODE_KEPT,     /* the next worker has the same */
        CODE_ON_TRIAL, /* the next worker has the code before it */
} CodeState;

/* What the serving tasks count; a snapshot is not atomic over its fields. */
typedef struct Statistics {
        uint64_t requests; /* fetched since the worker started */
        uint64_t completed;
        uint64_t failed;   /* of those, answered with an error */
        uint64_t read_bytes;
        uint64_t written_bytes;
        uint32_t in_flight;
        uint32_t serving; /* 1 while the queues run */
} Statistics;

typedef struct WorkerCall {
        uint32_t version;
        uint32_t type;
        uint32_t device_id;
        uint32_t text_size; /* bytes of text that count, ABORT and RESIZE only */
        char text[FAILURE_MAX_TEXT];
} WorkerCall;

typedef struct WorkerReply {
        uint32_t version;
        uint32_t type; /* of the call */
        int32_t error; /* 0 or a positive errno; then text is a failure.h text */
        uint32_t device_id;
        uint32_t queues;
        uint32_t depth;
        uint32_t max_io_size;
        uint32_t text_size;
        uint32_t code; /* CodeState */
        Geometry geometry;
        Statistics statistics;
        char text[FAILURE_MAX_TEXT];
} WorkerReply;

/* Errnos of Linux end with EHWPOISON, 133; what is none of them is counted as 0. */
#define COUNTERS_ERRNOS 134
/* Operation of request.h; one number among them is nobody's. */
#define COUNTERS_OPERATIONS 6
/* A request that took n µs is counted in the first bucket if n is 0, else in number 1 + ⌊log₂ n⌋, or in the last one. */
#define COUNTERS_BUCKETS 32

/* What the serving tasks have counted since the worker started, and what the collector cost; as of some moment for each number. */
typedef struct Counters {
        Statistics sum;
        uint64_t age_usec;     /* since the queues serve; 0: they don't */
        uint64_t hook_nsec;    /* in which the hook had requests, over all tasks: Ruby, and moving their payload */
        uint64_t gc_count;     /* collections of Ruby's, its start included */
        uint64_t gc_usec;      /* the time they took: as of the last one but for what it had not swept yet, in steps of 1 ms */
        uint64_t errors[COUNTERS_ERRNOS];
        /* From the moment at which a request was taken from the ring to that at which its answer went into it. */
        uint64_t latencies[COUNTERS_OPERATIONS][COUNTERS_BUCKETS];
} Counters;

typedef struct CountersReply {
        uint32_t version;
        uint32_t type;
        int32_t error;
        uint32_t device_id;
        Counters counters;
} CountersReply;

#define STUCK_MAX_REQUESTS 32
#define STUCK_MAX_BACKTRACE 2048

/* A request that has been in the hook for longer than a second. */
typedef struct StuckRequest {
        uint64_t offset;
        uint64_t length;
        uint64_t age_usec; /* in the hook */
        uint32_t op;       /* Operation of request.h */
        uint32_t backtrace_size;
        char backtrace[STUCK_MAX_BACKTRACE]; /* frames, a line each; none if Ruby could not be asked */
} StuckRequest;

/* Ends behind the last of the requests that it has: the oldest first, and not those beyond the limit. */
typedef struct StuckReply {
        uint32_t version;
        uint32_t type;
        int32_t error;
        uint32_t device_id;
        uint32_t n_requests;
        uint32_t reserved;
        StuckRequest requests[STUCK_MAX_REQUESTS];
} StuckReply;

static inline size_t stuck_reply_size(uint32_t n_requests) {
        return offsetof(StuckReply, requests) + n_requests * sizeof(StuckRequest);
}
