/* SPDX-License-Identifier: MIT */

/*
 * A worker's supervisor, in a process of its own as it ends that process, over real sockets. Ruby and the queues are made
 * up. Also here: what keeps that process from signalling others.
 */

#include "service/config.h"
#include "service/paths.h"
#include "service/privileges.h"
#include "service/supervisor.h"

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define ID 3
#define SLOTS 8 /* connections that a supervisor keeps */

/* What the main thread of the worker does. It goes on by a byte from the test for each step. */
typedef enum Part {
        PART_LOAD,      /* loads for ever */
        PART_READY,     /* is ready after a byte */
        PART_SERVE,     /* serves, a byte after OPEN */
        PART_FAIL,      /* can't open */
        PART_EXIT,      /* hangs in its exit */
        PART_HAND_OVER, /* is asked to hand over, once ready */
        PART_STOP_EARLY, /* is asked to hand over while it loads */
        PART_STUCK,     /* is asked to hand over, and serves on */
        PART_RESIZE,    /* serves, and makes the disk one block longer than it is told; a byte for each; the second one fails */
        PART_CALL,      /* serves, with a request in the hook */
        PART_SILENT,    /* the same, but nobody takes its backtrace */
        PART_WAIT,      /* the same, with nothing in the hook */
        PART_TRIAL,     /* has code on trial, and keeps it the second time that it is told to */
        PART_TRIAL_CALL, /* the same, with a request in the hook, until a byte comes */
} Part;

static char *root;
static pid_t worker;
static int to_worker = -1, notify_fd = -1;
static char *notify_path;
static _Atomic bool *sound, *waiting; /* shared with the worker */

void queue_add_statistics(const Queue *q, Statistics *s) {
        (void) q;
        s->requests += 7;
}

void queue_add_counters(const Queue *q, Counters *c) {
        queue_add_statistics(q, &c->sum);
        c->errors[EIO] += 3;
        c->latencies[OPERATION_READ][5] += 7;
}

bool queue_is_sound(const Queue *q, uint64_t *round) {
        (void) q;
        (*round)++;
        return atomic_load(sound);
}

bool queue_awaits_turn(const Queue *q, uint64_t *ret_round) {
        (void) q;
        *ret_round = 1;
        return atomic_load(waiting);
}

static void step(int fd) {
        char c;

        if (read(fd, &c, 1) != 1)
                exit(0); /* and not _exit, for the sanitizers */
}

static void ready(Supervisor *s) {
        supervisor_ready(s, &(Geometry) { .size = 12345 << 9, .logical_block_size = 512 });
}

static void *grant_wishes(void *userdata) {
        Calls *calls = userdata;
        uint64_t number;
        unsigned wishes;
        size_t index;

        for (;;) {
                calls_wait(calls);
                while (calls_take_wish(calls, &index, &number, &wishes))
                        calls_grant(calls, index, number, "disk.rb:7:in `read'\ndisk.rb:9");
        }
        return NULL;
}

static Calls *calls; /* not lost, for the sanitizers */
static Culprits *culprits;
static HookCall *hook_call;

static void enter_hook(Supervisor *s, const DeviceConfig *config, Part part) {
        pthread_t thread;
        size_t index;

        if (calls_new(1, &calls) < 0 || culprits_new(config, &culprits) < 0 || supervisor_watch(s, calls, culprits) < 0)
                _exit(97);
        calls_note_collections(calls, 12, 34000);
        if (part == PART_CALL || part == PART_TRIAL_CALL)
                (void) pthread_create(&thread, NULL, grant_wishes, calls);
        if (part == PART_WAIT)
                return;
        hook_call = calls_join(calls, &index);
        call_begin(hook_call, &(Request) { .op = OPERATION_WRITE, .offset = 8192, .length = 512 });
}

static unsigned n_keeps;

static int keep_code(void *userdata) {
        unsigned *n = userdata;

        return (*n)++ == 0 ? -ENOSPC : CODE_KEPT;
}

static void resize_once(Supervisor *s, int fd, unsigned i) {
        struct pollfd p[] = { { .fd = supervisor_resize_fd(s), .events = POLLIN }, { .fd = fd } };
        Failure f = FAILURE_NULL;
        uint64_t bytes = 0;

        (void) poll(p, ELEMENTSOF(p), -1);
        step(fd); /* also ends it */
        if (!supervisor_take_resize(s, &bytes) || supervisor_take_resize(s, &bytes))
                _exit(96);
        if (i == 1)
                (void) failure_set(&f, FAILURE_HOOK, ENOSPC, "no more room");
        supervisor_resized(s, bytes + 512, i == 1 ? &f : NULL);
        failure_done(&f);
}

