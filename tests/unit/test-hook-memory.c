/* SPDX-License-Identifier: MIT */

/* UBLK::Memory in a worker: where it gets its bytes from, and when it may be asked for. */

#include "test-hook.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MIB (UINT64_C(1) << 20)

#define DISK(initialize) "class Disk < UBLK::Target\n" \
        "  recovery :reissue\n" \
        "  def initialize\n" \
        "    super(size: 1 << 20)\n" \
             initialize \
        "  end\n" \
        "  def read(offset, length) = @data.read(offset, length)\n" \
        "  def write(offset, data) = @data.write(offset, data)\n" \
        "  def discard(offset, length) = UBLK::Memory.new(1, name: 'late')\n" \
        "end\n"

/* Stands for the descriptor store. */
static struct {
        int fds[MEMORIES_MAX];
        char names[MEMORIES_MAX][MEMORY_NAME_MAX + 1];
        size_t n, n_found;
        int error;
} store;

static int on_memory(void *userdata, const char *name, uint64_t size, int *ret_fd, Failure *ret_failure) {
        struct stat st;

        g_assert_true(userdata == &rig);
        if (store.error < 0)
                return store.error == -ENODATA ? failure_set(ret_failure, FAILURE_WORKER, ENODATA, "it is lost; make it anew") : store.error;
        for (size_t i = 0; i < store.n; i++)
                if (streq(store.names[i], name)) {
                        g_assert_cmpint(fstat(store.fds[i], &st), ==, 0);
                        g_assert_cmpuint((uint64_t) st.st_size, ==, size);
                        *ret_fd = dup(store.fds[i]);
                        store.n_found++;
                        return 1;
                }
        g_assert_cmpuint(store.n, <, MEMORIES_MAX);
        g_assert_cmpint(memory_file_create(name, size, &store.fds[store.n]), ==, 0);
        g_strlcpy(store.names[store.n], name, sizeof(store.names[0]));
        *ret_fd = dup(store.fds[store.n++]);
        return 0;
}

static void store_end(void) {
        while (store.n > 0)
                close(store.fds[--store.n]);
        store.n_found = 0;
        store.error = 0;
}

static const HookSettings managed = { .memory = on_memory };

static int load(const char *body) {
        return rig_load_with("disk", body, NULL, &managed);
}

/* The next one, or the same script loaded again, has what the last one wrote. */
static void test_kept(void) {
        const char *body = DISK("@data = UBLK::Memory.new(1 << 20)\n @more = UBLK::Memory.new(4096, name: :index)\n");
        g_autofree uint8_t *buffer = g_malloc(MIB);

        g_assert_cmpint(load(body), ==, 0);
        g_assert_true(rig.geometry.in_memory);
        g_assert_cmpuint(store.n, ==, 2);
        g_assert_cmpstr(store.names[0], ==, "data");
        g_assert_cmpstr(store.names[1], ==, "index");
        memset(buffer, 'x', MIB);
        g_assert_cmpint(rig_request(OPERATION_WRITE, 0, MIB, buffer), ==, MIB);
        g_assert_cmpint(load(body), ==, 0);
        g_assert_cmpuint(store.n_found, ==, 2);
        memset(buffer, 0, MIB);
        g_assert_cmpint(rig_request(OPERATION_READ, 0, MIB, buffer), ==, MIB);
        for (size_t i = 0; i < MIB; i++)
                g_assert_cmpint(buffer[i], ==, 'x');
        store_end();
        g_assert_cmpint(load(DISK("@data = nil\n")), ==, 0);
        g_assert_false(rig.geometry.in_memory);
}

static void test_refused(void) {
        store.error = -ENODATA;
        g_assert_cmpint(load(DISK("@data = UBLK::Memory.new(1 << 20)\n")), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("it is lost; make it anew"));
        g_assert_cmpstr(rig.failure.class_name, ==, NULL);
        g_assert_cmpuint(rig.failure.line, ==, 5);
        store.error = -EMFILE;
        g_assert_cmpint(load(DISK("@data = UBLK::Memory.new(1 << 20)\n")), ==, -EMFILE);
        store_end();
}

/* Two of one name would be the same bytes; too many would not fit into the store. */
static void test_names(void) {
        g_assert_cmpint(load(DISK("@data = UBLK::Memory.new(1 << 20)\n UBLK::Memory.new(1 << 20)\n")), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("two memories \"data\""));
        store_end();
        g_assert_cmpint(load(DISK("UBLK::Memory::COUNT_MAX.times { |i| @data = UBLK::Memory.new(1 << 20, name: i.to_s) }\n")), ==, 0);
        store_end();
        g_assert_cmpint(load(DISK("17.times { |i| @data = UBLK::Memory.new(1 << 20, name: i.to_s) }\n")), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("at most 16 memories"));
        store_end();
}

/* What is asked for later can't be told from what was lost. */
static void test_late(void) {
        g_assert_cmpint(load(DISK("@data = UBLK::Memory.new(1 << 20)\n")), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_DISCARD, 0, 4096, NULL), ==, -EIO);
        rig_assert_report(1, EIO, NULL, "is for initialize");
        g_assert_cmpuint(store.n, ==, 1);
        store_end();
        /* Where nobody keeps it, it is memory like any other. */
        g_assert_cmpint(rig_load("disk", DISK("@data = UBLK::Memory.new(1 << 20)\n"), NULL), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_DISCARD, 0, 4096, NULL), ==, 0);
}

/* Of what there is no mapping in this process yet; and only of that. */
static void test_locked(void) {
        HookSettings locked = managed;
        uint8_t byte = 1;
        struct stat before, after;
        int fd;

        locked.mlock = true;
        g_assert_cmpint(memory_file_create("data", MIB, &fd), ==, 0);
        g_assert_cmpint(pwrite(fd, &byte, 1, 3 * 4096), ==, 1);
        g_assert_cmpint(pwrite(fd, &byte, 1, MIB - 1), ==, 1);
        g_assert_cmpint(fstat(fd, &before), ==, 0);
        store.fds[0] = fd;
        g_strlcpy(store.names[0], "data", sizeof(store.names[0]));
        store.n = 1;
        g_assert_cmpint(rig_load_with("disk", DISK("@data = UBLK::Memory.new(1 << 20)\n"), NULL, &locked), ==, 0);
        g_assert_cmpint(fstat(fd, &after), ==, 0);
        g_assert_cmpint(before.st_blocks, ==, 16);
        g_assert_cmpint(after.st_blocks, ==, before.st_blocks);
        store_end();
}

/* Nobody who has the descriptor can make an access fail. */
static void test_sealed(void) {
        int fd;

        g_assert_cmpint(memory_file_create("data", 10000, &fd), ==, 0);
        g_assert_true(memory_file_is_one(fd));
        g_assert_cmpint(ftruncate(fd, 0), <, 0);
        g_assert_cmpint(ftruncate(fd, 20000), <, 0);
        g_assert_cmpint(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), <, 0);
        close(fd);
        fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        g_assert_false(memory_file_is_one(fd));
        close(fd);
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        g_assert_false(memory_file_is_one(fd));
        close(fd);
        g_assert_cmpint(memory_file_create("data", UINT64_MAX, &fd), <, 0);
}

void add_memory_tests(void) {
        g_test_add_func("/hook/memory/kept", test_kept);
        g_test_add_func("/hook/memory/refused", test_refused);
        g_test_add_func("/hook/memory/names", test_names);
        g_test_add_func("/hook/memory/late", test_late);
        g_test_add_func("/hook/memory/locked", test_locked);
        g_test_add_func("/hook/memory/sealed", test_sealed);
}
