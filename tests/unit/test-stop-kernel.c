/* SPDX-License-Identifier: MIT */
#include "tests/unit/test-stop-kernel.h"

#include "service/control.h"
#include "service/probe.h"

#include <glib.h>
#include <glib/gstdio.h>

struct Control {
        uint64_t deadline_usec;
};

Kernel kernel;
static char *root;

static int note(const char *call, int result) {
        (void) g_strlcat(kernel.calls, call, sizeof(kernel.calls));
        (void) g_strlcat(kernel.calls, " ", sizeof(kernel.calls));
        return result;
}

int control_new(Control **ret) {
        if (kernel.open_error < 0)
                return kernel.open_error;
        *ret = g_new0(Control, 1);
        return 0;
}

Control *control_free(Control *c) {
        g_free(c);
        return NULL;
}

void control_set_deadline(Control *c, uint64_t deadline_usec) {
        g_assert_cmpuint(deadline_usec, >, now_usec());
        c->deadline_usec = deadline_usec;
}

int probe_open_control(Control **ret, Failure *f) {
        int r = control_new(ret);

        return r < 0 ? failure_set(f, FAILURE_KERNEL, -r, "no control device") : r;
}

int control_get_features(Control *c, uint64_t *ret) {
        (void) c;
        *ret = kernel.features;
        return 0;
}

int control_get_info(Control *c, uint32_t id, struct ublk_dev_info *ret) {
        (void) c;
        if (!kernel.exists || id != TEST_ID)
                return -ENODEV;
        *ret = kernel.info;
        if (kernel.live_polls > 0) {
                kernel.live_polls--;
                ret->state = UBLK_S_DEV_LIVE;
        }
        return 0;
}

static int stopped(int r) {
        if (r >= 0) {
                kernel.info.state = UBLK_S_DEV_DEAD;
                if (kernel.on_stop)
                        kernel.on_stop();
        }
        return r;
}

int control_stop(Control *c, uint32_t id, uint64_t timeout_usec) {
        (void) c;
        (void) timeout_usec;
        return note(id == TEST_ID ? "stop" : "?", stopped(kernel.stop_result));
}

int control_try_stop(Control *c, uint32_t id, uint64_t timeout_usec) {
        size_t n = kernel.n_try_stops;

        (void) c;
        (void) timeout_usec;
        if (n + 1 < ELEMENTSOF(kernel.try_stop_results))
                kernel.n_try_stops++;
        return note(id == TEST_ID ? "try-stop" : "?", stopped(kernel.try_stop_results[n]));
}

int control_delete(Control *c, uint32_t id) {
        (void) c;
        kernel.exists = false;
        return note(id == TEST_ID ? "delete" : "?", 0);
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

void kernel_begin(void) {
        kernel = (Kernel) { .info = { .dev_id = TEST_ID } };
        root = g_dir_make_tmp("ublk-stop-XXXXXX", NULL);
        config_set_root(root);
        kernel_put("/proc/1/mountinfo", "");
}

void kernel_end(void) {
        config_set_root(NULL);
        remove_tree(root);
        g_free(root);
}

char *kernel_path(const char *path) {
        return g_strconcat(root, path, NULL);
}

void kernel_put(const char *path, const char *text) {
        char *full = kernel_path(path), *directory = g_path_get_dirname(full);

        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_true(g_file_set_contents(full, text, -1, NULL));
        g_free(directory);
        g_free(full);
}

DeviceConfig *kernel_configure(const char *recovery, uint64_t created_usec, bool persistent) {
        _cleanup_free_ char *message = NULL;
        DeviceConfig *config;
        char text[256];

        (void) g_snprintf(text, sizeof(text), "[Device]\nName=disk0\nHook=file\nRecovery=%s\nCreatedUSec=%llu\n", recovery,
                          (unsigned long long) created_usec);
        kernel_put(persistent ? "/etc/ublk-ruby/devices/3.conf" : "/run/ublk-ruby/devices/3.conf", text);
        g_assert_cmpint(device_config_load(TEST_ID, &config, &message), ==, 0);
        kernel.exists = true;
        kernel.info.state = UBLK_S_DEV_LIVE;
        kernel.info.flags = UBLK_F_USER_COPY | (streq(recovery, "none") ? 0 : UBLK_F_USER_RECOVERY);
        kernel.info.ublksrv_flags = device_config_kernel_tag(config);
        return config;
}

void kernel_mount(void) {
        kernel_put("/sys/block/ublkb3/dev", "259:1\n");
        kernel_put("/proc/1/mountinfo", "36 22 259:1 / /mnt rw - ext4 /dev/ublkb3 rw\n");
}

void kernel_unmount(void) {
        kernel_put("/proc/1/mountinfo", "");
}

void kernel_stack(void) {
        kernel_put("/sys/block/ublkb3/dev", "259:1\n");
        kernel_put("/sys/block/ublkb3/holders/dm-0/dev", "254:0\n");
        kernel_put("/sys/class/block/ublkb3/dev", "259:1\n");
        kernel_put("/sys/class/block/ublkb3/holders/dm-0/dev", "254:0\n");
        kernel_put("/sys/class/block/dm-0/dev", "254:0\n");
}

void kernel_mount_stacked(void) {
        kernel_put("/proc/1/mountinfo", "36 22 254:0 / /mnt rw - ext4 /dev/mapper/vault rw\n");
}
