/* SPDX-License-Identifier: MIT */

/* The three stages of a request that the hook does not give back, by a clock that is made up. */

#include "service/log.h"
#include "service/report.h"
#include "service/stuck.h"

#include <glib.h>

#define SEC USEC_PER_SEC
#define MSEC USEC_PER_MSEC
#define START (1000 * SEC)

/* What the journal got. */
static unsigned n_entries, last_stage;
static uint64_t last_age;
static char *last_text;

void report_stuck(const char *device, const CallView *call, unsigned stage, uint64_t age_usec, const char *text) {
        g_assert_cmpstr(device, ==, "disk0");
        g_assert_cmpuint(call->offset, ==, 4096);
        n_entries++;
        last_stage = stage;
        last_age = age_usec;
        g_free(last_text);
        last_text = g_strdup(text);
        g_test_message("stage %u after %.1f s: %s", stage, (double) age_usec / SEC, text);
}

typedef struct Rig {
        Calls *calls;
        HookCall *call;
        size_t index;
        Stuck *stuck;
        uint64_t now;
        uint64_t wait;
        CallView over; /* what the process has to end for */
        Failure failure;
} Rig;

static void begin_with(Rig *r, uint64_t timeout, size_t tasks) {
        n_entries = 0;
        *r = (Rig) { .now = START, .failure = FAILURE_NULL };
        g_assert_cmpint(calls_new(tasks, &r->calls), ==, 0);
        r->call = calls_join(r->calls, &r->index);
        g_assert_cmpint(stuck_new("disk0", timeout, r->calls, &r->stuck), ==, 0);
}

static void begin(Rig *r, uint64_t timeout) {
        begin_with(r, timeout, 1);
}

static void end(Rig *r) {
        stuck_free(r->stuck);
        calls_free(r->calls);
        failure_done(&r->failure);
}

static void enter(Rig *r) {
        call_begin(r->call, &(Request) { .op = OPERATION_READ, .offset = 4096, .length = 512 });
}

static int check(Rig *r) {
        int k;

        failure_done(&r->failure);
        k = stuck_check(r->stuck, r->now, &r->wait, &r->over, &r->failure);
        g_assert_cmpuint(r->wait, <=, 500 * MSEC);
        return k;
}

/* As the supervisor does it: whenever it is told to, until then. Returns what made it stop, 0 at the end. */
static int run_until(Rig *r, uint64_t then) {
        int k;

        while ((k = check(r)) >= 0 && r->now < then)
                r->now += MIN(MAX(r->wait, 1), then - r->now);
        return k;
}

/* What is wanted now, granted with that backtrace if there is one. */
static unsigned grant(Rig *r, const char *backtrace) {
        unsigned wishes = 0;
        uint64_t number;
        size_t index;

        if (!calls_take_wish(r->calls, &index, &number, &wishes))
                return 0;
        calls_grant(r->calls, index, number, backtrace);
        return wishes;
}

static void test_limits(void) {
        static const struct { uint64_t timeout, log, interrupt, grace, tick; } cases[] = {
                { 0, 5 * SEC, UINT64_MAX, 0, 500 * MSEC },
                { 100 * MSEC, 50 * MSEC, 100 * MSEC, 2 * SEC, 20 * MSEC },
                { 1 * SEC, 500 * MSEC, 1 * SEC, 2 * SEC, 62500 },
                { 30 * SEC, 5 * SEC, 30 * SEC, 10 * SEC, 500 * MSEC },
                { 3600 * SEC, 5 * SEC, 3600 * SEC, 10 * SEC, 500 * MSEC },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                StuckLimits l = stuck_limits(cases[i].timeout);

                g_assert_cmpuint(l.log_usec, ==, cases[i].log);
                g_assert_cmpuint(l.interrupt_usec, ==, cases[i].interrupt);
                g_assert_cmpuint(l.grace_usec, ==, cases[i].grace);
                g_assert_cmpuint(l.tick_usec, ==, cases[i].tick);
        }
}

static void test_quick_calls(void) {
        Rig r;

        begin(&r, 10 * SEC);
        for (unsigned i = 0; i < 100; i++) {
                enter(&r); /* another one each time, although it is of the same request */
                g_assert_cmpint(run_until(&r, r.now + SEC), ==, 0);
        }
        call_end(r.call);
        g_assert_cmpint(run_until(&r, r.now + 100 * SEC), ==, 0);
        g_assert_cmpuint(n_entries, ==, 0);
        g_assert_cmpuint(grant(&r, NULL), ==, 0);
        end(&r);
}

