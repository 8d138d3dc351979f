/* SPDX-License-Identifier: MIT */

/* What a hook can do to its process: what is refused, what is put back, and what ends it in the way that is
 * recovered from. */

#include "test-hook.h"

#include <signal.h>
#include <sys/wait.h>

/* A disk whose read at offset 4096 does that. */
static void load_reading(const char *expression) {
        g_autofree char *body = g_strdup_printf("class Guarded < UBLK::Target\n"
                                                "  def initialize = super(size: 1 << 20)\n"
                                                "  def read(offset, length)\n"
                                                "    return 'r' * length unless offset == 4096\n"
                                                "    %s\n"
                                                "  end\n"
                                                "  def write(offset, data) = data.bytesize\n"
                                                "end\n", expression);
        g_assert_cmpint(rig_load("guarded", body, NULL), ==, 0);
}

static void assert_next_is_served(void) {
        uint8_t block[512] = { 0 };

        g_assert_cmpint(rig_request(OPERATION_READ, 0, sizeof(block), block), ==, sizeof(block));
        g_assert_cmpuint(block[511], ==, 'r');
}

static int read_there(void) {
        uint8_t block[512];

        return rig_request(OPERATION_READ, 4096, sizeof(block), block);
}

static void test_refused(void) {
        static const char *const ways[] = { "exec 'true'", "Kernel.exec('true')", "Process.exec('true')", "Process.daemon",
                                            "Process.daemon(true, true)" };

        for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
                load_reading(ways[i]);
                g_assert_cmpint(read_there(), ==, -EIO);
                rig_assert_report(1, EIO, "UBLK::Error", "would end the process");
                assert_next_is_served();
        }
}

/* What children do is their own affair; a signal ends them, and only them. */
static void test_children(void) {
        static const char *const ways[] = {
                "fork { exec 'true' }.then { |pid| Process.wait(pid); raise 'no' unless $?.success? }; 'r' * length",
                "raise 'no' unless system('exit 3') == false && `echo x` == \"x\\n\" && Process.wait2(spawn('true'))[1].success?; 'r' * length",
                "pid = fork { sleep }; Process.kill('TERM', pid); raise $?.inspect unless Process.wait2(pid)[1].termsig == 15; 'r' * length",
                ("pid = fork { trap('TERM') { exit! 9 }; $stdout.flush; sleep }; sleep 0.2; Process.kill('TERM', pid);"
                 " raise $?.inspect unless Process.wait2(pid)[1].exitstatus == 9; 'r' * length"),
        };

        for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
                load_reading(ways[i]);
                if (read_there() != 512)
                        g_error("%s: %s", ways[i], rig.report.message);
                assert_next_is_served();
        }
}

static unsigned n_signals;

static void on_signal(int signo) {
        (void) signo;
        n_signals++;
}

/* add_load_tests installed handlers before Ruby started, as the worker's main does. */
static void test_trap_in_a_request(void) {
        static const char *const ways[] = { "trap('TERM') { raise 'trapped' }", "Signal.trap('USR2', 'IGNORE')", "Kernel.trap(:TERM, 'DEFAULT')" };
        struct sigaction before, now;

        g_assert_cmpint(sigaction(SIGTERM, NULL, &before), ==, 0);
        for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
                g_autofree char *expression = g_strconcat(ways[i], "; 'r' * length", NULL);

                load_reading(expression);
                g_assert_cmpint(read_there(), ==, 512);
                g_assert_cmpint(sigaction(SIGTERM, NULL, &now), ==, 0);
                g_assert_true(now.sa_handler == before.sa_handler);
                g_assert_cmpint(sigaction(SIGUSR2, NULL, &now), ==, 0);
                g_assert_true(now.sa_handler == before.sa_handler);
        }
        load_reading("trap('ALRM') { $rang = true }; Process.kill('ALRM', $$); sleep 0.1 until $rang; 'r' * length");
        g_assert_cmpint(read_there(), ==, 512);
}

/* Behind the library's back. */
static void test_handler_taken_otherwise(void) {
        const Server *server = hook_server(rig.hook);
        g_autofree uint8_t *payload = g_malloc(8 << 20);
        struct sigaction before, now;

        load_reading("nil");
        g_assert_cmpint(sigaction(SIGTERM, NULL, &before), ==, 0);
        (void) signal(SIGTERM, on_signal);
        g_assert_cmpint(rig_request(OPERATION_WRITE, 0, 8 << 20, payload), ==, 8 << 20);
        server->tidy(server->userdata);
        g_assert_cmpint(sigaction(SIGTERM, NULL, &now), ==, 0);
        g_assert_true(now.sa_handler == before.sa_handler);
}

