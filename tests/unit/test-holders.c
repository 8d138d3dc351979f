/* SPDX-License-Identifier: MIT */
#include "service/config.h"
#include "service/holders-scan.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <sys/sysmacros.h>

static const Disk *disk(void) {
        static Disk d = { .id = 1, .n_numbers = 2 };

        d.numbers[0] = makedev(259, 4);
        d.numbers[1] = makedev(259, 7); /* ublkb1p1 */
        return &d;
}

static void test_names(void) {
        const char *good[] = { "ublkb1", "/dev/ublkb1", "ublkb1p1", "/dev/ublkb1p128" };
        const char *bad[] = { "", "ublkb", "ublkb10", "ublkb1p", "ublkb1x", "ublkc1", "/dev/ublkb2", "/mnt/ublkb1", "sda" };

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                g_assert_true(disk_has_name(disk(), good[i]));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                g_assert_false(disk_has_name(disk(), bad[i]));
}

static void test_mounts(void) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        static const char text[] =
                "22 1 0:21 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/dev/ublkb1\n"
                "36 22 259:4 / /mnt/with\\040space rw,noatime shared:40 master:3 - ext4 /dev/disk/by-id/ublk-a rw\n"
                "37 22 259:7 /sub /srv rw - xfs /dev/ublkb1p1 rw\n"
                "38 22 259:5 / /other rw - ext4 /dev/ublkb10 rw\n"
                "39 22 0:44 /vol /btrfs rw - btrfs /dev/ublkb1 rw,space_cache\n"
                "40 22 0:45 / /back\\134slash rw - btrfs /dev/ublkb1p1\n"
                "41 22 259:4 / /mnt/with\\040space rw - ext4 /dev/ublkb1 rw\n"
                "cut 22 259:4\n"
                " - \n"
                "42 22 259:4 / /unfinished rw";

        g_assert_cmpint(holders_add_mounts(&h, disk(), text), ==, 0);
        g_assert_cmpuint(h.n, ==, 4);
        for (size_t i = 0; i < h.n; i++)
                g_assert_cmpint(h.items[i].kind, ==, HOLDER_MOUNT);
        g_assert_cmpstr(h.items[0].what, ==, "/mnt/with space");
        g_assert_cmpstr(h.items[1].what, ==, "/srv");
        g_assert_cmpstr(h.items[2].what, ==, "/btrfs");
        g_assert_cmpstr(h.items[3].what, ==, "/back\\slash");
}

static void test_swaps(void) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;

        g_assert_cmpint(holders_add_swaps(&h, disk(), "Filename\tType\tSize\n/dev/ublkb10  partition 4\n/swapfile file 1\n"), ==, 0);
        g_assert_cmpuint(h.n, ==, 0);
        g_assert_cmpint(holders_add_swaps(&h, disk(), "Filename\n/dev/ublkb1p1                           partition\t4\t0\t-2\n"), ==, 0);
        g_assert_cmpuint(h.n, ==, 1);
        g_assert_cmpint(h.items[0].kind, ==, HOLDER_SWAP);
        g_assert_cmpstr(h.items[0].what, ==, "/dev/ublkb1p1");
}

static void test_describe(void) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        _cleanup_free_ char *none = NULL, *two = NULL, *many = NULL;
        json_t *j;

        g_assert_cmpint(holders_describe(&h, &none), ==, 0);
        g_assert_cmpstr(none, ==, "not in use");
        g_assert_cmpint(holders_add(&h, HOLDER_MOUNT, "/mnt", 0, NULL), ==, 0);
        g_assert_cmpint(holders_add(&h, HOLDER_PROCESS, "/dev/ublkb1", 34, "dd\xff"), ==, 0);
        g_assert_cmpint(holders_add(&h, HOLDER_PROCESS, "/dev/ublkb1", 34, "dd"), ==, 0);
        g_assert_cmpuint(h.n, ==, 2);
        g_assert_cmpint(holders_describe(&h, &two), ==, 0);
        g_assert_cmpstr(two, ==, "mounted at /mnt, open in dd\xff (pid 34)");
        j = holders_to_json(&h);
        g_assert_cmpuint(json_array_size(j), ==, 2);
        g_assert_cmpstr(json_string_value(json_object_get(json_array_get(j, 0), "kind")), ==, "mount");
        g_assert_null(json_object_get(json_array_get(j, 0), "pid"));
        /* A name is bytes, JSON is not. */
        g_assert_cmpstr(json_string_value(json_object_get(json_array_get(j, 1), "comm")), ==, "dd?");
        g_assert_cmpint(json_integer_value(json_object_get(json_array_get(j, 1), "pid")), ==, 34);
        json_decref(j);
        for (pid_t i = 1; i < 1000; i++)
                g_assert_cmpint(holders_add(&h, HOLDER_PROCESS, "x", i, "y"), ==, 0);
        g_assert_cmpuint(h.n, ==, 256);
        g_assert_cmpint(holders_describe(&h, &many), ==, 0);
        g_assert_true(g_str_has_suffix(many, " and 251 more"));
}

