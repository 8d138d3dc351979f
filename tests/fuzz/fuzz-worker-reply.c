/* SPDX-License-Identifier: MIT */

/*
 * What a worker answers over its socket, as control and the manager read it, over real ones. The first byte chooses who has
 * asked what; then comes the answer: as it is, or laid over one that is sound.
 */

#include "dbus/statistics.h"
#include "dbus/stuck.h"
#include "fuzz-bus.h"
#include "service/manager-hello.h"
#include "service/manager-question.h"
#include "service/paths.h"
#include "service/text.h"
#include "service/uapi.h"
#include "service/worker-link.h"

#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define ID 3

enum {
        ASKER_LINK,
        ASKER_HELLO,
        ASKER_COUNTERS,
        ASKER_STUCK,
        _ASKER_MAX,
};

typedef union Reply {
        WorkerReply worker;
        CountersReply counters;
        StuckReply stuck;
        uint8_t bytes[sizeof(StuckReply)];
} Reply;

static DeviceConfig *config;
static sd_event *event;
static int listen_fd, pid_fd;

static char *root;

static void remove_root(void) {
        _cleanup_free_ char *command = NULL;

        if (xasprintf(&command, "rm -rf '%s'", root) >= 0)
                (void) !system(command);
        free(root);
        device_config_free(config);
        sd_event_unref(event);
}

static void listen_as_worker(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_free_ char *path = NULL;
        char *slash;

        must(config_path(&path, PATH_WORKER_SOCKET, ID) >= 0 && strlen(path) < sizeof(address.sun_path));
        strcpy(address.sun_path, path);
        slash = strrchr(path, '/');
        *slash = 0;
        must(mkdir_parents(path, 0755) >= 0);
        listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        must(listen_fd >= 0 && bind(listen_fd, (struct sockaddr *) &address, sizeof(address)) == 0 && listen(listen_fd, 4) == 0);
}

static void set_up(void) {
        const char *directory = getenv("TMPDIR");

        if (config)
                return;
        must(xasprintf(&root, "%s/fuzz-XXXXXX", directory ? directory : "/tmp") >= 0 && mkdtemp(root));
        must(atexit(remove_root) == 0);
        config_set_root(root);
        config = device_config_new(ID);
        must(config && xstrdup("disk0", &config->name) >= 0 && xstrdup("memory", &config->hook) >= 0);
        must(sd_event_new(&event) >= 0);
        pid_fd = pidfd_open(getpid(), 0);
        must(pid_fd >= 0);
        listen_as_worker();
}

/* What is sound, and how long it is. */
static size_t make_sound(Reply *reply, MessageType type, uint32_t n_requests) {
        WorkerReply *w = &reply->worker;

        memset(reply, 0, sizeof(*reply));
        if (type == MESSAGE_COUNTERS || type == MESSAGE_STUCK) {
                reply->counters.version = PROTOCOL_VERSION;
                reply->counters.type = type;
                reply->counters.device_id = ID;
                if (type == MESSAGE_COUNTERS)
                        return sizeof(CountersReply);
                reply->stuck.n_requests = n_requests;
                return stuck_reply_size(n_requests);
        }
        w->version = PROTOCOL_VERSION;
        w->type = type;
        w->device_id = ID;
        w->queues = config->queues;
        w->depth = config->depth;
        w->max_io_size = config->max_io_size;
        w->geometry = (Geometry) { .size = 1 << 20, .logical_block_size = 512, .physical_block_size = 4096, .recovery = RECOVERY_REISSUE };
        return sizeof(*w);
}

/* A part of the input with a place in the answer: how far from the end of the last one, how long, and the bytes. */
static void lay_over(Reply *reply, size_t size, Input *in) {
        for (size_t at = 0; in->size > 0;) {
                const uint8_t *bytes;
                size_t n;

                at += input_number(in, 2);
                bytes = input_bytes(in, input_byte(in), &n);
                if (at > size)
                        return;
                n = n < size - at ? n : size - at;
                memcpy(reply->bytes + at, bytes, n);
                at += n;
        }
}

static size_t make_reply(Reply *reply, MessageType type, bool raw, Input *in) {
        const uint8_t *bytes;
        size_t size;

        if (raw) {
                bytes = input_bytes(in, sizeof(*reply), &size);
                memset(reply, 0, sizeof(*reply));
                memcpy(reply, bytes, size);
                return size;
        }
        size = make_sound(reply, type, type == MESSAGE_STUCK ? input_byte(in) % (STUCK_MAX_REQUESTS + 1) : 0);
        lay_over(reply, size, in);
        return size;
}

static void check_failure(Failure *f) {
        _cleanup_free_ char *text = NULL;

        must(f->message && text_is_valid(f->message));
        must(failure_to_text(f, &text) == 0 && strlen(text) < FAILURE_MAX_TEXT);
        failure_done(f);
}