static void test_stages(void) {
        Rig r;

        begin(&r, 10 * SEC);
        enter(&r);
        g_assert_cmpint(run_until(&r, START + 5 * SEC - 1), ==, 0);
        g_assert_cmpuint(grant(&r, NULL), ==, 0);
        g_assert_cmpint(run_until(&r, START + 5 * SEC), ==, 0);
        g_assert_cmpuint(n_entries, ==, 0); /* it waits for the backtrace, and not for long */
        g_assert_cmpuint(r.wait, <=, 20 * MSEC);
        g_assert_cmpuint(grant(&r, "a.rb:1:in `read'\nb.rb:2"), ==, CALL_WISH_BACKTRACE);
        g_assert_cmpint(check(&r), ==, 0);
        g_assert_cmpuint(n_entries, ==, 1);
        g_assert_cmpuint(last_stage, ==, 1);
        g_assert_nonnull(strstr(last_text, "hook-timeout, 10.0 s"));
        g_assert_nonnull(strstr(last_text, "\n    from a.rb:1:in `read'\n    from b.rb:2"));
        g_assert_null(strstr(last_text, "no backtrace"));

        g_assert_cmpint(run_until(&r, START + 10 * SEC - 1), ==, 0);
        g_assert_cmpuint(n_entries, ==, 1); /* once */
        g_assert_cmpuint(grant(&r, NULL), ==, 0);
        g_assert_cmpint(run_until(&r, START + 10 * SEC), ==, 0);
        g_assert_cmpuint(grant(&r, NULL), ==, CALL_WISH_INTERRUPT);
        g_assert_cmpint(run_until(&r, START + 10 * SEC + 3333332), ==, 0);
        g_assert_cmpuint(grant(&r, NULL), ==, 0); /* once */
        g_assert_cmpint(run_until(&r, START + 10 * SEC + 3333333), ==, -ETIMEDOUT);
        g_assert_cmpuint(n_entries, ==, 2);
        g_assert_cmpuint(last_stage, ==, 3);
        g_assert_cmpuint(last_age, ==, 13333333);
        g_assert_nonnull(strstr(last_text, "did not end it"));
        g_assert_nonnull(strstr(last_text, "    from a.rb:1"));
        g_assert_nonnull(strstr(last_text, "State of its thread: R"));
        g_assert_cmpuint(r.over.offset, ==, 4096);
        g_assert_cmpuint(r.over.length, ==, 512);
        g_assert_cmpint(r.failure.error, ==, ETIMEDOUT);
        g_assert_cmpint(r.failure.kind, ==, FAILURE_HOOK);
        g_assert_cmpstr(r.failure.class_name, ==, "UBLK::HookTimeout");
        g_assert_nonnull(strstr(r.failure.message, "read of 512 bytes at 4096"));
        end(&r);
}

/* Ruby does not get its turn: everything goes on without it. */
static void test_silent_ruby(void) {
        Rig r;

        begin(&r, 10 * SEC);
        enter(&r);
        g_assert_cmpint(run_until(&r, START + 6 * SEC - 1), ==, 0);
        g_assert_cmpuint(n_entries, ==, 0);
        g_assert_cmpint(run_until(&r, START + 6 * SEC), ==, 0);
        g_assert_cmpuint(n_entries, ==, 1);
        g_assert_nonnull(strstr(last_text, "no backtrace"));
        g_assert_cmpint(run_until(&r, START + 30 * SEC), ==, -ETIMEDOUT);
        g_assert_cmpuint(r.now, ==, START + 13333333);
        g_assert_cmpuint(n_entries, ==, 2);
        g_assert_nonnull(strstr(last_text, "could not be interrupted"));
        end(&r);
}

/* The exception ends it, and the next request begins anew. */
static void test_interrupted(void) {
        Rig r;

        begin(&r, 10 * SEC);
        for (unsigned i = 1; i <= 3; i++) {
                uint64_t start = r.now;

                enter(&r);
                g_assert_cmpint(run_until(&r, start + 10 * SEC + 500 * MSEC), ==, 0);
                g_assert_cmpuint(grant(&r, NULL), ==, (CALL_WISH_BACKTRACE | CALL_WISH_INTERRUPT));
                g_assert_cmpuint(n_entries, ==, i);
        }
        call_end(r.call);
        g_assert_cmpint(run_until(&r, r.now + 60 * SEC), ==, 0);
        g_assert_cmpuint(n_entries, ==, 3);
        end(&r);
}

