/* SPDX-License-Identifier: MIT */

/* GetStatistics: what a worker says, or does not say, that it has counted; and ublkctl stats and top. */

#include "bus-fixture.h"
#include "run-ublkctl.h"


#define WORKER_FAILED "org.ublk.Error.WorkerFailed"
#define UNIT "ublk-ruby-device@0.service"
#define SOME "1000 3 4194304 2000000 990\n"

static json_int_t number(const json_t *j, const char *key) {
        g_assert_true(json_is_integer(json_object_get(j, key)));
        return json_integer_value(json_object_get(j, key));
}

/* An entry of GetStatistics, entered. */
static void enter(sd_bus_message *m, const char *wanted, const char *type) {
        const char *key;

        g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "{sv}"), >, 0);
        while (sd_bus_message_enter_container(m, 'e', "sv") > 0) {
                g_assert_cmpint(sd_bus_message_read(m, "s", &key), >, 0);
                if (streq(key, wanted)) {
                        g_assert_cmpint(sd_bus_message_enter_container(m, 'v', type), >, 0);
                        return;
                }
                g_assert_cmpint(sd_bus_message_skip(m, "v"), >, 0);
                g_assert_cmpint(sd_bus_message_exit_container(m), >, 0);
        }
        g_error("no %s", wanted);
}

static uint64_t get(Fixture *f, const char *path, const char *key, char type) {
        sd_bus_message *m = NULL;
        union { uint32_t u; uint64_t t; } v = { 0 };

        if (fixture_call(f, path, "GetStatistics", &m, NULL) < 0)
                g_error("%s", f->error.message);
        enter(m, key, (char[]) { type, 0 });
        g_assert_cmpint(sd_bus_message_read_basic(m, type, &v), >, 0);
        sd_bus_message_unref(m);
        return type == 'u' ? v.u : v.t;
}

static void test_answers(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");
        sd_bus_message *m = NULL;
        const uint64_t *counts;
        const char *name;
        uint64_t n;
        size_t size;

        (void) data;
        g_assert_cmpuint(get(f, path, "requests", 't'), ==, 0);
        fixture_write(f, "stats-0", SOME);
        g_assert_cmpuint(get(f, path, "requests", 't'), ==, 1000);
        g_assert_cmpuint(get(f, path, "completed", 't'), ==, 999);
        g_assert_cmpuint(get(f, path, "failed", 't'), ==, 3);
        g_assert_cmpuint(get(f, path, "in-flight", 'u'), ==, 1);
        g_assert_cmpuint(get(f, path, "read-bytes", 't'), ==, 4194304);
        g_assert_cmpuint(get(f, path, "written-bytes", 't'), ==, 0);
        g_assert_cmpuint(get(f, path, "age", 't'), ==, 2000000);
        g_assert_cmpuint(get(f, path, "hook-time", 't'), ==, 1500);
        g_assert_cmpuint(get(f, path, "gc-count", 't'), ==, 12);
        g_assert_cmpuint(get(f, path, "gc-time", 't'), ==, 3000);
        g_assert_cmpuint(get(f, path, "restarts", 'u'), ==, 0);

        g_assert_cmpint(fixture_call(f, path, "GetStatistics", &m, NULL), >=, 0);
        enter(m, "errors", "a{st}");
        g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "{st}"), >, 0);
        g_assert_cmpint(sd_bus_message_read(m, "{st}", &name, &n), >, 0);
        g_assert_cmpstr(name, ==, "others");
        g_assert_cmpint(sd_bus_message_read(m, "{st}", &name, &n), >, 0);
        g_assert_cmpstr(name, ==, "EIO");
        g_assert_cmpuint(n, ==, 3);
        g_assert_cmpint(sd_bus_message_at_end(m, false), >, 0);
        m = sd_bus_message_unref(m);

        g_assert_cmpint(fixture_call(f, path, "GetStatistics", &m, NULL), >=, 0);
        enter(m, "latency", "a{sat}");
        g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "{sat}"), >, 0);
        for (int i = 0; i < 5; i++) {
                g_assert_cmpint(sd_bus_message_enter_container(m, 'e', "sat"), >, 0);
                g_assert_cmpint(sd_bus_message_read(m, "s", &name), >, 0);
                g_assert_cmpint(sd_bus_message_read_array(m, 't', (const void **) &counts, &size), >, 0);
                g_assert_cmpuint(size, ==, 32 * sizeof(uint64_t));
                if (streq(name, "read"))
                        g_assert_cmpuint(counts[2], ==, 990);
                g_assert_cmpint(sd_bus_message_exit_container(m), >, 0);
        }
        g_assert_cmpint(sd_bus_message_at_end(m, false), >, 0);
        sd_bus_message_unref(m);
}

static void test_nonsense(Fixture *f, gconstpointer data) {
        static const struct { const char *file, *expected; } cases[] = {
                { "close\n", "disk0 does not say what it has counted: it died, or it is of a version that can't tell" },
                { "short\n" SOME, "makes no sense" },
                { "error\n", "does not say" },
        };
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                fixture_write(f, "stats-0", cases[i].file);
                fixture_assert_error(f, fixture_call(f, path, "GetStatistics", NULL, NULL), WORKER_FAILED, cases[i].expected);
        }
}

static void test_no_worker(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_write(f, "stats-0", SOME);
        fixture_set_unit(f, UNIT, "activating", "auto-restart", "signal", "");
        fixture_wait_state(f, path, "recovering");
        g_assert_cmpuint(get(f, path, "age", 't'), ==, 0);
        g_assert_cmpuint(get(f, path, "requests", 't'), ==, 0);
}

