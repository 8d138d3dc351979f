/* SPDX-License-Identifier: MIT */
#include "mock-kernel.h"

#include "service/marker.h"
#include "service/state.h"
#include "service/paths.h"
#include "service/trial.h"

#include "service/uapi.h"

#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

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

void kernel_add_foreign(uint32_t id) {
        (void) mkdir_parents(path_of("sys/class/ublk-char/ublkc", id, "").s, 0755);
        put(path_of("sys/block/ublkb", id, "/size").s, "8\n");
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

void state_begin(const DeviceConfig *c) {
        _cleanup_free_ char *path = NULL, *base = NULL;

        if (state_path(c->name, &path) < 0 || !(base = strdup(path)))
                return;
        (void) mkdir_parents(dirname(base), 0755);
        (void) state_claim(path, c->created_usec);
}

void state_settle(uint32_t id, const char *word) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *path = NULL, *message = NULL;

        if (device_config_load(id, &c, &message) < 0 || state_path(c->name, &path) < 0)
                return;
        (void) state_remove(&(StateRemoval) {
                .path = path,
                .owner = c->created_usec,
                .end = streq(word, "keep") ? STATE_KEPT : c->creating ? STATE_UNDONE : STATE_DELETED,
                .deadline_usec = now_usec() + 5 * USEC_PER_SEC,
        });
}

void kernel_stop_serving(uint32_t id) {
        (void) unlink(path_of("served-", id, "").s);
}

static WorkerReply reply_of(const DeviceConfig *c) {
        WorkerReply reply = {
                .version = PROTOCOL_VERSION,
                .type = MESSAGE_HELLO,
                .device_id = c->id,
                .queues = c->queues,
                .depth = c->depth,
                .max_io_size = c->max_io_size,
                .code = trial_is_on(c, NULL) ? CODE_ON_TRIAL : streq(c->hook, "huge") ? CODE_NOT_KEPT : CODE_KEPT,
                .geometry = { .size = size_of(c),
                              .logical_block_size = 4096,
                              .physical_block_size = 4096,
                              .buffers = streq(c->data_path, "buffer"),
                              .recovery = c->recovery != RECOVERY_DEFAULT ? c->recovery :
                                          streq(c->hook, "none") ? RECOVERY_NONE : RECOVERY_REISSUE },
        };

        if (streq(c->hook, "liar"))
                reply.depth++;
        if (streq(c->hook, "shapeless"))
                reply.geometry.logical_block_size = 1000;
        return reply;
}

static int listen_at(const DeviceConfig *c) {
        bool aside = streq(c->hook, "symlink");
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        char path[sizeof(address.sun_path) - sizeof(".real")];
        int fd;

        snprintf(path, sizeof(path), "%s" PATH_WORKER_SOCKET, test_root, c->id);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s%s", path, aside ? ".real" : "");
        _cleanup_free_ char *copy = strdup(path);
        (void) mkdir_parents(dirname(copy), 0755);
        (void) unlink(path);
        (void) unlink(address.sun_path);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 || listen(fd, 16) < 0 ||
            (aside && symlink(address.sun_path, path) < 0))
                _exit(1);
        return fd;
}

/* A line of the test's file: OPERATION OFFSET LENGTH AGE [FRAME;FRAME…]. */
static bool read_stuck_request(const char *line, StuckRequest *ret) {
        static const char *const ops[] = { "read", "write", "flush", "discard", "", "write_zeroes" };
        int at = 0;
        char op[16];

        *ret = (StuckRequest) { .op = UBLK_IO_OP_WRITE_ZEROES + 1 };
        if (sscanf(line, "%15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %n", op, &ret->offset, &ret->length, &ret->age_usec, &at) < 4)
                return false;
        for (uint32_t i = 0; i < ELEMENTSOF(ops); i++)
                if (streq(ops[i], op))
                        ret->op = i;
        ret->backtrace_size = (uint32_t) strnlen(line + at, sizeof(ret->backtrace));
        memcpy(ret->backtrace, line + at, ret->backtrace_size);
        for (uint32_t i = 0; i < ret->backtrace_size; i++)
                if (ret->backtrace[i] == ';')
                        ret->backtrace[i] = '\n';
        return true;
}

