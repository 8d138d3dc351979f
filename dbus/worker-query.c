/* SPDX-License-Identifier: MIT */
#include "dbus/worker-query.h"

#include "dbus/askers.h"
#include "dbus/device-bus.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "service/log.h"
#include "service/manager-question.h"

struct WorkerQuery {
        const Device *device; /* borrowed */
        const QueryKind *kind;
        WorkerQuery **slot;
        Question *question;
        Askers askers;
};

static void release(WorkerQuery *q) {
        question_free(q->question);
        askers_done(&q->askers);
        free(q);
}

static void refuse_all(WorkerQuery *q, const char *error, const char *message) {
        for (size_t i = 0; i < q->askers.n; i++)
                (void) sd_bus_reply_method_errorf(q->askers.all[i].message, error, "%s", message);
}

WorkerQuery *worker_query_free(WorkerQuery *q) {
        if (!q)
                return NULL;
        refuse_all(q, BUS_ERROR_CANCELLED, "The device went away meanwhile.");
        release(q);
        return NULL;
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

static int answer(const QueryKind *kind, sd_bus_message *call, const Device *d, const void *reply) {
        sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_method_return(call, &m);
        if (r >= 0)
                r = kind->append(m, d, reply);
        if (r >= 0)
                r = sd_bus_send(NULL, m, NULL);
        sd_bus_message_unref(m);
        return r;
}

static void answer_all(WorkerQuery *q, const void *reply) {
        for (size_t i = 0; i < q->askers.n; i++) {
                sd_bus_message *m = q->askers.all[i].message;
                int r = answer(q->kind, m, q->device, reply);

                if (r < 0) {
                        log_warning("The answer to %s could not be sent: %s", sd_bus_message_get_sender(m), strerror(-r));
                        (void) sd_bus_reply_method_errno(m, r, NULL);
                }
        }
}

static void on_reply(void *userdata, int r, const void *reply, size_t size) {
        WorkerQuery *q = userdata;
        const DeviceConfig *c = q->device->config;
        _cleanup_free_ char *message = NULL;

        *q->slot = NULL;
        if (r >= 0)
                r = q->kind->check(reply, size, c->id);
        if (r < 0) {
                (void) xasprintf(&message, "The worker of device %s does not say %s: %s.", c->name, q->kind->about, explain(r));
                refuse_all(q, BUS_ERROR_WORKER_FAILED, message ? message : "Out of memory.");
        } else
                answer_all(q, reply);
        release(q);
}

int worker_query_begin(DeviceBus *db, const QueryKind *kind, WorkerQuery **slot, sd_bus_message *m, sd_bus_error *e) {
        const Device *d = db->device;
        WorkerQuery *q;
        uid_t uid;
        int r;

        r = authorise(db->mb, m, ACTION_LOOK, /* name= */ "", /* hook= */ NULL, &uid, e);
        if (r <= 0)
                return r < 0 ? r : 1;
        if (*slot)
                return askers_add(&(*slot)->askers, m, uid, e);
        q = calloc(1, sizeof(WorkerQuery));
        if (!q)
                return -ENOMEM;
        *q = (WorkerQuery) { .device = d, .kind = kind, .slot = slot };
        r = question_new(db->mb->event, d->config->id, d->unit.main_pid, kind->type, kind->max_reply, kind->timeout_usec, on_reply, q,
                         &q->question);
        if (r < 0) {
                release(q);
                if (!means_nobody(r))
                        return bus_error_setf(e, BUS_ERROR_WORKER_FAILED, "The worker of device %s can't be asked: %s.",
                                              d->config->name, strerror(-r));
                r = answer(kind, m, d, NULL);
                return r < 0 ? r : 1;
        }
        *slot = q;
        return askers_add(&q->askers, m, uid, e);
}
