/* SPDX-License-Identifier: MIT */

/* Each operation, payload of every size class, batches, and the time between them. */

#include "test-hook.h"

#include <poll.h>
#include <sys/socket.h>

/* Logs its calls to @calls, whose last entry a read at offset 0 gives back. */
#define RECORDER "class Recorder < UBLK::Target\n" \
        "  def initialize = (super(size: 1 << 30); @data = {}; @calls = [])\n" \
        "  def note(*call) = (@calls << call.inspect; 0)\n" \
        "  def read(offset, length) = offset.zero? ? @calls.last.to_s.ljust(length, \"\\0\") : @data.fetch(offset)\n" \
        "  def write(offset, data) = (note(:write, offset, data.bytesize, data.encoding, data.frozen?); @data[offset] = data; data.bytesize)\n" \
        "  def flush = (note(:flush); nil)\n" \
        "  def discard(offset, length) = note(:discard, offset, length)\n" \
        "  def write_zeroes(offset, length, unmap:) = note(:write_zeroes, offset, length, unmap)\n" \
        "end\n"

static void assert_last_call(const char *expected) {
        char buffer[512];

        g_assert_cmpint(rig_request(OPERATION_READ, 0, sizeof(buffer), buffer), ==, sizeof(buffer));
        g_assert_cmpstr(buffer, ==, expected);
}

static void test_operations(void) {
        uint8_t block[512] = { 0 };
        Request request;

        g_assert_cmpint(rig_load("recorder", RECORDER, NULL), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_WRITE, 512, 512, block), ==, 512);
        assert_last_call("[:write, 512, 512, #<Encoding:ASCII-8BIT>, false]");
        g_assert_cmpint(rig_request(OPERATION_FLUSH, 0, 0, NULL), ==, 0);
        assert_last_call("[:flush]");
        g_assert_cmpint(rig_request(OPERATION_DISCARD, UINT64_C(1) << 40, UINT64_C(1) << 32, NULL), ==, 0);
        assert_last_call("[:discard, 1099511627776, 4294967296]");
        g_assert_cmpint(rig_request(OPERATION_WRITE_ZEROES, 0, 1024, NULL), ==, 0);
        assert_last_call("[:write_zeroes, 0, 1024, true]");
        rig_fill(&request, OPERATION_WRITE_ZEROES, 0, 1024, NULL);
        request.no_unmap = true;
        rig_serve(&request, 1);
        assert_last_call("[:write_zeroes, 0, 1024, false]");
        g_assert_cmpint(rig_request(9, 0, 512, block), ==, -EOPNOTSUPP);
        g_assert_cmpuint(rig.n_reports, ==, 0);
}

static void test_payload(void) {
        static const size_t sizes[] = { 512, 4096, 65024, 65536, 524288, 32 << 20 };

        g_assert_cmpint(rig_load("recorder", RECORDER, NULL), ==, 0);
        for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
                g_autofree uint8_t *out = g_malloc(sizes[i]), *in = g_malloc0(sizes[i]);

                for (size_t j = 0; j < sizes[i]; j++)
                        out[j] = (uint8_t) (j * 31 + i);
                g_assert_cmpint(rig_request(OPERATION_WRITE, 4096, sizes[i], out), ==, sizes[i]);
                g_assert_cmpint(rig_request(OPERATION_READ, 4096, sizes[i], in), ==, sizes[i]);
                g_assert_cmpmem(in, sizes[i], out, sizes[i]);
        }
}

