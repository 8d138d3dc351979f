/* SPDX-License-Identifier: MIT */

/* Who is connected to the worker's socket, and what they are answered. */

#include "service/log.h"
#include "service/supervisor-parts.h"

#include <sys/socket.h>

/* Who asks for stuck requests waits so long for a Ruby that does not answer. */
#define TRACE_USEC (500 * USEC_PER_MSEC)

static void fill_statistics(Supervisor *s, Statistics *ret) {
        for (size_t i = 0; i < s->n_queues; i++)
                queue_add_statistics(s->queues[i], ret);
        ret->serving = s->n_queues > 0;
}

static void send_reply(Supervisor *s, int connection, uint32_t type, int error, const char *text) {
        WorkerReply reply = {
                .version = PROTOCOL_VERSION,
                .type = type,
                .error = error,
                .device_id = s->config->id,
                .queues = s->config->queues,
                .depth = s->config->depth,
                .max_io_size = s->config->max_io_size,
        };

        pthread_mutex_lock(&s->lock);
        reply.geometry = s->geometry;
        reply.code = s->code;
        fill_statistics(s, &reply.statistics);
        pthread_mutex_unlock(&s->lock);
        if (text) {
                reply.text_size = (uint32_t) strnlen(text, sizeof(reply.text));
                memcpy(reply.text, text, reply.text_size);
        }
        (void) send(connection, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void answer_counters(Supervisor *s, int connection) {
        CountersReply reply = { .version = PROTOCOL_VERSION, .type = MESSAGE_COUNTERS, .device_id = s->config->id };
        Counters *c = &reply.counters;

        pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < s->n_queues; i++)
                queue_add_counters(s->queues[i], c);
        c->sum.serving = s->n_queues > 0;
        c->age_usec = s->n_queues > 0 ? now_usec() - s->serving_usec : 0;
        if (s->calls)
                calls_get_collections(s->calls, &c->gc_count, &c->gc_usec);
        pthread_mutex_unlock(&s->lock);
        (void) send(connection, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void close_connection(Supervisor *s, Connection *c) {
        if (s->opener == c->fd)
                s->opener = -EBADF;
        if (s->resizer == c->fd)
                s->resizer = -EBADF;
        c->fd = safe_close(c->fd);
}

/* Backtraces are taken first, unless somebody had that done just now. */
static void handle_stuck(Supervisor *s, Connection *c) {
        Stuck *stuck = supervisor_get_stuck(s);

        c->wants_stuck = true;
        if (s->trace_deadline_usec > 0)
                return;
        s->trace_deadline_usec = now_usec() + TRACE_USEC;
        if (stuck)
                stuck_trace(stuck, now_usec());
}

void supervisor_answer_stuck(Supervisor *s) {
        StuckReply *reply = s->stuck_reply; /* zeroes, but for what is set here */
        uint64_t now = now_usec();
        Stuck *stuck;

        if (s->trace_deadline_usec == 0)
                return;
        stuck = supervisor_get_stuck(s);
        if (stuck && now < s->trace_deadline_usec && stuck_is_tracing(stuck, now))
                return;
        s->trace_deadline_usec = 0;
        reply->version = PROTOCOL_VERSION;
        reply->type = MESSAGE_STUCK;
        reply->device_id = s->config->id;
        reply->n_requests = stuck ? (uint32_t) stuck_list(stuck, now, reply->requests, STUCK_MAX_REQUESTS) : 0;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
                Connection *c = &s->connections[i];

                if (c->fd >= 0 && c->wants_stuck)
                        (void) send(c->fd, reply, stuck_reply_size(reply->n_requests), MSG_NOSIGNAL | MSG_DONTWAIT);
                c->wants_stuck = false;
        }
}

bool supervisor_call_is_valid(const Supervisor *s, const WorkerCall *call, ssize_t size) {
        return size == sizeof(*call) && call->version == PROTOCOL_VERSION && call->device_id == s->config->id &&
               call->type >= MESSAGE_HELLO && call->type < _MESSAGE_MAX && call->text_size <= sizeof(call->text);
}

static int handle_open(Supervisor *s, int connection) {
        bool acceptable;

        pthread_mutex_lock(&s->lock);
        acceptable = s->phase == PHASE_READY;
        if (acceptable) {
                s->phase = PHASE_OPENING;
                s->opener = connection;
                pthread_cond_broadcast(&s->changed);
        }
        pthread_mutex_unlock(&s->lock);
        return acceptable ? 0 : EBUSY;
}

static int handle_resize(Supervisor *s, const WorkerCall *call, int connection) {
        char text[32];
        uint64_t bytes;
        int error;

        if (call->text_size >= sizeof(text))
                return EINVAL;
        memcpy(text, call->text, call->text_size);
        text[call->text_size] = 0;
        if (parse_u64(text, GEOMETRY_MAX_SIZE, &bytes) < 0 || bytes == 0)
                return EINVAL;
        pthread_mutex_lock(&s->lock);
        error = s->phase != PHASE_SERVING || s->resizing ? EBUSY : 0;
        if (error == 0) {
                s->resizing = true;
                s->resize_bytes = bytes;
                s->resizer = connection;
        }
        pthread_mutex_unlock(&s->lock);
        if (error == 0)
                supervisor_nudge(s->resize_fd);
        return error;
}

static void handle_abort(const WorkerCall *call) {
        char text[FAILURE_MAX_TEXT];
        Failure f = FAILURE_NULL;

        if (call->text_size >= sizeof(text))
                return;
        memcpy(text, call->text, call->text_size);
        text[call->text_size] = 0;
        if (failure_from_text(text, &f) >= 0)
                supervisor_publish(&f);
        failure_done(&f);
}

/* The code is fit: no worker falls back any more to what was there before it. */
static int handle_keep_code(Supervisor *s, char **ret_text) {
        uint64_t trial_usec;
        int r;

        pthread_mutex_lock(&s->lock);
        r = s->code == CODE_ON_TRIAL ? 0 : -ENOENT;
        trial_usec = s->trial_usec;
        pthread_mutex_unlock(&s->lock);
        if (r >= 0)
                r = supervisor_judge_trial(s, trial_usec, ret_text);
        if (r >= 0)
                r = s->keep_code(s->keep_code_userdata);
        if (r < 0)
                return -r;
        pthread_mutex_lock(&s->lock);
        s->code = (CodeState) r;
        pthread_mutex_unlock(&s->lock);
        return 0;
}

/* false: it has not come yet, or c is closed, as what came is no call. */
static bool receive_call(Supervisor *s, Connection *c, WorkerCall *ret) {
        ssize_t n = recv(c->fd, ret, sizeof(*ret), MSG_DONTWAIT | MSG_TRUNC);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return false;
        if (n <= 0 || !supervisor_call_is_valid(s, ret, n)) {
                close_connection(s, c);
                return false;
        }
        c->last = ++s->n_calls;
        return true;
}

void supervisor_handle_call(Supervisor *s, Connection *c) {
        _cleanup_free_ char *text = NULL;
        WorkerCall call;
        int error = 0;

        if (!receive_call(s, c, &call))
                return;
        switch (call.type) {
        case MESSAGE_HELLO:
        case MESSAGE_STATISTICS:
                pthread_mutex_lock(&s->lock);
                error = s->phase == PHASE_LOADING ? EAGAIN : 0;
                pthread_mutex_unlock(&s->lock);
                break;
        case MESSAGE_OPEN:
                error = handle_open(s, c->fd);
                if (error == 0)
                        return;
                break;
        case MESSAGE_KEEP_CODE:
                error = handle_keep_code(s, &text);
                break;
        case MESSAGE_RESIZE:
                error = handle_resize(s, &call, c->fd);
                if (error == 0)
                        return;
                break;
        case MESSAGE_ABORT:
                handle_abort(&call);
                return;
        case MESSAGE_STUCK:
                handle_stuck(s, c);
                return;
        case MESSAGE_COUNTERS:
                answer_counters(s, c->fd);
                return;
        }
        send_reply(s, c->fd, call.type, error, text);
}

static bool peer_is_trusted(const Supervisor *s, int fd) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == s->trusted_uid;
}

/* A free one, or the one that was silent longest, but never the one that waits for its answer: whoever forgets to close
 * keeps nobody out. */
static Connection *find_slot(Supervisor *s) {
        Connection *best = NULL;

        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
                Connection *c = &s->connections[i];

                if (c->fd < 0)
                        return c;
                if (c->fd != s->opener && c->fd != s->resizer && (!best || c->last < best->last))
                        best = c;
        }
        close_connection(s, best);
        return best;
}

