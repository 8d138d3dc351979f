/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A question (manager-question.h) to a worker: what did the hook make of its configuration? Only what makes sense is believed.
 */

#include "service/protocol.h"

#include <systemd/sd-event.h>

#define HELLO_TIMEOUT_USEC (2 * USEC_PER_SEC)

typedef struct Hello Hello;

/* Called once. r < 0: no answer, or none to be believed, reply is NULL; else pid is the worker that gave it. The Hello may
 * be freed in it. */
typedef void (*HelloHandler)(void *userdata, int r, uint32_t pid, const WorkerReply *reply);

/* Errors as of question_new. */
int hello_new(sd_event *event, const DeviceConfig *config, uint32_t pid, HelloHandler handler, void *userdata, Hello **ret);
/* Without an answer yet: gives up, the handler is not called. */
Hello *hello_free(Hello *h);
static inline void hello_freep(Hello **h) {
        hello_free(*h);
}
