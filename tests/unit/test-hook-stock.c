/* SPDX-License-Identifier: MIT */

/* The stock hooks through the real binding, beside a shadow copy in C. */

#include "test-hook.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>

#define DISK_SIZE (4 << 20)
#define REQUEST_MAX (1536 << 10)
#define BLOCK 512

static void fill(uint8_t *buffer, size_t n) {
        for (size_t i = 0; i < n; i++)
                buffer[i] = (uint8_t) g_random_int();
}

/* One random operation on the disk and on its shadow. */
static void step(uint8_t *shadow, uint8_t *buffer) {
        static const uint8_t operations[] = { OPERATION_READ, OPERATION_READ, OPERATION_WRITE, OPERATION_WRITE, OPERATION_DISCARD,
                                              OPERATION_WRITE_ZEROES, OPERATION_FLUSH };
        uint8_t op = operations[g_random_int_range(0, G_N_ELEMENTS(operations))];
        size_t max = g_random_boolean() ? REQUEST_MAX : 16 * BLOCK;
        size_t offset = (size_t) g_random_int_range(0, DISK_SIZE / BLOCK) * BLOCK;
        size_t wanted = (size_t) g_random_int_range(1, (int) (max / BLOCK) + 1) * BLOCK;
        size_t length = MIN(wanted, DISK_SIZE - offset);
        bool moves = op == OPERATION_READ || op == OPERATION_WRITE;

        if (op == OPERATION_WRITE) {
                fill(buffer, length);
                memcpy(shadow + offset, buffer, length);
        } else if (op == OPERATION_DISCARD || op == OPERATION_WRITE_ZEROES)
                memset(shadow + offset, 0, length);
        g_assert_cmpint(rig_request(op, offset, op == OPERATION_FLUSH ? 0 : length, buffer), ==, moves ? (int) length : 0);
        if (op == OPERATION_READ)
                g_assert_cmpmem(buffer, length, shadow + offset, length);
}

static void run_against_shadow(uint8_t *shadow) {
        g_autofree uint8_t *buffer = g_malloc(REQUEST_MAX);
        unsigned steps = mode_is_on() ? 100 : 400;

        for (unsigned i = 0; i < steps; i++)
                step(shadow, buffer);
        for (size_t at = 0; at < DISK_SIZE; at += DISK_SIZE / 4) {
                g_assert_cmpint(rig_request(OPERATION_READ, at, DISK_SIZE / 4, buffer), ==, DISK_SIZE / 4);
                g_assert_cmpmem(buffer, DISK_SIZE / 4, shadow + at, DISK_SIZE / 4);
        }
        g_assert_cmpuint(rig.n_reports, ==, 0);
}

static void test_memory(void) {
        g_autofree uint8_t *shadow = g_malloc0(DISK_SIZE);

        g_assert_cmpint(rig_load_stock("memory", (const char *[]) { "size", "t", "4194304", NULL }), ==, 0);
        g_assert_cmpuint(rig.geometry.size, ==, DISK_SIZE);
        g_assert_cmpuint(rig.geometry.recovery, ==, RECOVERY_REISSUE);
        g_assert_true(rig.geometry.in_memory);
        g_assert_true(rig.geometry.can_discard && rig.geometry.can_write_zeroes);
        run_against_shadow(shadow);
}

static void test_memory_is_sparse(void) {
        uint8_t block[BLOCK] = { 1 };

        g_assert_cmpint(rig_load_stock("memory", (const char *[]) { "size", "s", "16T", NULL }), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_WRITE, (UINT64_C(16) << 40) - BLOCK, BLOCK, block), ==, BLOCK);
        g_assert_cmpint(rig_request(OPERATION_READ, (UINT64_C(16) << 40) - BLOCK, BLOCK, block), ==, BLOCK);
        g_assert_cmpint(block[0], ==, 1);
        g_assert_cmpint(rig_load_stock("memory", (const char *[]) { "size", "s", "2E", NULL }), ==, -ENOMEM);
        rig_assert_failure(FAILURE_HOOK, WORDS("so much can't be mapped"));
}

static char *make_image(size_t size) {
        char *path = g_build_filename(rig.directory, "image", NULL);
        int fd;

        (void) g_remove(path); /* of another case, with other rights */
        fd = g_open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);

        g_assert_cmpint(fd, >=, 0);
        g_assert_cmpint(ftruncate(fd, (off_t) size), ==, 0);
        g_close(fd, NULL);
        return path;
}