/* All that are there, up to a limit, so that a crowd keeps this thread from nothing else. */
void supervisor_accept(Supervisor *s) {
        for (size_t i = 0; i < SUPERVISOR_BACKLOG; i++) {
                _cleanup_close_ int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                Connection *c;

                if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
                        return;
                if (fd < 0 || !peer_is_trusted(s, fd))
                        continue;
                c = find_slot(s);
                *c = (Connection) { .fd = TAKE_FD(fd), .last = ++s->n_calls };
        }
}

static void answer_open(Supervisor *s) {
        _cleanup_free_ char *text = NULL;
        bool due;
        int error;

        pthread_mutex_lock(&s->lock);
        due = s->answer_due;
        s->answer_due = false;
        error = s->open_error;
        text = TAKE_PTR(s->open_text);
        pthread_mutex_unlock(&s->lock);
        if (due && s->opener >= 0)
                send_reply(s, s->opener, MESSAGE_OPEN, error, text);
}

static void answer_resize(Supervisor *s) {
        _cleanup_free_ char *text = NULL;
        bool due;
        int error;

        pthread_mutex_lock(&s->lock);
        due = s->resize_due;
        error = s->resize_error;
        text = TAKE_PTR(s->resize_text);
        if (due)
                s->resizing = s->resize_due = false;
        pthread_mutex_unlock(&s->lock);
        if (due && s->resizer >= 0) {
                send_reply(s, s->resizer, MESSAGE_RESIZE, error, text);
                s->resizer = -EBADF;
        }
}

void supervisor_send_due_answers(Supervisor *s) {
        answer_open(s);
        answer_resize(s);
}
