/* SPDX-License-Identifier: MIT */

/* Whatever a hook does wrong in a request fails that request with the errno that api.md says, is reported once, and
 * leaves the next request alone. */

#include "test-hook.h"

typedef struct Case {
        const char *expression; /* what read does, at line 6 of the script */
        int error;
        const char *class_name;
        const char *word;
} Case;

static const Case read_cases[] = {
        { "'x' * (length - 1)", EIO, "UBLK::ContractError", "String of 512 bytes, and returned one of 511" },
        { "'x' * (length + 1)", EIO, "UBLK::ContractError", "returned one of 513" },
        { "\"\\u00e9\" * length", EIO, "UBLK::ContractError", "returned one of 1024" },
        { "nil", EIO, "UBLK::ContractError", "class NilClass" },
        { "length", EIO, "UBLK::ContractError", "class Integer" },
        { "1 << 80", EIO, "UBLK::ContractError", "class Integer" },
        { ":symbol", EIO, "UBLK::ContractError", "class Symbol" },
        { "BasicObject.new", EIO, "UBLK::ContractError", "class BasicObject" },
        { "Class.new.new", EIO, "UBLK::ContractError", "class #<Class:0x" },
        { "-5", EIO, NULL, "returned -5; the client gets: Input/output error" },
        { "-28", ENOSPC, NULL, "returned -28; the client gets: No space left" },
        { "-4095", 4095, NULL, "returned -4095" },
        { "-4096", EIO, NULL, "returned -4096" },
        { "-(1 << 80)", EIO, NULL, "returned" },
        { "-Errno::EAGAIN::Errno", EIO, NULL, "returned -11" },
        { "raise Errno::ENOSPC, 'full'", ENOSPC, "Errno::ENOSPC", "full" },
        { "raise Errno::EAGAIN", EIO, "Errno::EAGAIN", "" },
        { "raise SystemCallError.new('x')", EIO, "SystemCallError", "x" },
        { "raise SystemCallError.new('x', 0)", EIO, "Errno::NOERROR", "x" },
        { "raise SystemCallError.new('x', 99999)", EIO, "SystemCallError", "99999" },
        { "raise Errno::NOERROR", EIO, "Errno::NOERROR", "" },
        { "raise Class.new(Errno::ENXIO) { def errno = exit }", ENXIO, NULL, "" },
        { "require 'timeout'; Timeout.timeout(0.01) { sleep }", ETIMEDOUT, "Timeout::Error", "expired" },
        { "raise 'plain'", EIO, "RuntimeError", "plain" },
        { "raise ''", EIO, "RuntimeError", "(no message)" },
        { "raise 'm' * 100_000", EIO, "RuntimeError", "mmmm" },
        { "raise Exception, 'all'", EIO, "Exception", "all" },
        { "exit", EIO, "SystemExit", "exit" },
        { "abort", EIO, "SystemExit", "exit" },
        { "raise Interrupt", EIO, "Interrupt", "" },
        { "Process.kill('INT', $$); sleep 1", EIO, "Interrupt", "" },
        { "raise NoMemoryError, 'gone'", EIO, "NoMemoryError", "gone" },
        { "'x' * (1 << 62)", EIO, "NoMemoryError", "" },
        { "throw :away", EIO, "UncaughtThrowError", "away" },
        { "@orphan.call", EIO, NULL, "" },
        { "eval('return 1')", EIO, "UBLK::ContractError", "Integer" },
        { "eval('break')", EIO, "SyntaxError", "break" },
        { "read(offset, length)", EIO, "SystemStackError", "stack level" },
        { "Fiber.yield", EIO, "FiberError", "" },
        { "Thread.main.kill; sleep 1", EIO, "SystemExit", "exit" },
        { "Thread.new { Thread.main.raise('from outside') }; sleep 1", EIO, "RuntimeError", "from outside" },
        { "Thread.new { Thread.current.report_on_exception = false; Thread.current.abort_on_exception = true; raise 'aborts' }; sleep 1",
          EIO, "RuntimeError", "aborts" },
        { "raise Class.new(StandardError) { def message = raise }", EIO, NULL, "can't be had" },
        { "raise Class.new(StandardError) { def message = exit }", EIO, NULL, "can't be had" },
        { "raise Class.new(StandardError) { def self.to_s = raise }", EIO, NULL, "" },
        { "raise Class.new(StandardError) { def backtrace = raise }", EIO, NULL, "" },
        { "self.class.send(:undef_method, :read_only?); raise 'undefined'", EIO, "RuntimeError", "undefined" },
        { "GC.disable; raise 'no collector'", EIO, "RuntimeError", "no collector" },
};