static void test_file(void) {
        g_autofree uint8_t *shadow = g_malloc0(DISK_SIZE);
        g_autofree char *path = make_image(DISK_SIZE);
        g_autofree char *contents = NULL;
        gsize n;

        g_assert_cmpint(rig_load_stock("file", (const char *[]) { "path", "s", path, NULL }), ==, 0);
        g_assert_cmpuint(rig.geometry.size, ==, DISK_SIZE);
        g_assert_cmpuint(rig.geometry.recovery, ==, RECOVERY_REISSUE);
        run_against_shadow(shadow);
        g_assert_true(g_file_get_contents(path, &contents, &n, NULL));
        g_assert_cmpmem(contents, n, shadow, DISK_SIZE);
}

static void test_file_grows(void) {
        g_autofree char *path = make_image(1000);
        g_autofree uint8_t *shadow = g_malloc0(DISK_SIZE);

        g_assert_cmpint(rig_load_stock("file", (const char *[]) { "path", "s", path, NULL }), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("multiple of 512", "1000 is not"));
        g_assert_cmpint(rig_load_stock("file", (const char *[]) { "path", "s", path, "size", "s", "4M", NULL }), ==, 0);
        run_against_shadow(shadow);
}

static void test_file_frees_blocks(void) {
        g_autofree char *path = make_image(DISK_SIZE);
        g_autofree uint8_t *buffer = g_malloc0(DISK_SIZE);
        struct stat before, after;

        g_assert_cmpint(rig_load_stock("file", (const char *[]) { "path", "s", path, NULL }), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_WRITE, 0, DISK_SIZE, buffer), ==, DISK_SIZE);
        g_assert_cmpint(g_stat(path, &before), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_DISCARD, 0, DISK_SIZE, NULL), ==, 0);
        g_assert_cmpint(g_stat(path, &after), ==, 0);
        g_assert_cmpint(after.st_blocks, <, before.st_blocks);
        g_assert_cmpint(after.st_size, ==, before.st_size);
}

static void assert_no_image(const char *path, int error, const char *word) {
        g_assert_cmpint(rig_load_stock("file", (const char *[]) { "path", "s", path, NULL }), ==, -error);
        rig_assert_failure(FAILURE_HOOK, WORDS(path, word));
}

static void test_file_remedies(void) {
        g_autofree char *path = make_image(DISK_SIZE);

        assert_no_image("/srv/no/such.img", ENOENT, "truncate -s SIZE /srv/no/such.img");
        assert_no_image("/home/someone/disk.img", ENOENT, "[Service] and ProtectHome=no into /etc/systemd/system/ublk-ruby-device@.service.d/");
        assert_no_image("/tmp/no-such.img", ENOENT, "truncate -s SIZE /tmp/no-such.img; one in /tmp or /var/tmp will not do");
        assert_no_image("/dev/null", EIO, "neither a file nor a block device");
        assert_no_image("/sys/kernel/no-such", ENOENT, "truncate");
        if (geteuid() == 0)
                return;
        g_assert_cmpint(g_chmod(path, 0), ==, 0);
        g_assert_cmpint(rig_load_stock("file", (const char *[]) { "path", "s", path, NULL }), ==, -EACCES);
}

static void test_file_read_only(void) {
        g_autofree char *path = make_image(DISK_SIZE), *script = g_build_filename(g_getenv("UBLK_RUBY_HOOK_PATH"), "file.rb", NULL);
        HookSettings read_only = { .read_only = true };

        g_assert_cmpint(g_chmod(path, 0400), ==, 0);
        g_free(rig.script);
        rig.script = g_steal_pointer(&script);
        g_assert_cmpint(rig_load_with("file", NULL, (const char *[]) { "path", "s", path, NULL }, &read_only), ==, 0);
        g_assert_true(rig.geometry.read_only);
}

