/* SPDX-License-Identifier: MIT */

/* The buffer forms of read and write: what they cost, how they are judged, and that no handle outlasts its request. */

#include "test-hook.h"

#include <glib/gstdio.h>

#define MIB (1 << 20)

/* A disk in a String, in both forms; the String form betrays itself. */
#define RAM "class Ram < UBLK::Target\n" \
        "  def initialize = (super(size: 64 << 20); @data = \"\\0\".b * (64 << 20))\n" \
        "  def read(offset, length) = raise('String')\n" \
        "  def write(offset, data) = raise('String')\n" \
        "  def read_into(buffer, offset) = buffer.copy_from(@data, offset)\n" \
        "  def write_from(buffer, offset) = buffer.copy_to(@data, offset)\n" \
        "end\n"

/* What a case does in flush, it says is wrong by raising. */
static void assert_flush(void) {
        int r = rig_request(OPERATION_FLUSH, 0, 0, NULL);

        if (r != 0)
                g_error("flush: %s", rig.report.message);
}

static void test_payload(void) {
        static const size_t sizes[] = { 512, 4096, 65024, 65536, 524288, 32 << 20, 512 };

        g_assert_cmpint(rig_load("ram", RAM, NULL), ==, 0);
        g_assert_true(rig.geometry.buffers);
        for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
                g_autofree uint8_t *out = g_malloc(sizes[i]), *in = g_malloc0(sizes[i]);

                for (size_t j = 0; j < sizes[i]; j++)
                        out[j] = (uint8_t) (j * 31 + i);
                g_assert_cmpint(rig_request(OPERATION_WRITE, 4096, sizes[i], out), ==, sizes[i]);
                g_assert_cmpint(rig_request(OPERATION_READ, 4096, sizes[i], in), ==, sizes[i]);
                g_assert_cmpmem(in, sizes[i], out, sizes[i]);
        }
        g_assert_cmpuint(rig.n_reports, ==, 0);
}

/* 100000 requests in batches, and flush says how many objects there were since the last one. */
static void count_objects(const char *name, const char *body, const char *const *arguments) {
        enum { BATCH = 32 };
        unsigned batches = (mode_is_on() ? 1000 : 100000) / BATCH;
        g_autofree uint8_t *memory = g_malloc0(BATCH * 4096);
        Request requests[BATCH];

        g_assert_cmpint(rig_load(name, body, arguments), ==, 0);
        g_assert_true(rig.geometry.buffers);
        for (unsigned round = 0; round < 2; round++) {
                for (unsigned i = 0; i < (round == 0 ? 2 : batches); i++) {
                        for (unsigned j = 0; j < BATCH; j++)
                                rig_fill(&requests[j], j % 2 ? OPERATION_READ : OPERATION_WRITE, (uint64_t) (i * BATCH + j) % 256 * 4096, 4096,
                                         memory + j * 4096);
                        rig_serve(requests, BATCH);
                        for (unsigned j = 0; j < BATCH; j++)
                                g_assert_cmpint(requests[j].result, ==, 4096);
                }
                assert_flush();
        }
        g_assert_cmpuint(rig.n_reports, ==, 0);
}

#define COUNTING "  def flush\n" \
        "    now = GC.stat(:total_allocated_objects)\n" \
        "    made, @before = @before && now - @before, now\n" \
        "    raise \"#{made} objects\" if made && made > 0\n" \
        "  end\n" \
        "end\n"

static void test_no_objects(void) {
        g_autofree char *path = g_build_filename(rig.directory, "image", NULL), *image = g_malloc0(MIB);
        g_autofree char *stock = g_strdup_printf("load '%s/memory.rb'\nclass Counting < MemoryDisk\n" COUNTING, g_getenv("UBLK_RUBY_HOOK_PATH"));
        g_autofree char *file = g_strdup_printf("load '%s/file.rb'\nclass Counting < FileDisk\n" COUNTING, g_getenv("UBLK_RUBY_HOOK_PATH"));

        count_objects("counting", RAM "class Counting < Ram\n" COUNTING, NULL);
        count_objects("counting", stock, (const char *[]) { "size", "t", "1048576", NULL });
        g_assert_true(g_file_set_contents(path, image, MIB, NULL));
        count_objects("counting", file, (const char *[]) { "path", "s", path, NULL });
}

