/* SPDX-License-Identifier: MIT */

/* GetStuckRequests: what a worker says, or does not say, of the requests in its hook; and ublkctl stuck. */

#include "bus-fixture.h"
#include "run-ublkctl.h"


#define WORKER_FAILED "org.ublk.Error.WorkerFailed"
#define UNIT "ublk-ruby-device@0.service"
#define TWO "read 4096 512 12500000 disk.rb:7:in `read';disk.rb:9\nwrite_zeroes 8192 1099511627776 2000000\n"

/* What the call answers, a line for each request. */
static char *get(Fixture *f, const char *path) {
        g_autoptr(GString) text = g_string_new(NULL);
        sd_bus_message *reply = NULL;
        const char *op, *frame;
        uint64_t offset, length, age;

        if (fixture_call(f, path, "GetStuckRequests", &reply, NULL) < 0)
                g_error("%s", f->error.message);
        g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(stttas)"), >=, 0);
        while (sd_bus_message_enter_container(reply, 'r', "stttas") > 0) {
                g_assert_cmpint(sd_bus_message_read(reply, "sttt", &op, &offset, &length, &age), >, 0);
                g_string_append_printf(text, "%s %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, op, offset, length, age);
                g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "s"), >=, 0);
                while (sd_bus_message_read(reply, "s", &frame) > 0)
                        g_string_append_printf(text, " [%s]", frame);
                g_assert_cmpint(sd_bus_message_exit_container(reply), >=, 0);
                g_assert_cmpint(sd_bus_message_exit_container(reply), >=, 0);
                g_string_append_c(text, '\n');
        }
        sd_bus_message_unref(reply);
        return g_strdup(text->str);
}

static void assert_get(Fixture *f, const char *path, const char *expected) {
        g_autofree char *text = get(f, path);

        g_assert_cmpstr(text, ==, expected);
}

static void test_answers(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        assert_get(f, path, "");
        fixture_write(f, "stuck-0", TWO);
        assert_get(f, path, "read 4096 512 12500000 [disk.rb:7:in `read'] [disk.rb:9]\nwrite_zeroes 8192 1099511627776 2000000\n");
        /* Bytes that the bus can't take. */
        fixture_write(f, "stuck-0", "flush 0 0 1000000 caf\xc3\xa9;a\xff\xc3\x01;;\x7f" "b;\xef\xbf\xbe\n");
        assert_get(f, path, "flush 0 0 1000000 [caf\xc3\xa9] [a???] [?b] [???]\n");
}

/* A worker's word is not taken for it, nor is it waited for for long. */
static void test_nonsense(Fixture *f, gconstpointer data) {
        static const struct { const char *file, *expected; } cases[] = {
                { "close\n", "it died" },
                { "short\n" TWO, "makes no sense" },
                { "many\n" TWO, "makes no sense" },
                { "long\n" TWO, "makes no sense" },
                { "frobnicate 0 0 1000000\n", "makes no sense" },
                { "error\n", "does not say" },
                { "silent\n", "within two seconds" },
        };
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
                gint64 begun = g_get_monotonic_time();

                fixture_write(f, "stuck-0", cases[i].file);
                fixture_assert_error(f, fixture_call(f, path, "GetStuckRequests", NULL, NULL), WORKER_FAILED,
                                     cases[i].expected);
                g_assert_cmpint(g_get_monotonic_time() - begun, <, 4 * G_USEC_PER_SEC);
        }
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
}

static void test_impostor(Fixture *f, gconstpointer data) {
        g_autofree char *one = fixture_create(f, "disk0", "impostor"), *two = fixture_create(f, "disk1", "symlink");

        (void) data;
        fixture_assert_error(f, fixture_call(f, one, "GetStuckRequests", NULL, NULL), WORKER_FAILED, "disk0");
        fixture_assert_error(f, fixture_call(f, two, "GetStuckRequests", NULL, NULL), WORKER_FAILED, "disk1");
}

static void test_no_worker(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_write(f, "stuck-0", TWO);
        fixture_set_unit(f, UNIT, "activating", "auto-restart", "signal", "");
        fixture_wait_state(f, path, "recovering");
        assert_get(f, path, "");
}

typedef struct Answer {
        unsigned n;
        unsigned n_errors;
        char *error;
} Answer;

static int on_answer(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        Answer *a = userdata;

        (void) error;
        a->n++;
        if (sd_bus_message_is_method_error(m, NULL)) {
                a->n_errors++;
                g_free(a->error);
                a->error = g_strdup(sd_bus_message_get_error(m)->name);
        }
        return 0;
}

static void process_until(Fixture *f, const unsigned *n, unsigned wanted) {
        while (*n < wanted) {
                int r = sd_bus_process(f->bus, NULL);

                g_assert_cmpint(r, >=, 0);
                if (r == 0)
                        g_assert_cmpint(sd_bus_wait(f->bus, 10 * USEC_PER_SEC), >=, 0);
        }
}