/* Strings of every kind that has the right number of bytes. */
static void test_kinds_of_strings(void) {
        static const char *const kinds[] = {
                "'a' * length",
                "('a' * length).freeze",
                "('a' * length).force_encoding('UTF-16LE')",
                "Class.new(String).new('a' * length)",
                "('a' * (length + 9)).byteslice(9, length)",
                "('a' * (length + 9)).byteslice(9..)",
                "(['aa'] * (length / 2)).join",
        };

        for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++)
                for (size_t size = 512; size <= 128 * 1024; size *= 256) {
                        g_autofree char *in = g_malloc0(size), *expected = g_strnfill(size, 'a');
                        g_autofree char *body = g_strdup_printf("class Kind < UBLK::Target\n"
                                                                "  def initialize = super(size: 1 << 20)\n"
                                                                "  def read_only? = true\n"
                                                                "  def read(offset, length) = %s\nend\n", kinds[i]);

                        g_assert_cmpint(rig_load("kind", body, NULL), ==, 0);
                        g_assert_cmpint(rig_request(OPERATION_READ, 0, size, in), ==, size);
                        g_assert_cmpmem(in, size, expected, size);
                }
}

static void test_read_only(void) {
        HookSettings read_only = { .read_only = true };
        uint8_t block[512] = { 0 };

        g_assert_cmpint(rig_load_with("recorder", RECORDER, NULL, &read_only), ==, 0);
        g_assert_true(rig.geometry.read_only);
        g_assert_cmpint(rig_request(OPERATION_WRITE, 0, 512, block), ==, -EROFS);
        g_assert_cmpint(rig_request(OPERATION_DISCARD, 0, 512, NULL), ==, -EROFS);
        g_assert_cmpint(rig_request(OPERATION_WRITE_ZEROES, 0, 512, NULL), ==, -EROFS);
        g_assert_cmpint(rig_request(OPERATION_FLUSH, 0, 0, NULL), ==, 0);
        assert_last_call("[:flush]");
}

static void test_not_advertised(void) {
        g_assert_cmpint(rig_load("bare", "class Bare < UBLK::Target\n  def initialize = super(size: 512)\n"
                                         "  def read(offset, length) = nil\n  def write(offset, data) = nil\nend\n", NULL), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_DISCARD, 0, 512, NULL), ==, -EOPNOTSUPP);
        g_assert_cmpint(rig_request(OPERATION_WRITE_ZEROES, 0, 512, NULL), ==, -EOPNOTSUPP);
        g_assert_cmpint(rig_request(OPERATION_FLUSH, 0, 0, NULL), ==, 0);
        g_assert_cmpuint(rig.n_reports, ==, 0);
}

static void test_batch_goes_on(void) {
        uint8_t blocks[8][512];
        Request requests[8];

        g_assert_cmpint(rig_load("every", "class Every < UBLK::Target\n  def initialize = super(size: 1 << 20)\n  def read_only? = true\n"
                                          "  def read(offset, length) = (offset / 512).odd? ? raise('odd') : 'e' * length\nend\n", NULL), ==, 0);
        for (size_t i = 0; i < 8; i++)
                rig_fill(&requests[i], OPERATION_READ, i * 512, 512, blocks[i]);
        rig_serve(requests, 8);
        for (size_t i = 0; i < 8; i++)
                g_assert_cmpint(requests[i].result, ==, i % 2 ? -EIO : 512);
        rig_assert_report(4, EIO, "RuntimeError", "odd");
        g_assert_cmpuint(rig.reported.offset, ==, 7 * 512);
        g_assert_cmpstr(rig.report.file, ==, rig.script);
        g_assert_cmpuint(rig.report.line, ==, 4);
}

/* What the hook was given stays as it was, whatever is written later. */
static void test_retained_payload(void) {
        uint8_t block[4096], in[4096];

        g_assert_cmpint(rig_load("recorder", RECORDER, NULL), ==, 0);
        for (unsigned i = 1; i < 100; i++) {
                memset(block, (int) i, sizeof(block));
                g_assert_cmpint(rig_request(OPERATION_WRITE, i * 4096, sizeof(block), block), ==, sizeof(block));
        }
        hook_server(rig.hook)->tidy(rig.hook);
        for (unsigned i = 1; i < 100; i++) {
                memset(block, (int) i, sizeof(block));
                g_assert_cmpint(rig_request(OPERATION_READ, i * 4096, sizeof(in), in), ==, sizeof(in));
                g_assert_cmpmem(in, sizeof(in), block, sizeof(block));
        }
}

