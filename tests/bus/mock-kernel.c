/* SPDX-License-Identifier: MIT */
#include "mock-kernel.h"

#include "service/marker.h"
#include "service/paths.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static const char *test_root;

void kernel_set_root(const char *root) {
        test_root = root;
}

/* The strings below are all short; a test has no use for more. */
typedef struct Path {
        char s[512];
} Path;

static Path path_of(const char *kind, uint32_t id, const char *tail) {
        Path p;

        snprintf(p.s, sizeof(p.s), "%s/%s%u%s", test_root, kind, id, tail);
        return p;
}

bool kernel_flag(const char *name) {
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", test_root, name);
        return access(path, F_OK) >= 0;
}

bool kernel_device_flag(const char *name, uint32_t id) {
        char full[64];

        snprintf(full, sizeof(full), "%s-%u", name, id);
        return kernel_flag(full);
}

static void put(const char *path, const char *text) {
        _cleanup_free_ char *copy = strdup(path);

        (void) mkdir_parents(dirname(copy), 0755);
        (void) write_file_atomic(path, text, strlen(text), 0644);
}

static uint64_t size_of(const DeviceConfig *c) {
        uint64_t size = 1 << 20;

        for (size_t i = 0; i < c->n_arguments; i++)
                if (streq(c->arguments[i].name, "size"))
                        (void) parse_u64(c->arguments[i].value, UINT64_MAX, &size);
        return size;
}

void kernel_add(const DeviceConfig *c) {
        char sectors[32];

        snprintf(sectors, sizeof(sectors), "%llu\n", (unsigned long long) size_of(c) / 512);
        (void) mkdir_parents(path_of("sys/class/ublk-char/ublkc", c->id, "").s, 0755);
        put(path_of("sys/block/ublkb", c->id, "/size").s, sectors);
        put(path_of("sys/block/ublkb", c->id, "/ro").s, c->read_only ? "1\n" : "0\n");
        put(path_of("sys/block/ublkb", c->id, "/queue/logical_block_size").s, "4096\n");
        (void) marker_write(c, false);
}

void kernel_remove(uint32_t id) {
        static const char *const files[] = { "/size", "/ro", "/queue/logical_block_size" };

        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                (void) unlink(path_of("sys/block/ublkb", id, files[i]).s);
        (void) rmdir(path_of("sys/block/ublkb", id, "/queue").s);
        (void) rmdir(path_of("sys/block/ublkb", id, "").s);
        (void) rmdir(path_of("sys/class/ublk-char/ublkc", id, "").s);
        (void) marker_remove(id);
}

void kernel_hold_after_stop(uint32_t id) {
        (void) rename(path_of("hold-after-stop-", id, "").s, path_of("holders-", id, "").s);
}

typedef struct Worker {
        WorkerReply reply;
} Worker;

static int on_call(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        Worker *w = userdata;
        WorkerCall call;

        (void) revents;
        if (recv(fd, &call, sizeof(call), MSG_DONTWAIT) == sizeof(call) && call.type == MESSAGE_HELLO)
                (void) send(fd, &w->reply, sizeof(w->reply), MSG_NOSIGNAL);
        sd_event_source_disable_unref(s);
        close(fd);
        return 0;
}

static int on_connect(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

        (void) revents;
        return client < 0 ? 0 : sd_event_add_io(sd_event_source_get_event(s), &(sd_event_source *) { NULL }, client, EPOLLIN,
                                                on_call, userdata);
}

void worker_listen(sd_event *event, const DeviceConfig *c) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        Worker *w = calloc(1, sizeof(Worker));
        int fd;

        w->reply = (WorkerReply) {
                .version = PROTOCOL_VERSION,
                .type = MESSAGE_HELLO,
                .device_id = c->id,
                .queues = c->queues,
                .depth = c->depth,
                .max_io_size = c->max_io_size,
                .geometry = { .size = size_of(c),
                              .logical_block_size = 4096,
                              .recovery = c->recovery != RECOVERY_DEFAULT ? c->recovery :
                                          streq(c->hook, "none") ? RECOVERY_NONE : RECOVERY_REISSUE },
        };
        snprintf(address.sun_path, sizeof(address.sun_path), "%s" PATH_WORKER_SOCKET, test_root, c->id);
        _cleanup_free_ char *copy = strdup(address.sun_path);
        (void) mkdir_parents(dirname(copy), 0755);
        (void) unlink(address.sun_path);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (bind(fd, (struct sockaddr *) &address, sizeof(address)) >= 0 && listen(fd, 16) >= 0)
                (void) sd_event_add_io(event, NULL, fd, EPOLLIN, on_connect, w);
}

void control_answer(const char *instance, const char *json) {
        char path[512];

        snprintf(path, sizeof(path), "%s/run/ublk-ruby-control/%s/result.json", test_root, instance);
        put(path, json);
}

void control_answer_probe(const char *instance) {
        _cleanup_free_ char *reason = NULL, *json = NULL;
        char path[512];

        snprintf(path, sizeof(path), "%s/unsupported", test_root);
        if (read_file(path, 512, &reason, NULL) < 0)
                (void) xasprintf(&json, "{\"error\":0,\"supported\":true,\"verdict\":\"supported\",\"kernel\":\"6.12\","
                                        "\"reason\":\"\",\"features\":[\"user-copy\",\"user-recovery\"]}");
        else
                (void) xasprintf(&json, "{\"error\":0,\"supported\":false,\"verdict\":\"module-not-loaded\","
                                        "\"kernel\":\"6.12\",\"reason\":\"%s\",\"features\":[]}", reason);
        control_answer(instance, json);
}

void control_answer_holders(const char *instance, uint32_t id) {
        _cleanup_free_ char *holders = NULL, *json = NULL;

        if (read_file(path_of("holders-", id, "").s, 4096, &holders, NULL) < 0)
                (void) xstrdup("[]", &holders);
        (void) xasprintf(&json, "{\"error\":0,\"holders\":%s}", holders);
        control_answer(instance, json);
}