static void act(Supervisor *s, const DeviceConfig *config, Part part, int fd) {
        static Queue *const queues[] = { NULL };
        Failure f = FAILURE_NULL;

        if (part == PART_LOAD)
                return;
        if (part == PART_STOP_EARLY) {
                supervisor_request_hand_over(s);
                return;
        }
        if (part == PART_READY)
                step(fd);
        if (part >= PART_CALL && part != PART_TRIAL)
                enter_hook(s, config, part);
        ready(s);
        if (part == PART_READY)
                return;
        if (part == PART_EXIT) {
                supervisor_exiting(s, 42);
                supervisor_exiting(s, 43);
                return;
        }
        if (part == PART_TRIAL || part == PART_TRIAL_CALL) {
                supervisor_set_code(s, CODE_ON_TRIAL, USEC_PER_SEC, keep_code, &n_keeps);
                if (part == PART_TRIAL)
                        return;
                step(fd);
                call_end(hook_call);
                return;
        }
        if (part == PART_HAND_OVER)
                supervisor_request_hand_over(s);
        if (!supervisor_wait_open(s))
                _exit(99);
        step(fd);
        if (part == PART_FAIL) {
                (void) failure_set(&f, FAILURE_WORKER, ENXIO, "no luck");
                supervisor_open_failed(s, &f);
                failure_done(&f);
                return;
        }
        supervisor_serving(s, queues, 1);
        for (unsigned i = 0; part == PART_RESIZE; i++)
                resize_once(s, fd, i);
        if (part == PART_STUCK)
                supervisor_request_hand_over(s);
}

static uint64_t hook_timeout_usec = CONFIG_DEFAULT_HOOK_TIMEOUT_USEC;

static void be_worker(Part part, uid_t trusted, uint64_t start_timeout_usec, int fd, int started) {
        DeviceConfig *config = device_config_new(ID);
        char pid[16];
        Supervisor *s;

        (void) snprintf(pid, sizeof(pid), "%d", (int) getpid());
        (void) setenv("WATCHDOG_PID", pid, 1);
        config->name = strdup("disk0");
        config->hook = strdup("file");
        config->start_timeout_usec = start_timeout_usec;
        config->hook_timeout_usec = hook_timeout_usec;
        if (supervisor_start(config, EXIT_WRONG, trusted, &s) < 0)
                _exit(98);
        (void) !write(started, "x", 1);
        act(s, config, part, fd);
        for (;;)
                step(fd);
}

static void begin_as(Part part, uid_t trusted, uint64_t start_timeout_usec) {
        int down[2], up[2];
        char c;

        g_assert_cmpint(pipe2(down, O_CLOEXEC) | pipe2(up, O_CLOEXEC), ==, 0);
        atomic_store(sound, true);
        atomic_store(waiting, false);
        (void) fflush(NULL);
        worker = fork();
        if (worker == 0) {
                close(down[1]);
                close(up[0]);
                be_worker(part, trusted, start_timeout_usec, down[0], up[1]);
        }
        close(down[0]);
        close(up[1]);
        g_assert_cmpint(read(up[0], &c, 1), ==, 1);
        close(up[0]);
        to_worker = down[1];
}

static void begin(Part part) {
        begin_as(part, getuid(), 20 * USEC_PER_SEC);
}

static void go_on(void) {
        g_assert_cmpint(write(to_worker, "x", 1), ==, 1);
}

