/* SPDX-License-Identifier: MIT */
#include "service/manager-counters.h"

int counters_reply_check(const CountersReply *reply, size_t size, uint32_t device_id) {
        if (size != sizeof(CountersReply) || reply->version != PROTOCOL_VERSION || reply->type != MESSAGE_COUNTERS ||
            reply->device_id != device_id)
                return -EBADMSG;
        return reply->error != 0 ? -EREMOTEIO : 0;
}
