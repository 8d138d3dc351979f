/* SPDX-License-Identifier: MIT */
#include "tests/unit/supervisor-rig.h"

#include "service/last-word.h"
#include "service/paths.h"

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

char *root;
static pid_t worker;
static int to_worker = -1, notify_fd = -1;
static char *notify_path;
_Atomic bool *sound, *waiting;

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

uint64_t hook_timeout_usec = CONFIG_DEFAULT_HOOK_TIMEOUT_USEC;

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
        last_word_begin(ID);
        if (supervisor_start(config, EXIT_WRONG, trusted, &s) < 0)
                _exit(98);
        (void) !write(started, "x", 1);
        act(s, config, part, fd);
        for (;;)
                step(fd);
}

void begin_as(Part part, uid_t trusted, uint64_t start_timeout_usec) {
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

void begin(Part part) {
        begin_as(part, getuid(), 20 * USEC_PER_SEC);
}

void go_on(void) {
        g_assert_cmpint(write(to_worker, "x", 1), ==, 1);
}

int wait_for_end(void) {
        int status;

        g_assert_cmpint(waitpid(worker, &status, 0), ==, worker);
        to_worker = safe_close(to_worker);
        g_assert_true(WIFEXITED(status));
        /* What it ends with by its own decision is believed. */
        g_assert_cmpint(last_word_judge(ID, WEXITSTATUS(status)), ==, WEXITSTATUS(status));
        return WEXITSTATUS(status);
}

/* It is alive, and what a sanitizer has to say is heard. */
void end(void) {
        to_worker = safe_close(to_worker);
        g_assert_cmpint(wait_for_end(), ==, 0);
}

int connect_worker(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s" PATH_WORKER_SOCKET, root, ID);
        g_assert_cmpint(connect(fd, (struct sockaddr *) &address, sizeof(address)), ==, 0);
        return fd;
}

WorkerCall call_of(MessageType type) {
        return (WorkerCall) { .version = PROTOCOL_VERSION, .type = type, .device_id = ID };
}

void put(int fd, const void *data, size_t size) {
        g_assert_cmpint(send(fd, data, size, MSG_NOSIGNAL), ==, (ssize_t) size);
}

void put_call(int fd, MessageType type) {
        WorkerCall call = call_of(type);

        put(fd, &call, sizeof(call));
}

bool readable(int fd, unsigned msec) {
        return poll(&(struct pollfd) { .fd = fd, .events = POLLIN }, 1, (int) msec) > 0;
}

WorkerReply get_reply(int fd, MessageType type) {
        WorkerReply reply;

        g_assert_true(readable(fd, 10000));
        g_assert_cmpint(recv(fd, &reply, sizeof(reply), MSG_TRUNC), ==, sizeof(reply));
        g_assert_cmpuint(reply.version, ==, PROTOCOL_VERSION);
        g_assert_cmpuint(reply.type, ==, type);
        g_assert_cmpuint(reply.device_id, ==, ID);
        return reply;
}

WorkerReply call(int fd, MessageType type) {
        put_call(fd, type);
        return get_reply(fd, type);
}

/* Connected, with the hook built. */
int connect_ready(void) {
        int fd = connect_worker();

        while (call(fd, MESSAGE_HELLO).error == EAGAIN)
                ;
        return fd;
}

bool is_closed(int fd) {
        char c;

        g_assert_true(readable(fd, 10000));
        return recv(fd, &c, 1, 0) <= 0;
}

/* The next message to systemd that begins so. */
char *get_notice(const char *prefix, unsigned msec) {
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

void drain_notices(void) {
        (void) get_notice("\n", 0);
}

/* Nothing reads the others' notices, of which the socket takes only a few. */
void listen_begin(void) {
        drain_notices();
        (void) setenv("NOTIFY_SOCKET", notify_path, 1);
}

void listen_end(void) {
        (void) unsetenv("NOTIFY_SOCKET");
}

/* The connection on which it was told to serve. */
int begin_serving(Part part) {
        int fd;

        begin(part);
        fd = connect_ready();
        put_call(fd, MESSAGE_OPEN);
        go_on();
        g_assert_cmpint(get_reply(fd, MESSAGE_OPEN).error, ==, 0);
        return fd;
}

static void notify_begin(void) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };

        (void) snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", root);
        notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        g_assert_cmpint(bind(notify_fd, (struct sockaddr *) &address, sizeof(address)), ==, 0);
        notify_path = strdup(address.sun_path);
}

void rig_set_up(void) {
        g_autofree char *directory = NULL;

        root = g_dir_make_tmp("ublk-sv-XXXXXX", NULL);
        directory = g_strconcat(root, "/run/ublk-ruby/3", NULL);
        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_cmpint(chmod(root, 0755), ==, 0);
        config_set_root(root);
        notify_begin();
        sound = mmap(NULL, 2 * sizeof(*sound), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        g_assert_true(sound != MAP_FAILED);
        waiting = sound + 1;
}

void rig_tear_down(void) {
        static const char *const names[] = { "/run/ublk-ruby/3/worker.sock", "/run/ublk-ruby/3", "/run/ublk-ruby", "/run", "/notify", "" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                g_autofree char *path = g_strconcat(root, names[i], NULL);

                (void) g_remove(path);
        }
        free(notify_path);
        g_free(root);
}