static void test_null(void) {
        g_autofree uint8_t *buffer = g_malloc(2 << 20);

        g_assert_cmpint(rig_load_stock("null", (const char *[]) { "size", "s", "1T", NULL }), ==, 0);
        g_assert_cmpuint(rig.geometry.recovery, ==, RECOVERY_REISSUE);
        for (size_t length = 512; length <= 2 << 20; length *= 2) {
                memset(buffer, 1, length);
                g_assert_cmpint(rig_request(OPERATION_WRITE, 0, length, buffer), ==, length);
                g_assert_cmpint(rig_request(OPERATION_READ, 0, length, buffer), ==, length);
                for (size_t i = 0; i < length; i++)
                        g_assert_cmpint(buffer[i], ==, 0);
        }
        g_assert_cmpint(rig_request(OPERATION_DISCARD, 0, 1 << 20, NULL), ==, 0);
}

static void measure(const char *name, uint8_t op, size_t length) {
        enum { BATCH = 32 };
        g_autofree uint8_t *buffer = g_malloc0(length);
        unsigned batches = 200000 / BATCH;
        Request requests[BATCH];
        gint64 start = g_get_monotonic_time();

        for (unsigned i = 0; i < batches; i++) {
                for (unsigned j = 0; j < BATCH; j++)
                        rig_fill(&requests[j], op, (uint64_t) g_random_int_range(0, 16384) * 4096, length, buffer);
                rig_serve(requests, BATCH);
                hook_server(rig.hook)->tidy(rig.hook);
        }
        g_assert_cmpuint(rig.n_reports, ==, 0);
        g_test_minimized_result((double) (g_get_monotonic_time() - start) * 1000 / (batches * BATCH), "%s %s %zu: %.0f ns", name,
                                operation_to_string(op), length, (double) (g_get_monotonic_time() - start) * 1000 / (batches * BATCH));
}

static void measure_both(const char *name) {
        measure(name, OPERATION_WRITE, 4096); /* before the reads, so that there is something to read */
        measure(name, OPERATION_WRITE, 4096);
        measure(name, OPERATION_READ, 4096);
}

/* `test-hook -m perf -p /hook/stock/speed`: ns per 4 KiB request, batches of 32, 64 MiB, random offsets. */
static void test_speed(void) {
        g_autofree char *path = make_image(64 << 20);

        g_assert_cmpint(rig_load_stock("null", (const char *[]) { "size", "s", "64M", NULL }), ==, 0);
        measure_both("null");
        g_assert_cmpint(rig_load_stock("memory", (const char *[]) { "size", "s", "64M", NULL }), ==, 0);
        measure_both("memory");
        g_assert_cmpint(rig_load_stock("file", (const char *[]) { "path", "s", path, NULL }), ==, 0);
        measure_both("file");
}

/* 0 or a negative errno; *bytes becomes what the hook made of it. */
static int resize(uint64_t *bytes) {
        Request request, *list[] = { &request };
        const Server *server = hook_server(rig.hook);

        rig_fill(&request, OPERATION_RESIZE, 0, *bytes, NULL);
        request.transport = NULL;
        server->serve(server->userdata, list, 1);
        *bytes = request.length;
        return request.result;
}

static void test_resize(void) {
        g_autofree char *path = g_build_filename(rig.directory, "resized.img", NULL);
        uint64_t bytes = 8192;
        uint8_t block[512];
        GStatBuf st;

        g_assert_true(g_file_set_contents(path, "data", 4, NULL));
        g_assert_cmpint(rig_load_stock("file", (const char *[]) { "path", "s", path, "size", "t", "4096", NULL }), ==, 0);
        g_assert_true(rig.geometry.can_resize);
        g_assert_true(rig.geometry.takes_size);
        g_assert_cmpint(resize(&bytes), ==, 0);
        g_assert_cmpuint(bytes, ==, 8192);
        g_assert_cmpint(g_stat(path, &st), ==, 0);
        g_assert_cmpint(st.st_size, ==, 8192);
        memset(block, 'x', sizeof(block));
        g_assert_cmpint(rig_request(OPERATION_WRITE, 7680, sizeof(block), block), ==, sizeof(block));
        bytes = 4096;
        g_assert_cmpint(resize(&bytes), ==, 0);
        g_assert_cmpint(g_stat(path, &st), ==, 0);
        g_assert_cmpint(st.st_size, ==, 4096);
        g_assert_cmpint(rig_request(OPERATION_READ, 0, sizeof(block), block), ==, sizeof(block));
        g_assert_cmpmem(block, 4, "data", 4);
        bytes = 4000; /* no multiple of the block size */
        g_assert_cmpint(resize(&bytes), ==, -EIO);
        rig_assert_report(1, EIO, "UBLK::ContractError", "resize returned 4000: size must be a multiple of 512");
        /* What a client sends is none, whatever its number. */
        g_assert_cmpint(rig_request(OPERATION_RESIZE, 0, 8192, block), ==, -EOPNOTSUPP);
        (void) g_unlink(path);

        g_assert_cmpint(rig_load_stock("memory", (const char *[]) { "size", "t", "4096", NULL }), ==, 0);
        g_assert_false(rig.geometry.can_resize);
        g_assert_true(rig.geometry.takes_size);
        bytes = 8192;
        g_assert_cmpint(resize(&bytes), ==, -EOPNOTSUPP);
        g_assert_cmpuint(rig.n_reports, ==, 0);
}

