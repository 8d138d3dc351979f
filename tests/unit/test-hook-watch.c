/* SPDX-License-Identifier: MIT */

/*
 * Calls that take long, each kind of them, in the real interpreter: what is known of them meanwhile, and what comes of an
 * interruption. A plain thread takes the supervisor's part: it looks at what the tasks have in the hook, and wants something.
 */

#include "test-hook.h"
#include "test-hook-mode.h"

#include "service/log.h"

#include <fcntl.h>
#include <pthread.h>

#define SPOT 4096 /* where reads take long; only these are meddled with */

static Calls *calls; /* outlives all cases: the interpreter's thread waits there */

static int held_fd = -EBADF; /* is told, by a byte, when something has been wanted for HELD_USEC and was not granted */

#define HELD_USEC 300000
#define TASKS 4

typedef struct Watcher {
        pthread_t thread;
        unsigned after_msec;    /* so long is a call left in peace */
        CallWish wish;
        _Atomic bool stop;
        unsigned n_wanted;
        uint64_t number[TASKS]; /* of the call that a task was seen in, and since when */
        gint64 since[TASKS];
        bool wanted[TASKS];
        size_t last;            /* task of which something was wanted last */
        gint64 wanted_at;
        uint64_t wanting_usec;  /* how long that was not granted, at least */
        char backtrace[CALLS_MAX_BACKTRACE];
} Watcher;

static void look_at(Watcher *w, size_t i) {
        gint64 now = g_get_monotonic_time();
        CallView v;

        if (!calls_get(calls, i, &v) || v.offset != SPOT)
                return;
        if (v.number != w->number[i]) {
                w->number[i] = v.number;
                w->since[i] = now;
                w->wanted[i] = false;
        }
        if (w->wanted[i] || now - w->since[i] < w->after_msec * 1000)
                return;
        w->wanted[i] = true;
        w->last = i;
        w->wanted_at = now;
        w->wanting_usec = 0;
        w->n_wanted++;
        calls_want(calls, i, v.number, w->wish);
}

static void *watcher_run(void *userdata) {
        Watcher *w = userdata;

        while (!w->stop) {
                for (size_t i = 0; i < calls_count(calls); i++)
                        look_at(w, i);
                if (w->n_wanted > 0 && calls_is_wanting(calls, w->last, w->number[w->last]))
                        w->wanting_usec = (uint64_t) (g_get_monotonic_time() - w->wanted_at);
                if (held_fd >= 0 && w->wanting_usec > HELD_USEC)
                        g_assert_cmpint(write(held_fd, "", 1), ==, 1);
                g_usleep(w->after_msec > 0 ? 1000 : 50);
        }
        return NULL;
}

static void watcher_start(Watcher *w, unsigned after_msec, CallWish wish) {
        if (!calls) {
                g_assert_cmpint(calls_new(TASKS, &calls), ==, 0);
                g_assert_cmpint(hook_watch(rig.hook, calls, "that took too long"), ==, 0);
        }
        *w = (Watcher) { .after_msec = after_msec, .wish = wish };
        g_assert_cmpint(pthread_create(&w->thread, NULL, watcher_run, w), ==, 0);
}

static void watcher_stop(Watcher *w) {
        w->stop = true;
        g_assert_cmpint(pthread_join(w->thread, NULL), ==, 0);
        calls_get_backtrace(calls, w->last, w->number[w->last], w->backtrace);
}

/* A disk whose read at SPOT does that; whose other methods do it in their own names there. */
static void load_lingering(const char *expression) {
        g_autofree char *body = g_strdup_printf("require 'timeout'\nclass Lingering < UBLK::Target\n"
                                                "  def initialize = super(size: 1 << 20)\n"
                                                "  def read(offset, length) = offset == 4096 ? linger(length) : 'r' * length\n"
                                                "  def write(offset, data) = offset == 4096 ? linger(data.bytesize) && data.bytesize : data.bytesize\n"
                                                "  def flush = linger(0)\n"
                                                "  def discard(offset, length) = linger(0)\n"
                                                "  def write_zeroes(offset, length) = linger(0)\n"
                                                "  def linger(length)\n"
                                                "    %s\n"
                                                "    'r' * length\n"
                                                "  end\n"
                                                "end\n", expression);
        if (rig_load("lingering", body, NULL) < 0)
                g_error("%s", rig.failure.message);
}

