/* SPDX-License-Identifier: MIT */
#include "service/device.h"
#include "service/end-reason.h"
#include "service/marker.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <signal.h>

typedef struct Case {
        const char *active, *sub, *result;
        bool has_char, has_disk;
        int marker;
        DeviceState state;
} Case;

static const Case cases[] = {
        { "inactive", "dead", "success", false, false, MARKER_NONE, DEVICE_STOPPED },
        { NULL, NULL, NULL, false, false, MARKER_NONE, DEVICE_STOPPED },
        { NULL, NULL, NULL, true, true, MARKER_LIVE, DEVICE_HELD },
        /* The first start, up to START_DEV. */
        { "activating", "start", "success", false, false, MARKER_NONE, DEVICE_STARTING },
        { "activating", "start-post", "success", true, false, MARKER_LIVE, DEVICE_STARTING },
        { "active", "running", "success", true, true, MARKER_LIVE, DEVICE_LIVE },
        { "reloading", "reload", "success", true, true, MARKER_LIVE, DEVICE_LIVE },
        /* A first start that failed is tried again. */
        { "activating", "auto-restart", "exit-code", false, false, MARKER_NONE, DEVICE_STARTING },
        /* kill -9 of the worker, up to the next one. */
        { "deactivating", "stop-post", "signal", true, true, MARKER_LIVE, DEVICE_RECOVERING },
        { "activating", "auto-restart", "signal", true, true, MARKER_LIVE, DEVICE_RECOVERING },
        { "activating", "auto-restart-queued", "signal", true, true, MARKER_LIVE, DEVICE_RECOVERING },
        { "activating", "start-post", "success", true, true, MARKER_LIVE, DEVICE_RECOVERING },
        /* Without recovery the disk is gone by then. */
        { "activating", "auto-restart", "signal", false, false, MARKER_LOST, DEVICE_RECOVERING },
        /* A stop, and what it may come to. */
        { "deactivating", "stop", "success", true, true, MARKER_LIVE, DEVICE_STOPPING },
        { "deactivating", "stop-post", "success", false, false, MARKER_NONE, DEVICE_STOPPING },
        { "deactivating", "stop-post", "exit-code", false, false, MARKER_NONE, DEVICE_STOPPING },
        { "inactive", "dead", "success", true, true, MARKER_LIVE, DEVICE_HELD },
        { "active", "running", "success", false, false, MARKER_LIVE, DEVICE_STOPPING },
        { "failed", "failed", "exit-code", false, false, MARKER_NONE, DEVICE_FAILED },
        { "failed", "failed", "exit-code", true, true, MARKER_LIVE, DEVICE_FAILED },
        { "failed", "failed", "exit-code", false, false, MARKER_LOST, DEVICE_FAILED },
};

static void test_derive(void) {
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const Case *c = &cases[i];
                UnitState u = { .active_state = (char *) c->active, .sub_state = (char *) c->sub, .result = (char *) c->result };
                KernelState k = { .has_char = c->has_char, .has_disk = c->has_disk };

                g_test_message("%s/%s/%s", c->active, c->sub, c->result);
                g_assert_cmpstr(device_state_to_string(device_state_derive(&u, &k, c->marker)), ==,
                                device_state_to_string(c->state));
        }
}

static void test_names(void) {
        g_assert_cmpstr(device_state_to_string(0), ==, "starting");
        g_assert_cmpstr(device_state_to_string(_DEVICE_STATE_MAX - 1), ==, "stopping");
        for (DeviceState s = 0; s < _DEVICE_STATE_MAX; s++)
                for (DeviceState other = 0; other < s; other++)
                        g_assert_cmpstr(device_state_to_string(other), !=, device_state_to_string(s));
        g_assert_null(device_state_to_string(_DEVICE_STATE_MAX));
}

static void set_unit(Device *d, const char *active, const char *sub, const char *status) {
        unit_state_done(&d->unit);
        d->unit = (UnitState) { .active_state = strdup(active), .sub_state = strdup(sub), .status_text = strdup(status) };
}

static void put(const char *root, const char *path, const char *text) {
        g_autofree char *full = g_build_filename(root, path, NULL), *directory = g_path_get_dirname(full);

        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_true(g_file_set_contents(full, text, -1, NULL));
}

#define FAILED "{\"kind\":\"hook\",\"class\":\"RuntimeError\",\"message\":\"no\"}"