/* Every call on a handle whose request has ended, however that ended, raises and touches nothing. */
static void test_stale(void) {
        static const struct {
                const char *end;
                int result;
        } ends[] = {
                { "buffer.size", 512 },
                { "raise 'no'", -EIO },
                { "raise Errno::ENOSPC", -ENOSPC },
                { "-28", -ENOSPC },
                { "throw :nobody", -EIO },
                { "exit", -EIO },
                { "Thread.current.kill; sleep", -EIO },
                { "raise Timeout::Error", -ETIMEDOUT },
                { "Fiber.new { buffer.size }.resume", 512 },
                { "[1].each { |x| return buffer.size }", 512 },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
                g_autofree char *body = g_strdup_printf(
                        "require 'timeout'\nclass Kept < UBLK::Target\n"
                        "  def initialize = super(size: 1 << 20)\n"
                        "  def read_into(buffer, offset) = (@kept = buffer; buffer.fill; %s)\n"
                        "  def write_from(buffer, offset) = (@kept = buffer; %s)\n"
                        "  CALLS = [[:size], [:get], [:get, 0, 1], [:set, 'x'], [:fill], [:fill, 0, 0, 0], [:zero?], [:copy_from, 'x' * 512], [:copy_to, 'x' * 512],\n"
                        "           [:copy_from, UBLK::Memory.new(512)], [:pread, File.open('/dev/zero'), 0], [:pwrite, File.open('/dev/null', 'w'), 0]]\n"
                        "  def flush\n"
                        "    CALLS.each do |call|\n"
                        "      @kept.send(*call)\n"
                        "      raise \"#{call} did not raise\"\n"
                        "    rescue UBLK::BufferError => e\n"
                        "      raise unless e.message.start_with?(\"this buffer's request has been answered\")\n"
                        "    end\n"
                        "    raise @kept.inspect unless @kept.inspect == '#<UBLK::Buffer of an answered request>'\n"
                        "  end\n"
                        "end\n", ends[i].end, ends[i].end);
                uint8_t block[512] = { 0 };

                g_test_message("%s", ends[i].end);
                g_assert_cmpint(rig_load("kept", body, NULL), ==, 0);
                for (unsigned op = OPERATION_READ; op <= OPERATION_WRITE; op++) {
                        g_assert_cmpint(rig_request((uint8_t) op, 0, 512, block), ==, ends[i].result);
                        assert_flush();
                }
        }
}

/* The handle of a task is one object, through loads of other scripts too. In a check each request has its own. */
static void test_pool(void) {
        static const char body[] = "class Same < UBLK::Target\n"
                                   "  def initialize = super(size: 1 << 20)\n"
                                   "  def read_into(buffer, offset) = ($handles ||= []).push(buffer.__id__).then { buffer.fill }\n"
                                   "  def write(offset, data) = data.bytesize\n"
                                   "  def flush = ($handles.uniq.size.tap { $handles = nil })\n"
                                   "  def discard(offset, length) = $handles.uniq.size == 1 ? 0 : -5\n"
                                   "end\n";
        HookSettings fresh = { .fresh_buffers = true };
        uint8_t block[512];

        for (unsigned i = 0; i < 2; i++) {
                g_assert_cmpint(rig_load("same", body, NULL), ==, 0);
                for (unsigned j = 0; j < 8; j++)
                        g_assert_cmpint(rig_request(OPERATION_READ, j * 512, 512, block), ==, 512);
                g_assert_cmpint(rig_request(OPERATION_DISCARD, 0, 512, NULL), ==, 0);
        }
        assert_flush();
        g_assert_cmpint(rig_load_with("same", body, NULL, &fresh), ==, 0);
        for (unsigned j = 0; j < 8; j++)
                g_assert_cmpint(rig_request(OPERATION_READ, j * 512, 512, block), ==, 512);
        g_assert_cmpint(rig_request(OPERATION_DISCARD, 0, 512, NULL), ==, -EIO);
}