static void test_anyone(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_write(f, "stats-0", SOME);
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
        fixture_wait_state(f, path, "live");
        g_assert_cmpuint(get(f, path, "requests", 't'), ==, 1000);
}

static void test_stats(Fixture *f, gconstpointer data) {
        json_t *j;

        (void) data;
        ublkctl("stats", 0, "");
        g_free(fixture_create(f, "disk0", "memory"));
        g_free(fixture_create(f, "disk1", "memory"));
        fixture_write(f, "stats-0", SOME);
        ublkctl("stats disk0", 0,
              "        Device: disk0\n"
              "        Served: for 2.0 s, restarted 0 times\n"
              "      Requests: 1000, 1 in flight\n"
              "        Failed: 3 (others 1, EIO 3)\n"
              "          Read: 4M, written: -\n"
              "   In the hook: for 0.002 s\n"
              "            GC: 12 collections, 0.003 s\n"
              "\n"
              "  OPERATION        REQUESTS       P50       P99       MAX\n"
              "  read                  990      <4us      <4us      <4us\n"
              "  write                   0         -         -         -\n"
              "  flush                   1    >1073s    >1073s    >1073s\n");
        ublkctl("stats", 0, "Device: disk1\n        Served: by no worker");
        ublkctl("stats 0 nothing", 1, "no device \"nothing\"");
        j = ublkctl_json("--json=short stats /dev/ublkb0", 0);
        g_assert_cmpint(number(j, "requests"), ==, 1000);
        g_assert_cmpint(number(json_object_get(j, "errors"), "EIO"), ==, 3);
        g_assert_cmpuint(json_array_size(json_object_get(json_object_get(j, "latency"), "read")), ==, 32);
        json_decref(j);
        fixture_write(f, "stats-1", "close\n");
        ublkctl("stats", 1, "Device: disk0");
}

typedef struct Top {
        Fixture *f;
        const char *text;
} Top;

static gpointer change_later(gpointer userdata) {
        const Top *t = userdata;

        g_usleep(300 * 1000);
        fixture_write(t->f, "stats-0", t->text);
        return NULL;
}

/* top, with a worker that says first what is in one file and a little later what is in the other. */
static json_t *top_between(Fixture *f, const char *before, const char *after, const char *more) {
        g_autofree char *arguments = g_strdup_printf("--json=short top --count=1 --interval=1.5 %s", more);
        Top t = { f, after };
        GThread *thread;
        json_t *j;

        fixture_write(f, "stats-0", before);
        thread = g_thread_new("change", change_later, &t);
        j = ublkctl_json(arguments, 0);
        g_thread_join(thread);
        return j;
}

static void test_top(Fixture *f, gconstpointer data) {
        json_t *j, *d;

        (void) data;
        g_free(fixture_create(f, "disk0", "memory"));
        g_free(fixture_create(f, "disk1", "memory"));
        /* 500 more in 0.5 s of the worker's own time; the latency is that of those 500. */
        j = top_between(f, SOME, "1500 5 8388608 2500000 1490\n", "");
        g_assert_cmpuint(json_array_size(j), ==, 2);
        d = json_array_get(j, 0);
        g_assert_cmpstr(json_string_value(json_object_get(d, "device")), ==, "disk0");
        g_assert_cmpstr(json_string_value(json_object_get(d, "state")), ==, "live");
        g_assert_cmpfloat(json_number_value(json_object_get(d, "iops")), ==, 1000);
        g_assert_cmpint(number(d, "read"), ==, 8388608);
        g_assert_cmpfloat(json_number_value(json_object_get(d, "failed")), ==, 4);
        g_assert_cmpint(number(d, "in-flight"), ==, 1);
        g_assert_cmpint(number(d, "p99"), ==, 4);
        g_assert_null(json_object_get(json_array_get(j, 1), "iops"));
        json_decref(j);
        /* Another worker, which has begun at 0. */
        j = top_between(f, SOME, "31 0 0 1000000 0\n", "disk0");
        g_assert_cmpuint(json_array_size(j), ==, 1);
        g_assert_cmpfloat(json_number_value(json_object_get(json_array_get(j, 0), "iops")), ==, 30);
        g_assert_true(json_is_null(json_object_get(json_array_get(j, 0), "p50")));
        json_decref(j);

        ublkctl("top --count=2 --interval=0.1", 0, "DEVICE STATE           IOPS");
        ublkctl("--no-legend top --count=1 --interval=0.1", 0, "disk1  live               - ");
        ublkctl("top --count=0", 2, "--count= takes a number from 1");
        ublkctl("top --count=x", 2, "not \"x\"");
        ublkctl("top --interval=0", 2, "--interval= takes seconds, 0.1 to 3600");
        ublkctl("top --interval=nan", 2, "--interval= takes seconds");
        ublkctl("list --count=1", 2, "are for top");
        ublkctl("top nothing", 1, "no device \"nothing\"");
        fixture_write(f, "stats-0", "close\n");
        ublkctl("top --count=1 --interval=0.1", 0, "disk0  live               - ");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/statistics/answers", test_answers);
        fixture_add("/bus/statistics/nonsense", test_nonsense);
        fixture_add("/bus/statistics/no-worker", test_no_worker);
        fixture_add("/bus/statistics/anyone", test_anyone);
        fixture_add("/bus/statistics/stats", test_stats);
        fixture_add("/bus/statistics/top", test_top);
        return g_test_run();
}
