/* SPDX-License-Identifier: MIT */
#include "service/mounts.h"

#include "service/config.h"

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <sys/stat.h>

static const char table[] =
        "1 0 0:2 / / rw - rootfs rootfs rw\n"
        "22 1 8:1 /@ / rw shared:1 - btrfs /dev/sda1 rw\n"
        "23 22 8:1 /@/usr /usr ro shared:1 master:3 - btrfs /dev/sda1 rw\n"
        "24 22 8:1 /@home /home rw - btrfs /dev/sda1 rw\n"
        "25 22 8:2 / /srv/two\\040words rw - ext4 /dev/sda2 rw\n"
        "26 22 0:40 / /net rw - autofs auto.net rw\n"
        "27 26 0:41 / /net/a rw - nfs4 a:/ rw\n"
        "28 27 8:3 / /net/a/b rw - ext4 /dev/sda3 rw\n"
        "29 22 259:0 / /ours rw - ext4 /dev/ublkb0 rw\n"
        "30 22 0:50 / /ssh rw - fuse.sshfs me@a: rw\n"
        "31 22 0:51 / /run/file rw - tmpfs tmpfs rw\n"
        "nonsense\n";

static void test_find(void) {
        static const struct { const char *path, *point; bool elsewhere; } cases[] = {
                { "/", "/", false }, { "/etc/x", "/", false }, { "/usr", "/usr", false }, { "/usr/lib/x", "/usr", false }, { "/usrx", "/", false },
                { "/home/me/x", "/home", true }, { "/srv/two words/x", "/srv/two words", true }, { "/srv/two", "/", false },
                { "//srv/./two words//x", "/srv/two words", true }, { "/srv/.two words", "/", false }, { "/net/x/y", "/net", true },
                { "/net/a/x", "/net/a", true }, { "/net/a/b/x", "/net/a/b", true }, { "/run/file", "/run/file", true },
        };
        Mounts m;

        g_assert_cmpint(mounts_parse(&m, strdup(table)), ==, 0);
        g_assert_cmpuint(m.n, ==, 11);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const Mount *found = mounts_find(&m, cases[i].path);

                g_assert_cmpstr(found->point, ==, cases[i].point);
                if (mounts_is_elsewhere(&m, cases[i].path) != cases[i].elsewhere)
                        g_error("%s", cases[i].path);
        }
        g_assert_cmpstr(mounts_find(&m, "/")->type, ==, "btrfs");
        mounts_done(&m);
        g_assert_cmpint(mounts_parse(&m, strdup("")), ==, 0);
        g_assert_null(mounts_find(&m, "/"));
        g_assert_false(mounts_is_elsewhere(&m, "/"));
        mounts_done(&m);
}

/* Whoever is in a chroot sees what is mounted below it, and not what that itself is on. */
static void test_chroot(void) {
        Mounts m;

        g_assert_cmpint(mounts_parse(&m, strdup("36 35 0:39 / /proc rw - proc proc rw\n")), ==, 0);
        g_assert_null(mounts_find(&m, "/"));
        g_assert_false(mounts_is_elsewhere(&m, "/"));
        g_assert_false(mounts_is_elsewhere(&m, "/srv/x"));
        g_assert_true(mounts_is_elsewhere(&m, "/proc/x"));
        mounts_done(&m);
}

static int look(const char *path) {
        int fd = -EBADF, r = mounts_open_at_hand(path, &fd);

        g_assert_true((r >= 0) == (fd >= 0));
        safe_close(fd);
        return r;
}

/* As this machine has it. */
static void test_open(void) {
        g_autofree char *dir = g_dir_make_tmp("ublk-mounts-XXXXXX", NULL), *file = g_build_filename(dir, "file", NULL),
                        *link = g_build_filename(dir, "link", NULL), *away = g_build_filename(dir, "away", NULL),
                        *none = g_build_filename(dir, "none", NULL);

        g_assert_true(g_file_set_contents(file, "", 0, NULL));
        g_assert_cmpint(symlink("file", link), ==, 0);
        g_assert_cmpint(symlink("/proc/version", away), ==, 0);
        g_assert_cmpint(look(file), ==, 0);
        g_assert_cmpint(look(link), ==, -EREMOTE);
        g_assert_cmpint(look(dir), ==, 0);
        g_assert_cmpint(look(none), ==, -ENOENT);
        g_assert_cmpint(look(away), ==, -EREMOTE);
        g_assert_cmpint(g_unlink(file) | g_unlink(link) | g_unlink(away) | g_rmdir(dir), ==, 0);
}

/* What is mounted there according to a table is not looked at, whatever really is there. */
static void test_remote(void) {
        static const char *const paths[] = { "/net/a/x", "/net/x", "/net", "/net/a/b/x", "/ours/x", "/ssh/x" };
        g_autofree char *root = g_dir_make_tmp("ublk-mounts-XXXXXX", NULL), *proc = g_build_filename(root, "proc/self", NULL),
                        *info = g_build_filename(proc, "mountinfo", NULL), *command = g_strdup_printf("rm -rf '%s'", root);

        g_assert_cmpint(g_mkdir_with_parents(proc, 0755), ==, 0);
        g_assert_true(g_file_set_contents(info, table, -1, NULL));
        config_set_root(root);
        for (size_t i = 0; i < ELEMENTSOF(paths); i++)
                g_assert_cmpint(look(paths[i]), ==, -EREMOTE);
        g_assert_cmpint(look("/nothing/here"), ==, -ENOENT);
        config_set_root(NULL);
        g_assert_cmpint(system(command), ==, 0);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/mounts/find", test_find);
        g_test_add_func("/mounts/chroot", test_chroot);
        g_test_add_func("/mounts/open", test_open);
        g_test_add_func("/mounts/remote", test_remote);
        return g_test_run();
}