static int wait_for_end(void) {
        int status;

        g_assert_cmpint(waitpid(worker, &status, 0), ==, worker);
        to_worker = safe_close(to_worker);
        g_assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

/* It is alive, and what a sanitizer has to say is heard. */
static void end(void) {
        to_worker = safe_close(to_worker);
        g_assert_cmpint(wait_for_end(), ==, 0);
}

static int connect_worker(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s" PATH_WORKER_SOCKET, root, ID);
        g_assert_cmpint(connect(fd, (struct sockaddr *) &address, sizeof(address)), ==, 0);
        return fd;
}

static WorkerCall call_of(MessageType type) {
        return (WorkerCall) { .version = PROTOCOL_VERSION, .type = type, .device_id = ID };
}

static void put(int fd, const void *data, size_t size) {
        g_assert_cmpint(send(fd, data, size, MSG_NOSIGNAL), ==, (ssize_t) size);
}

static void put_call(int fd, MessageType type) {
        WorkerCall call = call_of(type);

        put(fd, &call, sizeof(call));
}

static bool readable(int fd, unsigned msec) {
        return poll(&(struct pollfd) { .fd = fd, .events = POLLIN }, 1, (int) msec) > 0;
}

static WorkerReply get_reply(int fd, MessageType type) {
        WorkerReply reply;

        g_assert_true(readable(fd, 10000));
        g_assert_cmpint(recv(fd, &reply, sizeof(reply), MSG_TRUNC), ==, sizeof(reply));
        g_assert_cmpuint(reply.version, ==, PROTOCOL_VERSION);
        g_assert_cmpuint(reply.type, ==, type);
        g_assert_cmpuint(reply.device_id, ==, ID);
        return reply;
}

static WorkerReply call(int fd, MessageType type) {
        put_call(fd, type);
        return get_reply(fd, type);
}

/* Connected, with the hook built. */
static int connect_ready(void) {
        int fd = connect_worker();

        while (call(fd, MESSAGE_HELLO).error == EAGAIN)
                ;
        return fd;
}

static bool is_closed(int fd) {
        char c;

        g_assert_true(readable(fd, 10000));
        return recv(fd, &c, 1, 0) <= 0;
}

/* The next message to systemd that begins so. */
static char *get_notice(const char *prefix, unsigned msec) {
        static char text[8192];

        while (readable(notify_fd, msec)) {
                ssize_t n = recv(notify_fd, text, sizeof(text) - 1, 0);

                g_assert_cmpint(n, >, 0);
                text[n] = 0;
                if (g_str_has_prefix(text, prefix))
                        return text;
        }
        return NULL;
}

static void drain_notices(void) {
        (void) get_notice("\n", 0);
}

/* Nothing reads the others' notices, of which the socket takes only a few. */
static void listen_begin(void) {
        drain_notices();
        (void) setenv("NOTIFY_SOCKET", notify_path, 1);
}

static void listen_end(void) {
        (void) unsetenv("NOTIFY_SOCKET");
}

static void test_hello(void) {
        WorkerReply reply;
        int fd;

        begin(PART_READY);
        fd = connect_worker();
        g_assert_cmpint(call(fd, MESSAGE_HELLO).error, ==, EAGAIN);
        g_assert_cmpint(call(fd, MESSAGE_OPEN).error, ==, EBUSY);
        go_on();
        while ((reply = call(fd, MESSAGE_HELLO)).error == EAGAIN)
                ;
        g_assert_cmpint(reply.error, ==, 0);
        g_assert_cmpuint(reply.geometry.size, ==, 12345 << 9);
        g_assert_cmpuint(reply.queues, ==, 1);
        g_assert_cmpuint(reply.depth, ==, CONFIG_DEFAULT_DEPTH);
        g_assert_cmpuint(reply.statistics.serving, ==, 0);
        close(fd);
        end();
}

static void test_bad_calls(void) {
        struct { WorkerCall call; char more; } wrong[] = {
                { .call = call_of(MESSAGE_HELLO) }, { .call = call_of(MESSAGE_HELLO) }, { .call = call_of(MESSAGE_HELLO) },
                { .call = call_of(0) }, { .call = call_of(_MESSAGE_MAX) },
        };
        size_t sizes[] = { 0, 1, sizeof(WorkerCall) - 1, sizeof(WorkerCall) + 1 };
        int fd;

        wrong[0].call.version++;
        wrong[1].call.device_id++;
        wrong[2].call.text_size = FAILURE_MAX_TEXT + 1;
        begin(PART_LOAD);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                fd = connect_worker();
                put(fd, &wrong[i].call, sizeof(WorkerCall));
                g_assert_true(is_closed(fd));
                close(fd);
        }
        wrong[0].call = call_of(MESSAGE_HELLO);
        for (size_t i = 0; i < ELEMENTSOF(sizes); i++) {
                fd = connect_worker();
                put(fd, &wrong[0], sizes[i]);
                g_assert_true(is_closed(fd));
                close(fd);
        }
        fd = connect_worker();
        g_assert_cmpint(call(fd, MESSAGE_STATISTICS).error, ==, EAGAIN);
        close(fd);
        end();
}

static void test_open(void) {
        int fd, second;

        begin(PART_SERVE);
        fd = connect_ready();
        second = connect_worker();
        put_call(fd, MESSAGE_OPEN);
        g_assert_cmpint(call(second, MESSAGE_OPEN).error, ==, EBUSY);
        g_assert_cmpint(call(second, MESSAGE_HELLO).error, ==, 0); /* answered meanwhile */
        g_assert_false(readable(fd, 50));
        go_on();
        g_assert_cmpint(get_reply(fd, MESSAGE_OPEN).error, ==, 0);
        g_assert_cmpint(call(second, MESSAGE_OPEN).error, ==, EBUSY);
        g_assert_cmpuint(call(second, MESSAGE_STATISTICS).statistics.requests, ==, 7);
        g_assert_cmpuint(call(fd, MESSAGE_STATISTICS).statistics.serving, ==, 1);
        close(fd);
        close(second);
        end();
}

static void put_resize(int fd, const char *text) {
        WorkerCall c = call_of(MESSAGE_RESIZE);

        c.text_size = (uint32_t) strlen(text);
        memcpy(c.text, text, c.text_size);
        put(fd, &c, sizeof(c));
}