static void ask_many(Fixture *f, const char *path, Answer *a, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                g_assert_cmpint(sd_bus_call_method_async(f->bus, NULL, "org.ublk", path, "org.ublk.Device", "GetStuckRequests", on_answer, a,
                                                         NULL), >=, 0);
        g_assert_cmpint(sd_bus_flush(f->bus), >=, 0);
}

/* While a worker takes its time the manager does other things; a crowd gets one answer, and is no more than a crowd. */
static void test_many(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");
        gint64 begun = g_get_monotonic_time();
        Answer a = { 0 };

        (void) data;
        fixture_write(f, "stuck-0", "slow\n" TWO);
        ask_many(f, path, &a, 70);
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_cmpint(g_get_monotonic_time() - begun, <, 400 * 1000);
        process_until(f, &a.n, 70);
        g_assert_cmpint(g_get_monotonic_time() - begun, <, 3 * G_USEC_PER_SEC);
        g_assert_cmpuint(a.n_errors, ==, 6);
        g_assert_cmpstr(a.error, ==, "org.freedesktop.DBus.Error.LimitsExceeded");
        g_free(a.error);
}

/* A device that is deleted meanwhile; and a question is no obstacle to that, nor is a restart one to a question. */
static void test_deleted(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");
        Answer a = { 0 };

        (void) data;
        fixture_write(f, "stuck-0", "silent\n");
        ask_many(f, path, &a, 3);
        g_assert_cmpint(fixture_call(f, NULL, "DeleteDevice", NULL, "sa{sv}", "disk0", 0), >=, 0);
        process_until(f, &a.n, 3);
        g_assert_cmpuint(a.n_errors, ==, 3);
        g_test_message("%s", a.error);
        g_free(a.error);
}

/* Anyone may look. */
static void test_anyone(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_write(f, "stuck-0", TWO);
        fixture_stop_manager(f);
        fixture_start_manager(f, getuid() + 1);
        fixture_wait_state(f, path, "live");
        g_autofree char *text = get(f, path);
        g_assert_nonnull(strstr(text, "write_zeroes"));
}

static void test_ublkctl(Fixture *f, gconstpointer data) {
        (void) data;
        g_free(fixture_create(f, "disk0", "memory"));
        g_free(fixture_create(f, "disk1", "memory"));
        ublkctl("stuck", 0, "No requests are stuck.\n");
        ublkctl("--no-legend stuck", 0, "");
        ublkctl("stuck disk0 1", 0, "No requests are stuck.\n");
        ublkctl("stuck nothing", 1, "no device \"nothing\"");
        ublkctl("--json=short stuck", 0, "[]\n");
        fixture_write(f, "stuck-0", TWO);
        fixture_write(f, "stuck-1", "flush 0 0 61000000 a.rb:1\n");
        ublkctl("stuck disk0", 3,
              "DEVICE OPERATION              OFFSET       LENGTH       AGE\n"
              "disk0  read                     4096          512     12.5s\n"
              "    from disk.rb:7:in `read'\n"
              "    from disk.rb:9\n"
              "disk0  write_zeroes             8192 1099511627776      2.0s\n"
              "    no backtrace: C code keeps the interpreter to itself\n");
        ublkctl("stuck", 3, "disk1  flush                       0            0     61.0s\n    from a.rb:1\n");
        ublkctl("stuck /dev/ublkb1", 3, "/dev/ublkb1 flush");
        ublkctl("stuck disk1 nothing", 1, "flush");

        json_t *j = ublkctl_json("--json=short stuck", 3);
        g_assert_cmpuint(json_array_size(j), ==, 3);
        json_t *first = json_array_get(j, 0);
        g_assert_cmpstr(json_string_value(json_object_get(first, "device")), ==, "disk0");
        g_assert_cmpint(json_integer_value(json_object_get(first, "age")), ==, 12500000);
        g_assert_cmpuint(json_array_size(json_object_get(first, "backtrace")), ==, 2);
        json_decref(j);
        fixture_write(f, "stuck-1", "close\n");
        ublkctl("stuck", 1, "disk0  read");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/stuck/answers", test_answers);
        fixture_add("/bus/stuck/nonsense", test_nonsense);
        fixture_add("/bus/stuck/impostor", test_impostor);
        fixture_add("/bus/stuck/no-worker", test_no_worker);
        fixture_add("/bus/stuck/many", test_many);
        fixture_add("/bus/stuck/deleted", test_deleted);
        fixture_add("/bus/stuck/anyone", test_anyone);
        fixture_add("/bus/stuck/ublkctl", test_ublkctl);
        return g_test_run();
}
