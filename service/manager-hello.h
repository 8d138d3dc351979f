/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One question of the manager to a worker: what did the hook make of its configuration? Asked over the worker's socket
 * (protocol.h) from the event loop, so that a worker that is stuck costs the manager nothing. A worker runs foreign code,
 * and all workers have one uid: only the unit's own main process is believed, and only what makes sense.
 */

#include "service/protocol.h"

#include <systemd/sd-event.h>

#define HELLO_TIMEOUT_USEC (2 * USEC_PER_SEC)

typedef struct Hello Hello;

/* Called once. r < 0: no answer, or none to be believed, reply is NULL; else pid is the worker that gave it. The Hello may
 * be freed in it. */
typedef void (*HelloHandler)(void *userdata, int r, uint32_t pid, const WorkerReply *reply);

/* Connects and asks at once. pid: the main process of the device's unit. -ENOENT, -ECONNREFUSED or -EAGAIN where nobody
 * listens (yet), -ESRCH without a pid, -EPERM where somebody else listens, -ELOOP or -ENOTSOCK where no socket is. */
int hello_new(sd_event *event, const DeviceConfig *config, uint32_t pid, HelloHandler handler, void *userdata, Hello **ret);
/* Without an answer yet: gives up, the handler is not called. */
Hello *hello_free(Hello *h);
static inline void hello_freep(Hello **h) {
        hello_free(*h);
}