static int fail_copy(const Request *request, const void *buffer, uint32_t offset, uint32_t length) {
        (void) request, (void) buffer, (void) offset, (void) length;
        return -EFAULT;
}

static int fail_pull(const Request *request, void *buffer, uint32_t offset, uint32_t length) {
        return fail_copy(request, buffer, offset, length);
}

static void test_failing_transport(void) {
        static const Transport failing = { .pull = fail_pull, .push = fail_copy };
        Request requests[2];

        g_assert_cmpint(rig_load_stock("null", (const char *[]) { "size", "s", "1M", NULL }), ==, 0);
        rig_fill(&requests[0], OPERATION_READ, 0, 512, NULL);
        rig_fill(&requests[1], OPERATION_WRITE, 0, 128 * 1024, NULL);
        requests[0].transport = requests[1].transport = &failing;
        rig_serve(requests, 2);
        g_assert_cmpint(requests[0].result, ==, -EFAULT);
        g_assert_cmpint(requests[1].result, ==, -EFAULT);
        g_assert_cmpuint(rig.n_reports, ==, 0);
}

static int disturbance = -1; /* the socket to the thread that disturbs */

/* While a large payload is copied others run: here the thread of the hook, until it has done its worst. The interpreter is
 * not given away in each case, hence the limit. */
static void disturb(void) {
        struct pollfd answer = { .fd = disturbance, .events = POLLIN };
        char byte = '.';

        g_assert_cmpint(write(disturbance, &byte, 1), ==, 1);
        if (poll(&answer, 1, /* msec */ 5000) > 0)
                g_assert_cmpint(read(disturbance, &byte, 1), ==, 1);
}

static int pull_disturbed(const Request *request, void *buffer, uint32_t offset, uint32_t length) {
        disturb();
        memcpy(buffer, (const uint8_t *) request->source + offset, length);
        return 0;
}

static int push_disturbed(const Request *request, const void *buffer, uint32_t offset, uint32_t length) {
        disturb();
        memcpy((uint8_t *) request->source + offset, buffer, length);
        return 0;
}

static void serve_disturbed(uint8_t op, uint8_t *payload, size_t size, int fill) {
        static const Transport disturbed = { .pull = pull_disturbed, .push = push_disturbed };
        Request request;

        rig_fill(&request, op, 0, size, memset(payload, fill, size));
        request.transport = &disturbed;
        rig_serve(&request, 1);
        g_assert_cmpint(request.result, ==, size);
}

/* The thread changes the String that read returned, and collects what nobody holds on to. */
static void test_disturbed_copy(void) {
        enum { SIZE = 128 * 1024 };
        g_autofree uint8_t *payload = g_malloc(SIZE), *expected = memset(g_malloc(SIZE), 'r', SIZE);
        g_autofree char *body = NULL;
        int ends[2];

        g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
        disturbance = ends[0];
        body = g_strdup_printf("class Disturbed < UBLK::Target\n"
                               "  def initialize = (super(size: 1 << 20); @answer = +''; Thread.new { disturb(IO.for_fd(%d, 'r+')) })\n"
                               "  def disturb(io) = loop { break unless io.getbyte; @answer.replace('x' * 131072); GC.start; io.syswrite('.') rescue break }\n"
                               "  def read(offset, length) = @answer.replace('r' * length)\n"
                               "  def write(offset, data) = data.delete('w').empty? ? data.bytesize : -5\nend\n", ends[1]);
        g_assert_cmpint(rig_load("disturbed", body, NULL), ==, 0);
        for (unsigned i = 0; i < 5; i++) {
                serve_disturbed(OPERATION_READ, payload, SIZE, 0);
                g_assert_cmpmem(payload, SIZE, expected, SIZE);
                serve_disturbed(OPERATION_WRITE, payload, SIZE, 'w');
        }
        (void) close(disturbance); /* the thread ends, and closes its own end */
}