static int read_at(uint64_t offset) {
        uint8_t block[512] = { 0 };
        int r = rig_request(OPERATION_READ, offset, sizeof(block), block);

        if (r > 0)
                g_assert_cmpuint(block[511], ==, 'r');
        return r;
}

static void assert_next_are_served(void) {
        for (unsigned i = 0; i < 20; i++)
                g_assert_cmpint(read_at(0), ==, 512);
}

/* Whatever waits in Ruby or lets go of the interpreter ends by the exception, and its place is known. */
static void test_interrupted(void) {
        static const char *const ways[] = {
                "sleep",
                "loop { }",
                "i = 0; i += 1 while true",
                "IO.pipe[0].read(1)",
                "path = \"#{__FILE__}.fifo\"; File.exist?(path) || File.mkfifo(path); File.open(path)",
                "a = File.open(__FILE__); a.flock(File::LOCK_EX); File.open(__FILE__).flock(File::LOCK_EX)",
                "IO.select([IO.pipe[0]])",
                "m = Mutex.new; t = Thread.new { m.lock; sleep }; Thread.pass until m.locked?; m.lock",
                "m = Mutex.new; m.lock; t = Thread.new { m.lock }; t.join",
                "Thread::Queue.new.pop",
                "Thread::ConditionVariable.new.wait(Mutex.new.tap(&:lock))",
                "Fiber.new { sleep }.resume",
                "[1].each { |x| [2].map { |y| sleep } }",
                "begin; sleep; rescue => e; 1; end",
                "begin; sleep; ensure; @left = true; end",
                "Timeout.timeout(600) { sleep }",
                "Process.wait(spawn('exec sleep 9', out: :err))",
                "system('exec sleep 9', out: :err)",
                "\"#{'a' * 60}!\" =~ /\\A(a+)+\\1?\\z/ while true",
        };

        for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
                Watcher w;

                load_lingering(ways[i]);
                watcher_start(&w, 150, CALL_WISH_INTERRUPT);
                g_assert_cmpint(read_at(SPOT), ==, -ETIMEDOUT);
                watcher_stop(&w);
                rig_assert_report(1, ETIMEDOUT, "UBLK::HookTimeout", "that took too long");
                g_test_message("%s: granted after %llu us\n%s", ways[i], (unsigned long long) w.wanting_usec, w.backtrace);
                g_assert_cmpuint(w.n_wanted, ==, 1);
                g_assert_nonnull(strstr(w.backtrace, "lingering.rb:"));
                g_assert_nonnull(strstr(rig.report.backtrace, "lingering.rb:"));
                assert_next_are_served();
        }
}

static void test_operations(void) {
        static const uint8_t ops[] = { OPERATION_WRITE, OPERATION_FLUSH, OPERATION_DISCARD, OPERATION_WRITE_ZEROES };

        load_lingering("sleep");
        for (size_t i = 0; i < G_N_ELEMENTS(ops); i++) {
                uint8_t block[512] = { 0 };
                Request request;
                Watcher w;

                rig_fill(&request, ops[i], SPOT, sizeof(block), block);
                watcher_start(&w, 50, CALL_WISH_INTERRUPT);
                rig_serve(&request, 1);
                watcher_stop(&w);
                g_assert_cmpint(request.result, ==, -ETIMEDOUT);
                g_assert_cmpint(rig.reported.op, ==, ops[i]);
                assert_next_are_served();
        }
}

/* A look changes nothing. */
static void test_backtrace(void) {
        Watcher w;

        load_lingering("def deep(n) = n.zero? ? sleep(3) : deep(n - 1)\n    deep(20)");
        watcher_start(&w, 1000, CALL_WISH_BACKTRACE);
        g_assert_cmpint(read_at(SPOT), ==, 512);
        watcher_stop(&w);
        g_assert_cmpuint(rig.n_reports, ==, 0);
        g_test_message("%s", w.backtrace);
        g_assert_nonnull(strstr(w.backtrace, "sleep"));
        g_auto(GStrv) frames = g_strsplit(w.backtrace, "\n", -1);
        g_assert_cmpuint(g_strv_length(frames), ==, 10);
        assert_next_are_served();
}

