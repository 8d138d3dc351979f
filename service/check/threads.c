/* SPDX-License-Identifier: MIT */

/*
 * Two queues at once, each a Ruby thread that serves a range of its own. They take turns wherever the hook calls
 * into C, so what would go wrong once in a day goes wrong at once.
 */

#include "service/check/steps.h"

#include <inttypes.h>

#define ROUNDS 60       /* at least, and so many in which the other queue is at work, too */
#define ROUNDS_MAX 6000 /* in case that it never is */
#define RANGE_BLOCKS 32

typedef struct Queue Queue;

struct Queue {
        const CheckDisk *disk;
        const Queue *other;
        unsigned index;
        uint64_t start;  /* of its range */
        uint8_t *expected;
        uint8_t *buffer;
        uint64_t random;
        char *wrong;     /* what was, or NULL */
        unsigned *n_started; /* of both */
        unsigned n_served;
        unsigned n_others; /* that the other queue had served when it was last looked at */
        bool done;
};

static uint64_t next(Queue *q) {
        q->random = q->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return q->random >> 24;
}

static void serve(Queue *q, uint8_t op, uint64_t at, uint32_t length) {
        uint64_t offset = q->start + at;
        SimulatedRequest r;

        simulated_request_init(&r, op, offset, length, q->buffer);
        r.request.queue = (uint16_t) q->index;
        simulated_serve(q->disk->server, &r, 1);
        if (r.request.result != (int32_t) length)
                (void) xasprintf(&q->wrong, "%s of %u bytes at %" PRIu64 " by queue %u failed: %s",
                                 operation_to_string(op), length, offset, q->index,
                                 r.failure.message ? r.failure.message : strerror(-r.request.result));
        else if (op == OPERATION_READ && memcmp(q->buffer, q->expected + at, length) != 0)
                (void) xasprintf(&q->wrong,
                                 "read of %u bytes at %" PRIu64 " by queue %u, while queue %u was at work, returned other data", length,
                                 offset, q->index, 1 - q->index);
        simulated_request_done(&r);
        __atomic_add_fetch(&q->n_served, 1, __ATOMIC_SEQ_CST);
}

static void wait_started(void *userdata) {
        unsigned *n = userdata;

        while (__atomic_load_n(n, __ATOMIC_SEQ_CST) < 2)
                (void) usleep(1000);
}

static void run_round(Queue *q) {
        uint32_t block = q->disk->block;
        uint64_t first = next(q) % RANGE_BLOCKS, n = 1 + next(q) % (RANGE_BLOCKS - first);
        uint32_t length = (uint32_t) n * block;

        if (!q->disk->geometry.read_only) {
                for (uint32_t j = 0; j < length; j++)
                        q->buffer[j] = (uint8_t) next(q);
                if (!q->disk->sink)
                        memcpy(q->expected + first * block, q->buffer, length);
                serve(q, OPERATION_WRITE, first * block, length);
        }
        if (!q->wrong)
                serve(q, OPERATION_READ, first * block, length);
}

static bool other_has_served(Queue *q) {
        unsigned before = q->n_others;

        q->n_others = __atomic_load_n(&q->other->n_served, __ATOMIC_SEQ_CST);
        return q->n_others != before;
}

/* On a busy machine one may be through before the other gets a CPU. */
static void run_rounds(Queue *q) {
        unsigned together = 0;

        for (unsigned i = 0; !q->wrong; i++) {
                if (i >= ROUNDS && (together >= ROUNDS || i >= ROUNDS_MAX || __atomic_load_n(&q->other->done, __ATOMIC_SEQ_CST)))
                        return;
                run_round(q);
                together += other_has_served(q);
        }
}

static void run_queue(void *userdata) {
        Queue *q = userdata;
        const Server *server = q->disk->server;
        uint32_t block = q->disk->block;

        __atomic_add_fetch(q->n_started, 1, __ATOMIC_SEQ_CST);
        server->unlocked(server->userdata, wait_started, q->n_started);
        run_rounds(q);
        for (uint32_t i = 0; i < RANGE_BLOCKS && !q->wrong; i++)
                serve(q, OPERATION_READ, (uint64_t) i * block, block);
        __atomic_store_n(&q->done, true, __ATOMIC_SEQ_CST);
}

static void wait_queues(void *userdata) {
        Queue *queues = userdata;

        for (unsigned i = 0; i < 2;)
                if (__atomic_load_n(&queues[i].done, __ATOMIC_SEQ_CST))
                        i++;
                else
                        (void) usleep(1000);
}

static int start(CheckDisk *d, Queue *queues) {
        const char *no_arguments[] = { NULL };
        Failure failure = FAILURE_NULL;
        int r;

        r = hook_check(d->hook, "take_turns", no_arguments, NULL, &failure);
        failure_done(&failure);
        for (unsigned i = 0; i < 2 && r >= 0; i++)
                r = hook_spawn(d->hook, run_queue, &queues[i]);
        return r;
}

int check_threads(CheckDisk *d) {
        uint64_t length = RANGE_BLOCKS * (uint64_t) d->block;
        _cleanup_free_ uint8_t *memory = malloc(4 * length);
        unsigned n_started = 0;
        Queue queues[2];
        int r = 0;

        if (d->windows[0].length < 2 * length)
                return check_skip(d, "the disk is too small");
        if (!memory || disk_learn(d) < 0)
                return -1;
        for (unsigned i = 0; i < 2; i++) {
                queues[i] = (Queue) { .disk = d, .other = &queues[1 - i], .index = i, .start = i * length, .expected = memory + 2 * i * length,
                                      .buffer = memory + (2 * i + 1) * length, .random = disk_random(d), .n_started = &n_started };
                memcpy(queues[i].expected, disk_expected(d, i * length), length);
        }
        if (start(d, queues) < 0)
                return check_skip(d, "no threads can be started");
        d->shared->since_usec = now_usec();
        d->server->unlocked(d->server->userdata, wait_queues, queues);
        d->shared->since_usec = 0;
        for (unsigned i = 0; i < 2; i++) {
                if (queues[i].wrong)
                        r = check_fault(d, "thread-race", "%s", queues[i].wrong);
                free(queues[i].wrong);
        }
        return r;
}
