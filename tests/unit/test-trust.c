/* SPDX-License-Identifier: MIT */
#include "service/config.h"
#include "service/hookdir.h"
#include "service/trust.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <sys/stat.h>

typedef struct Tree {
        char *base, *dir, *file;
} Tree;

static void put(const char *path) {
        g_assert_true(g_file_set_contents(path, "", 0, NULL));
        g_assert_cmpint(chmod(path, 0644), ==, 0);
}

/* BASE/dir/x.rb, all as it should be. */
static void set_up(Tree *t, gconstpointer data) {
        (void) data;
        (void) umask(022);
        t->base = g_dir_make_tmp("ublk-trust-XXXXXX", NULL);
        t->dir = g_build_filename(t->base, "dir", NULL);
        t->file = g_build_filename(t->dir, "x.rb", NULL);
        g_assert_cmpint(g_mkdir(t->dir, 0755), ==, 0);
        put(t->file);
}

static void tear_down(Tree *t, gconstpointer data) {
        g_autofree char *command = g_strdup_printf("rm -rf '%s'", t->base);

        (void) data;
        g_assert_cmpint(system(command), ==, 0);
        g_free(t->base);
        g_free(t->dir);
        g_free(t->file);
}

static void assert_check(const Tree *t, const char *path, int wanted, const char *part, const char *what) {
        _cleanup_free_ char *message = NULL;

        g_assert_cmpint(trust_check(path, t->base, &message), ==, wanted);
        if (wanted == 0) {
                g_assert_null(message);
                return;
        }
        g_test_message("%s", message);
        if (!message || !strstr(message, part) || !strstr(message, what))
                g_error("\"%s\" does not say \"%s\" of \"%s\".", message, part, what);
}

static void test_good(Tree *t, gconstpointer data) {
        g_autofree char *dotted = g_build_filename(t->dir, "..", "dir", ".", "x.rb", NULL);

        (void) data;
        assert_check(t, t->file, 0, NULL, NULL);
        assert_check(t, dotted, 0, NULL, NULL);
}

static void test_mode(Tree *t, gconstpointer data) {
        static const mode_t modes[] = { 0664, 0646, 0666 };

        (void) data;
        for (size_t i = 0; i < ELEMENTSOF(modes); i++) {
                g_assert_cmpint(chmod(t->file, modes[i]), ==, 0);
                assert_check(t, t->file, -EPERM, "can be written to by others", t->file);
        }
        g_assert_cmpint(chmod(t->file, 0600), ==, 0);
        assert_check(t, t->file, 0, NULL, NULL);
        g_assert_cmpint(chmod(t->dir, 0777), ==, 0);
        assert_check(t, t->file, -EPERM, "chmod go-w", t->dir);
        g_assert_cmpint(chmod(t->dir, 01777), ==, 0);
        assert_check(t, t->file, -EPERM, "elsewhere", t->dir);
}

/* What is above the base is not looked at; without one it is. */
static void test_above(Tree *t, gconstpointer data) {
        g_autofree char *dir = g_strdup("/tmp/test-trust-XXXXXX"), *file = NULL; /* wherever TMPDIR is */
        _cleanup_free_ char *message = NULL;

        (void) t, (void) data;
        g_assert_nonnull(g_mkdtemp(dir));
        file = g_build_filename(dir, "x.rb", NULL);
        put(file);
        g_assert_cmpint(trust_check(file, NULL, &message), ==, -EPERM);
        g_assert_nonnull(strstr(message, "/tmp can be written to by others than root (mode 1777)"));
        g_assert_cmpint(unlink(file), ==, 0);
        g_assert_cmpint(rmdir(dir), ==, 0);
}

static void test_links(Tree *t, gconstpointer data) {
        g_autofree char *link = g_build_filename(t->base, "link.rb", NULL), *lib = g_build_filename(t->base, "lib", NULL),
                        *other = g_build_filename(lib, "y.rb", NULL), *loop = g_build_filename(t->base, "loop", NULL),
                        *leads = g_strdup_printf(", to which %s leads,", link), *through = g_build_filename(t->base, "to", "x.rb", NULL),
                        *to = g_build_filename(t->base, "to", NULL), *nowhere = g_build_filename(t->base, "nowhere.rb", NULL);

        (void) data;
        g_assert_cmpint(g_mkdir(lib, 0755), ==, 0);
        put(other);
        g_assert_cmpint(symlink("dir/../lib/y.rb", link), ==, 0);
        assert_check(t, link, 0, NULL, NULL);
        g_assert_cmpint(chmod(lib, 0777), ==, 0);
        assert_check(t, link, -EPERM, leads, lib);
        g_assert_cmpint(chmod(lib, 0755), ==, 0);
        g_assert_cmpint(chmod(other, 0666), ==, 0);
        assert_check(t, link, -EPERM, leads, other);
        g_assert_cmpint(unlink(link), ==, 0);
        g_assert_cmpint(symlink(t->file, link), ==, 0);
        assert_check(t, link, 0, NULL, NULL);
        g_assert_cmpint(symlink("dir", to), ==, 0);
        assert_check(t, through, 0, NULL, NULL);
        g_assert_cmpint(symlink("loop", loop), ==, 0);
        assert_check(t, loop, -ELOOP, "can't be looked at", loop);
        g_assert_cmpint(symlink("not/there", nowhere), ==, 0);
        assert_check(t, nowhere, -ENOENT, "No such file", nowhere);
}