static const Case write_cases[] = {
        { "data.bytesize - 1", EIO, "UBLK::ContractError", "all 512 of them, and returned 511" },
        { "data.bytesize + 1", EIO, "UBLK::ContractError", "returned 513" },
        { "0", EIO, "UBLK::ContractError", "returned 0" },
        { "nil", EIO, "UBLK::ContractError", "class NilClass" },
        { "data", EIO, "UBLK::ContractError", "class String" },
        { "512.0", EIO, "UBLK::ContractError", "class Float" },
        { "Class.new.new", EIO, "UBLK::ContractError", "class #<Class:0x" },
        { "1 << 80", EIO, "UBLK::ContractError", "class Integer" },
        { "-30", EROFS, NULL, "write returned -30" },
        { "raise Errno::EDQUOT", EDQUOT, "Errno::EDQUOT", "" },
        { "throw :away", EIO, "UncaughtThrowError", "away" },
};

/* A target whose read and write do that at offset 4096, and work elsewhere. */
static int load_case(const char *read, const char *write) {
        g_autofree char *body = g_strdup_printf("class Wrong < UBLK::Target\n"
                                                "  def initialize = (super(size: 1 << 20); @orphan = make)\n"
                                                "  def make = proc { return 1 }\n"
                                                "  def read(offset, length)\n"
                                                "    return 'r' * length unless offset == 4096\n"
                                                "    %s\n"
                                                "  end\n"
                                                "  def write(offset, data)\n"
                                                "    return data.bytesize unless offset == 4096\n"
                                                "    %s\n"
                                                "  end\n"
                                                "  def flush = @flush&.call\n"
                                                "end\n", read, write);
        return rig_load("wrong", body, NULL);
}

/* It means that errno. */
static bool is_answer(const char *expression) {
        return expression[0] == '-' || strstr(expression, "Errno::") || strstr(expression, "SystemCallError") || strstr(expression, "Timeout");
}

/* The request fails, and those on its right and left in the batch don't. */
static void run_case(const Case *c, uint8_t op) {
        uint8_t blocks[3][512] = { 0 };
        Request requests[3];

        g_test_message("%s", c->expression);
        rig_fill(&requests[0], op, 0, 512, blocks[0]);
        rig_fill(&requests[1], op, 4096, 512, blocks[1]);
        rig_fill(&requests[2], op, 8192, 512, blocks[2]);
        rig_serve(requests, 3);
        g_assert_cmpint(requests[0].result, ==, 512);
        g_assert_cmpint(requests[1].result, ==, -c->error);
        g_assert_cmpint(requests[2].result, ==, 512);
        rig_assert_report(1, c->error, c->class_name ? c->class_name : rig.report.class_name, c->word);
        g_assert_cmpuint(rig.reported.offset, ==, 4096);
        g_assert_cmpint(rig.report.is_answer, ==, is_answer(c->expression));
        g_assert_cmpint(rig_request(op, 8192, 512, blocks[0]), ==, 512);
}

static void test_read(void) {
        for (size_t i = 0; i < G_N_ELEMENTS(read_cases); i++) {
                if (mode_collects() && g_strcmp0(read_cases[i].class_name, "SystemStackError") == 0)
                        continue;
                g_assert_cmpint(load_case(read_cases[i].expression, "data.bytesize"), ==, 0);
                run_case(&read_cases[i], OPERATION_READ);
        }
}

