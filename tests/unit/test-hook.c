/* SPDX-License-Identifier: MIT */

/* The rig, and main: the interpreter runs once, round all cases. */

#include "test-hook.h"

#include <glib/gstdio.h>

Rig rig;

static int pull(const Request *request, void *buffer, uint32_t offset, uint32_t length) {
        memcpy(buffer, (const uint8_t *) request->source + offset, length);
        return 0;
}

static int push(const Request *request, const void *buffer, uint32_t offset, uint32_t length) {
        memcpy((uint8_t *) request->source + offset, buffer, length);
        return 0;
}

static const Transport memory_transport = { .pull = pull, .push = push };

static void on_report(void *userdata, const Request *request, const Failure *failure) {
        Rig *r = userdata;

        g_assert_cmpint(request->result, ==, -failure->error);
        r->n_reports++;
        r->reported = *request;
        (void) failure_set(&r->report, failure->kind, failure->error, "%s", failure->message);
        (void) failure_set_origin(&r->report, failure->class_name, failure->file, failure->line);
        (void) failure_set_backtrace(&r->report, failure->backtrace);
        r->report.is_answer = failure->is_answer;
}

static int load_path(const HookSettings *base, const Argument *arguments, size_t n) {
        int r;

        rig.settings = *base;
        rig.settings.path = rig.script;
        rig.settings.arguments = arguments;
        rig.settings.n_arguments = n;
        rig.settings.report = on_report;
        rig.settings.userdata = &rig;
        rig.n_reports = 0;
        failure_done(&rig.report);
        failure_done(&rig.failure);
        rig.geometry = (Geometry) { 0 };
        mode_pause();
        r = hook_load(rig.hook, &rig.settings, &rig.geometry, &rig.failure);
        mode_resume();
        return r;
}

static size_t read_arguments(const char *const *texts, Argument *ret, size_t max) {
        size_t n = 0;

        for (; texts && texts[3 * n]; n++) {
                g_assert_cmpuint(n, <, max);
                ret[n] = (Argument) { (char *) texts[3 * n], texts[3 * n + 1][0], (char *) texts[3 * n + 2] };
        }
        return n;
}

static void write_script(const char *name, const char *body) {
        g_autofree char *file = g_strconcat(name, ".rb", NULL);

        g_free(rig.script);
        rig.script = g_build_filename(rig.directory, file, NULL);
        g_assert_true(g_file_set_contents(rig.script, body, -1, NULL));
}

int rig_load_with(const char *name, const char *body, const char *const *arguments, const HookSettings *base) {
        Argument list[16];
        HookSettings settings = *base;
        size_t n = read_arguments(arguments, list, G_N_ELEMENTS(list));

        settings.name = name;
        settings.device = "disk0";
        if (body)
                write_script(name, body);
        return load_path(&settings, list, n);
}

int rig_load(const char *name, const char *body, const char *const *arguments) {
        return rig_load_with(name, body, arguments, &(HookSettings) { .name = name });
}

int rig_load_stock(const char *name, const char *const *arguments) {
        g_autofree char *file = g_strconcat(name, ".rb", NULL);

        g_free(rig.script);
        rig.script = g_build_filename(g_getenv("UBLK_RUBY_HOOK_PATH"), file, NULL);
        return rig_load(name, NULL, arguments);
}

void rig_fill(Request *request, uint8_t op, uint64_t offset, uint64_t length, void *buffer) {
        *request = (Request) {
                .transport = &memory_transport,
                .source = buffer,
                .offset = offset,
                .length = length,
                .op = op,
                .result = INT32_MIN,
        };
}

void rig_serve(Request *requests, size_t n) {
        g_autofree Request **list = g_new(Request *, n);
        const Server *server = hook_server(rig.hook);

        for (size_t i = 0; i < n; i++)
                list[i] = &requests[i];
        server->serve(server->userdata, list, n);
}

int rig_request(uint8_t op, uint64_t offset, uint64_t length, void *buffer) {
        Request request;

        rig_fill(&request, op, offset, length, buffer);
        rig_serve(&request, 1);
        return request.result;
}

void rig_assert_failure(FailureKind kind, const char *const *words) {
        g_test_message("%s: %s (%s:%u)", rig.failure.class_name, rig.failure.message, rig.failure.file, rig.failure.line);
        g_assert_cmpint(rig.failure.kind, ==, kind);
        g_assert_cmpint(rig.failure.error, >, 0);
        for (; *words; words++)
                if (!rig.failure.message || !strstr(rig.failure.message, *words))
                        g_error("\"%s\" is not in \"%s\"", *words, rig.failure.message);
}

void rig_assert_report(unsigned n, int error, const char *class_name, const char *word) {
        g_test_message("%s: %s (%s:%u)", rig.report.class_name, rig.report.message, rig.report.file, rig.report.line);
        g_assert_cmpuint(rig.n_reports, ==, n);
        g_assert_cmpint(rig.report.error, ==, error);
        g_assert_cmpstr(rig.report.class_name, ==, class_name);
        if (!rig.report.message || !strstr(rig.report.message, word))
                g_error("\"%s\" is not in \"%s\"", word, rig.report.message);
}

static int run_cases(Hook *hook, void *userdata) {
        (void) userdata;
        rig.hook = hook;
        mode_start();
        return g_test_run();
}

static void remove_directory(void) {
        g_autoptr(GDir) dir = g_dir_open(rig.directory, 0, NULL);
        const char *name;

        while (dir && (name = g_dir_read_name(dir))) {
                g_autofree char *path = g_build_filename(rig.directory, name, NULL);
                (void) g_remove(path);
        }
        (void) g_rmdir(rig.directory);
}

int main(int argc, char *argv[]) {
        int r;

        g_test_init(&argc, &argv, NULL);
        mode_init();
        rig.directory = g_dir_make_tmp("test-hook-XXXXXX", NULL);
        add_load_tests();
        add_argument_tests();
        add_memory_tests();
        add_code_tests();
        add_serve_tests();
        add_buffer_tests();
        add_misbehaviour_tests();
        add_guard_tests();
        add_stock_tests();
        add_watch_tests();
        add_end_tests();
        add_mode_tests();
        r = hook_run(run_cases, NULL);
        remove_directory();
        return r < 0 ? 99 : r;
}