/* What stuck-N says: such lines; or in its first line how to misbehave. */
static void answer_stuck(int client, uint32_t id) {
        static StuckReply reply;
        _cleanup_free_ char *text = NULL;
        char *rest, *line;
        size_t size;

        reply = (StuckReply) { .version = PROTOCOL_VERSION, .type = MESSAGE_STUCK, .device_id = id };
        (void) read_file(path_of("stuck-", id, "").s, 65536, &text, NULL);
        for (rest = text; rest && (line = strsep(&rest, "\n"));)
                if (reply.n_requests < STUCK_MAX_REQUESTS && read_stuck_request(line, &reply.requests[reply.n_requests]))
                        reply.n_requests++;
        size = stuck_reply_size(reply.n_requests);
        if (text && strncmp(text, "close", 5) == 0)
                return;
        if (text && strncmp(text, "silent", 6) == 0)
                (void) sleep(30);
        if (text && strncmp(text, "slow", 4) == 0)
                (void) usleep(500000);
        if (text && strncmp(text, "short", 5) == 0)
                size--;
        if (text && strncmp(text, "many", 4) == 0)
                reply.n_requests = STUCK_MAX_REQUESTS + 1;
        if (text && strncmp(text, "long", 4) == 0)
                reply.requests[0].backtrace_size = STUCK_MAX_BACKTRACE + 1;
        if (text && strncmp(text, "error", 5) == 0)
                reply.error = EIO;
        (void) send(client, &reply, size, MSG_NOSIGNAL);
}

/* A request in the hook that comes back in time, or, if there is hang-N, does not. */
static int answer_late(const DeviceConfig *c, WorkerReply *reply) {
        static unsigned n;
        _cleanup_free_ char *text = NULL;
        Failure f = FAILURE_NULL;

        if (++n <= 2)
                return EAGAIN;
        if (!kernel_device_flag("hang", c->id))
                return 0;
        (void) failure_set(&f, FAILURE_HOOK, ETIMEDOUT, "read of 4096 bytes at 0 has been in the hook for 5.1 s");
        (void) failure_set_origin(&f, NULL, "/hooks/new.rb", 9);
        (void) failure_to_text(&f, &text);
        failure_done(&f);
        reply->text_size = (uint32_t) strlen(text);
        memcpy(reply->text, text, reply->text_size);
        return EBUSY;
}

/* What stats-N says: five numbers (requests, failed, bytes read, µs since it serves, requests that took 2 to 4 µs); or how to misbehave. */
static void answer_counters(int client, uint32_t id) {
        CountersReply reply = { .version = PROTOCOL_VERSION, .type = MESSAGE_COUNTERS, .device_id = id };
        size_t size = sizeof(reply);
        _cleanup_free_ char *text = NULL;
        Counters *c = &reply.counters;

        (void) read_file(path_of("stats-", id, "").s, 65536, &text, NULL);
        if (text && strncmp(text, "close", 5) == 0)
                return;
        if (text && strncmp(text, "short", 5) == 0)
                size--;
        if (text && strncmp(text, "error", 5) == 0)
                reply.error = EIO;
        if (text && sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &c->sum.requests, &c->sum.failed, &c->sum.read_bytes,
                           &c->age_usec, &c->latencies[UBLK_IO_OP_READ][2]) == 5) {
                c->sum.completed = c->sum.requests - 1;
                c->sum.in_flight = 1;
                c->errors[0] = 1;
                c->errors[EIO] = c->sum.failed;
                c->hook_nsec = 1500000;
                c->gc_count = 12;
                c->gc_usec = 3000;
                c->latencies[UBLK_IO_OP_FLUSH][COUNTERS_BUCKETS - 1] = 1;
        }
        (void) send(client, &reply, size, MSG_NOSIGNAL);
}

static int keep_code(const DeviceConfig *c, WorkerReply *reply) {
        int error = 0;

        if (reply->code != CODE_ON_TRIAL)
                return ENOENT;
        if (kernel_device_flag("late", c->id) || kernel_device_flag("hang", c->id))
                error = answer_late(c, reply);
        if (error != 0)
                return error;
        if (streq(c->hook, "forgetful"))
                return EIO;
        reply->code = CODE_KEPT;
        put(path_of("kept-", c->id, "").s, "");
        return 0;
}

static void serve(const DeviceConfig *c, int ready) {
        WorkerReply reply = reply_of(c);
        int fd = listen_at(c);

        close(ready);
        for (;;) {
                int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
                WorkerCall call;

                if (client < 0)
                        _exit(1);
                /* A test can have it find its voice. */
                if (streq(c->hook, "mute") && !kernel_flag("speak"))
                        continue;
                if (recv(client, &call, sizeof(call), 0) != sizeof(call))
                        call.type = _MESSAGE_MAX;
                if (call.type == MESSAGE_STUCK)
                        answer_stuck(client, c->id);
                else if (call.type == MESSAGE_COUNTERS)
                        answer_counters(client, c->id);
                else if (call.type == MESSAGE_HELLO || call.type == MESSAGE_KEEP_CODE) {
                        reply.type = call.type;
                        reply.text_size = 0;
                        reply.error = call.type == MESSAGE_KEEP_CODE ? keep_code(c, &reply) : 0;
                        (void) send(client, &reply, sizeof(reply), MSG_NOSIGNAL);
                }
                close(client);
        }
}

