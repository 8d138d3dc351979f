/* SPDX-License-Identifier: MIT */
#include "service/worker-link.h"

#include "service/paths.h"
#include "service/worker-socket.h"

#include <poll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CONNECT_RETRY_USEC (5 * USEC_PER_MSEC)

void worker_link_done(WorkerLink *l) {
        safe_close(l->fd);
        safe_close(l->pid_fd);
        *l = WORKER_LINK_NULL;
}

bool worker_link_is_alive(const WorkerLink *l) {
        return poll_until(l->pid_fd, POLLIN, 0) == 0;
}

/* Non-blocking: a full backlog is EAGAIN at once. Others have filled it, and the worker empties it. */
static int connect_or_wait(int fd, const struct sockaddr_un *address, int pid_fd, uint64_t deadline) {
        int r;

        for (;;) {
                if (connect(fd, (const struct sockaddr *) address, sizeof(*address)) == 0)
                        return 0;
                if (errno == EINTR)
                        continue;
                if (errno != EAGAIN || now_usec() >= deadline)
                        return errno == EAGAIN ? -ETIMEDOUT : -errno;
                r = poll_until(pid_fd, POLLIN, now_usec() + CONNECT_RETRY_USEC);
                if (r != 0)
                        return r < 0 ? r : -EOWNERDEAD;
        }
}

static int connect_socket(uint32_t id, int pid_fd, uint64_t deadline) {
        _cleanup_close_ int fd = -EBADF, entry = -EBADF;
        struct sockaddr_un address;
        int r;

        entry = worker_socket_open(id, &address);
        if (entry < 0)
                return entry;
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        r = connect_or_wait(fd, &address, pid_fd, deadline);
        return r < 0 ? r : TAKE_FD(fd);
}

static int check_peer(WorkerLink *l, Failure *f) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(l->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return failure_set(f, FAILURE_WORKER, errno, "can't tell who serves the worker's socket: %s",
                                   strerror(errno));
        /* That is who called listen(2). All workers have one uid, so it might be another one's doing. */
        if (peer.pid != l->pid)
                return failure_set(f, FAILURE_WORKER, EPERM,
                                   "the worker's socket is served by process %d, not by worker %d",
                                   (int) peer.pid, (int) l->pid);
        l->uid = peer.uid;
        return 0;
}

int worker_link_connect(WorkerLink *l, uint32_t id, pid_t pid, uint64_t deadline_usec, Failure *f) {
        _cleanup_free_ char *path = NULL;

        *l = WORKER_LINK_NULL;
        l->id = id;
        l->pid = pid;
        l->pid_fd = pidfd_open(pid, 0);
        if (l->pid_fd < 0)
                return failure_set(f, FAILURE_WORKER, errno, "there is no worker process %d: %s", (int) pid,
                                   strerror(errno));
        if (config_path(&path, PATH_WORKER_SOCKET, id) < 0)
                return failure_set(f, FAILURE_WORKER, ENOMEM, "out of memory");
        l->fd = connect_socket(id, l->pid_fd, deadline_usec);
        if (l->fd < 0)
                return failure_set(f, FAILURE_WORKER, -l->fd, "can't connect to the worker at %s: %s", path,
                                   strerror(-l->fd));
        return check_peer(l, f);
}