/* A disk that control then makes of it. */
static void check_geometry(const Geometry *g, uint32_t max_io_size) {
        _cleanup_free_ char *message = NULL;
        struct ublk_params params;

        if (geometry_check(g, &message) < 0) {
                must(message);
                return;
        }
        geometry_to_params(g, max_io_size, &params);
        must(params.basic.dev_sectors << 9 == g->size);
        must(geometry_match_params(g, &params, &message) == 0);
}

/* It is there before it is waited for. */
static void ask_by_link(MessageType type, const Reply *sent, size_t size) {
        WorkerLink link = { .id = ID, .pid = getpid(), .pid_fd = pid_fd };
        Failure f = FAILURE_NULL;
        static int fds[2] = { -EBADF, -EBADF };
        WorkerReply reply;
        WorkerCall call;
        int r;

        if (fds[0] < 0)
                must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
        must(send(fds[1], sent, size, MSG_NOSIGNAL) == (ssize_t) size);
        link.fd = fds[0];
        r = type == MESSAGE_RESIZE ? worker_link_resize(&link, 4096, UINT64_MAX, &reply, &f) : worker_link_call(&link, type, UINT64_MAX, &reply, &f);
        must(r <= 0);
        if (r < 0)
                check_failure(&f);
        else {
                must(size == sizeof(reply) && memcmp(&reply, sent, offsetof(WorkerReply, text)) == 0);
                must(reply.text_size < sizeof(reply.text) && reply.text[reply.text_size] == 0);
                check_geometry(&reply.geometry, reply.max_io_size / 4096 * 4096);
        }
        must(recv(fds[1], &call, sizeof(call), 0) == sizeof(call));
        must(call.type == type && call.device_id == ID && (type != MESSAGE_RESIZE || streq(call.text, "4096")));
}

typedef struct Answer {
        bool here;
        const QueryKind *kind;
        const Reply *sent;
        size_t size;
} Answer;

static void on_hello(void *userdata, int r, uint32_t pid, const WorkerReply *reply) {
        Answer *a = userdata;

        a->here = true;
        must(pid == (uint32_t) getpid());
        if (r >= 0) {
                must(reply && memcmp(reply, a->sent, sizeof(*reply)) == 0 && reply->error == 0);
                must(reply->queues == config->queues && reply->depth == config->depth);
                check_geometry(&reply->geometry, reply->max_io_size);
        } else if (reply) {
                _cleanup_free_ char *text = strndup(reply->text, reply->text_size);
                Failure f = FAILURE_NULL;

                must(reply->text_size < sizeof(reply->text) && text);
                if (failure_from_text(text, &f) >= 0)
                        check_failure(&f);
        }
}

/* What it says can be told on, or is not believed. */
static void on_reply(void *userdata, int r, const void *reply, size_t size) {
        Device device = { .config = config };
        Answer *a = userdata;
        sd_bus_message *m;

        a->here = true;
        must(r < 0 ? !reply : size == a->size && memcmp(reply, a->sent, size) == 0);
        if (r < 0 || a->kind->check(reply, size, ID) < 0)
                return;
        m = bus_call();
        must(a->kind->append(m, &device, reply) >= 0);
        bus_seal(m);
        sd_bus_message_unref(m);
}

static void ask_by_manager(MessageType type, const QueryKind *kind, const Reply *sent, size_t size) {
        Answer answer = { .kind = kind, .sent = sent, .size = size };
        Question *question = NULL;
        Hello *hello = NULL;
        int fd, r;

        if (kind)
                r = question_new(event, ID, (uint32_t) getpid(), type, kind->max_reply, USEC_PER_SEC * 60, on_reply, &answer, &question);
        else
                r = hello_new(event, config, (uint32_t) getpid(), type, on_hello, &answer, &hello);
        must(r >= 0);
        fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        must(fd >= 0 && send(fd, sent, size, MSG_NOSIGNAL) == (ssize_t) size);
        while (!answer.here)
                must(sd_event_run(event, UINT64_MAX) >= 0);
        question_free(question);
        hello_free(hello);
        safe_close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const MessageType types[] = { MESSAGE_HELLO, MESSAGE_OPEN, MESSAGE_RESIZE, MESSAGE_KEEP_CODE };
        Input in = { data, size };
        uint8_t choice = input_byte(&in), asker = choice % _ASKER_MAX;
        bool raw = choice & 0x80;
        MessageType type = asker == ASKER_COUNTERS ? MESSAGE_COUNTERS : asker == ASKER_STUCK ? MESSAGE_STUCK :
                           asker == ASKER_HELLO ? choice & 0x40 ? MESSAGE_KEEP_CODE : MESSAGE_HELLO : types[choice / _ASKER_MAX % ELEMENTSOF(types)];
        static Reply reply;
        size_t n;

        set_up();
        n = make_reply(&reply, type, raw, &in);
        if (asker == ASKER_LINK)
                ask_by_link(type, &reply, n);
        else
                ask_by_manager(type, asker == ASKER_COUNTERS ? &statistics_query : asker == ASKER_STUCK ? &stuck_query : NULL, &reply, n);
        return 0;
}