static void test_refresh(void) {
        g_autofree char *root = g_dir_make_tmp("ublk-device-XXXXXX", NULL), *command = g_strdup_printf("rm -rf '%s'", root);
        _cleanup_(device_freep) Device *d = NULL;
        DeviceConfig *c = device_config_new(3);

        c->name = strdup("disk3");
        c->hook = strdup("memory");
        config_set_root(root);
        d = device_new(c);
        g_assert_cmpint(device_refresh(d), ==, 0);

        set_unit(d, "activating", "start", FAILED);
        g_assert_cmpint(device_refresh(d), ==, DEVICE_CHANGED_STATE | DEVICE_CHANGED_LAST_ERROR);
        g_assert_cmpint(d->state, ==, DEVICE_STARTING);
        g_assert_nonnull(strstr(d->last_error, "RuntimeError"));

        /* The next attempt clears StatusText, but not what was said. And the disk is there before the unit is active. */
        put(root, "sys/class/ublk-char/ublkc3/dev", "");
        put(root, "sys/block/ublkb3/size", "2048\n");
        put(root, "sys/block/ublkb3/ro", "1\n");
        put(root, "sys/block/ublkb3/queue/logical_block_size", "4096\n");
        set_unit(d, "activating", "start-post", "");
        g_assert_cmpint(device_refresh(d), ==, DEVICE_CHANGED_SIZE | DEVICE_CHANGED_BLOCK_SIZE | DEVICE_CHANGED_READ_ONLY);
        g_assert_cmpint(d->state, ==, DEVICE_STARTING);
        g_assert_nonnull(strstr(d->last_error, "RuntimeError"));

        set_unit(d, "active", "running", "Serving");
        d->unit.main_pid = 77;
        g_assert_cmpint(device_refresh(d), ==, DEVICE_CHANGED_STATE | DEVICE_CHANGED_LAST_ERROR | DEVICE_CHANGED_WORKER_PID);
        g_assert_cmpint(d->state, ==, DEVICE_LIVE);
        g_assert_cmpstr(d->last_error, ==, "");
        g_assert_cmpuint(d->kernel.size, ==, 1048576);
        g_assert_cmpuint(d->block_size, ==, 4096);
        g_assert_true(d->read_only);
        g_assert_cmpint(device_refresh(d), ==, 0);


        /* A worker that ends by itself, and can't say why; but not one that is there, or that was told to go. */
        set_unit(d, "activating", "start", STATUS_LOADING);
        d->unit.main_pid = 78;
        d->unit.exit_status = 3;
        (void) device_refresh(d);
        g_assert_cmpstr(d->last_error, ==, "");
        d->unit.main_pid = 0;
        d->unit.exit_code = CLD_EXITED;
        d->unit.exit_status = 75;
        (void) device_refresh(d);
        g_assert_cmpstr(d->last_error, ==, "");
        d->unit.exit_status = 3;
        g_assert_cmpint(device_refresh(d), ==, DEVICE_CHANGED_LAST_ERROR);
        g_assert_nonnull(strstr(d->last_error, "ended the worker's process while it was loaded (exit status 3)"));
        device_forget_failure(d);
        (void) device_refresh(d);
        g_assert_cmpstr(d->last_error, ==, "");
        config_set_root(NULL);
        g_assert_cmpint(system(command), ==, 0);
}

/* What one worker said does not hold for the next. */
static void test_hello(void) {
        WorkerReply reply = { .geometry = { .recovery = RECOVERY_REISSUE } };
        _cleanup_(device_freep) Device *d = NULL;
        DeviceConfig *c = device_config_new(3);

        c->name = strdup("disk3");
        c->hook = strdup("memory");
        c->data_path = strdup("auto");
        d = device_new(c);
        g_assert_cmpstr(device_recovery(d), ==, "default");
        g_assert_false(device_has_hello(d));
        d->unit.main_pid = 77;
        g_assert_cmpstr(device_data_path(d), ==, "auto");
        g_assert_cmpint(device_take_hello(d, 77, &reply), ==, DEVICE_CHANGED_RECOVERY | DEVICE_CHANGED_DATA_PATH);
        g_assert_cmpint(device_take_hello(d, 77, &reply), ==, 0);
        g_assert_cmpstr(device_recovery(d), ==, "reissue");
        g_assert_true(device_has_hello(d));
        g_assert_cmpstr(device_data_path(d), ==, "string");
        reply.geometry.buffers = true;
        g_assert_cmpint(device_take_hello(d, 77, &reply), ==, DEVICE_CHANGED_DATA_PATH);
        g_assert_cmpstr(device_data_path(d), ==, "buffer");
        d->unit.main_pid = 78;
        g_assert_false(device_has_hello(d));
        d->unit.main_pid = 0;
        g_assert_false(device_has_hello(d));
        g_assert_cmpstr(device_recovery(d), ==, "reissue");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/device/derive", test_derive);
        g_test_add_func("/device/names", test_names);
        g_test_add_func("/device/refresh", test_refresh);
        g_test_add_func("/device/hello", test_hello);
        return g_test_run();
}
