/* SPDX-License-Identifier: MIT */

/* What a worker keeps for the next one, with a thread in systemd's place and each worker a process of its own. */

#include "service/memories.h"

#include "tests/unit/test-notify.h"

#include <glib.h>
#include <sys/stat.h>

#define FIRST "memory-5-"

static Store store;
static Memories memories;
static DeviceConfig *config;
static Failure failure;

/* A worker of the device that was made at the time created; known: it was live before. */
static void begin(uint64_t created, bool known) {
        config = device_config_new(3);
        config->name = strdup("disk0");
        config->created_usec = created;
        g_assert_cmpint(store_open(&store), ==, 0);
        memories_open(&memories, &store, config, known);
}

static int get(const char *name, uint64_t size, int *ret_fd) {
        failure_done(&failure);
        return memories_get(&memories, name, size, ret_fd, &failure);
}

static void end(void) {
        failure_done(&failure);
        failure_done(&memories.failure);
        device_config_free(config);
}

static void put(int fd, const char *text) {
        g_assert_cmpint(pwrite(fd, text, strlen(text), 0), ==, (ssize_t) strlen(text));
        close(fd);
}

static void check_text(int fd, const char *text) {
        char got[16] = "";

        g_assert_cmpint(pread(fd, got, strlen(text), 0), ==, (ssize_t) strlen(text));
        g_assert_cmpstr(got, ==, text);
        close(fd);
}

static void be_first(void) {
        int fd;

        begin(5, false);
        g_assert_cmpint(get("data", 8192, &fd), ==, 0);
        check_text(fd, "");
        g_assert_cmpint(get("index", 100, &fd), ==, 0);
        put(fd, "index");
        g_assert_cmpint(get("data", 8192, &fd), ==, 1); /* when the script is loaded once more */
        put(fd, "data");
        end();
}

static void be_second(void) {
        int fd;

        begin(5, true);
        g_assert_cmpint(get("data", 8192, &fd), ==, 1);
        check_text(fd, "data");
        g_assert_cmpint(get("index", 100, &fd), ==, 1);
        check_text(fd, "index");
        g_assert_false(memories.lost);
        end();
}

static void test_kept(void) {
        notify_start();
        notify_run(be_first);
        /* Once each, and nothing again when they come back. */
        g_assert_cmpstr(notify_log(), ==, "+" FIRST "data +" FIRST "index ");
        for (int i = 0; i < 3; i++)
                notify_run(be_second);
        g_assert_cmpstr(notify_log(), ==, "");
        notify_stop();
}

static void be_wrong(void) {
        int fd;

        begin(5, true);
        g_assert_cmpint(get("data", 4096, &fd), ==, -ESTALE);
        g_assert_nonnull(strstr(failure.message, "8192 bytes"));
        g_assert_nonnull(strstr(failure.message, "asks for 4096"));
        /* The hook is wrong, not the store: what there is must not be given up for it. */
        g_assert_cmpint(get("more", 4096, &fd), ==, -ENODATA);
        g_assert_nonnull(strstr(failure.message, "it has data, index"));
        g_assert_false(memories.lost);
        end();
}

static void test_another_hook(void) {
        notify_start();
        notify_run(be_first);
        notify_run(be_wrong);
        notify_run(be_second);
        notify_stop();
}

static void be_robbed(void) {
        int fd;

        begin(5, true);
        g_assert_cmpint(get("data", 8192, &fd), ==, -ENODATA);
        g_assert_true(memories.lost);
        g_assert_nonnull(strstr(failure.message, "\"data\" of disk0 is lost"));
        g_assert_cmpstr(memories.failure.message, ==, failure.message);
        end();
}

/* Never an empty one in its place: again and again. */
static void test_lost(void) {
        notify_start();
        notify_run(be_robbed);
        notify_run(be_robbed);
        g_assert_cmpstr(notify_log(), ==, "");
        notify_stop();
}

/* The next device of this id, and of this name. */
static void be_another(void) {
        int fd;

        begin(6, false);
        g_assert_cmpint(get("data", 8192, &fd), ==, 0);
        check_text(fd, "");
        end();
}

static void be_another_known(void) {
        int fd;

        begin(6, true);
        g_assert_cmpint(get("data", 8192, &fd), ==, -ENODATA);
        end();
}

static void test_of_another_device(void) {
        notify_start();
        notify_run(be_first);
        (void) notify_log();
        notify_run(be_another);
        g_assert_cmpstr(notify_log(), ==, "-" FIRST "data -" FIRST "index +memory-6-data ");
        notify_stop();
        notify_start();
        notify_run(be_first);
        notify_run(be_another_known);
        g_assert_cmpstr(notify_names(), ==, "");
        notify_stop();
}

static void be_stopped(void) {
        int fd;

        begin(5, true);
        g_assert_cmpint(get("data", 8192, &fd), ==, 1);
        close(fd);
        store_clear(&store);
        g_assert_cmpint(get("data", 8192, &fd), ==, -ENODATA);
        end();
}

/* Its device is deleted: the one that takes its place begins with nothing, even in the same unit. */
static void test_stopped(void) {
        notify_start();
        notify_run(be_first);
        notify_run(be_stopped);
        g_assert_cmpstr(notify_names(), ==, "");
        notify_run(be_first);
        notify_stop();
}

static void put_something_else(void) {
        int fd;

        begin(5, false);
        g_assert_cmpint(store_add(&store, FIRST "data", dup(STDERR_FILENO)), ==, 0);
        g_assert_cmpint(store_add(&store, "code-1", dup(STDERR_FILENO)), ==, 0);
        g_assert_cmpint(get("data", 8192, &fd), ==, -EBADF);
        end();
}

static void find_something_else(void) {
        int fd;

        begin(5, true);
        g_assert_cmpint(get("data", 8192, &fd), ==, -EBADF);
        g_assert_cmpint(store_find(&store, "code-1"), >=, 0); /* is not ours to judge */
        end();
}

static void test_not_a_memory(void) {
        notify_start();
        notify_run(put_something_else);
        notify_run(find_something_else);
        notify_stop();
}

/* Nobody would keep it. */
static void test_without_systemd(void) {
        int fd;

        begin(5, false);
        g_assert_cmpint(get("data", 8192, &fd), ==, -ENOTCONN);
        g_assert_nonnull(strstr(failure.message, "would be lost when the worker dies"));
        g_assert_cmpint(get("data", UINT64_MAX, &fd), <, 0);
        end();
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        (void) unsetenv("NOTIFY_SOCKET");
        g_test_add_func("/memories/kept", test_kept);
        g_test_add_func("/memories/another-hook", test_another_hook);
        g_test_add_func("/memories/lost", test_lost);
        g_test_add_func("/memories/of-another-device", test_of_another_device);
        g_test_add_func("/memories/stopped", test_stopped);
        g_test_add_func("/memories/not-a-memory", test_not_a_memory);
        g_test_add_func("/memories/without-systemd", test_without_systemd);
        return g_test_run();
}
