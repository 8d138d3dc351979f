/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One question of the manager to a worker, over the worker's socket (protocol.h) and from the event loop, so that a worker
 * that is stuck costs the manager nothing. A worker runs foreign code, and all workers have one uid: only the unit's own main
 * process is believed. What an answer means is for the asker to check.
 */

#include "service/protocol.h"

#include <systemd/sd-event.h>

typedef struct Question Question;

/* Called once. r < 0: no answer, -ECONNRESET if the worker closed instead, and reply is NULL; else it has size bytes, which may
 * be any number up to the limit, and are aligned for any struct. The Question may be freed in it. */
typedef void (*QuestionHandler)(void *userdata, int r, const void *reply, size_t size);

/* Connects and asks at once. pid: the main process of the device's unit. max_reply: the longest answer, in bytes; a longer one
 * is -EBADMSG. -ENOENT, -ECONNREFUSED or -EAGAIN where nobody listens (yet), -ESRCH without a pid, -EPERM where somebody else
 * listens, -ELOOP or -ENOTSOCK where no socket is. */
int question_new(sd_event *event, uint32_t device_id, uint32_t pid, MessageType type, size_t max_reply, uint64_t timeout_usec,
                 QuestionHandler handler, void *userdata, Question **ret);
/* Without an answer yet: gives up, the handler is not called. */
Question *question_free(Question *q);
static inline void question_freep(Question **q) {
        question_free(*q);
}
