/* SPDX-License-Identifier: MIT */

/* Requests at which workers ended, from one worker to the next. */

#include "service/culprits.h"
#include "service/log.h"
#include "service/paths.h"

#include <glib.h>
#include <glib/gstdio.h>

#define ID 5

static char *root, *path;
static DeviceConfig *config;

static Culprits *begin(void) {
        Culprits *c;

        g_assert_cmpint(culprits_new(config, &c), ==, 0);
        return c;
}

static void note(uint8_t op, uint64_t offset, uint64_t length) {
        Culprits *c = begin();

        culprits_note(c, &(CallView) { .op = op, .offset = offset, .length = length });
        free(c);
}

/* The hook: answers everything, and says in which batches. */
static GString *served;

static void serve(void *userdata, Request *const *requests, size_t n) {
        g_assert_true(userdata == &served);
        for (size_t i = 0; i < n; i++) {
                requests[i]->result = 77;
                g_string_append_printf(served, "%u ", (unsigned) (requests[i]->offset / 512));
        }
        g_string_append_c(served, '|');
}

static unsigned n_reports, n_unlocked, n_tidied;

static void unlocked(void *userdata, void (*fn)(void *argument), void *argument) {
        g_assert_true(userdata == &served);
        n_unlocked++;
        fn(argument);
}

static void tidy(void *userdata) {
        g_assert_true(userdata == &served);
        n_tidied++;
}

static const Server hook = { .userdata = &served, .serve = serve, .unlocked = unlocked, .tidy = tidy };

static void report(void *userdata, const Request *request, const Failure *f) {
        g_assert_true(userdata == &n_reports);
        g_assert_cmpint(request->result, ==, -ETIMEDOUT);
        g_assert_cmpint(f->error, ==, ETIMEDOUT);
        g_test_message("%s: %s", f->class_name, f->message);
        n_reports++;
}

static const Server *guard(Culprits *c) {
        n_reports = n_unlocked = n_tidied = 0;
        g_string_truncate(served, 0);
        return culprits_guard(c, &hook, report, &n_reports);
}

/* Reads of a block each; those that are refused are in the text as a minus. */
static void serve_blocks(const Server *s, unsigned n, const char *expected) {
        Request requests[16] = { 0 }, *list[16];

        g_string_truncate(served, 0);
        for (unsigned i = 0; i < n; i++) {
                requests[i] = (Request) { .op = OPERATION_READ, .offset = i * 512, .length = 512 };
                list[i] = &requests[i];
        }
        s->serve(s->userdata, list, n);
        for (unsigned i = 0; i < n; i++)
                if (requests[i].result != 77) {
                        g_assert_cmpint(requests[i].result, ==, -ETIMEDOUT);
                        g_string_append_printf(served, " -%u", i);
                }
        g_assert_cmpstr(served->str, ==, expected);
}

static void call_back(void *argument) {
        ++*(unsigned *) argument;
}

static void test_nothing(void) {
        Culprits *c = begin();
        CallView v;

        g_assert_false(culprits_take_news(c, &v));
        g_assert_true(guard(c) == &hook);
        culprits_forget(c);
        g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
        free(c);
}

/* The first time it may have been bad luck. */
static void test_once(void) {
        Culprits *c;
        CallView v;

        note(OPERATION_READ, 512, 512);
        c = begin();
        g_assert_true(culprits_take_news(c, &v));
        g_assert_cmpuint(v.op, ==, OPERATION_READ);
        g_assert_cmpuint(v.offset, ==, 512);
        g_assert_cmpuint(v.length, ==, 512);
        g_assert_false(culprits_take_news(c, &v));
        free(c);
        c = begin(); /* a restart for another reason is no news */
        g_assert_false(culprits_take_news(c, &v));
        serve_blocks(guard(c), 1, "0 |");
        g_assert_true(g_file_test(path, G_FILE_TEST_EXISTS));
        serve_blocks(guard(c), 4, "0 1 2 3 |"); /* it was, and now it's forgotten */
        g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
        g_assert_true(guard(c) == &hook);
        free(c);
        /* Others that came between its two deaths do not count; an answer does. */
        for (unsigned i = 0; i < 3; i++) {
                note(OPERATION_READ, 512, 512);
                c = begin();
                serve_blocks(guard(c), 4, "0 1 2 3 |");
                free(c);
        }
        note(OPERATION_READ, 512, 512);
        c = begin();
        culprits_forget(c);
        free(c);
        g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
}

