/* SPDX-License-Identifier: MIT */
#include "service/manager-hello.h"

#include "service/manager-question.h"

struct Hello {
        const DeviceConfig *config; /* borrowed */
        uint32_t pid;
        Question *question;
        HelloHandler handler;
        void *userdata;
};

Hello *hello_free(Hello *h) {
        if (!h)
                return NULL;
        question_free(h->question);
        free(h);
        return NULL;
}

/* The same rules as control has, when it makes the device of such an answer (activate.c). */
static int reply_check_sense(const WorkerReply *reply, const DeviceConfig *c) {
        _cleanup_free_ char *message = NULL;

        if (geometry_check(&reply->geometry, &message) < 0)
                return -EBADMSG;
        if (reply->queues != c->queues || reply->depth != c->depth || reply->max_io_size != c->max_io_size)
                return -ESTALE;
        if (c->recovery != RECOVERY_DEFAULT && reply->geometry.recovery != (uint32_t) c->recovery)
                return -ESTALE;
        return 0;
}

static int reply_check(const WorkerReply *reply, size_t size, const DeviceConfig *c) {
        if (size != sizeof(WorkerReply) || reply->version != PROTOCOL_VERSION || reply->type != MESSAGE_HELLO ||
            reply->device_id != c->id)
                return -EBADMSG;
        return reply->error != 0 ? -EREMOTEIO : reply_check_sense(reply, c);
}

static void on_reply(void *userdata, int r, const void *reply, size_t size) {
        Hello *h = userdata;

        if (r >= 0)
                r = reply_check(reply, size, h->config);
        h->handler(h->userdata, r, h->pid, r < 0 ? NULL : reply);
}

int hello_new(sd_event *event, const DeviceConfig *config, uint32_t pid, HelloHandler handler, void *userdata, Hello **ret) {
        _cleanup_(hello_freep) Hello *h = malloc(sizeof(Hello));
        int r;

        if (!h)
                return -ENOMEM;
        *h = (Hello) { .config = config, .pid = pid, .handler = handler, .userdata = userdata };
        r = question_new(event, config->id, pid, MESSAGE_HELLO, sizeof(WorkerReply), HELLO_TIMEOUT_USEC, on_reply, h, &h->question);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}
