/* SPDX-License-Identifier: MIT */
#pragma once

/* The answer of a worker to the question (manager-question.h) what it has counted, checked. The numbers may be any. */

#include "service/protocol.h"

#define COUNTERS_TIMEOUT_USEC (2 * USEC_PER_SEC)

/* reply is size bytes. -EBADMSG, or -EREMOTEIO for one that is an error. */
int counters_reply_check(const CountersReply *reply, size_t size, uint32_t device_id);
