/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A question (manager-question.h) to a worker: what did the hook make of its configuration (HELLO)? Or a call whose answer says the
 * same again (KEEP_CODE). Only what makes sense is believed.
 */

#include "service/protocol.h"

#include <systemd/sd-event.h>

#define HELLO_TIMEOUT_USEC (2 * USEC_PER_SEC)
/* The worker has systemd confirm that it has what it was sent. */
#define KEEP_CODE_TIMEOUT_USEC (12 * USEC_PER_SEC)

typedef struct Hello Hello;

/* Called once. r < 0: no answer, or none to be believed, and reply is NULL; or the worker's own errno, and of reply only its text counts.
 * Else pid is the worker that gave it. The Hello may be freed in it. */
typedef void (*HelloHandler)(void *userdata, int r, uint32_t pid, const WorkerReply *reply);

/* type: one of the above. Errors as of question_new. */
int hello_new(sd_event *event, const DeviceConfig *config, uint32_t pid, MessageType type, HelloHandler handler, void *userdata,
              Hello **ret);
/* Without an answer yet: gives up, the handler is not called. */
Hello *hello_free(Hello *h);
static inline void hello_freep(Hello **h) {
        hello_free(*h);
}
