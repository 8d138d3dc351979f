/* SPDX-License-Identifier: MIT */
#include "service/manager-hello.h"

#include "service/manager-question.h"

struct Hello {
        const DeviceConfig *config; /* borrowed */
        uint32_t pid;
        Question *question;
        MessageType type;
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

static bool reply_is_valid(const WorkerReply *reply, size_t size, MessageType type, const DeviceConfig *c) {
        return size == sizeof(WorkerReply) && reply->version == PROTOCOL_VERSION && reply->type == type && reply->device_id == c->id &&
               reply->text_size < sizeof(reply->text);
}

static void on_reply(void *userdata, int r, const void *data, size_t size) {
        const WorkerReply *reply = data;
        Hello *h = userdata;

        if (r >= 0 && !reply_is_valid(reply, size, h->type, h->config))
                r = -EBADMSG;
        if (r >= 0 && reply->error != 0) {
                h->handler(h->userdata, reply->error > 0 && reply->error < 4096 ? -reply->error : -EREMOTEIO, h->pid, reply);
                return;
        }
        if (r >= 0)
                r = reply_check_sense(reply, h->config);
        h->handler(h->userdata, r, h->pid, r < 0 ? NULL : reply);
}

int hello_new(sd_event *event, const DeviceConfig *config, uint32_t pid, MessageType type, HelloHandler handler, void *userdata,
              Hello **ret) {
        uint64_t timeout = type == MESSAGE_KEEP_CODE ? KEEP_CODE_TIMEOUT_USEC : HELLO_TIMEOUT_USEC;
        _cleanup_(hello_freep) Hello *h = malloc(sizeof(Hello));
        int r;

        if (!h)
                return -ENOMEM;
        *h = (Hello) { .config = config, .pid = pid, .type = type, .handler = handler, .userdata = userdata };
        r = question_new(event, config->id, pid, type, sizeof(WorkerReply), timeout, on_reply, h, &h->question);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}
