/* SPDX-License-Identifier: MIT */

/* What a worker answers, from its start on. */

#include "tests/unit/supervisor-rig.h"

#include "service/paths.h"

#include <glib.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define SLOTS 8 /* connections that a supervisor keeps */

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

int main(int argc, char **argv) {
        int r;

        g_test_init(&argc, &argv, NULL);
        rig_set_up();
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
        add_supervisor_end_tests();
        r = g_test_run();
        rig_tear_down();
        return r;
}
