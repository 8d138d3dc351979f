/* SPDX-License-Identifier: MIT */
#include "service/config.h"
#include "service/features.h"
#include "service/probe-facts.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <jansson.h>

#define FEATURES_6_12 UINT64_C(0x1fe)

/* A machine where everything is as it should be, for each test to break in one way. */
static ProbeFacts good_facts(void) {
        ProbeFacts f = {
                .loaded = true,
                .modules_known = true,
                .module_there = true,
                .node = true,
                .initial_namespace = true,
                .admin = true,
                .isolation = true,
                .worker_exists = true,
                .features = FEATURES_6_12,
        };

        g_strlcpy(f.kernel, "6.12.118+deb13-amd64", sizeof(f.kernel));
        return f;
}

static void assert_verdict(const ProbeFacts *f, ProbeVerdict verdict, const char *text) {
        Probe p;

        probe_judge(f, &p);
        g_assert_cmpstr(probe_verdict_to_string(p.verdict), ==, probe_verdict_to_string(verdict));
        if (verdict == PROBE_SUPPORTED)
                g_assert_cmpstr(p.reason, ==, "");
        else
                g_assert_nonnull(strstr(p.reason, text));
        g_assert_cmpuint(strlen(p.reason), <, sizeof(p.reason) - 1);
}

static void test_supported(void) {
        ProbeFacts f = good_facts();

        assert_verdict(&f, PROBE_SUPPORTED, "");
        f.loaded = f.module_there = false; /* built in */
        f.builtin = true;
        assert_verdict(&f, PROBE_SUPPORTED, "");
        f.io_uring_disabled = 1;
        f.worker_in_group = true;
        assert_verdict(&f, PROBE_SUPPORTED, "");
}

static void test_driver(void) {
        ProbeFacts f = good_facts();

        f.loaded = f.node = false;
        assert_verdict(&f, PROBE_NOT_LOADED, "`modprobe ublk_drv`");
        g_strlcpy(f.kept_by, "`install ublk_drv …` in /etc/modprobe.d/x.conf", sizeof(f.kept_by));
        assert_verdict(&f, PROBE_NOT_LOADED, "/etc/modprobe.d/x.conf");
        f.module_there = false;
        assert_verdict(&f, PROBE_NO_DRIVER, "CONFIG_BLK_DEV_UBLK");
        f.modules_known = false;
        assert_verdict(&f, PROBE_NO_DRIVER, "/lib/modules/6.12.118+deb13-amd64");
}

static void test_permission(void) {
        ProbeFacts f = good_facts();

        f.node = false;
        assert_verdict(&f, PROBE_NO_PERMISSION, "container");
        f = good_facts();
        f.open_error = -EACCES;
        assert_verdict(&f, PROBE_NO_PERMISSION, "as root");
        f.open_error = -EPERM;
        assert_verdict(&f, PROBE_NO_PERMISSION, "device policy");
        f = good_facts();
        f.admin = false;
        assert_verdict(&f, PROBE_NO_PERMISSION, "CAP_SYS_ADMIN");
        f = good_facts();
        f.initial_namespace = false;
        assert_verdict(&f, PROBE_NO_PERMISSION, "user namespace");
}

static void test_io_uring(void) {
        ProbeFacts f = good_facts();

        f.io_uring_disabled = 2;
        assert_verdict(&f, PROBE_NO_IO_URING, "kernel.io_uring_disabled");
        f.worker_in_group = true; /* of no use then */
        assert_verdict(&f, PROBE_NO_IO_URING, "for everyone");
        f = good_facts();
        f.io_uring_disabled = 1;
        assert_verdict(&f, PROBE_NO_IO_URING, "kernel.io_uring_group");
        f.worker_exists = false;
        assert_verdict(&f, PROBE_NO_IO_URING, "which does not exist");
        f = good_facts();
        f.ring_error = -ENOSYS;
        assert_verdict(&f, PROBE_NO_IO_URING, "CONFIG_IO_URING");
        f.ring_error = -EPERM;
        assert_verdict(&f, PROBE_NO_IO_URING, "seccomp");
        f.ring_error = -ENOMEM;
        assert_verdict(&f, PROBE_NO_IO_URING, strerror(ENOMEM));
}

static void test_user_copy(void) {
        const int errors[] = { -EOPNOTSUPP, -EINVAL, -ENODEV };
        ProbeFacts f = good_facts();

        g_strlcpy(f.kernel, "6.1.0-40-amd64", sizeof(f.kernel));
        f.features = 0;
        for (size_t i = 0; i < ELEMENTSOF(errors); i++) {
                f.features_error = errors[i];
                assert_verdict(&f, PROBE_NO_USER_COPY, "6.1.0-40-amd64 lacks USER_COPY, which came with 6.5");
        }
        f.features_error = 0;
        f.features = FEATURES_6_12 & ~(uint64_t) UBLK_F_USER_COPY;
        assert_verdict(&f, PROBE_NO_USER_COPY, "6.5");
        f.features_error = -ETIMEDOUT;
        assert_verdict(&f, PROBE_NO_PERMISSION, strerror(ETIMEDOUT));
}