static void test_twice(void) {
        unsigned called = 0;
        const Server *s;
        Culprits *c;

        note(OPERATION_READ, 512, 512);
        note(OPERATION_WRITE, 512, 512); /* others, between them */
        note(OPERATION_READ, 512, 1024);
        note(OPERATION_READ, 512, 512);
        c = begin();
        s = guard(c);
        g_assert_true(s != &hook);
        serve_blocks(s, 4, "0 |2 3 | -1");
        g_assert_cmpuint(n_reports, ==, 1);
        serve_blocks(s, 4, "0 1 2 3 |"); /* whoever asks again has another chance */
        g_assert_cmpuint(n_reports, ==, 1);
        s->tidy(s->userdata);
        s->unlocked(s->userdata, call_back, &called);
        g_assert_cmpuint(n_tidied + n_unlocked + called, ==, 3);
        free(c);
        c = begin(); /* and the file has it no more, but the others */
        serve_blocks(guard(c), 4, "0 1 2 3 |");
        culprits_forget(c);
        free(c);
}

static void test_several(void) {
        const Server *s;
        Culprits *c;

        for (unsigned i = 0; i < 2; i++) {
                note(OPERATION_READ, 0, 512);
                note(OPERATION_READ, 1024, 512);
                note(OPERATION_READ, 1536, 512);
        }
        c = begin();
        s = guard(c);
        serve_blocks(s, 5, "1 |4 | -0 -2 -3");
        culprits_forget(c);
        free(c);
}

/* The oldest is forgotten first, and the number of them has a limit. */
static void test_many(void) {
        g_autofree char *text = NULL;
        g_auto(GStrv) lines = NULL;

        for (unsigned i = 0; i < 2 * CULPRITS_MAX; i++)
                note(OPERATION_READ, i * 512, 512);
        g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
        lines = g_strsplit(text, "\n", -1);
        g_assert_cmpuint(g_strv_length(lines), ==, 1 + CULPRITS_MAX + 1);
        g_assert_cmpstr(lines[1], ==, "0 15872 512 1");
        (void) g_remove(path);
}

/* Of another device, or of nobody. */
static void test_nonsense(void) {
        static const char *const texts[] = { "", "\n", "x", "1 1\n0 0 512 2\n", "%s 1\n", "%s 1\nx", "%s 1\n999 0 512 2\n", "%s 1\n0 0 512\n", "%s\n0 0 512 2\n",
                                             "%s 1\n0 -5 512\n", "%s 1\n0 -5 512 2\n", "%s 1\n0 0 512 -2\n", "%s 1\n0 0 512 2 \n",
                                             "%s 1\n0 0 99999999999999999999 2\n" };
        g_autofree char *tag = g_strdup_printf("%" G_GINT64_MODIFIER "x", device_config_kernel_tag(config)), *big = g_strnfill(100000, '0');
        Culprits *c;
        CallView v;

        for (size_t i = 0; i <= G_N_ELEMENTS(texts); i++) {
                g_autofree char *text = i < G_N_ELEMENTS(texts) ? g_strdup(texts[i]) : g_strdup(big);
                char *at = strstr(text, "%s");

                if (at) {
                        g_autofree char *rest = g_strdup(at + 2);
                        g_free(text);
                        text = g_strconcat(tag, rest, NULL);
                }
                g_assert_true(g_file_set_contents(path, text, -1, NULL));
                c = begin();
                g_assert_false(culprits_take_news(c, &v));
                g_assert_true(guard(c) == &hook);
                free(c);
        }
        (void) g_remove(path);
}

static void test_no_directory(void) {
        Culprits *c;

        config_set_root("/nonexistent");
        c = begin();
        culprits_note(c, &(CallView) { .length = 512 }); /* says so, and goes on */
        free(c);
        config_set_root(root);
}

int main(int argc, char **argv) {
        g_autofree char *directory = NULL;
        int r;

        g_test_init(&argc, &argv, NULL);
        log_set_max_level(-1);
        root = g_dir_make_tmp("ublk-cu-XXXXXX", NULL);
        directory = g_strdup_printf("%s" PATH_RUN "/%u", root, ID);
        path = g_strdup_printf("%s" PATH_WORKER_CULPRITS, root, ID);
        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        config_set_root(root);
        config = device_config_new(ID);
        config->name = strdup("disk0");
        config->created_usec = 12345;
        served = g_string_new(NULL);
        g_test_add_func("/culprits/nothing", test_nothing);
        g_test_add_func("/culprits/once", test_once);
        g_test_add_func("/culprits/twice", test_twice);
        g_test_add_func("/culprits/several", test_several);
        g_test_add_func("/culprits/many", test_many);
        g_test_add_func("/culprits/nonsense", test_nonsense);
        g_test_add_func("/culprits/no-directory", test_no_directory);
        r = g_test_run();
        for (char *p = directory; strlen(p) >= strlen(root); *strrchr(p, '/') = 0)
                (void) g_rmdir(p);
        g_string_free(served, TRUE);
        device_config_free(config);
        g_free(root);
        g_free(path);
        return r;
}