/* One that is caught is the hook's to judge; it comes but once. */
static void test_swallowed(void) {
        Watcher w;

        load_lingering("begin; sleep 0.4; rescue Exception => e; sleep 0.4; end");
        watcher_start(&w, 50, CALL_WISH_INTERRUPT);
        g_assert_cmpint(read_at(SPOT), ==, 512);
        watcher_stop(&w);
        g_assert_cmpuint(rig.n_reports, ==, 0);
        load_lingering("n = 0; begin; n.zero? ? sleep : sleep(0.3); rescue Exception; n += 1; retry; end; raise n.to_s unless n == 1");
        watcher_start(&w, 50, CALL_WISH_INTERRUPT);
        g_assert_cmpint(read_at(SPOT), ==, 512);
        watcher_stop(&w);
        assert_next_are_served();
}

/* C code that keeps the interpreter: nothing is known of it, and it is interrupted when it lets go, here at the latest in its
 * sleep. What the call needs is there before it; the code ends when the watcher has waited long enough. */
static void test_holding_the_interpreter(void) {
        g_autofree char *expression = NULL;
        int ends[2];
        Watcher w;

        g_assert_cmpint(pipe2(ends, O_CLOEXEC), ==, 0);
        expression = g_strdup_printf("@hold ||= (require 'fiddle'; Fiddle::Function.new(Fiddle.dlopen(nil)['poll'],\n"
                                     "      [Fiddle::TYPE_VOIDP, Fiddle::TYPE_LONG, Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true))\n"
                                     "    return if length.zero?\n"
                                     "    @hold.call([%d, 1, 0].pack('iss'), 1, 60_000)\n    sleep", ends[0]);
        load_lingering(expression);
        g_assert_cmpint(rig_request(OPERATION_DISCARD, 0, 512, NULL), ==, 0);
        held_fd = ends[1];
        watcher_start(&w, 100, CALL_WISH_INTERRUPT);
        g_assert_cmpint(read_at(SPOT), ==, -ETIMEDOUT);
        watcher_stop(&w);
        held_fd = -EBADF;
        g_assert_cmpuint(w.wanting_usec, >, HELD_USEC);
        assert_next_are_served();
        close(ends[0]);
        close(ends[1]);
}

/* An exception that comes too late meets no other request, however close it was: while the payload is copied, for instance. */
static void test_too_late(void) {
        unsigned n = mode_is_on() ? 20 : 400, n_timeouts = 0;
        g_autofree uint8_t *payload = g_malloc(1 << 20);
        Watcher w;

        load_lingering("case rand(4)\n    when 0 then sleep(rand / 2000)\n    when 1 then rand(3000).times { }\n    when 2 then Thread.pass\n    end");
        watcher_start(&w, 0, CALL_WISH_INTERRUPT);
        for (unsigned i = 0; i < n; i++) {
                uint8_t block[512];
                Request requests[8];

                /* One of a batch, between others. */
                for (unsigned j = 0; j < 8; j++)
                        rig_fill(&requests[j], OPERATION_READ, j == 3 ? SPOT : 0, j == 3 ? 1 << 20 : sizeof(block),
                                 j == 3 ? payload : block);
                rig_serve(requests, 8);
                for (unsigned j = 0; j < 8; j++)
                        if (j == 3 && requests[j].result == -ETIMEDOUT)
                                n_timeouts++;
                        else
                                g_assert_cmpint(requests[j].result, ==, (int) requests[j].length);
        }
        watcher_stop(&w);
        g_test_message("%u of %u were interrupted, %u were to be", n_timeouts, n, w.n_wanted);
        g_assert_cmpuint(n_timeouts, >, 0);
        g_assert_cmpuint(w.n_wanted, >, n_timeouts);
        assert_next_are_served();
}

/* A queue's own thread, beside one that is at work. */
typedef struct Serving {
        int result;
        _Atomic bool ended;
} Serving;

static void serve_on_thread(void *userdata) {
        Serving *s = userdata;

        s->result = read_at(SPOT);
        s->ended = true;
}

static void wait_a_little(void *argument) {
        (void) argument;
        g_usleep(2000);
}

