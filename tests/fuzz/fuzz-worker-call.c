/* SPDX-License-Identifier: MIT */

/*
 * What a worker is called with over its socket. Not over the thread that serves it, which would have each input wait for its
 * turn, but by the function that reads a call. The first byte says how far the worker has come and how it fares; then comes each
 * call: its type, how its text is given, and that text; or all of its bytes.
 */

#include "fuzz.h"
#include "service/end-reason.h"
#include "service/supervisor-parts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define ID 3
#define RAW 0x80 /* in the place of a type: the call's bytes as they are */

void queue_add_statistics(const Queue *q, Statistics *s) {
        (void) q;
        s->requests++;
}

void queue_add_counters(const Queue *q, Counters *c) {
        queue_add_statistics(q, &c->sum);
}

bool queue_is_sound(const Queue *q, uint64_t *round) {
        (void) q, (void) round;
        return true;
}

bool queue_awaits_turn(const Queue *q, uint64_t *ret_round) {
        (void) q;
        *ret_round = 1;
        return false;
}

static int keep(void *userdata) {
        return *(int *) userdata;
}

static Supervisor *make_supervisor(void) {
        static StuckReply reply;
        static DeviceConfig *config;
        static Supervisor *s;
        static int events[2];

        if (!s) {
                config = device_config_new(ID);
                must(config && xstrdup("disk0", &config->name) >= 0 && xstrdup("memory", &config->hook) >= 0);
                s = calloc(1, sizeof(Supervisor));
                events[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                events[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
                must(s && events[0] >= 0 && events[1] >= 0);
        }
        *s = (Supervisor) {
                .config = config,
                .nudge_fd = events[0],
                .resize_fd = events[1],
                .opener = -EBADF,
                .resizer = -EBADF,
                .stuck_reply = &reply,
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .changed = PTHREAD_COND_INITIALIZER,
        };
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                s->connections[i].fd = -EBADF;
        return s;
}

static size_t make_call(WorkerCall *call, Input *in) {
        uint8_t type = input_byte(in), given;
        const uint8_t *bytes;
        size_t size;

        memset(call, 0, sizeof(*call));
        if (type == RAW) {
                bytes = input_bytes(in, sizeof(*call), &size);
                memcpy(call, bytes, size);
                return size;
        }
        *call = (WorkerCall) { .version = PROTOCOL_VERSION, .type = type, .device_id = ID };
        given = input_byte(in);
        if (given == 0xff) { /* it says that it has more than it has, or too much */
                call->text_size = (uint32_t) input_number(in, 4);
                return sizeof(*call);
        }
        bytes = input_bytes(in, given, &size);
        memcpy(call->text, bytes, size);
        call->text_size = (uint32_t) size;
        return sizeof(*call);
}

/* What control and manager would take for an answer. */
static void check_replies(int fd, const WorkerCall *call) {
        static union {
                WorkerReply worker;
                CountersReply counters;
                StuckReply stuck;
        } reply;
        ssize_t n;

        while ((n = recv(fd, &reply, sizeof(reply), MSG_DONTWAIT)) > 0) {
                must((size_t) n >= offsetof(StuckReply, requests));
                must(reply.worker.version == PROTOCOL_VERSION && reply.worker.type == call->type);
                if (call->type == MESSAGE_COUNTERS)
                        must(n == sizeof(reply.counters) && reply.counters.device_id == ID);
                else if (call->type == MESSAGE_STUCK)
                        must((size_t) n == stuck_reply_size(reply.stuck.n_requests) && reply.stuck.device_id == ID);
                else
                        must(n == sizeof(reply.worker) && reply.worker.device_id == ID && reply.worker.error >= 0 &&
                             reply.worker.text_size < sizeof(reply.worker.text));
        }
}

/* What the worker's main thread, and the task of a queue, do about a call, well or badly. */
static void go_on(Supervisor *s, bool well) {
        Failure f = FAILURE_NULL;
        uint64_t bytes = 0;

        if (!well)
                (void) failure_set(&f, FAILURE_HOOK, EIO, "not today");
        if (supervisor_take_resize(s, &bytes)) {
                must(bytes > 0 && bytes <= GEOMETRY_MAX_SIZE);
                supervisor_resized(s, bytes, well ? NULL : &f);
        }
        if (s->phase == PHASE_OPENING && well)
                supervisor_serving(s, (Queue *const[]) { NULL }, 1);
        else if (s->phase == PHASE_OPENING) {
                supervisor_open_failed(s, &f);
                supervisor_exiting(s, EXIT_CRASHED);
        }
        s->queues = (Queue *const[]) { NULL };
        supervisor_send_due_answers(s);
        supervisor_answer_stuck(s);
        s->queues = NULL;
        s->n_queues = 0;
        failure_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const int kept[] = { CODE_KEPT, CODE_NOT_KEPT, -EAGAIN, -ENOSPC };
        Supervisor *s = make_supervisor();
        Input in = { data, size };
        uint8_t state = input_byte(&in);
        static int fds[2] = { -EBADF, -EBADF }; /* until the worker closes its end */
        Connection *c = &s->connections[0];
        int result = kept[state >> 6];

        if (fds[0] < 0)
                must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
        s->phase = (Phase) (state % (PHASE_EXITING + 1));
        supervisor_set_code(s, state & 8 ? CODE_ON_TRIAL : CODE_NOT_KEPT, USEC_PER_SEC, keep, &result);
        *c = (Connection) { .fd = fds[0] };
        while (in.size > 0 && c->fd >= 0) {
                WorkerCall call;
                size_t n = make_call(&call, &in);

                must(send(fds[1], &call, n, MSG_NOSIGNAL) == (ssize_t) n);
                supervisor_handle_call(s, c);
                must((c->fd >= 0) == (n > 0 && supervisor_call_is_valid(s, &call, (ssize_t) n)));
                go_on(s, state & 16);
                check_replies(fds[1], &call);
        }
        must(c->fd >= 0 || (s->opener < 0 && s->resizer < 0));
        if (c->fd < 0) {
                fds[0] = -EBADF;
                fds[1] = safe_close(fds[1]);
        }
        free(s->open_text);
        free(s->resize_text);
        return 0;
}
