/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One ublk queue and the task that serves it: a ring with a command per tag, the mapped descriptors, and the
 * loop. No allocation, no logging, no lock once queue_fetch has returned.
 *
 * Requests that are ready are taken as one batch and given to the Server together; the answers of a batch and the wait for
 * the next one are a single system call. Payload moves by plain pread(2)/pwrite(2) on /dev/ublkcN.
 */

#include "service/profile.h"
#include "service/protocol.h"
#include "service/request.h"

typedef struct Queue Queue;

/* The device as opened by this process: /dev/ublkcN and the descriptors of all its queues. Opened and mapped once,
 * by one process, before any queue fetches. */
typedef struct QueueDevice {
        int fd;
        uint32_t id;
        uint32_t n_queues;
        uint32_t depth;
        void **descriptors; /* n_queues read-only mappings */
} QueueDevice;

#define QUEUE_DEVICE_NULL ((QueueDevice) { .fd = -EBADF })

/* Retries while udev has not made or handed over the node yet, up to a few seconds. */
int queue_device_open(QueueDevice *d, uint32_t id, uint32_t n_queues, uint32_t depth);
void queue_device_done(QueueDevice *d);

/* All memory of a queue, allocated ahead. wake_fd: an eventfd that ends queue_serve when it becomes readable
 * (borrowed, may be shared by all queues). */
int queue_new(const QueueDevice *device, uint16_t index, int wake_fd, Queue **ret);
Queue *queue_free(Queue *q);
/* Before it fetches: where its time goes is noted in p (borrowed). Else that costs a look at a pointer for each stage of a batch,
 * and nothing for a request. */
void queue_profile(Queue *q, QueueProfile *p);

/* By the serving task: makes the ring (it belongs to this task from here on) and fetches every tag. */
int queue_fetch(Queue *q);

typedef enum QueueEnd {
        QUEUE_STOPPED = 1, /* every tag came back with -ENODEV: the device was stopped */
        QUEUE_WOKEN,       /* wake_fd: whatever was in hand has been answered */
} QueueEnd;

/* The loop, after queue_fetch; and again, after it was woken for something that is done now. A QueueEnd, or a negative errno
 * for what can't happen on a sound kernel. */
int queue_serve(Queue *q, const Server *server);

/* From any thread: whether the serving task waits in the kernel, is inside of the server, or has come round since the
 * last call with the same *round (0 at first). A server that is stuck is nothing that this is about. */
bool queue_is_sound(const Queue *q, uint64_t *round);

/* Likewise whether the serving task can't go on until it gets its turn in the interpreter, although it has given no request
 * to the server. *ret_round tells this wait from the next. */
bool queue_awaits_turn(const Queue *q, uint64_t *ret_round);

/* Adds this queue's counters; from any thread. */
void queue_add_statistics(const Queue *q, Statistics *s);
/* The same, and all else that a queue counts. */
void queue_add_counters(const Queue *q, Counters *c);
