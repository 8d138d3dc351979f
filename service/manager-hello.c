/* SPDX-License-Identifier: MIT */
#include "service/manager-hello.h"

#include "service/paths.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct Hello {
        const DeviceConfig *config; /* borrowed */
        uint32_t pid;
        int fd; /* owned */
        sd_event_source *io, *timer;
        HelloHandler handler;
        void *userdata;
};

Hello *hello_free(Hello *h) {
        if (!h)
                return NULL;
        sd_event_source_disable_unref(h->io);
        sd_event_source_disable_unref(h->timer);
        safe_close(h->fd);
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

static int reply_check(const WorkerReply *reply, ssize_t n, const DeviceConfig *c) {
        if (n != sizeof(WorkerReply) || reply->version != PROTOCOL_VERSION || reply->type != MESSAGE_HELLO ||
            reply->device_id != c->id)
                return -EBADMSG;
        return reply->error != 0 ? -EREMOTEIO : reply_check_sense(reply, c);
}

static int hello_on_io(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        WorkerReply reply = {};
        Hello *h = userdata;
        ssize_t n;
        int r;

        (void) s;
        (void) revents;
        n = recv(fd, &reply, sizeof(reply), MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        r = n < 0 ? -errno : reply_check(&reply, n, h->config);
        h->handler(h->userdata, r, h->pid, r < 0 ? NULL : &reply);
        return 0;
}

static int hello_on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        Hello *h = userdata;

        (void) s;
        (void) usec;
        h->handler(h->userdata, -ETIMEDOUT, h->pid, NULL);
        return 0;
}

/* The directory belongs to the workers' user, and connect(2) follows symbolic links: to any socket of root's, that is,
 * since that is who we are. So the entry itself is opened, and what it was found to be is what is connected to; the
 * directories above it belong to root. */
static int open_socket(uint32_t id) {
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *path = NULL;
        struct stat st;
        int r;

        r = config_path(&path, PATH_WORKER_SOCKET, id);
        if (r < 0)
                return r;
        fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISSOCK(st.st_mode))
                return S_ISLNK(st.st_mode) ? -ELOOP : -ENOTSOCK;
        return TAKE_FD(fd);
}

/* The peer is who called listen(2). */
static int check_peer(int fd, uint32_t pid) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return -errno;
        return peer.pid > 0 && (uint32_t) peer.pid == pid ? 0 : -EPERM;
}

static int hello_connect(Hello *h) {
        WorkerCall call = { .version = PROTOCOL_VERSION, .type = MESSAGE_HELLO, .device_id = h->config->id };
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_close_ int entry = -EBADF;
        int r;

        entry = open_socket(h->config->id);
        if (entry < 0)
                return entry;
        (void) snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%i", entry);
        h->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (h->fd < 0)
                return -errno;
        if (connect(h->fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        r = check_peer(h->fd, h->pid);
        if (r < 0)
                return r;
        return send(h->fd, &call, sizeof(call), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int hello_new(sd_event *event, const DeviceConfig *config, uint32_t pid, HelloHandler handler, void *userdata, Hello **ret) {
        _cleanup_(hello_freep) Hello *h = malloc(sizeof(Hello));
        int r;

        if (!h)
                return -ENOMEM;
        *h = (Hello) { .config = config, .pid = pid, .fd = -EBADF, .handler = handler, .userdata = userdata };
        if (pid == 0)
                return -ESRCH;
        r = hello_connect(h);
        if (r < 0)
                return r;
        r = sd_event_add_io(event, &h->io, h->fd, EPOLLIN, hello_on_io, h);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(event, &h->timer, CLOCK_MONOTONIC, HELLO_TIMEOUT_USEC, 0, hello_on_timer, h);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}