/* What a hook may answer, and what is made of that. */
static void test_resize_answers(void) {
        static const struct {
                const char *method;
                int result;
                uint64_t size; /* of a result that is 0 */
                const char *report;
        } cases[] = {
                { "def resize(bytes) = bytes", 0, 8192, NULL },
                { "def resize(bytes) = bytes + 512", 0, 8704, NULL },
                { "def resize(bytes) = -28", -ENOSPC, 0, "resize returned -28" },
                { "def resize(bytes) = raise(Errno::EDQUOT)", -EDQUOT, 0, "Disk quota exceeded" },
                { "def resize(bytes) = nil", -EIO, 0, "must return the new size, and returned nil" },
                { "def resize(bytes) = 1 << 70", -EIO, 0, "below 2^63" },
                { "def resize(bytes) = 0", -EIO, 0, "above 0" },
                { "def size = 4096\n  def resize(bytes) = bytes", -EIO, 0, "resize returned 8192, but size is 4096" },
                { "def resize(bytes) = exit", -EIO, 0, "exit" },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
                for (int layered = 0; layered < 2; layered++) {
                        g_autofree char *body = g_strdup_printf("class Growing < UBLK::Target\n  def initialize = super(size: 4096)\n"
                                                                "  def read(offset, length) = 'r' * length\n  def read_only? = false\n"
                                                                "  def write(offset, data) = data.bytesize\n"
                                                                "  %s\nend\n%srun Growing\n", cases[i].method, layered ? "use Delay, seconds: 0\n" : "");
                        uint64_t bytes = 8192;

                        if (rig_load("growing", body, NULL) < 0)
                                g_error("%s", rig.failure.message);
                        g_assert_true(rig.geometry.can_resize);
                        g_assert_false(rig.geometry.takes_size);
                        g_assert_cmpint(resize(&bytes), ==, cases[i].result);
                        if (cases[i].result == 0)
                                g_assert_cmpuint(bytes, ==, cases[i].size);
                        if (cases[i].report)
                                g_assert_nonnull(strstr(rig.report.message, cases[i].report));
                        else
                                g_assert_cmpuint(rig.n_reports, ==, 0);
                }
        g_assert_cmpint(rig_load("covered", "class Covered < UBLK::Target\n  def initialize = super(size: 4096)\n"
                                            "  def read(offset, length) = 'r' * length\n  def read_only? = true\n"
                                            "  def resize(bytes) = bytes\nend\nuse Cache\nrun Covered\n", NULL), ==, 0);
        g_assert_false(rig.geometry.can_resize);
}

void add_stock_tests(void) {
        g_test_add_func("/hook/stock/memory", test_memory);
        if (!mode_is_valgrind()) /* where 16 TiB can't be mapped */
                g_test_add_func("/hook/stock/memory-is-sparse", test_memory_is_sparse);
        g_test_add_func("/hook/stock/file", test_file);
        g_test_add_func("/hook/stock/file-grows", test_file_grows);
        g_test_add_func("/hook/stock/file-frees-blocks", test_file_frees_blocks);
        g_test_add_func("/hook/stock/file-remedies", test_file_remedies);
        g_test_add_func("/hook/stock/file-read-only", test_file_read_only);
        g_test_add_func("/hook/stock/null", test_null);
        g_test_add_func("/hook/stock/resize", test_resize);
        g_test_add_func("/hook/stock/resize-answers", test_resize_answers);
        if (g_test_perf())
                g_test_add_func("/hook/stock/speed", test_speed);
}