static void test_disabled_collector(void) {
        const Server *server = hook_server(rig.hook);
        g_autofree uint8_t *payload = g_malloc(8 << 20);

        load_reading("GC.disable; 'r' * length");
        g_assert_cmpint(read_there(), ==, 512);
        g_assert_cmpint(rig_request(OPERATION_WRITE, 0, 8 << 20, payload), ==, 8 << 20);
        server->tidy(server->userdata);
        load_reading("raise 'still disabled' if GC.enable; 'r' * length");
        g_assert_cmpint(read_there(), ==, 512);
}

static void test_spinning_threads(void) {
        load_reading("@spin = 2.times.map { Thread.new { loop { } } }; 'r' * length");
        g_assert_cmpint(read_there(), ==, 512);
        for (unsigned i = 0; i < 5; i++)
                assert_next_is_served();
        load_reading("Thread.list.each { |t| t.kill unless t == Thread.current || t == Thread.main }; 'r' * length");
        g_assert_cmpint(read_there(), ==, 512);
}

/* Whatever a String is, its bytes count. */
static void test_strings(void) {
        static const char *const ways[] = { "('r' * length).freeze", "Class.new(String) { def bytesize = 3; def to_str = nil }.new('r' * length)",
                                            "('r' * length).force_encoding('UTF-16LE')", "('r' * length).force_encoding('EUC-JP').freeze" };

        for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
                load_reading(ways[i]);
                g_assert_cmpint(read_there(), ==, 512);
        }
}

static void test_backtrace(void) {
        load_reading("def deep(n) = n.zero? ? raise('deep') : deep(n - 1)\n    deep(20)");
        g_assert_cmpint(read_there(), ==, -EIO);
        g_assert_nonnull(rig.report.backtrace);
        g_test_message("%s", rig.report.backtrace);
        g_assert_true(g_str_has_prefix(rig.report.backtrace, "    from /"));
        g_assert_nonnull(strstr(rig.report.backtrace, "guarded.rb:5:in"));
        g_auto(GStrv) frames = g_strsplit(rig.report.backtrace, "\n", -1);
        g_assert_cmpuint(g_strv_length(frames), ==, 8);
        load_reading("-5");
        g_assert_cmpint(read_there(), ==, -EIO);
        g_assert_null(rig.report.backtrace);
}

/* A queue's own thread. */
typedef struct Serving {
        int results[4];
        bool ended;
} Serving;

static void serve_on_thread(void *userdata) {
        Serving *s = userdata;

        s->results[0] = read_there();
        for (size_t i = 1; i < G_N_ELEMENTS(s->results); i++) {
                uint8_t block[512];
                s->results[i] = rig_request(OPERATION_READ, 0, sizeof(block), block);
        }
        s->ended = true;
}

static void wait_a_little(void *argument) {
        (void) argument;
        (void) usleep(10000);
}

/* It lives on, and what comes next may still sleep, lock and be interrupted. */
static void test_killed_serving_thread(void) {
        static const char *const ways[] = { "Thread.current.kill", "Thread.exit", "Thread.current.terminate; 'r' * length",
                                            "t = Thread.current; Thread.new { t.kill }; sleep" };
        const Server *server = hook_server(rig.hook);

        for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
                Serving s = { .results = { 1, 1, 1, 1 } };
                g_autofree char *body = g_strdup_printf("class Killed < UBLK::Target\n"
                                                        "  def initialize = super(size: 1 << 20)\n"
                                                        "  def read(offset, length)\n"
                                                        "    if offset == 4096\n      %s\n    end\n"
                                                        "    Thread.new { sleep 0.01 }.join; sleep 0.01; Mutex.new.synchronize { 'r' * length }\n"
                                                        "  end\n"
                                                        "  def write(offset, data) = data.bytesize\n"
                                                        "end\n", ways[i]);

                g_assert_cmpint(rig_load("killed", body, NULL), ==, 0);
                g_assert_cmpint(hook_spawn(rig.hook, serve_on_thread, &s), ==, 0);
                for (unsigned n = 0; n < 500 && !s.ended; n++)
                        server->unlocked(server->userdata, wait_a_little, NULL);
                g_test_message("%s: %d %d %d %d", ways[i], s.results[0], s.results[1], s.results[2], s.results[3]);
                g_assert_true(s.ended);
                g_assert_cmpint(s.results[0], ==, -EIO);
                for (size_t n = 1; n < G_N_ELEMENTS(s.results); n++)
                        g_assert_cmpint(s.results[n], ==, 512);
        }
}