static void test_resize(void) {
        static const char *const wrong[] = { "", "0", "x", "-1", "1 ", "9223372036854775808", "00000000000000000000000000000000001" };
        WorkerReply reply;
        int fd, second;

        begin(PART_RESIZE);
        fd = connect_ready();
        second = connect_worker();
        put_resize(second, "8192");
        g_assert_cmpint(get_reply(second, MESSAGE_RESIZE).error, ==, EBUSY);
        put_call(fd, MESSAGE_OPEN);
        go_on();
        g_assert_cmpint(get_reply(fd, MESSAGE_OPEN).error, ==, 0);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                put_resize(fd, wrong[i]);
                g_assert_cmpint(get_reply(fd, MESSAGE_RESIZE).error, ==, EINVAL);
        }
        put_resize(fd, "8192");
        put_resize(second, "4096"); /* one at a time */
        g_assert_cmpint(get_reply(second, MESSAGE_RESIZE).error, ==, EBUSY);
        g_assert_cmpuint(call(second, MESSAGE_HELLO).geometry.size, ==, 12345 << 9);
        g_assert_false(readable(fd, 50));
        go_on();
        reply = get_reply(fd, MESSAGE_RESIZE);
        g_assert_cmpint(reply.error, ==, 0);
        g_assert_cmpuint(reply.geometry.size, ==, 8192 + 512);
        g_assert_cmpuint(call(second, MESSAGE_HELLO).geometry.size, ==, 8192 + 512);
        put_resize(second, "16384");
        go_on();
        reply = get_reply(second, MESSAGE_RESIZE);
        g_assert_cmpint(reply.error, ==, ENOSPC);
        g_assert_nonnull(strstr(reply.text, "no more room"));
        g_assert_cmpuint(reply.geometry.size, ==, 8192 + 512);
        /* One who does not wait for the answer keeps nobody else from asking. */
        put_resize(second, "16384");
        close(second);
        go_on();
        while (call(fd, MESSAGE_HELLO).geometry.size != 16384 + 512)
                ;
        for (put_resize(fd, "32768"); readable(fd, 200); put_resize(fd, "32768")) /* it has not heard of its end yet */
                g_assert_cmpint(get_reply(fd, MESSAGE_RESIZE).error, ==, EBUSY);
        go_on();
        reply = get_reply(fd, MESSAGE_RESIZE);
        g_assert_cmpint(reply.error, ==, 0);
        g_assert_cmpuint(reply.geometry.size, ==, 32768 + 512);
        close(fd);
        end();
}

static Counters get_counters(int fd) {
        CountersReply reply;

        put_call(fd, MESSAGE_COUNTERS);
        g_assert_true(readable(fd, 10000));
        g_assert_cmpint(recv(fd, &reply, sizeof(reply), MSG_TRUNC), ==, sizeof(reply));
        g_assert_cmpuint(reply.version, ==, PROTOCOL_VERSION);
        g_assert_cmpuint(reply.type, ==, MESSAGE_COUNTERS);
        g_assert_cmpuint(reply.device_id, ==, ID);
        g_assert_cmpint(reply.error, ==, 0);
        return reply.counters;
}

/* Whatever Ruby is at: from its start on, and with a request that it does not give back. */
static void test_counters(void) {
        Counters c;
        int fd;

        begin(PART_LOAD);
        fd = connect_worker();
        c = get_counters(fd);
        g_assert_cmpuint(c.sum.requests, ==, 0);
        g_assert_cmpuint(c.sum.serving, ==, 0);
        g_assert_cmpuint(c.age_usec, ==, 0);
        close(fd);
        end();

        begin(PART_SILENT);
        fd = connect_ready();
        put_call(fd, MESSAGE_OPEN);
        go_on();
        g_assert_cmpint(get_reply(fd, MESSAGE_OPEN).error, ==, 0);
        g_usleep(2000);
        c = get_counters(fd);
        g_assert_cmpuint(c.sum.requests, ==, 7);
        g_assert_cmpuint(c.sum.serving, ==, 1);
        g_assert_cmpuint(c.errors[EIO], ==, 3);
        g_assert_cmpuint(c.latencies[OPERATION_READ][5], ==, 7);
        g_assert_cmpuint(c.gc_count, ==, 12);
        g_assert_cmpuint(c.gc_usec, ==, 34000);
        g_assert_cmpuint(c.age_usec, >=, 2000);
        g_assert_cmpuint(c.age_usec, <, 600 * USEC_PER_SEC);
        close(fd);
        end();
}

static void test_open_fails(void) {
        Failure f = FAILURE_NULL;
        WorkerReply reply;
        int fd;

        begin(PART_FAIL);
        fd = connect_ready();
        put_call(fd, MESSAGE_OPEN);
        go_on();
        reply = get_reply(fd, MESSAGE_OPEN);
        g_assert_cmpint(reply.error, ==, ENXIO);
        reply.text[reply.text_size] = 0;
        g_assert_cmpint(failure_from_text(reply.text, &f), ==, 0);
        g_assert_cmpstr(f.message, ==, "no luck");
        failure_done(&f);
        close(fd);
        end();
}

/* Who asked is gone when the answer comes. */
static void test_open_is_left(void) {
        int fd, second;

        begin(PART_SERVE);
        fd = connect_ready();
        put_call(fd, MESSAGE_OPEN);
        second = connect_worker();
        g_assert_cmpint(call(second, MESSAGE_OPEN).error, ==, EBUSY);
        close(fd);
        go_on();
        while (call(second, MESSAGE_STATISTICS).statistics.serving == 0)
                ;
        g_assert_false(readable(second, 50));
        close(second);
        end();
}

static void test_keep_code(void) {
        WorkerReply reply;
        int fd;

        begin(PART_READY);
        fd = connect_worker();
        g_assert_cmpint(call(fd, MESSAGE_KEEP_CODE).error, ==, ENOENT);
        close(fd);
        end();

        begin(PART_TRIAL);
        fd = connect_ready();
        while ((reply = call(fd, MESSAGE_HELLO)).code != CODE_ON_TRIAL)
                ;
        g_assert_cmpint(call(fd, MESSAGE_KEEP_CODE).error, ==, ENOSPC);
        reply = call(fd, MESSAGE_HELLO);
        g_assert_cmpuint(reply.code, ==, CODE_ON_TRIAL);
        reply = call(fd, MESSAGE_KEEP_CODE);
        g_assert_cmpint(reply.error, ==, 0);
        g_assert_cmpuint(reply.code, ==, CODE_KEPT);
        g_assert_cmpint(call(fd, MESSAGE_KEEP_CODE).error, ==, ENOENT);
        close(fd);
        end();
}

