/* SPDX-License-Identifier: MIT */
#include "service/marker.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <sys/stat.h>

#define NODES "/run/ublk-ruby/nodes"

static char *root;

static DeviceConfig *config(uint32_t id, const char *name) {
        DeviceConfig *c = device_config_new(id);

        g_assert_nonnull(c);
        free(c->name);
        c->name = strdup(name);
        return c;
}

static void test_states(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = config(3, "disk0"), *other = config(3, "disk1"), *far = config(4, "disk0");

        g_assert_cmpint(marker_read(c), ==, MARKER_NONE);
        g_assert_cmpint(marker_remove(3), ==, 0);
        g_assert_cmpint(marker_write(c, false), ==, 0);
        g_assert_cmpint(marker_read(c), ==, MARKER_LIVE);
        g_assert_cmpint(marker_read(far), ==, MARKER_NONE);
        /* The id is used again by a device of another name. */
        g_assert_cmpint(marker_read(other), ==, MARKER_NONE);
        g_assert_cmpint(marker_write(c, true), ==, 0);
        g_assert_cmpint(marker_read(c), ==, MARKER_LOST);
        g_assert_cmpint(marker_read(other), ==, MARKER_NONE);
        g_assert_cmpint(marker_write_gone(c), ==, 0);
        g_assert_cmpint(marker_read(c), ==, MARKER_LIVE);
        g_assert_cmpint(marker_remove(3), ==, 0);
        g_assert_cmpint(marker_read(c), ==, MARKER_NONE);
}

/* udev reads it as root, people as anybody. */
static void test_file(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = config(7, "a.b-c_D");
        char *path = g_strconcat(root, NODES "/ublkb7.env", NULL), *text = NULL;
        struct stat st;

        g_assert_cmpint(marker_write(c, false), ==, 0);
        g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
        g_assert_cmpstr(text, ==, "UBLK_NAME=a.b-c_D\n");
        g_assert_cmpint(stat(path, &st), ==, 0);
        g_assert_cmphex(st.st_mode & 07777, ==, 0644);
        g_free(text);
        g_assert_cmpint(marker_write(c, true), ==, 0);
        g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
        g_assert_cmpstr(text, ==, "UBLK_NAME=a.b-c_D\nUBLK_LOST=1\n");
        g_free(text);
        g_assert_cmpint(marker_write_gone(c), ==, 0);
        g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
        g_assert_cmpstr(text, ==, "UBLK_NAME=a.b-c_D\nUBLK_GONE=1\n");
        g_free(text);
        g_assert_cmpint(marker_remove(7), ==, 0);
        g_assert_cmpint(access(path, F_OK), <, 0);
        g_free(path);
}

static void test_damaged(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = config(8, "disk0");
        char *path = g_strconcat(root, NODES "/ublkb8.env", NULL), *big = g_strnfill(8192, 'x');

        g_assert_cmpint(marker_write(c, false), ==, 0);
        g_assert_true(g_file_set_contents(path, "", 0, NULL));
        g_assert_cmpint(marker_read(c), ==, MARKER_NONE);
        g_assert_true(g_file_set_contents(path, "UBLK_LOST=1\nUBLK_NAME=disk0", -1, NULL));
        g_assert_cmpint(marker_read(c), ==, MARKER_LOST);
        g_assert_true(g_file_set_contents(path, big, -1, NULL));
        g_assert_cmpint(marker_read(c), ==, -E2BIG);
        g_assert_cmpint(marker_remove(8), ==, 0);
        g_free(big);
        g_free(path);
}

int main(int argc, char **argv) {
        const char *const directories[] = { NODES, "/run/ublk-ruby", "/run", "" };
        int r;

        g_test_init(&argc, &argv, NULL);
        root = g_dir_make_tmp("ublk-marker-XXXXXX", NULL);
        config_set_root(root);
        g_test_add_func("/marker/states", test_states);
        g_test_add_func("/marker/file", test_file);
        g_test_add_func("/marker/damaged", test_damaged);
        r = g_test_run();
        for (size_t i = 0; i < ELEMENTSOF(directories); i++) {
                char *path = g_strconcat(root, directories[i], NULL);

                (void) g_rmdir(path);
                g_free(path);
        }
        g_free(root);
        return r;
}
