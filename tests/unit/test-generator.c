/* SPDX-License-Identifier: MIT */

/* The built ublk-ruby-generator, run as systemd runs it, on files below a directory of the test's. */

#include "service/util.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

typedef struct Fixture {
        char *root;
        char *errors; /* what the last run said */
} Fixture;

static void set_up(Fixture *f, gconstpointer data) {
        (void) data;
        f->root = g_dir_make_tmp("ublk-generator-XXXXXX", NULL);
        g_assert_nonnull(f->root);
}

static void tear_down(Fixture *f, gconstpointer data) {
        g_autofree char *command = g_strdup_printf("rm -rf '%s'", f->root);

        (void) data;
        g_assert_cmpint(system(command), ==, 0);
        g_free(f->root);
        g_free(f->errors);
}

static void put(Fixture *f, const char *path, const char *text) {
        g_autofree char *full = g_build_filename(f->root, path, NULL), *directory = g_path_get_dirname(full);

        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_true(g_file_set_contents(full, text, -1, NULL));
}

static int run(Fixture *f) {
        g_autofree char *root = g_strdup_printf("--root=%s", f->root);
        g_autofree char *normal = g_build_filename(f->root, "out", NULL);
        char *argv[] = { (char *) g_getenv("UBLK_RUBY_GENERATOR"), root, normal, (char *) "/nonexistent/early",
                         (char *) "/nonexistent/late", NULL };
        int status;

        (void) g_mkdir(normal, 0755);
        g_free(f->errors);
        g_assert_true(g_spawn_sync(NULL, argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, NULL, &f->errors, &status, NULL));
        g_assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

/* NULL if there is none. */
static char *drop_in(Fixture *f, unsigned id) {
        g_autofree char *path = g_strdup_printf("%s/out/ublk-ruby-device@%u.service.d/50-needs.conf", f->root, id);
        char *text;

        return g_file_get_contents(path, &text, NULL, NULL) ? text : NULL;
}

static unsigned count_made(Fixture *f) {
        g_autofree char *path = g_build_filename(f->root, "out", NULL);
        g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
        unsigned n = 0;

        while (g_dir_read_name(dir))
                n++;
        return n;
}

static void assert_line(const char *text, const char *line) {
        g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

        if (!g_strv_contains((const char *const *) lines, line))
                g_error("No line \"%s\" in:\n%s", line, text);
}

#define HEAD(name) "[Device]\nName=" name "\nHook=web\n"

static void test_nothing(Fixture *f, gconstpointer data) {
        (void) data;
        g_assert_cmpint(run(f), ==, 0);
        g_assert_cmpuint(count_made(f), ==, 0);
        put(f, "run/ublk-ruby/devices/0.conf", HEAD("plain"));
        put(f, "etc/ublk-ruby/devices/1.conf", HEAD("no") "Network=no\nJIT=no\n");
        g_assert_cmpint(run(f), ==, 0);
        g_assert_cmpuint(count_made(f), ==, 0);
        g_assert_cmpstr(f->errors, ==, "");
}

static void test_network(Fixture *f, gconstpointer data) {
        g_autofree char *text = NULL;

        (void) data;
        put(f, "run/ublk-ruby/devices/3.conf", HEAD("far") "Network=yes\n");
        g_assert_cmpint(run(f), ==, 0);
        g_assert_cmpuint(count_made(f), ==, 1);
        text = drop_in(f, 3);
        g_assert_nonnull(text);
        assert_line(text, "After=network.target network-online.target nss-lookup.target");
        assert_line(text, "PrivateNetwork=no");
        assert_line(text, "IPAddressDeny=");
        assert_line(text, "RestrictAddressFamilies=AF_INET AF_INET6");
        g_assert_null(strstr(text, "MemoryDenyWriteExecute"));
}

static void test_jit(Fixture *f, gconstpointer data) {
        g_autofree char *text = NULL;

        (void) data;
        put(f, "etc/ublk-ruby/devices/12.conf", HEAD("fast") "JIT=yes\n");
        g_assert_cmpint(run(f), ==, 0);
        text = drop_in(f, 12);
        g_assert_nonnull(text);
        assert_line(text, "MemoryDenyWriteExecute=no");
        g_assert_null(strstr(text, "Network"));
        g_assert_null(strstr(text, "[Unit]"));
}

static void test_secrets(Fixture *f, gconstpointer data) {
        g_autofree char *text = NULL;

        (void) data;
        put(f, "etc/credstore/vault", "x");
        put(f, "run/ublk-ruby/devices/3.conf",
            HEAD("far") "Secrets=key token other\n[Arguments]\nkey=s:/srv/key:1\ntoken=s:vault\nother=s:elsewhere\npath=s:/srv/image\n");
        g_assert_cmpint(run(f), ==, 0);
        text = drop_in(f, 3);
        g_assert_nonnull(text);
        assert_line(text, "LoadCredential=key:/srv/key:1");
        assert_line(text, "LoadCredential=vault");
        /* Is in no store: a drop-in of the administrator's sets it, and nothing here may undo that. */
        g_assert_null(strstr(text, "elsewhere"));
        g_assert_null(strstr(text, "Network"));
        /* One that is no reference does not get into a file that all can read. */
        put(f, "run/ublk-ruby/devices/3.conf", HEAD("far") "Secrets=key\n[Arguments]\nkey=s:top secret\n");
        put(f, "out/ublk-ruby-device@3.service.d/50-needs.conf", "");
        g_assert_cmpint(run(f), ==, 1);
        g_assert_null(strstr(f->errors, "top secret"));
        g_free(text);
        text = drop_in(f, 3);
        g_assert_cmpstr(text, ==, "");
}

/* What lies on a file system of its own comes after that; systemd knows no escapes in a quoted path. */
static void test_mounts(Fixture *f, gconstpointer data) {
        g_autofree char *text = NULL, *odd = NULL;

        (void) data;
        put(f, "etc/ublk-ruby/devices/3.conf",
            HEAD("img") "[Arguments]\npath=s:/srv/two words/100%.img\nsize=t:4096\nurl=s:http://a/b\nother=s:/var/x\n");
        put(f, "run/ublk-ruby/devices/4.conf",
            HEAD("odd") "JIT=yes\n[Arguments]\na=s:/srv/\\x22x\nb=s:/srv/../x\nc=s:/srv/\\x0ax\nd=s:relative\n");
        g_assert_cmpint(run(f), ==, 0);
        g_assert_cmpuint(count_made(f), ==, 2);
        text = drop_in(f, 3);
        assert_line(text, "[Unit]");
        assert_line(text, "RequiresMountsFor=\"/srv/two words/100%%.img\"");
        assert_line(text, "RequiresMountsFor=\"/var/x\"");
        g_assert_null(strstr(text, "http"));
        g_assert_null(strstr(text, "[Service]"));
        odd = drop_in(f, 4);
        assert_line(odd, "MemoryDenyWriteExecute=no");
        g_assert_null(strstr(odd, "RequiresMountsFor"));
}

/* The persistent file is the one that counts. */
static void test_both(Fixture *f, gconstpointer data) {
        g_autofree char *text = NULL;

        (void) data;
        put(f, "run/ublk-ruby/devices/3.conf", HEAD("old") "Network=yes\n");
        put(f, "etc/ublk-ruby/devices/3.conf", HEAD("new") "JIT=yes\n");
        g_assert_cmpint(run(f), ==, 0);
        text = drop_in(f, 3);
        g_assert_nonnull(strstr(text, "device new "));
        g_assert_null(strstr(text, "Network"));
}

/* A file that can't be read costs its own device the drop-in, and no other. */
static void test_corrupt(Fixture *f, gconstpointer data) {
        g_autofree char *two = NULL, *nine = NULL, *big = g_strnfill(100000, '#');

        (void) data;
        put(f, "run/ublk-ruby/devices/2.conf", HEAD("a") "Network=yes\n");
        put(f, "run/ublk-ruby/devices/4.conf", HEAD("b") "Network=yes\nColour=red\n");
        put(f, "run/ublk-ruby/devices/5.conf", big);
        put(f, "run/ublk-ruby/devices/6.conf", "");
        put(f, "run/ublk-ruby/devices/007.conf", HEAD("c") "Network=yes\n");
        put(f, "run/ublk-ruby/devices/8.conf/directory", "");
        put(f, "run/ublk-ruby/devices/9.conf", HEAD("d") "Network=yes\n");
        g_assert_cmpint(run(f), ==, 1);
        g_assert_cmpuint(count_made(f), ==, 2);
        two = drop_in(f, 2);
        nine = drop_in(f, 9);
        g_assert_nonnull(two);
        g_assert_nonnull(nine);
        for (int i = 4; i <= 8; i += i == 6 ? 2 : 1) {
                g_autofree char *part = g_strdup_printf("Device file %d.conf", i);
                if (!strstr(f->errors, part))
                        g_error("Nothing of %s in:\n%s", part, f->errors);
        }
        g_assert_nonnull(strstr(f->errors, "line 5: unknown key in [Device]: Colour"));
}

static void test_cannot_write(Fixture *f, gconstpointer data) {
        (void) data;
        put(f, "run/ublk-ruby/devices/3.conf", HEAD("far") "Network=yes\n");
        put(f, "out", "not a directory");
        g_assert_cmpint(run(f), ==, 1);
        g_assert_nonnull(strstr(f->errors, "drop-in of device 3 (far) can't be written"));
}

static void test_usage(Fixture *f, gconstpointer data) {
        char *argv[] = { (char *) g_getenv("UBLK_RUBY_GENERATOR"), (char *) "--root=/nonexistent", NULL };
        int status;

        (void) data;
        g_assert_true(g_spawn_sync(NULL, argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, NULL, &f->errors, &status, NULL));
        g_assert_cmpint(WEXITSTATUS(status), ==, 2);
        g_assert_nonnull(strstr(f->errors, "directories"));
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);
        if (!g_getenv("UBLK_RUBY_GENERATOR"))
                g_error("UBLK_RUBY_GENERATOR is not set: run the test with meson.");
        g_test_add("/generator/nothing", Fixture, NULL, set_up, test_nothing, tear_down);
        g_test_add("/generator/network", Fixture, NULL, set_up, test_network, tear_down);
        g_test_add("/generator/jit", Fixture, NULL, set_up, test_jit, tear_down);
        g_test_add("/generator/secrets", Fixture, NULL, set_up, test_secrets, tear_down);
        g_test_add("/generator/mounts", Fixture, NULL, set_up, test_mounts, tear_down);
        g_test_add("/generator/both", Fixture, NULL, set_up, test_both, tear_down);
        g_test_add("/generator/corrupt", Fixture, NULL, set_up, test_corrupt, tear_down);
        g_test_add("/generator/cannot-write", Fixture, NULL, set_up, test_cannot_write, tear_down);
        g_test_add("/generator/usage", Fixture, NULL, set_up, test_usage, tear_down);
        return g_test_run();
}