static void test_kind(Tree *t, gconstpointer data) {
        g_autofree char *fifo = g_build_filename(t->dir, "fifo", NULL), *below = g_build_filename(t->file, "z", NULL),
                        *missing = g_build_filename(t->dir, "missing.rb", NULL);

        (void) data;
        g_assert_cmpint(mkfifo(fifo, 0644), ==, 0);
        assert_check(t, fifo, -EPERM, "is not a file", fifo);
        assert_check(t, t->dir, -EPERM, "is not a file", t->dir);
        assert_check(t, below, -ENOTDIR, "Not a directory", t->file);
        assert_check(t, missing, -ENOENT, "No such file", missing);
        assert_check(t, "x.rb", -EINVAL, "can't be looked at", "x.rb");
}

/* Only root can give files away: as another user this is left to tests/vm/hooks-trust. */
static void test_owner(Tree *t, gconstpointer data) {
        g_autofree char *link = g_build_filename(t->base, "link.rb", NULL), *fix = g_strdup_printf("chown root %s", t->file),
                        *fix_link = g_strdup_printf("chown -h root %s", link), *fix_dir = g_strdup_printf("chown root %s", t->dir);

        (void) data;
        g_assert_cmpint(symlink(t->file, link), ==, 0);
        g_assert_cmpint(lchown(link, 12345, 0), ==, 0);
        assert_check(t, link, -EPERM, "belongs to user id 12345", fix_link);
        g_assert_cmpint(chown(t->file, 12345, 0), ==, 0);
        assert_check(t, t->file, -EPERM, "belongs to user id 12345", fix);
        g_assert_cmpint(chown(t->file, 0, 0) | chown(t->dir, 12345, 0), ==, 0);
        assert_check(t, t->file, -EPERM, "belongs to user id 12345", fix_dir);
}

static void test_resolve(Tree *t, gconstpointer data) {
        static const char *const bad[] = { "../x", "/", "//x.rb", "/a/./x.rb", "/a/../x.rb", "/a/x.rb/", "/a\nb.rb", "/a/..", "" };
        _cleanup_free_ char *path = NULL, *message = NULL;
        HookDirectories d;

        (void) data;
        g_setenv("UBLK_RUBY_HOOK_PATH", t->dir, TRUE);
        g_assert_cmpint(hook_directories_init(&d, true), ==, 0);
        g_assert_cmpint(hook_directories_resolve(&d, "x", &path, &message), ==, 0);
        g_assert_cmpstr(path, ==, t->file);
        g_clear_pointer(&path, free);
        g_assert_cmpint(chmod(t->file, 0666), ==, 0);
        g_assert_cmpint(hook_directories_resolve(&d, "x", &path, &message), ==, -EPERM);
        g_assert_true(g_str_has_prefix(message, "the hook \"x\" is not to be trusted: "));
        g_clear_pointer(&message, free);
        /* By its path anything goes. */
        g_assert_cmpint(hook_directories_resolve(&d, t->file, &path, &message), ==, 0);
        g_assert_cmpstr(path, ==, t->file);
        g_clear_pointer(&path, free);
        g_assert_cmpint(hook_directories_resolve(&d, "/tmp/no/such.rb", &path, &message), ==, -ENOENT);
        g_assert_nonnull(strstr(message, "in sight of a worker"));
        g_clear_pointer(&message, free);
        g_assert_cmpint(hook_directories_resolve(&d, "y", &path, &message), ==, -ENOENT);
        g_assert_nonnull(strstr(message, t->dir));
        g_clear_pointer(&message, free);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                g_assert_cmpint(hook_directories_resolve(&d, bad[i], &path, &message), ==, -EINVAL);
                g_assert_null(message);
        }
        g_assert_null(path);
        hook_directories_done(&d);
}

#define add(path, function) g_test_add(path, Tree, NULL, set_up, function, tear_down)

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);
        add("/trust/good", test_good);
        add("/trust/mode", test_mode);
        add("/trust/above", test_above);
        add("/trust/links", test_links);
        add("/trust/kind", test_kind);
        if (geteuid() == 0)
                add("/trust/owner", test_owner);
        add("/trust/resolve", test_resolve);
        return g_test_run();
}
