/* SPDX-License-Identifier: MIT */
#include "service/manager-stuck.h"

#include "service/request.h"

int stuck_reply_check(const StuckReply *reply, size_t size, uint32_t device_id) {
        if (size < stuck_reply_size(0) || reply->version != PROTOCOL_VERSION || reply->type != MESSAGE_STUCK ||
            reply->device_id != device_id || reply->n_requests > STUCK_MAX_REQUESTS || size != stuck_reply_size(reply->n_requests))
                return -EBADMSG;
        for (uint32_t i = 0; i < reply->n_requests; i++)
                if (!stuck_request_operation(&reply->requests[i]) || reply->requests[i].backtrace_size > STUCK_MAX_BACKTRACE)
                        return -EBADMSG;
        return reply->error != 0 ? -EREMOTEIO : 0;
}

const char *stuck_request_operation(const StuckRequest *request) {
        return request->op <= UINT8_MAX ? operation_to_string((uint8_t) request->op) : NULL;
}
