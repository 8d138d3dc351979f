/* SPDX-License-Identifier: MIT */
#include "service/config.h"
#include "service/hookdir.h"

#include <glib.h>
#include <glib/gstdio.h>

static void put(const char *root, const char *directory, const char *file) {
        char *path = g_build_filename(root, directory, NULL), *full = g_build_filename(path, file, NULL);

        g_assert_cmpint(g_mkdir_with_parents(path, 0755), ==, 0);
        g_assert_true(g_file_set_contents(full, "", 0, NULL));
        g_free(path);
        g_free(full);
}

static void test_first_match_wins(void) {
        char *root = g_dir_make_tmp("ublk-hookdir-XXXXXX", NULL), *expected;
        _cleanup_free_ char *path = NULL;
        HookDirectories d;
        HookFile *files;
        size_t n;

        put(root, "usr/lib/ublk-ruby/hooks", "file.rb");
        put(root, "usr/lib/ublk-ruby/hooks", "memory.rb");
        put(root, "etc/ublk-ruby/hooks", "file.rb");
        put(root, "etc/ublk-ruby/hooks", "..rb");
        put(root, "etc/ublk-ruby/hooks", "7.rb");
        put(root, "etc/ublk-ruby/hooks", "notes.txt");
        config_set_root(root);

        g_assert_cmpint(hook_directories_init(&d, false), ==, 0);
        g_assert_cmpint(hook_directories_find(&d, "file", &path), ==, 0);
        expected = g_strdup_printf("%s/etc/ublk-ruby/hooks/file.rb", root);
        g_assert_cmpstr(path, ==, expected);
        g_clear_pointer(&path, free);
        g_assert_cmpint(hook_directories_find(&d, "nosuch", &path), ==, -ENOENT);
        g_assert_cmpint(hook_directories_find(&d, "../file", &path), ==, -EINVAL);
        g_assert_null(path);

        g_assert_cmpint(hook_directories_list(&d, &files, &n), ==, 0);
        g_assert_cmpuint(n, ==, 2);
        g_assert_cmpstr(files[0].name, ==, "file");
        g_assert_cmpstr(files[0].path, ==, expected);
        g_assert_cmpstr(files[1].name, ==, "memory");
        hook_files_free(files, n);
        hook_directories_done(&d);
        config_set_root(NULL);
        g_free(expected);
        g_free(root);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/hookdir/first-match-wins", test_first_match_wins);
        return g_test_run();
}