static void test_write(void) {
        for (size_t i = 0; i < G_N_ELEMENTS(write_cases); i++) {
                g_assert_cmpint(load_case("nil", write_cases[i].expression), ==, 0);
                run_case(&write_cases[i], OPERATION_WRITE);
        }
}

static void test_where(void) {
        uint8_t block[512];

        g_assert_cmpint(load_case("raise 'here'", "nil"), ==, 0);
        (void) rig_request(OPERATION_READ, 4096, 512, block);
        g_assert_cmpstr(rig.report.file, ==, rig.script);
        g_assert_cmpuint(rig.report.line, ==, 6);
        (void) rig_request(OPERATION_WRITE, 4096, 512, block);
        g_assert_cmpstr(rig.report.file, ==, rig.script);
        g_assert_cmpuint(rig.report.line, ==, 8); /* where the method begins: a return value has no backtrace */
}

static void test_flush(void) {
        static const struct {
                const char *expression;
                int result;
        } cases[] = {
                { "nil", 0 }, { "false", 0 }, { "1", 0 }, { "1 << 80", 0 }, { "'x'", 0 }, { "-5", -EIO }, { "-(1 << 80)", -EIO },
                { "raise Errno::ENOSPC", -ENOSPC }, { "exit", -EIO }, { "raise NotImplementedError", -EIO },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                g_autofree char *body = g_strdup_printf("class Flush < UBLK::Target\n  def initialize = super(size: 512)\n"
                                                        "  def read(offset, length) = nil\n  def read_only? = true\n"
                                                        "  def flush = (%s)\nend\n", cases[i].expression);

                g_assert_cmpint(rig_load("flush", body, NULL), ==, 0);
                g_assert_cmpint(rig_request(OPERATION_FLUSH, 0, 0, NULL), ==, cases[i].result);
                g_assert_cmpuint(rig.n_reports, ==, cases[i].result < 0);
        }
}

/* The child returns into our loop and has to end there; the parent sees how. */
static void test_fork(void) {
        static const char *const ways[] = { "fork", "syscall(RUBY_PLATFORM.start_with?('x86_64') ? 57 : 1079) if RUBY_PLATFORM.start_with?('x86_64')" };
        uint8_t block[512];

        for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
                g_autofree char *read = g_strdup_printf("pid = %s; next_pid = pid\n"
                                                        "    raise 'child' if pid.nil? && %d == 0\n"
                                                        "    if pid && pid > 0\n"
                                                        "      Process.wait(pid); raise \"ended #{$?.exitstatus}\"\n"
                                                        "    end\n    'x' * length", ways[i], (int) i);

                g_assert_cmpint(load_case(read, "nil"), ==, 0);
                g_assert_cmpint(rig_request(OPERATION_READ, 4096, 512, block), ==, -EIO);
                rig_assert_report(1, EIO, "RuntimeError", "ended 70");
        }
}

static void test_closes_everything(void) {
        uint8_t block[512];

        g_assert_cmpint(load_case("ObjectSpace.each_object(IO) { |io| io.close unless io.closed? || io.fileno < 3 }; raise 'closed'", "nil"), ==, 0);
        g_assert_cmpint(rig_request(OPERATION_READ, 4096, 512, block), ==, -EIO);
        g_assert_cmpint(rig_request(OPERATION_READ, 0, 512, block), ==, 512);
}

void add_misbehaviour_tests(void) {
        g_test_add_func("/hook/misbehaviour/read", test_read);
        g_test_add_func("/hook/misbehaviour/write", test_write);
        g_test_add_func("/hook/misbehaviour/where", test_where);
        g_test_add_func("/hook/misbehaviour/flush", test_flush);
        g_test_add_func("/hook/misbehaviour/fork", test_fork);
        g_test_add_func("/hook/misbehaviour/closes-everything", test_closes_everything);
}