/* What an answer must be. */
static void test_answers(void) {
        static const struct {
                const char *answer;
                int result;
                const char *message; /* NULL: a refusal */
        } answers[] = {
                { "512", 512, "" },
                { "nil", -EIO, "%s must return the number of bytes, 512, and returned an object of class NilClass" },
                { "'x' * 512", -EIO, "%s must return the number of bytes, 512, and returned an object of class String" },
                { "buffer", -EIO, "%s must return the number of bytes, 512, and returned an object of class UBLK::Buffer" },
                { "512.0", -EIO, "%s must return the number of bytes, 512, and returned an object of class Float" },
                { "511", -EIO, "%s must return the number of bytes, all 512 of them, and returned 511" },
                { "513", -EIO, "%s must return the number of bytes, all 512 of them, and returned 513" },
                { "0", -EIO, "%s must return the number of bytes, all 512 of them, and returned 0" },
                { "1 << 80", -EIO, "%s must return the number of bytes, 512, and returned an object of class Integer" },
                { "-5", -EIO, NULL },
                { "-28", -ENOSPC, NULL },
                { "-(1 << 80)", -EIO, NULL },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(answers); i++) {
                g_autofree char *body = g_strdup_printf("class Answer < UBLK::Target\n  def initialize = super(size: 1 << 20)\n"
                                                        "  def read_into(buffer, offset) = (buffer.fill(7); %s)\n"
                                                        "  def write_from(buffer, offset) = (%s)\nend\n", answers[i].answer, answers[i].answer);
                uint8_t block[512];

                for (unsigned op = OPERATION_READ; op <= OPERATION_WRITE; op++) {
                        g_autofree char *message = g_strdup(answers[i].message), *expected = NULL;
                        const char *method = op == OPERATION_READ ? "read_into" : "write_from";

                        g_assert_cmpint(rig_load("answer", body, NULL), ==, 0);
                        memset(block, 1, sizeof(block));
                        g_assert_cmpint(rig_request((uint8_t) op, 0, 512, block), ==, answers[i].result);
                        /* Nothing of a failed read reaches the client. */
                        g_assert_cmpint(block[511], ==, op == OPERATION_READ && answers[i].result == 512 ? 7 : 1);
                        g_assert_cmpuint(rig.n_reports, ==, answers[i].result != 512);
                        if (!message || !*message)
                                continue;
                        *strstr(message, "%s") = '\0';
                        expected = g_strconcat(message, method, answers[i].message + strlen(message) + 2, NULL);
                        g_assert_cmpstr(rig.report.message, ==, expected);
                        g_assert_cmpstr(rig.report.class_name, ==, "UBLK::ContractError");
                        g_assert_cmpuint(rig.report.line, ==, op == OPERATION_READ ? 3 : 4);
                }
        }
}