static int connect_trial(void) {
        int fd = connect_ready();

        while (call(fd, MESSAGE_HELLO).code != CODE_ON_TRIAL)
                ;
        return fd;
}

/* Not while a request is in the hook. */
static void test_keep_code_later(void) {
        int fd, error;

        begin(PART_TRIAL_CALL);
        fd = connect_trial();
        g_assert_cmpint(call(fd, MESSAGE_KEEP_CODE).error, ==, EAGAIN);
        g_assert_cmpint(call(fd, MESSAGE_KEEP_CODE).error, ==, EAGAIN);
        go_on();
        while ((error = call(fd, MESSAGE_KEEP_CODE).error) == EAGAIN)
                ;
        g_assert_cmpint(error, ==, ENOSPC);
        g_assert_cmpint(call(fd, MESSAGE_KEEP_CODE).error, ==, 0);
        close(fd);
        end();
}

static void test_keep_code_hang(void) {
        Failure f = FAILURE_NULL;
        WorkerReply reply;
        int fd;

        begin(PART_TRIAL_CALL);
        fd = connect_trial();
        while ((reply = call(fd, MESSAGE_KEEP_CODE)).error == EAGAIN)
                g_usleep(100000);
        g_assert_cmpint(reply.error, ==, EBUSY);
        g_assert_cmpuint(reply.text_size, <, sizeof(reply.text));
        reply.text[reply.text_size] = 0;
        g_assert_cmpint(failure_from_text(reply.text, &f), ==, 0);
        g_assert_cmpint(f.kind, ==, FAILURE_HOOK);
        g_assert_true(g_str_has_prefix(f.message, "write of 512 bytes at 8192 has been in the hook for "));
        g_assert_cmpstr(f.file, ==, "disk.rb");
        g_assert_cmpuint(f.line, ==, 7);
        failure_done(&f);
        g_assert_cmpuint(call(fd, MESSAGE_HELLO).code, ==, CODE_ON_TRIAL);
        close(fd);
        end();
}

static void test_abort(void) {
        WorkerCall c = call_of(MESSAGE_ABORT);
        _cleanup_free_ char *text = NULL;
        Failure f = FAILURE_NULL;
        int fd;

        (void) failure_set(&f, FAILURE_KERNEL, ENOSPC, "the kernel is full");
        g_assert_cmpint(failure_to_text(&f, &text), ==, 0);
        failure_done(&f);
        listen_begin();
        begin(PART_LOAD);
        fd = connect_worker();
        /* Nonsense, and too much of it, is nothing to tell. */
        memset(c.text, 'x', sizeof(c.text));
        c.text_size = sizeof(c.text);
        put(fd, &c, sizeof(c));
        c.text_size = 17;
        put(fd, &c, sizeof(c));
        c.text_size = (uint32_t) strlen(text);
        memcpy(c.text, text, c.text_size);
        put(fd, &c, sizeof(c));
        g_assert_nonnull(strstr(get_notice("STATUS=", 10000), "the kernel is full"));
        /* The worker goes on: to end it is for systemd. */
        g_assert_cmpint(call(fd, MESSAGE_HELLO).error, ==, EAGAIN);
        close(fd);
        end();
        listen_end();
}

static void test_crowd(void) {
        int fds[3 * SLOTS], opener;

        begin(PART_SERVE);
        opener = connect_ready();
        put_call(opener, MESSAGE_OPEN);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                fds[i] = connect_worker();
                g_assert_cmpint(call(fds[i], MESSAGE_HELLO).error, ==, 0);
        }
        /* Those that were silent longest had to go, and not the one that waits. */
        for (size_t i = 0; i < ELEMENTSOF(fds) - (SLOTS - 1); i++)
                g_assert_true(is_closed(fds[i]));
        for (size_t i = ELEMENTSOF(fds) - (SLOTS - 1); i < ELEMENTSOF(fds); i++)
                g_assert_cmpint(call(fds[i], MESSAGE_HELLO).error, ==, 0);
        go_on();
        g_assert_cmpint(get_reply(opener, MESSAGE_OPEN).error, ==, 0);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                close(fds[i]);
        close(opener);
        end();
}

static void test_untrusted(void) {
        int fds[100];

        begin_as(PART_LOAD, getuid() + 1, 20 * USEC_PER_SEC);
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                fds[i] = connect_worker();
        for (size_t i = 0; i < ELEMENTSOF(fds); i++) {
                g_assert_true(is_closed(fds[i]));
                close(fds[i]);
        }
        end();
}