static void count_call(void *argument) {
        (*(unsigned *) argument)++;
        g_usleep(20 * 1000);
}

static void test_unlocked(void) {
        const Server *server = hook_server(rig.hook);
        unsigned calls = 0;

        g_assert_cmpint(rig_load("threads", RECORDER "class Recorder\n"
                                            "  def flush = [:raise, :kill].each_with_index { |how, i| Thread.new { disturb(how, i) } }\n"
                                            "  def disturb(how, i) = (sleep(0.01 * (i + 1)); Thread.main.send(how))\nend\n", NULL), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_FLUSH, 0, 0, NULL), ==, 0);
        for (unsigned i = 0; i < 5; i++)
                server->unlocked(server->userdata, count_call, &calls);
        g_assert_cmpuint(calls, ==, 5);
        g_assert_cmpint(rig_request(OPERATION_DISCARD, 0, 512, NULL), ==, 0);
}

typedef struct Task {
        int result;
        int last_result;
        bool done;
} Task;

static void run_task(void *userdata) {
        const Server *server = hook_server(rig.hook);
        Task *task = userdata;
        unsigned calls = 0;

        task->result = rig_request(OPERATION_FLUSH, 0, 0, NULL);
        server->unlocked(server->userdata, count_call, &calls);
        server->unlocked(server->userdata, count_call, &calls);
        g_assert_cmpuint(calls, ==, 2);
        for (unsigned tries = 0; tries == 0 || (tries < 3 && task->last_result != 0); tries++)
                task->last_result = rig_request(OPERATION_FLUSH, 0, 0, NULL);
        __atomic_store_n(&task->done, true, __ATOMIC_SEQ_CST);
}

static void wait_tasks(void *argument) {
        Task *tasks = argument;

        for (unsigned i = 0; i < 4;)
                if (__atomic_load_n(&tasks[i].done, __ATOMIC_SEQ_CST))
                        i++;
                else
                        g_usleep(1000);
}

/* A thread that was killed in a request, or between two, goes on serving. */
static void test_spawn(void) {
        const Server *server = hook_server(rig.hook);
        unsigned killed = 0;
        Task tasks[4] = { 0 };

        g_assert_cmpint(rig_load("killer", "class Killer < UBLK::Target\n  def initialize = (super(size: 512); @n = 0)\n"
                                           "  def read(offset, length) = nil\n  def read_only? = true\n"
                                           "  def flush = (@n += 1) == 2 ? Thread.current.kill : sleep(0.01)\nend\n"
                                           "main = Thread.main\nThread.new { sleep 0.015; (Thread.list - [main, Thread.current]).each(&:kill) }\n", NULL), ==, 0);
        for (unsigned i = 0; i < 4; i++)
                g_assert_cmpint(hook_spawn(rig.hook, run_task, &tasks[i]), ==, 0);
        server->unlocked(server->userdata, wait_tasks, tasks);
        for (unsigned i = 0; i < 4; i++) {
                killed += tasks[i].result == -EIO;
                g_assert_cmpint(tasks[i].last_result, ==, 0);
        }
        g_assert_cmpuint(killed, >=, 1);
        g_assert_cmpint(rig.report.error, ==, EIO);
        g_assert_nonnull(strstr(rig.report.message, "killed the thread"));
}

