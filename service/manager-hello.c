/* SPDX-License-Identifier: MIT */
#include "service/manager-hello.h"

#include "service/paths.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

struct Hello {
        uint32_t id;
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

static int reply_check(const WorkerReply *reply, ssize_t n, uint32_t id) {
        if (n != sizeof(WorkerReply) || reply->version != PROTOCOL_VERSION || reply->type != MESSAGE_HELLO ||
            reply->device_id != id)
                return -EBADMSG;
        return reply->error != 0 ? -EREMOTEIO : 0;
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
        r = n < 0 ? -errno : reply_check(&reply, n, h->id);
        h->handler(h->userdata, r, r < 0 ? NULL : &reply);
        return 0;
}

static int hello_on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        Hello *h = userdata;

        (void) s;
        (void) usec;
        h->handler(h->userdata, -ETIMEDOUT, NULL);
        return 0;
}

static int hello_connect(Hello *h) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        WorkerCall call = { .version = PROTOCOL_VERSION, .type = MESSAGE_HELLO, .device_id = h->id };
        _cleanup_free_ char *path = NULL;
        int r;

        r = config_path(&path, PATH_WORKER_SOCKET, h->id);
        if (r < 0)
                return r;
        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        strcpy(address.sun_path, path);
        h->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (h->fd < 0)
                return -errno;
        if (connect(h->fd, (struct sockaddr *) &address, sizeof(address)) < 0 ||
            send(h->fd, &call, sizeof(call), MSG_NOSIGNAL) < 0)
                return -errno;
        return 0;
}

int hello_new(sd_event *event, uint32_t id, HelloHandler handler, void *userdata, Hello **ret) {
        _cleanup_(hello_freep) Hello *h = malloc(sizeof(Hello));
        int r;

        if (!h)
                return -ENOMEM;
        *h = (Hello) { .id = id, .fd = -EBADF, .handler = handler, .userdata = userdata };
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