static void test_other_queue(void) {
        const Server *server = hook_server(rig.hook);
        Serving s = { .ended = false };
        unsigned n_served = 0;
        Watcher w;

        load_lingering("sleep");
        watcher_start(&w, 200, CALL_WISH_INTERRUPT);
        g_assert_cmpint(hook_spawn(rig.hook, serve_on_thread, &s), ==, 0);
        for (unsigned i = 0; i < 5000 && !s.ended; i++) {
                server->unlocked(server->userdata, wait_a_little, NULL);
                g_assert_cmpint(read_at(0), ==, 512);
                n_served++;
        }
        watcher_stop(&w);
        g_assert_true(s.ended);
        g_assert_cmpint(s.result, ==, -ETIMEDOUT);
        g_assert_cmpuint(n_served, >, 1); /* under valgrind, on a busy machine, not many more */
        assert_next_are_served();
}

/* A hook that kills every thread but its own, and one that moves what it can. */
static void test_hostile_surroundings(void) {
        static const char *const ways[] = {
                "Thread.list.each { |t| t.kill unless t == Thread.current || t == Thread.main }; sleep",
                "Thread.list.each { |t| t.raise('x') unless t == Thread.current || t == Thread.main }; sleep",
                "GC.compact if GC.respond_to?(:compact); GC.start; sleep",
                "Thread.new { loop { } }; sleep",
        };

        for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
                Watcher w;

                load_lingering(ways[i]);
                watcher_start(&w, 500, CALL_WISH_INTERRUPT);
                g_assert_cmpint(read_at(SPOT), ==, -ETIMEDOUT);
                watcher_stop(&w);
                g_assert_nonnull(strstr(w.backtrace, "linger'")); /* mostly in its sleep */
                assert_next_are_served();
        }
        load_lingering("Thread.list.each { |t| t.kill unless t == Thread.current || t == Thread.main }");
        (void) read_at(SPOT);
}

/* What the collector cost is known to who watches, when a batch has been served, and when there was time to collect. */
static void test_collections(void) {
        const Server *server = hook_server(rig.hook);
        g_autofree uint8_t *buffer = g_malloc(512 * 1024);
        uint64_t n, usec, before, last = 0, begun;
        Watcher w;

        watcher_start(&w, 1000, CALL_WISH_BACKTRACE);
        load_lingering("GC.start");
        g_assert_cmpint(read_at(0), ==, 512);
        calls_get_collections(calls, &before, &usec);
        g_assert_cmpuint(before, >, 0);
        begun = usec;
        for (int i = 0; i < 200 && usec == begun; i++) { /* it is counted in ms */
                g_assert_cmpint(read_at(4096), ==, 512);
                calls_get_collections(calls, &n, &usec);
                g_assert_cmpuint(n, >, last);
                last = n;
        }
        g_assert_cmpuint(usec, >, begun);
        g_assert_cmpuint(usec, <, 600 * USEC_PER_SEC);
        for (int i = 0; i < 16; i++)
                g_assert_cmpint(rig_request(OPERATION_READ, 0, 512 * 1024, buffer), ==, 512 * 1024);
        calls_get_collections(calls, &before, &usec);
        server->tidy(server->userdata);
        calls_get_collections(calls, &n, &usec);
        g_assert_cmpuint(n, >, before);
        watcher_stop(&w);
}

void add_watch_tests(void) {
        if (mode_collects()) /* they are about time, of which the collector takes all; and it closes the pipes that calls wait at */
                return;
        g_test_add_func("/hook/watch/interrupted", test_interrupted);
        g_test_add_func("/hook/watch/operations", test_operations);
        g_test_add_func("/hook/watch/backtrace", test_backtrace);
        g_test_add_func("/hook/watch/swallowed", test_swallowed);
        g_test_add_func("/hook/watch/holding-the-interpreter", test_holding_the_interpreter);
        g_test_add_func("/hook/watch/too-late", test_too_late);
        g_test_add_func("/hook/watch/other-queue", test_other_queue);
        g_test_add_func("/hook/watch/hostile-surroundings", test_hostile_surroundings);
        g_test_add_func("/hook/watch/collections", test_collections);
}