/* exit! ends the process: no at_exit, with the status that it says. systemd recovers whatever it is. */
static void exit_elsewhere(void) {
        load_reading("at_exit { warn 'at_exit ran' }; exit!(0)");
        (void) read_there();
        _exit(99);
}

static void test_exit(void) {
        g_test_trap_subprocess("/hook/guard/exit/subprocess", 30 * G_USEC_PER_SEC, 0);
        g_test_trap_assert_passed();
        g_test_trap_assert_stderr_unmatched("*at_exit ran*");
}

/* Three statuses are the worker's own: by them it says that it hands over, and that nothing is to be recovered. Anything else is
 * what it is, and so is what children end with. */
static const struct {
        const char *code;
        int status;
} ends[] = {
        { "exit!(75)", 1 },
        { "exit!(76)", 1 },
        { "Process.exit!(78)", 1 },
        { "Kernel.exit!(78)", 1 },
        { "exit!(256 + 75)", 1 },
        { "exit!(-181)", 1 },
        { "exit!(78.5)", 1 },
        { "Thread.new { exit!(75) }.join", 1 },
        { "exit!", 1 },
        { "exit!(true)", 0 },
        { "exit!(false)", 1 },
        { "exit!(77)", 77 },
        { "exit!(fork { exit!(78) }.then { |pid| Process.wait2(pid)[1].exitstatus == 78 ? 9 : 8 })", 9 },
};

static int status_of(const char *test, unsigned number) {
        g_autofree char *path = g_strdup_printf("/hook/guard/%s/subprocess", test), *self = g_file_read_link("/proc/self/exe", NULL);
        g_autofree char *text = g_strdup_printf("%u", number);
        const char *const words[] = { self, "-p", path, NULL };
        int status;

        g_assert_true(g_setenv("TEST_NUMBER", text, TRUE));
        g_assert_true(g_spawn_sync(NULL, (char **) words, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL, NULL, &status, NULL));
        g_unsetenv("TEST_NUMBER");
        g_assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static void exit_with_status(void) {
        const char *number = g_getenv("TEST_NUMBER");

        load_reading(ends[number ? atoi(number) : 0].code);
        (void) read_there();
        _exit(99);
}

static void test_exit_status(void) {
        for (unsigned i = 0; i < G_N_ELEMENTS(ends); i++) {
                g_test_message("%s", ends[i].code);
                g_assert_cmpint(status_of("exit-status", i), ==, ends[i].status);
        }
        g_assert_cmpint(status_of("exit-at-exit", 0), ==, 1);
}

static void exit_at_exit(void) {
        load_reading("at_exit { exit!(78) }; 'r' * length");
        g_assert_cmpint(read_there(), ==, 512); /* and Ruby is taken down */
}

void add_guard_tests(void) {
        g_test_add_func("/hook/guard/refused", test_refused);
        g_test_add_func("/hook/guard/children", test_children);
        g_test_add_func("/hook/guard/trap-in-a-request", test_trap_in_a_request);
        g_test_add_func("/hook/guard/handler-taken-otherwise", test_handler_taken_otherwise);
        g_test_add_func("/hook/guard/disabled-collector", test_disabled_collector);
        g_test_add_func("/hook/guard/spinning-threads", test_spinning_threads);
        g_test_add_func("/hook/guard/strings", test_strings);
        g_test_add_func("/hook/guard/backtrace", test_backtrace);
        g_test_add_func("/hook/guard/killed-serving-thread", test_killed_serving_thread);
        g_test_add_func("/hook/guard/exit", test_exit);
        g_test_add_func("/hook/guard/exit/subprocess", exit_elsewhere);
        g_test_add_func("/hook/guard/exit-status", test_exit_status);
        g_test_add_func("/hook/guard/exit-status/subprocess", exit_with_status);
        g_test_add_func("/hook/guard/exit-at-exit/subprocess", exit_at_exit);
}