static void test_json(void) {
        _cleanup_free_ char *text = NULL;
        ProbeFacts f = good_facts();
        json_t *j;
        Probe p;

        probe_judge(&f, &p);
        g_assert_cmpint(probe_to_json(&p, &text), ==, 0);
        j = json_loads(text, 0, NULL);
        g_assert_true(json_is_true(json_object_get(j, "supported")));
        g_assert_cmpstr(json_string_value(json_object_get(j, "verdict")), ==, "supported");
        g_assert_cmpuint(json_array_size(json_object_get(j, "features")), ==, 8);
        g_assert_true(json_is_true(json_object_get(j, "signal-isolation")));
        g_assert_cmphex((uint64_t) json_integer_value(json_object_get(j, "feature-bits")), ==, FEATURES_6_12);
        json_decref(j);
}

/* Files below a root of our own. */

static char *root;

static void put(const char *path, const char *text) {
        char *full = g_strconcat(root, path, NULL), *directory = g_path_get_dirname(full);

        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_true(g_file_set_contents(full, text, -1, NULL));
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

static ProbeFacts read_files(void) {
        ProbeFacts f = { 0 };

        probe_facts_read_files("6.12.0", &f);
        return f;
}

static void test_files(void) {
        ProbeFacts f;

        f = read_files();
        g_assert_false(f.loaded || f.node || f.builtin || f.module_there || f.modules_known);
        put("/lib/modules/6.12.0/modules.dep", "kernel/drivers/block/loop.ko:\n");
        f = read_files();
        g_assert_true(f.modules_known);
        g_assert_false(f.module_there);
        put("/lib/modules/6.12.0/modules.dep", "kernel/a.ko:\nkernel/drivers/block//ublk_drv.ko.xz:\n");
        g_assert_true(read_files().module_there);
        put("/lib/modules/6.12.0/modules.dep", "kernel/drivers/block/xublk_drv.ko:\nkernel/ublk_drv.k");
        g_assert_false(read_files().module_there);
        put("/lib/modules/6.12.0/modules.builtin", "kernel/drivers/block/ublk_drv.ko\n");
        g_assert_true(read_files().builtin);
        put("/sys/module/ublk_drv/refcnt", "0\n");
        put("/dev/ublk-control", "");
        f = read_files();
        g_assert_true(f.loaded && f.node);
        g_assert_cmpuint(f.io_uring_disabled, ==, 0);
        put("/proc/sys/kernel/io_uring_disabled", "1\n");
        g_assert_cmpuint(read_files().io_uring_disabled, ==, 1);
}

static void test_kept_from_loading(void) {
        put("/etc/modprobe.d/other.conf", "# install ublk_drv\ninstall loop /bin/false\nblacklist\n\noptions ublk_drv ublks_max=3\n");
        g_assert_cmpstr(read_files().kept_by, ==, "");
        put("/usr/lib/modprobe.d/b.conf", "blacklist ublk-drv\n");
        g_assert_cmpstr(read_files().kept_by, ==, "`blacklist ublk-drv` in /usr/lib/modprobe.d/b.conf");
        put("/etc/modprobe.d/a.conf", "  install ublk_drv /bin/false\n");
        g_assert_cmpstr(read_files().kept_by, ==, "`install ublk_drv …` in /etc/modprobe.d/a.conf");
        put("/etc/modprobe.d/a.conf.bak", "install ublk_drv /bin/true\n");
        put("/etc/modprobe.d/a.conf", "");
        put("/usr/lib/modprobe.d/b.conf", "");
        put("/proc/cmdline", "quiet modprobe.blacklist=pcspkr,ublk_drv panic=1\n");
        g_assert_cmpstr(read_files().kept_by, ==, "`modprobe.blacklist=ublk_drv` on the kernel's command line");
        put("/proc/cmdline", "quiet ublk_drv.ublks_max=3\n");
        g_assert_cmpstr(read_files().kept_by, ==, "");
}

/* Whatever machine this is: an answer, and one that fits together. */
static void test_here(void) {
        Probe p;

        config_set_root(NULL);
        probe_run(&p);
        g_assert_nonnull(probe_verdict_to_string(p.verdict));
        g_assert_cmpstr(p.kernel, !=, "");
        g_assert_true((p.verdict == PROBE_SUPPORTED) == (*p.reason == 0));
}

int main(int argc, char **argv) {
        int r;

        g_test_init(&argc, &argv, NULL);
        root = g_dir_make_tmp("ublk-probe-XXXXXX", NULL);
        config_set_root(root);
        g_test_add_func("/probe/supported", test_supported);
        g_test_add_func("/probe/driver", test_driver);
        g_test_add_func("/probe/permission", test_permission);
        g_test_add_func("/probe/io-uring", test_io_uring);
        g_test_add_func("/probe/user-copy", test_user_copy);
        g_test_add_func("/probe/json", test_json);
        g_test_add_func("/probe/files", test_files);
        g_test_add_func("/probe/kept-from-loading", test_kept_from_loading);
        g_test_add_func("/probe/here", test_here);
        r = g_test_run();
        remove_tree(root);
        g_free(root);
        return r;
}
