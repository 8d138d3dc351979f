/* SPDX-License-Identifier: MIT */
#include "service/manager-question.h"

#include "service/worker-socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>

struct Question {
        int fd; /* owned */
        sd_event_source *io, *timer;
        void *reply; /* owned, max_reply bytes */
        size_t max_reply;
        QuestionHandler handler;
        void *userdata;
};

Question *question_free(Question *q) {
        if (!q)
                return NULL;
        sd_event_source_disable_unref(q->io);
        sd_event_source_disable_unref(q->timer);
        safe_close(q->fd);
        free(q->reply);
        free(q);
        return NULL;
}

/* The handler may free the Question, but not what it was given. */
static int on_io(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        _cleanup_free_ void *reply = NULL;
        Question *q = userdata;
        ssize_t n;

        (void) s;
        (void) revents;
        n = recv(fd, q->reply, q->max_reply, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        reply = TAKE_PTR(q->reply);
        if (n > 0 && (size_t) n <= q->max_reply)
                q->handler(q->userdata, 0, reply, (size_t) n);
        else
                q->handler(q->userdata, n < 0 ? -errno : n == 0 ? -ECONNRESET : -EBADMSG, NULL, 0);
        return 0;
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        Question *q = userdata;

        (void) s;
        (void) usec;
        q->handler(q->userdata, -ETIMEDOUT, NULL, 0);
        return 0;
}

/* The peer is who called listen(2). */
static int check_peer(int fd, uint32_t pid) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return -errno;
        return peer.pid > 0 && (uint32_t) peer.pid == pid ? 0 : -EPERM;
}

static int ask(Question *q, uint32_t device_id, uint32_t pid, MessageType type) {
        WorkerCall call = { .version = PROTOCOL_VERSION, .type = type, .device_id = device_id };
        _cleanup_close_ int entry = -EBADF;
        struct sockaddr_un address;
        int r;

        entry = worker_socket_open(device_id, &address);
        if (entry < 0)
                return entry;
        q->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (q->fd < 0)
                return -errno;
        if (connect(q->fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        r = check_peer(q->fd, pid);
        if (r < 0)
                return r;
        return send(q->fd, &call, sizeof(call), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int question_new(sd_event *event, uint32_t device_id, uint32_t pid, MessageType type, size_t max_reply, uint64_t timeout_usec,
                 QuestionHandler handler, void *userdata, Question **ret) {
        _cleanup_(question_freep) Question *q = malloc(sizeof(Question));
        int r;

        if (!q)
                return -ENOMEM;
        *q = (Question) { .fd = -EBADF, .reply = malloc(max_reply), .max_reply = max_reply, .handler = handler, .userdata = userdata };
        if (!q->reply)
                return -ENOMEM;
        if (pid == 0)
                return -ESRCH;
        r = ask(q, device_id, pid, type);
        if (r < 0)
                return r;
        r = sd_event_add_io(event, &q->io, q->fd, EPOLLIN, on_io, q);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(event, &q->timer, CLOCK_MONOTONIC, timeout_usec, 0, on_timer, q);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(q);
        return 0;
}