/* Which of two forms is asked: that of the class that is derived from the other's. */
static void test_newer_form(void) {
        static const struct {
                const char *body;
                uint8_t byte;
                bool buffers;
        } cases[] = {
                { "class Disk < Both\n  def flush = 0\nend\n", 'b', true },
                { "class Disk < Both\n  def read(offset, length) = 'S' * length\nend\n", 'S', true }, /* writes have buffers */
                { "class Disk < Both\n  def read_into(buffer, offset) = buffer.fill(66)\nend\n", 'B', true },
                { "module M\n  def read(offset, length) = 'M' * length\nend\nclass Disk < Both\n  include M\nend\n", 'M', true },
                { "module M\n  def read(offset, length) = 'M' * length\nend\nclass Disk < Both\n  prepend M\nend\n", 'M', true },
                { "class Disk < Both\n  def initialize = (super; def self.read(offset, length) = 'I' * length)\nend\n", 'I', true },
                { "class Disk < UBLK::Target\n  def initialize = super(size: 1 << 20)\n  def read_only? = true\n"
                  "  def read(offset, length) = 's' * length\nend\n", 's', false },
                { "use UBLK::Around\nrun Both", 'b', true },
                { "use UBLK::Around\nuse Trace, to: StringIO.new\nuse UBLK::Policy\nuse Retry\nuse Partition, offset: 0\nrun Both", 'b', true },
                { "use Cache\nrun Only", 'o', false },
                { "use UBLK::Around\nuse Cache\nuse UBLK::Around\nrun Only", 'o', false },
                { "class Child < Both\n  def read_into(buffer, offset) = buffer.fill(67)\nend\nuse Cache\nrun Child", 'C', false },
                { "class Child < Both\n  def read(offset, length) = 'D' * length\nend\nclass Own < UBLK::Layer\n"
                  "  def read_into(buffer, offset) = @target.read_into(buffer, offset)\nend\nuse Own\nrun Child", 'D', true },
                { "class Own < UBLK::Layer\n  def read(offset, length) = @target.read(offset, length).tr('b', 'L')\nend\nuse Own\nrun Both", 'L', true },
                { "class Own < UBLK::Layer\n  def read_into(buffer, offset) = @target.read_into(buffer, offset).tap { buffer.fill(76) }\n"
                  "end\nuse Own\nrun Only", 'L', true },
                { "class Own < UBLK::Policy\n  def before(op, *) = op == :read ? ($other ||= Only.new) : nil\nend\nuse Own\nrun Both", 'o', true },
        };
        static const char head[] = "require 'stringio'\n"
                                   "class Both < UBLK::Target\n  def initialize = super(size: 1 << 20)\n"
                                   "  def read(offset, length) = 'b' * length\n  def write(offset, data) = data.bytesize\n"
                                   "  def read_into(buffer, offset) = buffer.fill(98)\n  def write_from(buffer, offset) = buffer.size\nend\n"
                                   "class Only < UBLK::Target\n  def initialize = super(size: 1 << 20)\n"
                                   "  def read_into(buffer, offset) = buffer.fill(111)\n  def write_from(buffer, offset) = buffer.zero? ? buffer.size : -5\nend\n";

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                HookSettings settings = { .class_name = strstr(cases[i].body, "run ") ? NULL : "Disk" };
                g_autofree char *body = g_strconcat(head, cases[i].body, NULL);
                uint8_t block[4096] = { 0 };

                g_test_message("%s", cases[i].body);
                if (rig_load_with("forms", body, NULL, &settings) < 0)
                        g_error("%s", rig.failure.message);
                g_assert_cmpint(rig.geometry.buffers, ==, cases[i].buffers);
                if (!rig.geometry.read_only)
                        g_assert_cmpint(rig_request(OPERATION_WRITE, 0, sizeof(block), block), ==, sizeof(block));
                g_assert_cmpint(rig_request(OPERATION_READ, 0, sizeof(block), block), ==, sizeof(block));
                for (size_t j = 0; j < sizeof(block); j++)
                        g_assert_cmpint(block[j], ==, cases[i].byte);
                g_assert_cmpuint(rig.n_reports, ==, 0);
        }
}

/* What the device is asked to use. */
static void test_data_path(void) {
        static const char only[] = "class Only < UBLK::Target\n  def initialize = super(size: 1 << 20)\n"
                                   "  def read_into(buffer, offset) = buffer.fill(111)\n  def write_from(buffer, offset) = buffer.size\nend\n";
        static const char plain[] = "class Plain < UBLK::Target\n  def initialize = super(size: 1 << 20)\n"
                                    "  def read(offset, length) = 'p' * length\n  def write(offset, data) = data.bytesize\nend\n";
        static const char half[] = "class Half < UBLK::Target\n  def initialize = super(size: 1 << 20)\n"
                                   "  def read_into(buffer, offset) = buffer.fill\n  def write(offset, data) = data.bytesize\nend\n";
        HookSettings strings = { .data_path = "string" }, buffers = { .data_path = "buffer" }, any = { .data_path = "auto" };
        HookSettings read_only = { .data_path = "buffer", .read_only = true };
        uint8_t block[512] = { 0 };

        g_assert_cmpint(rig_load_with("only", only, NULL, &strings), ==, 0);
        g_assert_false(rig.geometry.buffers);
        g_assert_cmpint(rig_request(OPERATION_READ, 0, 512, block), ==, 512); /* with a String in between */
        g_assert_cmpint(block[511], ==, 'o');
        g_assert_cmpint(rig_request(OPERATION_WRITE, 0, 512, block), ==, 512);
        g_assert_cmpint(rig_load_with("only", only, NULL, &buffers), ==, 0);
        g_assert_true(rig.geometry.buffers);
        g_assert_cmpint(rig_load_with("plain", plain, NULL, &any), ==, 0);
        g_assert_false(rig.geometry.buffers);
        g_assert_cmpint(rig_load_with("plain", plain, NULL, &buffers), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("data-path=buffer", "define read_into and write_from", "leave data-path out"));
        g_assert_cmpint(rig_load_with("half", half, NULL, &buffers), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("define write_from,"));
        g_assert_cmpint(rig_load_with("half", half, NULL, &read_only), ==, 0);
}