static void flood(void) {
        uint64_t deadline = now_usec() + 10 * USEC_PER_SEC;
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s" PATH_WORKER_SOCKET, root, ID);
        if (setresuid(12345, 12345, 12345) < 0)
                _exit(1);
        while (now_usec() < deadline) {
                int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);

                (void) !connect(fd, (struct sockaddr *) &address, sizeof(address));
                close(fd);
        }
        _exit(0);
}

/* With the socket open to all, as another user would need it. */
static void test_flood(void) {
        pid_t flooder;
        char *path;

        if (geteuid() != 0)
                return;
        begin(PART_LOAD);
        path = g_strdup_printf("%s" PATH_WORKER_SOCKET, root, ID);
        g_assert_cmpint(chmod(path, 0666), ==, 0);
        flooder = fork();
        if (flooder == 0)
                flood();
        for (size_t i = 0; i < 200; i++) {
                int fd = connect_worker();

                g_assert_cmpint(call(fd, MESSAGE_HELLO).error, ==, EAGAIN);
                close(fd);
        }
        (void) kill(flooder, SIGKILL);
        (void) waitpid(flooder, NULL, 0);
        g_free(path);
        end();
}

static void test_socket_mode(void) {
        char *path = g_strdup_printf("%s" PATH_WORKER_SOCKET, root, ID);
        struct stat st;

        begin(PART_LOAD);
        g_assert_cmpint(stat(path, &st), ==, 0);
        g_assert_cmphex(st.st_mode & 0777, ==, 0660);
        g_free(path);
        end();
}

/* A queue that is lost in our own code keeps systemd from being told that all is well. */
static void test_watchdog(void) {
        int fd;

        listen_begin();
        (void) setenv("WATCHDOG_USEC", "600000", 1);
        begin(PART_SERVE);
        fd = connect_ready();
        put_call(fd, MESSAGE_OPEN);
        go_on();
        g_assert_cmpint(get_reply(fd, MESSAGE_OPEN).error, ==, 0);
        g_assert_nonnull(get_notice("WATCHDOG=1", 5000));
        atomic_store(sound, false);
        g_assert_true(get_notice("WATCHDOG=1", 700) || true); /* one that was under way */
        drain_notices();
        g_assert_null(get_notice("WATCHDOG=1", 1500));
        atomic_store(sound, true);
        g_assert_nonnull(get_notice("WATCHDOG=1", 5000));
        (void) unsetenv("WATCHDOG_USEC");
        close(fd);
        end();
        listen_end();
}

static void test_ends(void) {
        uint64_t begun;

        listen_begin();
        begin_as(PART_LOAD, getuid(), 100 * USEC_PER_MSEC);
        g_assert_cmpint(wait_for_end(), ==, EXIT_WRONG);
        g_assert_nonnull(strstr(get_notice("STATUS=", 1000), "start-timeout"));
        listen_end();
        begin(PART_STOP_EARLY);
        g_assert_cmpint(wait_for_end(), ==, EXIT_HANDED_OVER);
        begin(PART_HAND_OVER);
        g_assert_cmpint(wait_for_end(), ==, 99); /* the main thread was told */
        begun = now_usec();
        begin(PART_EXIT);
        g_assert_cmpint(wait_for_end(), ==, 42); /* the first status counts */
        g_assert_cmpuint(now_usec() - begun, <, 5 * USEC_PER_SEC);
}

static void test_stuck(void) {
        uint64_t begun = now_usec();
        int fd;

        begin(PART_STUCK);
        fd = connect_ready();
        put_call(fd, MESSAGE_OPEN);
        go_on();
        g_assert_cmpint(get_reply(fd, MESSAGE_OPEN).error, ==, 0);
        close(fd);
        g_assert_cmpint(wait_for_end(), ==, EXIT_HANDED_OVER);
        g_assert_cmpuint(now_usec() - begun, <, 6 * USEC_PER_SEC);
}

/* The connection on which it was told to serve. */
static int begin_serving(Part part) {
        int fd;

        begin(part);
        fd = connect_ready();
        put_call(fd, MESSAGE_OPEN);
        go_on();
        g_assert_cmpint(get_reply(fd, MESSAGE_OPEN).error, ==, 0);
        return fd;
}

static const StuckReply *get_stuck_reply(int fd) {
        static StuckReply reply;
        ssize_t n;

        g_assert_true(readable(fd, 10000));
        n = recv(fd, &reply, sizeof(reply), MSG_TRUNC);
        g_assert_cmpint(n, >=, (ssize_t) stuck_reply_size(0));
        g_assert_cmpint(n, ==, (ssize_t) stuck_reply_size(reply.n_requests));
        g_assert_cmpuint(reply.version, ==, PROTOCOL_VERSION);
        g_assert_cmpuint(reply.type, ==, MESSAGE_STUCK);
        g_assert_cmpuint(reply.device_id, ==, ID);
        g_assert_cmpint(reply.error, ==, 0);
        return &reply;
}

