/* SPDX-License-Identifier: MIT */

/* How a worker ends, and what keeps it from its work: the watchdog, and a hook that does not give a request back. */

#include "tests/unit/supervisor-rig.h"

#include "service/paths.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <sys/socket.h>

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

/* Whoever asks then waits a little, and nobody else does. False if this machine was too busy to tell. */
static bool is_waited_for(void) {
        int fd = begin_serving(PART_SILENT), second = connect_worker(), gone;
        uint64_t begun, others;

        g_usleep(1700 * 1000);
        begun = now_usec();
        put_call(fd, MESSAGE_STUCK);
        put_call(fd, MESSAGE_STUCK);
        gone = connect_worker();
        put_call(gone, MESSAGE_STUCK);
        close(gone);
        g_assert_cmpint(call(second, MESSAGE_STATISTICS).error, ==, 0);
        others = now_usec() - begun;
        put_call(second, MESSAGE_STUCK);
        assert_stuck(get_stuck_reply(fd), "");
        g_assert_cmpuint(now_usec() - begun, >=, 400 * USEC_PER_MSEC);
        assert_stuck(get_stuck_reply(second), "");
        close(fd);
        close(second);
        end();
        return others < 400 * USEC_PER_MSEC;
}

static void test_stuck_silent(void) {
        for (unsigned i = 0; i < 5; i++)
                if (is_waited_for())
                        return;
        g_test_fail();
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

void add_supervisor_end_tests(void) {
        g_test_add_func("/supervisor/watchdog", test_watchdog);
        g_test_add_func("/supervisor/ends", test_ends);
        g_test_add_func("/supervisor/stuck", test_stuck);
        g_test_add_func("/supervisor/stuck-requests", test_stuck_requests);
        g_test_add_func("/supervisor/stuck-silent", test_stuck_silent);
        g_test_add_func("/supervisor/stuck-ends", test_stuck_ends);
        g_test_add_func("/supervisor/fuzz", test_fuzz);
}
