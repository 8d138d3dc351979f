/* SPDX-License-Identifier: MIT */
#include "dbus/stuck.h"

#include "dbus/device-bus.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "service/log.h"
#include "service/manager-question.h"
#include "service/manager-stuck.h"

#include <jansson.h>

#define ASKERS_MAX 64

struct StuckQuery {
        DeviceBus *db; /* borrowed */
        Question *question;
        sd_bus_message *askers[ASKERS_MAX]; /* owned */
        size_t n_askers;
};

static void release(StuckQuery *q) {
        question_free(q->question);
        while (q->n_askers > 0)
                sd_bus_message_unref(q->askers[--q->n_askers]);
        free(q);
}

static void refuse_all(StuckQuery *q, const char *error, const char *message) {
        for (size_t i = 0; i < q->n_askers; i++)
                (void) sd_bus_reply_method_errorf(q->askers[i], error, "%s", message);
}

StuckQuery *stuck_query_free(StuckQuery *q) {
        if (!q)
                return NULL;
        refuse_all(q, BUS_ERROR_CANCELLED, "The device went away meanwhile.");
        release(q);
        return NULL;
}

/* A frame may come as any bytes: the bus disconnects who sends it others than UTF-8. */
static void clean(char *s) {
        json_t *j = json_string(s);

        for (; *s; s++)
                if ((unsigned char) *s < 0x20 || *s == 0x7f || (!j && (unsigned char) *s >= 0x80))
                        *s = '?';
        json_decref(j);
}

static int append_backtrace(sd_bus_message *m, const StuckRequest *request) {
        char text[STUCK_MAX_BACKTRACE + 1], *rest = text, *line;
        int r;

        memcpy(text, request->backtrace, request->backtrace_size);
        text[request->backtrace_size] = 0;
        r = sd_bus_message_open_container(m, 'a', "s");
        while (r >= 0 && (line = strsep(&rest, "\n")))
                if (line[0]) {
                        clean(line);
                        r = sd_bus_message_append(m, "s", line);
                }
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_request(sd_bus_message *m, const StuckRequest *request) {
        int r;

        r = sd_bus_message_open_container(m, 'r', "stttas");
        if (r >= 0)
                r = sd_bus_message_append(m, "sttt", stuck_request_operation(request), request->offset, request->length,
                                          request->age_usec);
        if (r >= 0)
                r = append_backtrace(m, request);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int answer(sd_bus_message *call, const StuckReply *reply) {
        sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_method_return(call, &m);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "(stttas)");
        for (uint32_t i = 0; r >= 0 && reply && i < reply->n_requests; i++)
                r = append_request(m, &reply->requests[i]);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        if (r >= 0)
                r = sd_bus_send(NULL, m, NULL);
        sd_bus_message_unref(m);
        return r;
}

/* Where nobody listens there is no worker, or one that has not come so far: nothing is in its hook. */
static bool means_nobody(int r) {
        return r == -ESRCH || r == -ENOENT || r == -ECONNREFUSED;
}

static const char *explain(int r) {
        switch (r) {
        case -ETIMEDOUT:
                return "it gave no answer within two seconds";
        case -ECONNRESET:
                return "it died, or it is of a version that can't tell";
        case -EBADMSG:
                return "its answer makes no sense";
        default:
                return strerror(-r);
        }
}

static void on_reply(void *userdata, int r, const void *reply, size_t size) {
        StuckQuery *q = userdata;
        const Device *d = q->db->device;
        _cleanup_free_ char *message = NULL;

        q->db->stuck = NULL;
        if (r >= 0)
                r = stuck_reply_check(reply, size, d->config->id);
        if (r < 0) {
                (void) xasprintf(&message, "The worker of device %s does not say what is in its hook: %s.", d->config->name, explain(r));
                refuse_all(q, BUS_ERROR_WORKER_FAILED, message ? message : "Out of memory.");
        }
        for (size_t i = 0; r >= 0 && i < q->n_askers; i++) {
                int k = answer(q->askers[i], reply);

                if (k < 0) {
                        log_warning("The answer to %s could not be sent: %s", sd_bus_message_get_sender(q->askers[i]), strerror(-k));
                        (void) sd_bus_reply_method_errno(q->askers[i], k, NULL);
                }
        }
        release(q);
}

static int join(StuckQuery *q, sd_bus_message *m, sd_bus_error *e) {
        if (q->n_askers >= ASKERS_MAX)
                return sd_bus_error_setf(e, SD_BUS_ERROR_LIMITS_EXCEEDED,
                                         "%d calls wait for the answer of this device's worker, which is the most; try again later.",
                                         ASKERS_MAX);
        q->askers[q->n_askers++] = sd_bus_message_ref(m);
        return 1;
}

int stuck_begin(DeviceBus *db, sd_bus_message *m, sd_bus_error *e) {
        const Device *d = db->device;
        StuckQuery *q;
        int r;

        if (db->stuck)
                return join(db->stuck, m, e);
        q = calloc(1, sizeof(StuckQuery));
        if (!q)
                return -ENOMEM;
        q->db = db;
        r = question_new(db->mb->event, d->config->id, d->unit.main_pid, MESSAGE_STUCK, sizeof(StuckReply), STUCK_TIMEOUT_USEC, on_reply, q,
                         &q->question);
        if (r < 0) {
                release(q);
                if (!means_nobody(r))
                        return sd_bus_error_setf(e, BUS_ERROR_WORKER_FAILED, "The worker of device %s can't be asked: %s.",
                                                 d->config->name, strerror(-r));
                r = answer(m, NULL);
                return r < 0 ? r : 1;
        }
        db->stuck = q;
        return join(q, m, e);
}