static int send_call(WorkerLink *l, MessageType type, const char *text) {
        WorkerCall call = { .version = PROTOCOL_VERSION, .type = type, .device_id = l->id };
        ssize_t n;

        if (text) {
                call.text_size = (uint32_t) strnlen(text, sizeof(call.text) - 1);
                memcpy(call.text, text, call.text_size);
        }
        do
                n = send(l->fd, &call, sizeof(call), MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n == sizeof(call) ? 0 : -EIO;
}

static int wait_readable(WorkerLink *l, uint64_t deadline) {
        for (;;) {
                struct pollfd p[] = { { .fd = l->fd, .events = POLLIN },
                                      { .fd = l->pid_fd, .events = POLLIN } };
                uint64_t now = now_usec(), left = deadline > now ? deadline - now : 0;
                struct timespec ts = {
                        .tv_sec = (time_t) (left / USEC_PER_SEC),
                        .tv_nsec = (long) (left % USEC_PER_SEC * NSEC_PER_USEC),
                };
                int n = ppoll(p, ELEMENTSOF(p), &ts, NULL);

                if (n < 0 && errno != EINTR) /* 7.3: after io_uring commands without any signal */
                        return -errno;
                if (n == 0)
                        return -ETIMEDOUT;
                /* An answer that a dying worker still sent comes first: it says why. */
                if (n > 0 && (p[0].revents & POLLIN))
                        return 0;
                if (n > 0)
                        return -EOWNERDEAD;
        }
}

static int receive_reply(WorkerLink *l, MessageType type, uint64_t deadline, WorkerReply *ret) {
        ssize_t n;
        int r;

        do {
                r = wait_readable(l, deadline);
                if (r < 0)
                        return r;
                n = recv(l->fd, ret, sizeof(*ret), MSG_TRUNC);
        } while (n < 0 && (errno == EINTR || errno == EAGAIN));
        if (n < 0)
                return -errno;
        if (n == 0)
                return -EOWNERDEAD;
        if (n != sizeof(*ret) || ret->version != PROTOCOL_VERSION || ret->type != type ||
            ret->device_id != l->id || ret->text_size >= sizeof(ret->text))
                return -EBADMSG;
        ret->text[ret->text_size] = 0;
        return 0;
}

static const char *call_name(MessageType type) {
        return type == MESSAGE_OPEN ? "open the device" : type == MESSAGE_RESIZE ? "resize the disk" : type == MESSAGE_HELLO ? "say what the disk is" : "say how it fares";
}

static int call(WorkerLink *l, MessageType type, const char *text, uint64_t deadline_usec, WorkerReply *ret, Failure *f) {
        uint64_t begin = now_usec();
        int r;

        r = send_call(l, type, text);
        if (r >= 0)
                r = receive_reply(l, type, deadline_usec, ret);
        if (r == -EOWNERDEAD || r == -EPIPE || r == -ECONNRESET)
                return failure_set(f, FAILURE_WORKER, EOWNERDEAD, "the worker died when it was asked to %s",
                                   call_name(type));
        if (r == -ETIMEDOUT)
                return failure_set(f, FAILURE_WORKER, ETIMEDOUT, "the worker did not %s within %.0f s",
                                   call_name(type), (double) (now_usec() - begin) / USEC_PER_SEC);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "the worker's answer makes no sense: %s",
                                   strerror(-r));
        if (ret->error == 0)
                return 0;
        if (ret->text_size > 0 && failure_from_text(ret->text, f) >= 0)
                return f->error > 0 ? -f->error : -EIO;
        return failure_set(f, FAILURE_WORKER, ret->error > 0 && ret->error < 4096 ? ret->error : EIO,
                           "the worker could not %s: %s", call_name(type), strerror(ret->error));
}

int worker_link_call(WorkerLink *l, MessageType type, uint64_t deadline_usec, WorkerReply *ret, Failure *f) {
        return call(l, type, NULL, deadline_usec, ret, f);
}

int worker_link_resize(WorkerLink *l, uint64_t bytes, uint64_t deadline_usec, WorkerReply *ret, Failure *f) {
        char text[32];

        (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) bytes);
        return call(l, MESSAGE_RESIZE, text, deadline_usec, ret, f);
}

void worker_link_abort(WorkerLink *l, const Failure *f) {
        _cleanup_free_ char *text = NULL;

        if (l->fd >= 0 && failure_to_text(f, &text) >= 0)
                (void) send_call(l, MESSAGE_ABORT, text);
}