/* One that waits for another one is not to blame, whatever its number. */
static void test_oldest(void) {
        HookCall *other;
        size_t index;
        Rig r;

        begin_with(&r, 10 * SEC, 2);
        other = calls_join(r.calls, &index);
        call_begin(other, &(Request) { .op = OPERATION_WRITE, .offset = 4096, .length = 1024 });
        g_assert_cmpint(run_until(&r, r.now + SEC), ==, 0);
        enter(&r);
        g_assert_cmpint(run_until(&r, START + 13 * SEC), ==, 0);
        r.now += 1900 * MSEC; /* both are over by now */
        g_assert_cmpint(check(&r), ==, -ETIMEDOUT);
        g_assert_cmpuint(r.over.length, ==, 1024);
        end(&r);
}

static void test_no_timeout(void) {
        Rig r;

        begin(&r, 0);
        enter(&r);
        g_assert_cmpint(run_until(&r, START + 100000 * SEC), ==, 0);
        g_assert_cmpuint(n_entries, ==, 1);
        g_assert_cmpuint(last_stage, ==, 1);
        g_assert_nonnull(strstr(last_text, "hook-timeout is 0"));
        g_assert_cmpuint(grant(&r, NULL), ==, CALL_WISH_BACKTRACE);
        for (unsigned i = 0; i < 300; i++, r.now += SEC)
                g_assert_cmpint(stuck_check_turn(r.stuck, 0, true, 1, r.now, &r.failure), ==, 0);
        end(&r);
}

static void test_short_timeout(void) {
        Rig r;

        begin(&r, 100 * MSEC);
        g_assert_cmpint(check(&r), ==, 0);
        g_assert_cmpuint(r.wait, ==, 20 * MSEC); /* so that a new one is found in time */
        enter(&r);
        g_assert_cmpint(run_until(&r, START + 100 * MSEC), ==, 0);
        g_assert_cmpuint(grant(&r, "x"), ==, (CALL_WISH_BACKTRACE | CALL_WISH_INTERRUPT));
        g_assert_cmpint(run_until(&r, START + 10 * SEC), ==, -ETIMEDOUT);
        g_assert_cmpuint(r.now, ==, START + 2100 * MSEC);
        end(&r);
}

/* A process that was frozen meanwhile is none that was stuck. */
static void test_gap(void) {
        Rig r;

        begin(&r, 10 * SEC);
        enter(&r);
        g_assert_cmpint(run_until(&r, START + 4 * SEC), ==, 0);
        r.now += 3600 * SEC;
        g_assert_cmpint(check(&r), ==, 0);
        g_assert_cmpuint(n_entries, ==, 0);
        g_assert_cmpuint(grant(&r, NULL), ==, 0);
        g_assert_cmpint(run_until(&r, r.now + 6 * SEC), ==, 0);
        g_assert_cmpuint(n_entries, ==, 1);
        g_assert_cmpuint(grant(&r, NULL), ==, (CALL_WISH_BACKTRACE | CALL_WISH_INTERRUPT));
        r.now += 3600 * SEC;
        g_assert_cmpint(check(&r), ==, 0);
        g_assert_cmpint(run_until(&r, r.now + 10 * SEC), ==, -ETIMEDOUT);
        g_assert_cmpuint(r.now, >=, START + 7200 * SEC + 13333333);
        end(&r);
}

static void test_turn(void) {
        Rig r;

        begin(&r, 3 * SEC);
        /* Each wait is another one, or there is none. */
        for (unsigned i = 0; i < 100; i++, r.now += SEC) {
                g_assert_cmpint(check(&r), ==, 0);
                g_assert_cmpint(stuck_check_turn(r.stuck, 0, i % 3 != 0, i / 3, r.now, &r.failure), ==, 0);
        }
        g_assert_cmpint(stuck_check_turn(r.stuck, 99, true, 1, r.now, &r.failure), ==, 0);
        for (unsigned i = 0; i < 5; i++, r.now += SEC) {
                g_assert_cmpint(check(&r), ==, 0);
                g_assert_cmpint(stuck_check_turn(r.stuck, 0, true, 77, r.now, &r.failure), ==, 0);
        }
        g_assert_cmpint(check(&r), ==, 0);
        g_assert_cmpint(stuck_check_turn(r.stuck, 0, true, 77, r.now, &r.failure), ==, -ETIMEDOUT);
        g_assert_nonnull(strstr(r.failure.message, "waited for the interpreter for 5.0 s"));
        end(&r);
}