static void assert_stuck(const StuckReply *reply, const char *backtrace) {
        g_assert_cmpuint(reply->n_requests, ==, 1);
        g_assert_cmpuint(reply->requests[0].op, ==, OPERATION_WRITE);
        g_assert_cmpuint(reply->requests[0].offset, ==, 8192);
        g_assert_cmpuint(reply->requests[0].length, ==, 512);
        g_assert_cmpuint(reply->requests[0].age_usec, >=, USEC_PER_SEC);
        g_assert_cmpuint(reply->requests[0].age_usec, <, 30 * USEC_PER_SEC);
        g_assert_cmpuint(reply->requests[0].backtrace_size, ==, strlen(backtrace));
        g_assert_cmpstr(reply->requests[0].backtrace, ==, backtrace);
}

static void test_stuck_requests(void) {
        int fd = begin_serving(PART_CALL), second = connect_worker();

        put_call(fd, MESSAGE_STUCK);
        g_assert_cmpuint(get_stuck_reply(fd)->n_requests, ==, 0); /* not yet */
        g_usleep(1700 * 1000);
        put_call(fd, MESSAGE_STUCK);
        put_call(second, MESSAGE_STUCK);
        assert_stuck(get_stuck_reply(fd), "disk.rb:7:in `read'\ndisk.rb:9");
        assert_stuck(get_stuck_reply(second), "disk.rb:7:in `read'\ndisk.rb:9");
        close(fd);
        close(second);
        end();

        begin(PART_LOAD); /* there is nothing yet that could be stuck */
        fd = connect_worker();
        put_call(fd, MESSAGE_STUCK);
        g_assert_cmpuint(get_stuck_reply(fd)->n_requests, ==, 0);
        close(fd);
        end();
}

/* Whoever asks then waits a little, and nobody else does. */
static void test_stuck_silent(void) {
        int fd = begin_serving(PART_SILENT), second = connect_worker(), gone;
        uint64_t begun;

        g_usleep(1700 * 1000);
        begun = now_usec();
        put_call(fd, MESSAGE_STUCK);
        put_call(fd, MESSAGE_STUCK);
        gone = connect_worker();
        put_call(gone, MESSAGE_STUCK);
        close(gone);
        g_assert_cmpint(call(second, MESSAGE_STATISTICS).error, ==, 0);
        g_assert_cmpuint(now_usec() - begun, <, 400 * USEC_PER_MSEC);
        put_call(second, MESSAGE_STUCK);
        assert_stuck(get_stuck_reply(fd), "");
        g_assert_cmpuint(now_usec() - begun, >=, 400 * USEC_PER_MSEC);
        g_assert_cmpuint(now_usec() - begun, <, 1500 * USEC_PER_MSEC);
        assert_stuck(get_stuck_reply(second), "");
        close(fd);
        close(second);
        end();
}

/* The next worker will find who it was. */
static void check_culprits(bool expected) {
        char *path = g_strdup_printf("%s" PATH_WORKER_CULPRITS, root, ID), *text = NULL;

        g_assert_true(g_file_get_contents(path, &text, NULL, NULL) == expected);
        if (expected)
                g_assert_true(g_str_has_suffix(text, " 1\n1 8192 512 1\n"));
        (void) g_remove(path);
        g_free(path);
        g_free(text);
}

/* The last stage: the process ends, and says why. */
static void check_stuck_end(Part part, const char *cause) {
        uint64_t begun;
        char *notice;
        int fd;

        hook_timeout_usec = 200 * USEC_PER_MSEC;
        listen_begin();
        fd = begin_serving(part);
        drain_notices();
        begun = now_usec();
        atomic_store(waiting, part == PART_WAIT);
        g_assert_cmpint(wait_for_end(), ==, EXIT_CRASHED);
        g_test_message("after %.2f s", (double) (now_usec() - begun) / USEC_PER_SEC);
        g_assert_cmpuint(now_usec() - begun, >=, 2 * USEC_PER_SEC);
        g_assert_cmpuint(now_usec() - begun, <, 4 * USEC_PER_SEC);
        notice = get_notice("STATUS={", 1000);
        g_assert_nonnull(notice);
        g_assert_nonnull(strstr(notice, cause));
        g_assert_nonnull(strstr(notice, "ERRNO=110"));
        close(fd);
        listen_end();
        hook_timeout_usec = CONFIG_DEFAULT_HOOK_TIMEOUT_USEC;
        check_culprits(part != PART_WAIT);
}

static void test_stuck_ends(void) {
        check_stuck_end(PART_CALL, "write of 512 bytes at 8192");
        check_stuck_end(PART_SILENT, "C code keeps the interpreter");
        check_stuck_end(PART_WAIT, "waited for the interpreter"); /* no request is to blame */
}

