/* SPDX-License-Identifier: MIT */

/* What tasks have in the hook, as others see it, and what is wanted of a call. */

#include "service/calls.h"

#include <glib.h>
#include <pthread.h>

static Calls *begin(size_t max) {
        Calls *c;

        g_assert_cmpint(calls_new(max, &c), ==, 0);
        return c;
}

static Request request_of(uint64_t n) {
        return (Request) { .op = (uint8_t) (n % 5), .offset = n * 512, .length = n * 1024 };
}

static void test_join(void) {
        Calls *c = begin(2);
        size_t i = 9;

        g_assert_cmpuint(calls_count(c), ==, 0);
        g_assert_nonnull(calls_join(c, &i));
        g_assert_cmpuint(i, ==, 0);
        g_assert_nonnull(calls_join(c, &i));
        g_assert_cmpuint(i, ==, 1);
        g_assert_cmpuint(calls_count(c), ==, 2);
        g_assert_null(calls_join(c, &i));
        g_assert_cmpuint(calls_count(c), ==, 2);
        calls_free(c);
        g_assert_null(calls_free(NULL));
}

static void test_view(void) {
        Calls *c = begin(2);
        Request r = request_of(7);
        CallView v, next;
        size_t i;
        HookCall *call = calls_join(c, &i);

        g_assert_false(calls_get(c, i, &v));
        call_begin(call, &r);
        g_assert_true(calls_get(c, i, &v));
        g_assert_cmpuint(v.number, >, 0);
        g_assert_cmpuint(v.offset, ==, 7 * 512);
        g_assert_cmpuint(v.length, ==, 7 * 1024);
        g_assert_cmpuint(v.op, ==, 2);
        g_assert_cmpint(v.task, ==, gettid());
        g_assert_true(calls_find(c, i, v.number) == call);
        call_begin(call, &r); /* the same request once more is another call */
        g_assert_null(calls_find(c, i, v.number));
        g_assert_true(calls_get(c, i, &next));
        g_assert_cmpuint(next.number, ==, v.number + 1);
        call_end(call);
        g_assert_false(calls_get(c, i, &v));
        g_assert_null(calls_find(c, i, next.number));
        calls_free(c);
}

typedef struct Writer {
        HookCall *call;
        _Atomic bool stop;
} Writer;

static void *write_on(void *userdata) {
        Writer *w = userdata;

        for (uint64_t n = 1; !w->stop; n++) {
                Request r = request_of(n);

                call_begin(w->call, &r);
                if (n % 100 == 0)
                        call_end(w->call);
        }
        call_end(w->call);
        return NULL;
}

/* Nobody ever sees half of one call and half of another. */
static void test_whole(void) {
        Calls *c = begin(1);
        unsigned n_seen = 0, n_nothing = 0;
        pthread_t thread;
        size_t i;
        Writer w = { .call = calls_join(c, &i) };

        g_assert_cmpint(pthread_create(&thread, NULL, write_on, &w), ==, 0);
        /* A busy machine may take its time to run both threads at once. */
        for (gint64 begun = g_get_monotonic_time(), age; (age = g_get_monotonic_time() - begun) < 300 * 1000 || (n_seen <= 100 && age < 60 * G_USEC_PER_SEC);) {
                CallView v;

                if (!calls_get(c, i, &v)) {
                        n_nothing++;
                        continue;
                }
                n_seen++;
                g_assert_cmpuint(v.offset, ==, v.number * 512);
                g_assert_cmpuint(v.length, ==, v.number * 1024);
                g_assert_cmpuint(v.op, ==, v.number % 5);
        }
        w.stop = true;
        g_assert_cmpint(pthread_join(thread, NULL), ==, 0);
        g_test_message("%u seen, %u times nothing", n_seen, n_nothing);
        g_assert_cmpuint(n_seen, >, 100);
        calls_free(c);
}

static void test_wishes(void) {
        Calls *c = begin(3);
        char text[CALLS_MAX_BACKTRACE];
        uint64_t number;
        unsigned wishes;
        size_t i;

        g_assert_false(calls_take_wish(c, &i, &number, &wishes));
        calls_get_backtrace(c, 0, 0, text);
        g_assert_cmpstr(text, ==, "");
        calls_want(c, 1, 5, CALL_WISH_BACKTRACE);
        calls_want(c, 1, 5, CALL_WISH_BACKTRACE);
        calls_want(c, 1, 5, CALL_WISH_INTERRUPT);
        calls_want(c, 2, 8, CALL_WISH_BACKTRACE);
        calls_wait(c); /* returns, as often as there was something new */
        calls_wait(c);
        calls_wait(c);
        g_assert_true(calls_is_wanting(c, 1, 5));
        g_assert_false(calls_is_wanting(c, 1, 4));
        g_assert_false(calls_is_wanting(c, 0, 5));

        g_assert_true(calls_take_wish(c, &i, &number, &wishes));
        g_assert_cmpuint(i, ==, 1);
        g_assert_cmpuint(number, ==, 5);
        g_assert_cmpuint(wishes, ==, (CALL_WISH_BACKTRACE | CALL_WISH_INTERRUPT));
        g_assert_true(calls_is_wanting(c, 1, 5));
        calls_grant(c, 1, 5, "a\nb");
        g_assert_false(calls_is_wanting(c, 1, 5));
        calls_get_backtrace(c, 1, 5, text);
        g_assert_cmpstr(text, ==, "a\nb");
        calls_get_backtrace(c, 1, 6, text);
        g_assert_cmpstr(text, ==, "");

        /* Without a new one the old one stays. */
        calls_want(c, 1, 5, CALL_WISH_BACKTRACE);
        g_assert_true(calls_take_wish(c, &i, &number, &wishes));
        calls_grant(c, 1, 5, NULL);
        calls_get_backtrace(c, 1, 5, text);
        g_assert_cmpstr(text, ==, "a\nb");

        /* The task has gone on meanwhile: what was granted is of no use to the new call. */
        g_assert_true(calls_take_wish(c, &i, &number, &wishes));
        g_assert_cmpuint(i, ==, 2);
        calls_want(c, 2, 9, CALL_WISH_INTERRUPT);
        calls_grant(c, 2, 8, "old");
        g_assert_true(calls_is_wanting(c, 2, 9));
        calls_get_backtrace(c, 2, 9, text);
        g_assert_cmpstr(text, ==, "");
        g_assert_true(calls_take_wish(c, &i, &number, &wishes));
        g_assert_cmpuint(wishes, ==, CALL_WISH_INTERRUPT);
        g_assert_false(calls_take_wish(c, &i, &number, &wishes));
        calls_free(c);
}

static void test_long_backtrace(void) {
        g_autofree char *text = g_strnfill(2 * CALLS_MAX_BACKTRACE, 'x');
        char back[CALLS_MAX_BACKTRACE];
        Calls *c = begin(1);

        calls_want(c, 0, 1, CALL_WISH_BACKTRACE);
        calls_grant(c, 0, 1, text);
        calls_get_backtrace(c, 0, 1, back);
        g_assert_cmpuint(strlen(back), ==, CALLS_MAX_BACKTRACE - 1);
        calls_free(c);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/calls/join", test_join);
        g_test_add_func("/calls/view", test_view);
        g_test_add_func("/calls/whole", test_whole);
        g_test_add_func("/calls/wishes", test_wishes);
        g_test_add_func("/calls/long-backtrace", test_long_backtrace);
        return g_test_run();
}