static void test_list(void) {
        static StuckRequest list[4];
        HookCall *others[5];
        size_t index;
        Rig r;

        begin_with(&r, 30 * SEC, 6);
        g_assert_cmpuint(stuck_list(r.stuck, r.now, list, 4), ==, 0);
        enter(&r);
        g_assert_cmpint(run_until(&r, r.now + 999 * MSEC), ==, 0);
        g_assert_cmpuint(stuck_list(r.stuck, r.now, list, 4), ==, 0);
        g_assert_cmpint(run_until(&r, r.now + MSEC), ==, 0);
        g_assert_cmpuint(stuck_list(r.stuck, r.now, list, 4), ==, 1);
        g_assert_cmpuint(list[0].offset, ==, 4096);
        g_assert_cmpuint(list[0].length, ==, 512);
        g_assert_cmpuint(list[0].age_usec, ==, SEC);
        g_assert_cmpuint(list[0].op, ==, OPERATION_READ);
        g_assert_cmpuint(list[0].backtrace_size, ==, 0);
        g_assert_false(stuck_is_tracing(r.stuck, r.now));
        stuck_trace(r.stuck, r.now);
        g_assert_true(stuck_is_tracing(r.stuck, r.now));
        g_assert_cmpuint(grant(&r, "a\nb"), ==, CALL_WISH_BACKTRACE);
        g_assert_false(stuck_is_tracing(r.stuck, r.now));
        g_assert_cmpuint(stuck_list(r.stuck, r.now, list, 4), ==, 1);
        g_assert_cmpuint(list[0].backtrace_size, ==, 3);
        g_assert_cmpstr(list[0].backtrace, ==, "a\nb");

        /* The oldest first, and no more than there is room for. */
        for (unsigned i = 0; i < 5; i++) {
                others[i] = calls_join(r.calls, &index);
                call_begin(others[i], &(Request) { .op = OPERATION_FLUSH, .offset = 4096, .length = i });
                g_assert_cmpint(run_until(&r, r.now + 100 * MSEC), ==, 0);
        }
        call_end(others[2]);
        g_assert_cmpint(run_until(&r, r.now + SEC), ==, 0);
        g_assert_cmpuint(stuck_list(r.stuck, r.now, list, 4), ==, 4);
        g_assert_cmpuint(list[0].op, ==, OPERATION_READ);
        g_assert_cmpuint(list[1].length, ==, 0);
        g_assert_cmpuint(list[2].length, ==, 1);
        g_assert_cmpuint(list[3].length, ==, 3);
        for (unsigned i = 1; i < 4; i++)
                g_assert_cmpuint(list[i].age_usec, <, list[i - 1].age_usec);
        g_assert_cmpuint(stuck_list(r.stuck, r.now, list, 1), ==, 1);
        g_assert_cmpuint(list[0].op, ==, OPERATION_READ);
        end(&r);
}

static int judge(Rig *r, uint64_t limit) {
        g_assert_cmpint(check(r), ==, 0);
        return stuck_judge_trial(r->stuck, r->now, limit, &r->failure);
}

/* What was in the hook when the trial's time was over has to come back; what came later is no matter. */
static void test_judge(void) {
        HookCall *second;
        size_t index;
        Rig r;

        begin(&r, 0);
        g_assert_cmpint(judge(&r, 5 * SEC), ==, 0);
        end(&r);

        begin_with(&r, 0, 2);
        second = calls_join(r.calls, &index);
        enter(&r);
        g_assert_cmpint(judge(&r, 5 * SEC), ==, -EAGAIN);
        g_assert_cmpint(run_until(&r, r.now + 4 * SEC), ==, 0);
        call_begin(second, &(Request) { .op = OPERATION_READ, .offset = 4096, .length = 1 });
        g_assert_cmpint(judge(&r, 5 * SEC), ==, -EAGAIN);
        enter(&r); /* another one */
        g_assert_cmpint(judge(&r, 5 * SEC), ==, 0);
        g_assert_cmpint(run_until(&r, r.now + 10 * SEC), ==, 0);
        g_assert_cmpint(judge(&r, 5 * SEC), ==, 0);
        end(&r);
}

