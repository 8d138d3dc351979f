/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One question of the manager to a worker: what did the hook make of its configuration? Asked over the worker's socket
 * (protocol.h) from the event loop, so that a worker that is stuck costs the manager nothing.
 */

#include "service/protocol.h"

#include <systemd/sd-event.h>

#define HELLO_TIMEOUT_USEC (2 * USEC_PER_SEC)

typedef struct Hello Hello;

/* Called once. r < 0: no answer, reply is NULL. The Hello may be freed in it. */
typedef void (*HelloHandler)(void *userdata, int r, const WorkerReply *reply);

/* Connects and asks at once; -ENOENT, -ECONNREFUSED or -EAGAIN where nobody listens (yet). */
int hello_new(sd_event *event, uint32_t id, HelloHandler handler, void *userdata, Hello **ret);
/* Without an answer yet: gives up, the handler is not called. */
Hello *hello_free(Hello *h);
static inline void hello_freep(Hello **h) {
        hello_free(*h);
}