/* A write's bytes are the client's. */
static void test_payload_is_not_changed(void) {
        uint8_t block[512] = { 1, 2, 3 }, before[512];

        memcpy(before, block, sizeof(before));
        g_assert_cmpint(rig_load("changes", "class Changes < UBLK::Target\n  def initialize = super(size: 1 << 20)\n"
                                            "  def read(offset, length) = nil\n"
                                            "  def write_from(buffer, offset)\n"
                                            "    [[:set, 'x'], [:fill], [:copy_from, 'x' * 512], [:pread, File.open('/dev/zero'), 0]].each do |call|\n"
                                            "      buffer.send(*call)\n      raise \"#{call} changed it\"\n"
                                            "    rescue UBLK::BufferError => e\n"
                                            "      raise unless e.message == \"the bytes of a write are the client's: they can't be changed\"\n"
                                            "    end\n"
                                            "    buffer.get(0, 4) == \"\\1\\2\\3\\0\" ? buffer.size : -5\n  end\nend\n", NULL), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_WRITE, 0, 512, block), ==, 512);
        g_assert_cmpmem(block, sizeof(block), before, sizeof(before));
}

/* A thread reads a slow file into the buffer of each read, for longer than that takes: into the next request's it must not. */
static void test_threads(void) {
        static const char body[] = "class Race < UBLK::Target\n"
                                   "  def initialize\n    super(size: 1 << 30)\n    @noise = File.open('/dev/urandom')\n"
                                   "    @calls = Queue.new\n    @passed = @raised = 0\n"
                                   "    @thread = Thread.new do\n"
                                   "      while (buffer = @calls.pop)\n"
                                   "        begin\n"
                                   "          buffer.pread(@noise, 0)\n          @passed += 1\n"
                                   "        rescue UBLK::BufferError\n          @raised += 1\n        end\n      end\n    end\n  end\n"
                                   "  def read_into(buffer, offset) = (@calls << buffer; Thread.pass; -5)\n"
                                   "  def write_from(buffer, offset) = buffer.size.tap { raise 'mixed up' unless buffer.get.count('w') == buffer.size }\n"
                                   "  def flush = (@calls << nil; @thread.join; @passed + @raised > 0 ? 0 : -5)\n"
                                   "end\n";
        g_autofree uint8_t *block = g_malloc(MIB);
        unsigned n = mode_is_on() ? 20 : 100;

        g_assert_cmpint(rig_load("race", body, NULL), ==, 0);
        memset(block, 'w', MIB);
        for (unsigned i = 0; i < n; i++) {
                g_assert_cmpint(rig_request(OPERATION_READ, 0, MIB, block), ==, -EIO);
                if (rig_request(OPERATION_WRITE, 0, MIB, block) != MIB)
                        g_error("%s", rig.report.message);
        }
        assert_flush();
}