static void test_judge_hang(void) {
        static const struct { const char *frames, *file; unsigned line; } cases[] = {
                { "/hooks/a.rb:12:in `sleep'\n/hooks/a.rb:7:in `read'", "/hooks/a.rb", 12 }, { "a:b.rb:3", "a:b.rb", 3 }, { "C code", NULL, 0 },
                { NULL, NULL, 0 },
        };

        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                Rig r;

                begin(&r, 0);
                g_assert_cmpint(run_until(&r, START + SEC), ==, 0);
                enter(&r);
                g_assert_cmpint(run_until(&r, START + 2 * SEC), ==, 0);
                g_assert_cmpint(judge(&r, 3 * SEC), ==, -EAGAIN);
                g_assert_cmpint(run_until(&r, START + 4 * SEC - MSEC), ==, 0);
                g_assert_cmpint(judge(&r, 3 * SEC), ==, -EAGAIN);
                g_assert_cmpuint(grant(&r, NULL), ==, 0);
                r.now += MSEC;
                g_assert_cmpint(judge(&r, 3 * SEC), ==, -EAGAIN); /* and waits for its backtrace, but not for long */
                r.now += MSEC;
                g_assert_cmpint(judge(&r, 3 * SEC), ==, -EAGAIN);
                if (cases[i].frames)
                        g_assert_cmpuint(grant(&r, cases[i].frames), ==, CALL_WISH_BACKTRACE);
                else
                        g_assert_cmpint(run_until(&r, r.now + SEC), ==, 0);
                g_assert_cmpint(judge(&r, 3 * SEC), ==, -EBUSY);
                g_assert_cmpint(r.failure.kind, ==, FAILURE_HOOK);
                g_assert_true(g_str_has_prefix(r.failure.message, "read of 512 bytes at 4096 has been in the hook for "));
                g_assert_cmpint(strstr(r.failure.message, "C code keeps") == NULL, ==, cases[i].frames != NULL);
                g_assert_cmpstr(r.failure.file, ==, cases[i].file);
                g_assert_cmpuint(r.failure.line, ==, cases[i].line);
                g_assert_cmpint(r.failure.backtrace == NULL, ==, cases[i].frames == NULL);
                end(&r);
        }
}

/* A machine that was suspended meanwhile. */
static void test_judge_gap(void) {
        Rig r;

        begin(&r, 0);
        enter(&r);
        g_assert_cmpint(judge(&r, 3 * SEC), ==, -EAGAIN);
        r.now += 3600 * SEC;
        g_assert_cmpint(judge(&r, 3 * SEC), ==, -EAGAIN);
        g_assert_cmpint(run_until(&r, r.now + 3 * SEC), ==, 0);
        g_assert_cmpint(judge(&r, 3 * SEC), ==, -EAGAIN);
        g_assert_cmpuint(grant(&r, "a.rb:1"), ==, CALL_WISH_BACKTRACE);
        r.now += MSEC;
        g_assert_cmpint(judge(&r, 3 * SEC), ==, -EBUSY);
        end(&r);
}

static void test_judge_turn(void) {
        Failure f = FAILURE_NULL;
        Rig r;

        begin(&r, 0);
        g_assert_cmpint(stuck_check_turn(r.stuck, 0, true, 1, r.now, &f), ==, 0);
        g_assert_cmpint(judge(&r, 3 * SEC), ==, -EAGAIN);
        g_assert_cmpint(run_until(&r, r.now + 3 * SEC), ==, 0);
        g_assert_cmpint(judge(&r, 3 * SEC), ==, -EBUSY);
        g_assert_nonnull(strstr(r.failure.message, "a thread of the hook keeps it to itself"));
        g_assert_cmpint(stuck_check_turn(r.stuck, 0, true, 2, r.now, &f), ==, 0);
        g_assert_cmpint(judge(&r, 3 * SEC), ==, 0);
        end(&r);
}

int main(int argc, char **argv) {
        int k;

        g_test_init(&argc, &argv, NULL);
        log_set_max_level(-1);
        g_test_add_func("/stuck/limits", test_limits);
        g_test_add_func("/stuck/quick-calls", test_quick_calls);
        g_test_add_func("/stuck/stages", test_stages);
        g_test_add_func("/stuck/silent-ruby", test_silent_ruby);
        g_test_add_func("/stuck/interrupted", test_interrupted);
        g_test_add_func("/stuck/oldest", test_oldest);
        g_test_add_func("/stuck/no-timeout", test_no_timeout);
        g_test_add_func("/stuck/short-timeout", test_short_timeout);
        g_test_add_func("/stuck/gap", test_gap);
        g_test_add_func("/stuck/turn", test_turn);
        g_test_add_func("/stuck/list", test_list);
        g_test_add_func("/stuck/judge", test_judge);
        g_test_add_func("/stuck/judge-hang", test_judge_hang);
        g_test_add_func("/stuck/judge-gap", test_judge_gap);
        g_test_add_func("/stuck/judge-turn", test_judge_turn);
        k = g_test_run();
        g_free(last_text);
        return k;
}