/* From here on for all cases. */
static void test_profile(void) {
        static HookProfile p;
        const Server *server = hook_server(rig.hook);
        uint64_t before;
        unsigned calls = 0;
        char block[512] = "";

        g_assert_cmpint(rig_load("maker", "class Maker < UBLK::Target\n  def initialize = super(size: 1 << 20)\n"
                                          "  def read(offset, length) = \"\\1\" * length\n"
                                          "  def write_from(buffer, offset) = buffer.size\nend\n", NULL), ==, 0);
        hook_profile(rig.hook, &p);
        g_assert_cmpint(rig_request(OPERATION_WRITE, 0, sizeof(block), block), ==, sizeof(block));
        before = p.objects;
        g_assert_cmpuint(before, >, 0);
        for (unsigned i = 0; i < 10; i++)
                g_assert_cmpint(rig_request(OPERATION_WRITE, 0, sizeof(block), block), ==, sizeof(block));
        g_assert_cmpuint(p.objects, ==, before);
        for (unsigned i = 0; i < 10; i++)
                g_assert_cmpint(rig_request(OPERATION_READ, 0, sizeof(block), block), ==, sizeof(block));
        g_assert_cmpuint(p.objects, >=, before + 10);
        before = p.hand_overs;
        for (unsigned i = 0; i < 3; i++)
                server->unlocked(server->userdata, count_call, &calls);
        g_assert_true(p.hand_overs == 0 || p.hand_overs >= before + 3);
}

static uint64_t n_collections(void) {
        g_assert_cmpint(rig_request(OPERATION_FLUSH, 0, 0, NULL), ==, -EIO);
        return g_ascii_strtoull(rig.report.message, NULL, 10);
}

/* How many collections there were by our own choice while that many times a MiB of payload was written, some time apart. */
static uint64_t collect(const char *live, unsigned n, unsigned pause_usec) {
        g_autofree char *body = g_strdup_printf("class Collected < UBLK::Target\n"
                                                "  def initialize = (super(size: 1 << 30); @live = %s; GC.start)\n"
                                                "  def read(offset, length) = @zeroes ||= (\"\\0\" * length).freeze\n"
                                                "  def write(offset, data) = data.bytesize\n"
                                                "  def flush = raise(GC.count.to_s)\nend\n", live);
        const Server *server = hook_server(rig.hook);
        g_autofree char *payload = g_malloc0(1 << 20);
        uint64_t before, n_tidied = 0;

        g_assert_cmpint(rig_load("collected", body, NULL), ==, 0);
        for (unsigned i = 0; i < n; i++) {
                g_assert_cmpint(rig_request(OPERATION_WRITE, 0, 1 << 20, payload), ==, 1 << 20);
                g_usleep(pause_usec);
                before = n_collections();
                server->tidy(server->userdata);
                n_tidied += n_collections() - before;
        }
        before = n_collections();
        g_assert_cmpint(rig_request(OPERATION_READ, 0, 1 << 20, payload), ==, 1 << 20);
        g_assert_false(server->wants_tidy(server->userdata)); /* what is frozen is no garbage */
        return n_tidied;
}

/* After each MiB, but where that would take too much of the time. */
static void test_collections(void) {
        g_assert_cmpuint(collect("nil", 32, 10000), >=, 24);
        g_assert_cmpuint(collect("Array.new(1_000_000) { Object.new }", 64, 0), <, 48);
}

void add_serve_tests(void) {
        g_test_add_func("/hook/serve/operations", test_operations);
        g_test_add_func("/hook/serve/payload", test_payload);
        g_test_add_func("/hook/serve/kinds-of-strings", test_kinds_of_strings);
        g_test_add_func("/hook/serve/read-only", test_read_only);
        g_test_add_func("/hook/serve/not-advertised", test_not_advertised);
        g_test_add_func("/hook/serve/batch-goes-on", test_batch_goes_on);
        g_test_add_func("/hook/serve/retained-payload", test_retained_payload);
        g_test_add_func("/hook/serve/failing-transport", test_failing_transport);
        if (!mode_is_on()) /* it is about time, and about collections */
                g_test_add_func("/hook/serve/collections", test_collections);
        g_test_add_func("/hook/serve/disturbed-copy", test_disturbed_copy);
        g_test_add_func("/hook/serve/unlocked", test_unlocked);
        g_test_add_func("/hook/serve/spawn", test_spawn);
        g_test_add_func("/hook/serve/profile", test_profile);
}