/* A made-up /sys and /proc. */

static char *root;

static char *below(const char *path) {
        return g_strconcat(root, path, NULL);
}

static void put(const char *path, const char *text) {
        char *full = below(path), *directory = g_path_get_dirname(full);

        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_true(g_file_set_contents(full, text, -1, NULL));
        g_free(directory);
        g_free(full);
}

static void put_link(const char *path, const char *target) {
        char *full = below(path), *directory = g_path_get_dirname(full);

        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_cmpint(symlink(target, full), ==, 0);
        g_free(directory);
        g_free(full);
}

static void remove_tree(const char *path) {
        GDir *d = g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? NULL : g_dir_open(path, 0, NULL);

        for (const char *name; d && (name = g_dir_read_name(d));) {
                char *child = g_build_filename(path, name, NULL);

                remove_tree(child);
                g_free(child);
        }
        if (d)
                g_dir_close(d);
        (void) g_remove(path);
}

static void test_stacked(void) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        Disk d;

        g_assert_cmpint(disk_read(5, &d), ==, -ENODEV);
        put("/sys/block/ublkb5/dev", "259:9\n");
        put("/sys/block/ublkb5/ublkb5p2/dev", "259:10\n");
        put("/sys/block/ublkb5/ublkb5p2/holders/dm-3", "");
        put("/sys/block/ublkb5/holders/md0", "");
        put("/sys/block/ublkb5/queue/dev", "1:1\n");
        put("/sys/block/loop0/loop/backing_file", "/dev/ublkb5\n");
        put("/sys/block/loop1/loop/backing_file", "/dev/ublkb50\n");
        put("/sys/block/loop2/size", "0\n");
        g_assert_cmpint(disk_read(5, &d), ==, 0);
        g_assert_cmpuint(d.n_numbers, ==, 2);
        g_assert_true(disk_has_number(&d, makedev(259, 9)) && disk_has_number(&d, makedev(259, 10)));
        g_assert_false(disk_has_number(&d, makedev(1, 1)));
        g_assert_cmpint(holders_add_stacked(&h, &d), ==, 0);
        g_assert_cmpuint(h.n, ==, 3);
        g_assert_cmpstr(h.items[0].what, ==, "md0");
        g_assert_cmpstr(h.items[1].what, ==, "dm-3");
        g_assert_cmpstr(h.items[2].what, ==, "loop0");
}

static void test_openers(void) {
        _cleanup_free_ char *one = NULL, *none = NULL;

        put("/proc/41/comm", "cat\n");
        put_link("/proc/41/fd/0", "/dev/null");
        put_link("/proc/41/fd/1", "socket:[12]");
        put("/proc/42/comm", "a name that is too long to be one\n");
        put_link("/proc/42/fd/3", "/dev/zero");
        put("/proc/self/comm", "x\n");
        g_assert_cmpint(node_openers_describe("/dev/null", &one), ==, 1);
        g_assert_cmpstr(one, ==, "cat (pid 41)");
        g_assert_cmpint(node_openers_describe("/dev/nul", &none), ==, 0);
        g_assert_nonnull(none);
}

