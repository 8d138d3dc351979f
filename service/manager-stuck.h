/* SPDX-License-Identifier: MIT */
#pragma once

/* The answer of a worker to the question (manager-question.h) what is in its hook, checked. It may say what it likes. */

#include "service/protocol.h"

#define STUCK_TIMEOUT_USEC (2 * USEC_PER_SEC)

/* reply is size bytes, of at most a StuckReply. -EBADMSG, or -EREMOTEIO for one that is an error. */
int stuck_reply_check(const StuckReply *reply, size_t size, uint32_t device_id);

/* Of a request in a checked reply: "read", … */
const char *stuck_request_operation(const StuckRequest *request);
