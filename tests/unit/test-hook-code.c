/* SPDX-License-Identifier: MIT */

/* A hook's code on its way out of the loader and back into it. What Ruby makes of it: tests/ruby/test_code.rb. */

#include "test-hook.h"

#include <glib/gstdio.h>

#define DISK(read_value) "class Disk < UBLK::Target\n" \
        "  def initialize = super(size: 1 << 20)\n" \
        "  def read(offset, length) = (" read_value ") * length\n" \
        "  def write(offset, data) = data.bytesize\n" \
        "end\n"

static Code found;

static void on_loaded(void *userdata, const char *path, const char *real_path, const void *source, size_t size) {
        g_assert_true(userdata == &rig);
        g_assert_cmpint(code_add(&found, path, real_path, source, size), ==, 0);
}

static int load(const char *name, const char *body, const Code *code) {
        HookSettings settings = { .loaded = on_loaded, .code = code };

        return rig_load_with(name, body, NULL, &settings);
}

static char first_byte(void) {
        char buffer[512] = { 0 };

        g_assert_cmpint(rig_request(OPERATION_READ, 0, sizeof(buffer), buffer), ==, (int) sizeof(buffer));
        return buffer[0];
}

static void test_there_and_back(void) {
        _cleanup_close_ int fd = -EBADF;
        Code kept;

        g_assert_cmpint(load("kept", DISK("'c'") "# \xff", NULL), ==, 0);
        g_assert_cmpuint(found.n_files, ==, 1);
        g_assert_cmpstr(found.files[0].path, ==, rig.script);
        g_assert_cmpstr(found.files[0].source, ==, DISK("'c'") "# \xff");
        g_assert_cmpint(first_byte(), ==, 'c');
        g_assert_cmpint(code_to_fd(&found, &fd), ==, 0);
        g_assert_cmpint(code_from_fd(fd, &kept), ==, 0);
        code_done(&found);

        g_assert_cmpint(load("kept", DISK("'n'"), &kept), ==, 0);
        g_assert_cmpint(first_byte(), ==, 'c');
        g_assert_cmpuint(found.n_files, ==, 0);
        g_assert_cmpint(load("kept", DISK("'n'"), NULL), ==, 0);
        g_assert_cmpint(first_byte(), ==, 'n');
        g_assert_cmpuint(found.n_files, ==, 1);
        code_done(&found);
        code_done(&kept);
}

/* Only the first load in a process can run it: it goes into no module of its own, as a worker has no use for that. */
static void test_gone(void) {
        static const char source[] = "class Gone < UBLK::Target\n"
                                     "  def initialize = super(size: 1 << 20)\n"
                                     "  def read(offset, length) = 'g' * length\n"
                                     "  def read_only? = true\n"
                                     "end\n";
        Code kept = CODE_NULL;

        g_assert_cmpint(load("gone", source, NULL), ==, 0);
        g_assert_cmpint(g_unlink(rig.script), ==, 0);
        g_assert_cmpint(load("gone", NULL, NULL), ==, -ENOENT);
        code_done(&found);
        g_assert_cmpint(code_add(&kept, rig.script, rig.script, source, strlen(source)), ==, 0);
        g_assert_cmpint(load("gone", NULL, &kept), ==, 0);
        g_assert_cmpint(first_byte(), ==, 'g');
        g_assert_cmpuint(found.n_files, ==, 0);
        code_done(&kept);
}

static void test_only_where_asked_for(void) {
        g_assert_cmpint(rig_load("plain", DISK("'p'"), NULL), ==, 0);
        g_assert_cmpint(first_byte(), ==, 'p');
        g_assert_cmpuint(found.n_files, ==, 0);
}

/* From a method of the target, and not from its child. */
static void test_later(void) {
        g_autofree char *helper = g_build_filename(rig.directory, "late_helper.rb", NULL), *child = g_build_filename(rig.directory, "late_child.rb", NULL);

        g_assert_true(g_file_set_contents(helper, "LATE = 'l'\n", -1, NULL));
        g_assert_true(g_file_set_contents(child, "exit!(0)\n", -1, NULL));
        g_assert_cmpint(load("late", DISK("require_relative('late_helper') && Process.wait(fork { require_relative 'late_child' }); LATE"), NULL), ==, 0);
        g_assert_cmpuint(found.n_files, ==, 1);
        g_assert_cmpint(first_byte(), ==, 'l');
        g_assert_cmpuint(found.n_files, ==, 2);
        g_assert_cmpstr(found.files[1].path, ==, helper);
        code_done(&found);
}

static void test_errors(void) {
        static const char source[] = "class Raises < UBLK::Target\n\n  def initialize = raise('no')\n  def read(offset, length) = nil\nend\n";
        Code kept = CODE_NULL;

        g_assert_cmpint(load("raises", source, NULL), <, 0);
        g_assert_cmpuint(rig.failure.line, ==, 3);
        g_assert_cmpstr(rig.failure.file, ==, rig.script);
        g_assert_cmpint(code_add(&kept, rig.script, rig.script, source, strlen(source)), ==, 0);
        g_assert_cmpint(g_unlink(rig.script), ==, 0);
        g_assert_cmpint(load("raises", NULL, &kept), <, 0);
        rig_assert_failure(FAILURE_HOOK, WORDS("no"));
        g_assert_cmpuint(rig.failure.line, ==, 3);
        g_assert_cmpint(load("syntax", "\n\nclass Bad <\n", NULL), <, 0);
        g_assert_cmpuint(rig.failure.line, ==, 3);
        g_assert_cmpstr(rig.failure.class_name, ==, "SyntaxError");
        code_done(&kept);
        code_done(&found);
}

void add_code_tests(void) {
        g_test_add_func("/hook/code/there-and-back", test_there_and_back);
        g_test_add_func("/hook/code/gone", test_gone);
        g_test_add_func("/hook/code/only-where-asked-for", test_only_where_asked_for);
        g_test_add_func("/hook/code/later", test_later);
        g_test_add_func("/hook/code/errors", test_errors);
}