/* A file of the disk in use without a descriptor. */
static void test_no_descriptor(void) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;

        put("/proc/61/comm", "mapper\n");
        put("/proc/61/maps",
            "55d0c0000000-55d0c0001000 r--p 00000000 fe:00 9 /usr/bin/dd\n"
            "7f0e5c000000-7f0e5c021000 rw-s 00000000 00:05 731                        /dev/ublkb1p1\n");
        put("/proc/62/comm", "gone\n");
        put("/proc/62/maps", "00400000-00401000 rw-s 00000000 00:05 731   /dev/ublkb1 (deleted)\n");
        put("/proc/63/comm", "other\n");
        put("/proc/63/maps",
            "nonsense\n\n7f00-7f01 rw-s 0 00:05 7 /dev/ublkb10\n7f01-7f02 rw-s 0 00:05 7 /mnt/ublkb1\n"
            "7f02-7f03 rw-p 00000000 00:00 0 [heap]\n7f03-7f04 rw-s 0 00:05 7 /dev/zero");
        /* Where the mapped file itself can be looked at, its number counts and not its name. */
        put("/proc/64/comm", "renamed\n");
        put("/proc/64/maps", "00400000-00401000 rw-s 00000000 00:05 731   /dev/ublkb1\n");
        put_link("/proc/64/map_files/400000-401000", "/dev/null");
        put("/proc/65/comm", "ring\n");
        put_link("/proc/65/fd/7", "anon_inode:[io_uring]");
        put("/proc/65/fdinfo/7",
            "pos:\t0\nSqMask:\t0x7\nUserFiles:\t3\n    0: <none>\n    1: /dev/null\n    2: /dev/ublkb1\nUserBufs:\t0\n");
        put("/proc/66/comm", "old-ring\n");
        put_link("/proc/66/fd/0", "anon_inode:[io_uring]");
        put("/proc/66/fdinfo/0", "UserFiles:\t1\n    0: ublkb1p1\n");
        put("/proc/67/comm", "no-ring\n");
        put_link("/proc/67/fd/3", "anon_inode:[io_uring]");
        put("/proc/67/fdinfo/3", "UserFiles:\t1\n    0: /dev/ublkb10\nUserBufs:\t1\n    0: /dev/ublkb1\n");
        put_link("/proc/67/fd/4", "anon_inode:[eventfd]");
        put("/proc/67/fdinfo/4", "UserFiles:\t1\n    0: /dev/ublkb1\n");
        g_assert_cmpint(holders_add_openers(&h, disk()), ==, 0);
        for (size_t i = 0; i < h.n; i++) {
                g_assert_cmpint(h.items[i].kind, ==, HOLDER_PROCESS);
                g_assert_true(h.items[i].pid == 61 || h.items[i].pid == 62 || h.items[i].pid == 65 || h.items[i].pid == 66);
        }
        g_assert_cmpuint(h.n, ==, 4);
}

static void test_nvmet(void) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;

        put("/sys/kernel/config/nvmet/subsystems/nqn.a/namespaces/1/device_path", "/dev/ublkb1\n");
        put("/sys/kernel/config/nvmet/subsystems/nqn.a/namespaces/1/enable", "1\n");
        put("/sys/kernel/config/nvmet/subsystems/nqn.a/namespaces/2/device_path", "/dev/ublkb1p1\n");
        put("/sys/kernel/config/nvmet/subsystems/nqn.a/namespaces/2/enable", "0\n"); /* not open */
        put("/sys/kernel/config/nvmet/subsystems/nqn.b/namespaces/1/device_path", "/dev/ublkb10\n");
        put("/sys/kernel/config/nvmet/subsystems/nqn.b/namespaces/1/enable", "1\n");
        put("/sys/kernel/config/nvmet/subsystems/nqn.c/attr_allow_any_host", "1\n");
        g_assert_cmpint(holders_add_stacked(&h, disk()), ==, 0);
        g_assert_cmpuint(h.n, ==, 1);
        g_assert_cmpint(h.items[0].kind, ==, HOLDER_DEVICE);
        g_assert_cmpstr(h.items[0].what, ==, "nvmet nqn.a/1");
}

static void test_udev(void) {
        put("/proc/51/cgroup", "0::/system.slice/systemd-udevd.service/udev\n");
        put("/proc/52/cgroup", "12:pids:/x\n1:name=systemd:/system.slice/systemd-udevd.service\n");
        put("/proc/53/cgroup", "0::/system.slice/systemd-udevd.service.d\n");
        put("/proc/54/cgroup", "0::/user.slice/system.slice/systemd-udevd.service\n");
        g_assert_true(process_is_udev(51) && process_is_udev(52));
        g_assert_false(process_is_udev(53) || process_is_udev(54) || process_is_udev(55));
}

static void test_foreign_mounts(void) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;

        put("/proc/43/mountinfo", "36 22 259:4 / /in/a/container rw - ext4 /dev/ublkb1 rw\n");
        g_assert_cmpint(holders_add_foreign_mounts(&h, disk()), ==, 0);
        g_assert_cmpuint(h.n, ==, 1);
        g_assert_cmpstr(h.items[0].what, ==, "/in/a/container");
}

int main(int argc, char **argv) {
        int r;

        g_test_init(&argc, &argv, NULL);
        root = g_dir_make_tmp("ublk-holders-XXXXXX", NULL);
        config_set_root(root);
        g_test_add_func("/holders/names", test_names);
        g_test_add_func("/holders/mounts", test_mounts);
        g_test_add_func("/holders/swaps", test_swaps);
        g_test_add_func("/holders/describe", test_describe);
        g_test_add_func("/holders/stacked", test_stacked);
        g_test_add_func("/holders/openers", test_openers);
        g_test_add_func("/holders/no-descriptor", test_no_descriptor);
        g_test_add_func("/holders/nvmet", test_nvmet);
        g_test_add_func("/holders/udev", test_udev);
        g_test_add_func("/holders/foreign-mounts", test_foreign_mounts);
        r = g_test_run();
        remove_tree(root);
        g_free(root);
        return r;
}