/* Whatever comes, it is answered or the connection is closed, and the thread goes on. */
static void test_fuzz(void) {
        int fd = begin_serving(PART_CALL), other = -EBADF;

        for (unsigned i = 0; i < 3000; i++) {
                char packet[sizeof(WorkerCall) + 64];
                size_t size = (size_t) g_test_rand_int_range(0, sizeof(packet));
                WorkerCall c = call_of((MessageType) g_test_rand_int_range(0, _MESSAGE_MAX + 2));

                if (other < 0)
                        other = connect_worker();
                for (size_t j = 0; j < sizeof(packet); j++)
                        packet[j] = (char) g_test_rand_int();
                if (g_test_rand_bit()) {
                        c.text_size = (uint32_t) g_test_rand_int_range(0, FAILURE_MAX_TEXT + 2);
                        memcpy(c.text, packet, sizeof(c.text));
                        memcpy(packet, &c, sizeof(c));
                        size = g_test_rand_bit() ? sizeof(c) : size;
                }
                if (send(other, packet, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
                        other = safe_close(other);
        }
        safe_close(other);
        g_assert_cmpint(call(fd, MESSAGE_STATISTICS).error, ==, 0);
        g_usleep(600 * 1000);
        put_call(fd, MESSAGE_STUCK);
        (void) get_stuck_reply(fd);
        close(fd);
        end();
}

static void be_isolated(int fd, pid_t other) {
        pid_t child;
        char c;
        int r;

        if (privileges_drop() < 0)
                _exit(1);
        r = privileges_isolate();
        if (r == -EOPNOTSUPP)
                _exit(privileges_can_isolate() ? 2 : 0);
        if (r < 0)
                _exit(3);
        if (kill(getppid(), 0) == 0 || errno != EPERM || kill(other, SIGKILL) == 0 || errno != EPERM)
                _exit(4);
        child = fork();
        if (child == 0)
                for (;;)
                        pause();
        if (kill(getpid(), 0) < 0 || kill(child, SIGKILL) < 0 || waitpid(child, NULL, 0) != child)
                _exit(5);
        /* From outside it can be signalled as before. */
        (void) !write(fd, "x", 1);
        (void) !read(fd, &c, 1);
        for (;;)
                pause();
}

static void test_isolation(void) {
        pid_t pid, other;
        int fds[2], status;
        char c;

        g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), ==, 0);
        other = fork();
        if (other == 0)
                for (;;)
                        pause();
        pid = fork();
        if (pid == 0)
                be_isolated(fds[1], other);
        close(fds[1]);
        if (read(fds[0], &c, 1) == 1) {
                close(fds[0]);
                g_assert_cmpint(kill(pid, SIGUSR2), ==, 0);
                g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
                g_assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2);
        } else {
                close(fds[0]);
                g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
                g_assert_cmpint(status, ==, 0); /* this kernel can't */
        }
        g_assert_cmpint(waitpid(other, &status, WNOHANG), ==, 0);
        g_assert_cmpint(kill(other, SIGKILL), ==, 0);
        g_assert_cmpint(waitpid(other, &status, 0), ==, other);
}

static void notify_begin(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", root);
        notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        g_assert_cmpint(bind(notify_fd, (struct sockaddr *) &address, sizeof(address)), ==, 0);
        notify_path = strdup(address.sun_path);
}

static void remove_files(void) {
        static const char *const names[] = { "/run/ublk-ruby/3/worker.sock", "/run/ublk-ruby/3", "/run/ublk-ruby", "/run", "/notify", "" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char *path = g_strconcat(root, names[i], NULL);

                (void) g_remove(path);
                g_free(path);
        }
}

int main(int argc, char **argv) {
        char *directory;
        int r;

        g_test_init(&argc, &argv, NULL);
        root = g_dir_make_tmp("ublk-sv-XXXXXX", NULL);
        directory = g_strconcat(root, "/run/ublk-ruby/3", NULL);
        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_cmpint(chmod(root, 0755), ==, 0);
        config_set_root(root);
        notify_begin();
        sound = mmap(NULL, 2 * sizeof(*sound), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        g_assert_true(sound != MAP_FAILED);
        waiting = sound + 1;
        g_test_add_func("/supervisor/hello", test_hello);
        g_test_add_func("/supervisor/bad-calls", test_bad_calls);
        g_test_add_func("/supervisor/open", test_open);
        g_test_add_func("/supervisor/counters", test_counters);
        g_test_add_func("/supervisor/resize", test_resize);
        g_test_add_func("/supervisor/open-fails", test_open_fails);
        g_test_add_func("/supervisor/open-is-left", test_open_is_left);
        g_test_add_func("/supervisor/keep-code", test_keep_code);
        g_test_add_func("/supervisor/keep-code-later", test_keep_code_later);
        g_test_add_func("/supervisor/keep-code-hang", test_keep_code_hang);
        g_test_add_func("/supervisor/abort", test_abort);
        g_test_add_func("/supervisor/crowd", test_crowd);
        g_test_add_func("/supervisor/untrusted", test_untrusted);
        g_test_add_func("/supervisor/flood", test_flood);
        g_test_add_func("/supervisor/socket-mode", test_socket_mode);
        g_test_add_func("/supervisor/watchdog", test_watchdog);
        g_test_add_func("/supervisor/ends", test_ends);
        g_test_add_func("/supervisor/stuck", test_stuck);
        g_test_add_func("/supervisor/stuck-requests", test_stuck_requests);
        g_test_add_func("/supervisor/stuck-silent", test_stuck_silent);
        g_test_add_func("/supervisor/stuck-ends", test_stuck_ends);
        g_test_add_func("/supervisor/fuzz", test_fuzz);
        g_test_add_func("/supervisor/isolation", test_isolation);
        r = g_test_run();
        remove_files();
        free(notify_path);
        g_free(directory);
        g_free(root);
        return r;
}