/* Odd things to do with a handle, none of which makes another one of it. */
static void test_handle(void) {
        uint8_t block[512];

        g_assert_cmpint(rig_load("odd", "class Odd < UBLK::Target\n  def initialize = super(size: 1 << 20)\n  def read_only? = true\n"
                                        "  def read_into(buffer, offset)\n"
                                        "    [-> { buffer.dup }, -> { buffer.clone }, -> { Marshal.dump(buffer) }, -> { UBLK::Buffer.allocate },\n"
                                        "     -> { UBLK::Buffer.new }, -> { Class.new(UBLK::Buffer).new }, -> { Class.new(UBLK::Buffer).allocate },\n"
                                        "     -> { buffer.freeze }, -> { UBLK::Buffer.instance_method(:size).bind_call('x') },\n"
                                        "     -> { UBLK::Buffer.instance_method(:get).bind_call(UBLK::Memory.new(1)) }].each_with_index do |odd, i|\n"
                                        "      odd.call\n      raise \"number #{i} can be done\"\n"
                                        "    rescue TypeError, NoMethodError\n      nil\n    end\n"
                                        "    buffer.instance_variable_set(:@mine, 1) unless buffer.frozen?\n"
                                        "    Kernel.instance_method(:freeze).bind_call(buffer)\n"
                                        "    buffer.inspect == '#<UBLK::Buffer 512 bytes>' ? buffer.fill(9) : -5\n  end\nend\n", NULL), ==, 0);
        for (unsigned i = 0; i < 2; i++)
                if (rig_request(OPERATION_READ, 0, 512, block) != 512)
                        g_error("%s", rig.report.message);
        g_assert_cmpint(block[0], ==, 9);
}

/* An exception that comes while a file is read or written ends the request, and the handle with it. */
static void test_interrupted(void) {
        g_autofree char *path = g_build_filename(rig.directory, "large", NULL), *body = NULL;
        g_autofree uint8_t *block = g_malloc0(MIB);

        g_assert_true(g_file_set_contents(path, "x", 1, NULL));
        body = g_strdup_printf("class Slow < UBLK::Target\n  def initialize = (super(size: 1 << 30); @file = File.open('%s', 'r+b'))\n"
                               "  def read_into(buffer, offset)\n"
                               "    @kept = buffer\n    main = Thread.current\n"
                               "    Thread.new { main.raise(Errno::ENOSPC) }\n"
                               "    loop { buffer.pread(@file, 0) }\n  end\n"
                               "  def write_from(buffer, offset) = buffer.pwrite(@file, offset)\n"
                               "  def flush = (@kept.size; -5) rescue 0\n"
                               "end\n", path);
        g_assert_cmpint(rig_load("slow", body, NULL), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_WRITE, 0, MIB, block), ==, MIB);
        for (unsigned i = 0; i < 5; i++) {
                g_assert_cmpint(rig_request(OPERATION_READ, 0, MIB, block), ==, -ENOSPC);
                assert_flush();
        }
}

/* A closed file, one for the other direction, and one that is no file. */
static void test_files(void) {
        uint8_t block[512];

        g_assert_cmpint(rig_load("files", "class Files < UBLK::Target\n  def initialize = super(size: 1 << 20)\n  def read_only? = true\n"
                                          "  def read_into(buffer, offset)\n"
                                          "    closed = File.open('/dev/zero').tap(&:close)\n"
                                          "    { IOError => closed, Errno::EBADF => File.open('/dev/null', 'w'), TypeError => 'no file',\n"
                                          "      Errno::ESPIPE => IO.pipe[0] }.each do |expected, file|\n"
                                          "      buffer.pread(file, 0)\n      raise \"#{file} can be read\"\n"
                                          "    rescue expected\n      nil\n    end\n"
                                          "    n = buffer.pread(File.open('/dev/null'), 0)\n    raise \"#{n} bytes\" unless n == 0\n"
                                          "    buffer.pread(File.open('/dev/zero'), 0)\n  end\nend\n", NULL), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_READ, 0, 512, block), ==, 512);
        g_assert_cmpuint(rig.n_reports, ==, 0);
}

void add_buffer_tests(void) {
        g_test_add_func("/hook/buffer/payload", test_payload);
        g_test_add_func("/hook/buffer/no-objects", test_no_objects);
        g_test_add_func("/hook/buffer/stale", test_stale);
        g_test_add_func("/hook/buffer/pool", test_pool);
        g_test_add_func("/hook/buffer/answers", test_answers);
        g_test_add_func("/hook/buffer/newer-form", test_newer_form);
        g_test_add_func("/hook/buffer/data-path", test_data_path);
        g_test_add_func("/hook/buffer/payload-is-not-changed", test_payload_is_not_changed);
        g_test_add_func("/hook/buffer/threads", test_threads);
        g_test_add_func("/hook/buffer/handle", test_handle);
        g_test_add_func("/hook/buffer/interrupted", test_interrupted);
        g_test_add_func("/hook/buffer/files", test_files);
}