static pid_t fork_child(void) {
        pid_t pid = fork();

        if (pid == 0)
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        return pid;
}

pid_t worker_start(const DeviceConfig *c) {
        int ends[2];
        char byte;
        pid_t pid;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return 0;
        pid = fork_child();
        if (pid == 0) {
                close(ends[0]);
                if (streq(c->hook, "impostor") && fork_child() != 0) {
                        close(ends[1]);
                        for (;;)
                                pause();
                }
                serve(c, ends[1]);
        }
        close(ends[1]);
        (void) !read(ends[0], &byte, 1); /* until it listens */
        close(ends[0]);
        return pid;
}

void worker_stop(pid_t pid) {
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
}

void control_answer(const char *instance, const char *json) {
        char path[512];

        snprintf(path, sizeof(path), "%s" PATH_CONTROL_RESULT, test_root, instance);
        put(path, json);
}

void check_answer(uint32_t id) {
        _cleanup_free_ char *json = NULL;

        if (read_file(path_of("check-", id, "").s, 4096, &json, NULL) < 0)
                (void) xstrdup("{\"error\":0}", &json);
        put(path_of("run/ublk-ruby-check/", id, ".json").s, json);
}

void check_answer_proposal(uint32_t number) {
        _cleanup_free_ char *json = NULL, *proposal = NULL;
        char path[512];

        if (read_file(path_of("run/ublk-ruby/proposals/", number, ".conf").s, 65536, &proposal, NULL) >= 0) {
                snprintf(path, sizeof(path), "%s/proposed", test_root);
                put(path, proposal);
        }
        snprintf(path, sizeof(path), "%s/check-hook", test_root);
        if (read_file(path, 65536, &json, NULL) < 0)
                (void) xstrdup("{\"error\":0}", &json);
        put(path_of("run/ublk-ruby-check/hook-", number, ".json").s, json);
}

void control_answer_probe(const char *instance) {
        _cleanup_free_ char *reason = NULL, *json = NULL;
        char path[512];

        snprintf(path, sizeof(path), "%s/unsupported", test_root);
        if (read_file(path, 512, &reason, NULL) < 0)
                (void) xasprintf(&json, "{\"error\":0,\"supported\":true,\"verdict\":\"supported\",\"kernel\":\"6.12\","
                                        "\"reason\":\"\",\"features\":[\"user-copy\",\"user-recovery\"%s]}",
                                kernel_flag("can-resize") ? ",\"update-size\"" : "");
        else
                (void) xasprintf(&json, "{\"error\":0,\"supported\":false,\"verdict\":\"module-not-loaded\","
                                        "\"kernel\":\"6.12\",\"reason\":\"%s\",\"features\":[]}", reason);
        control_answer(instance, json);
}

/* resize-N-BYTES, and after it resize-N. What is in the file resize-N, or settle-N, is answered instead, if there is one. */
void control_answer_resize(const char *instance, uint32_t id, uint64_t bytes) {
        static uint64_t asked;
        _cleanup_free_ char *json = NULL;
        char sectors[32];

        if (bytes > 0)
                asked = bytes;
        if (read_file(path_of(bytes > 0 ? "resize-" : "settle-", id, "").s, 4096, &json, NULL) < 0) {
                (void) xasprintf(&json, "{\"error\":0,\"size\":%" PRIu64 ",\"takes-size\":true}", asked);
                if (bytes == 0) {
                        snprintf(sectors, sizeof(sectors), "%" PRIu64 "\n", asked / 512);
                        put(path_of("sys/block/ublkb", id, "/size").s, sectors);
                }
        }
        control_answer(instance, json);
}

void control_answer_holders(const char *instance, uint32_t id) {
        _cleanup_free_ char *holders = NULL, *json = NULL;

        if (read_file(path_of("holders-", id, "").s, 4096, &holders, NULL) < 0)
                (void) xstrdup("[]", &holders);
        (void) xasprintf(&json, "{\"error\":0,\"holders\":%s}", holders);
        control_answer(instance, json);
}

void control_answer_list(const char *instance) {
        _cleanup_free_ char *devices = NULL, *json = NULL;
        char path[512];

        snprintf(path, sizeof(path), "%s/list", test_root);
        if (read_file(path, 4096, &devices, NULL) < 0)
                (void) xstrdup("[]", &devices);
        (void) xasprintf(&json, "{\"error\":0,\"devices\":%s}", devices);
        control_answer(instance, json);
}

void control_answer_stray(const char *instance, uint32_t id) {
        _cleanup_free_ char *json = NULL;

        if (kernel_device_flag("served", id))
                control_answer(instance, "{\"error\":0,\"served\":true}");
        else if (read_file(path_of("swept-", id, "").s, 4096, &json, NULL) >= 0)
                control_answer(instance, json);
        else
                control_answer(instance, "{\"error\":0}");
}
