/* SPDX-License-Identifier: MIT */

/* What a resize does in which order, with a worker and a kernel that are made up. */

#include "service/config.h"
#include "service/control.h"
#include "service/holders.h"
#include "service/probe.h"
#include "service/resize.h"
#include "service/worker-link.h"

#include <glib.h>
#include <glib/gstdio.h>

#define ID 3
#define PID 4711
#define OLD (1 << 20)

/* All that is made up, and what was done to it. */
static struct {
        uint64_t features, tag, kernel_size, hook_size;
        uint16_t state;
        bool can_resize, takes_size, read_only;
        bool held;
        uint64_t answer; /* what the hook makes of any size; 0: just that */
        int error;       /* of the hook */
        bool slow;       /* no answer in time */
        bool dies;       /* the worker, when its hook is asked */
        int update_error;
        char done[256];
} made;

static void note(const char *what, uint64_t n) {
        g_autofree char *text = g_strdup_printf("%s %llu; ", what, (unsigned long long) n);

        (void) g_strlcat(made.done, text, sizeof(made.done));
}

int probe_open_control(Control **ret, Failure *f) {
        (void) f;
        *ret = (Control *) &made;
        return 0;
}

Control *control_free(Control *c) {
        (void) c;
        return NULL;
}

int control_get_features(Control *c, uint64_t *ret) {
        (void) c;
        *ret = made.features;
        return 0;
}

int control_get_info(Control *c, uint32_t id, struct ublk_dev_info *ret) {
        (void) c;
        g_assert_cmpuint(id, ==, ID);
        *ret = (struct ublk_dev_info) { .dev_id = id, .state = made.state, .ublksrv_flags = made.tag, .ublksrv_pid = PID };
        return 0;
}

int control_get_params(Control *c, uint32_t id, struct ublk_params *ret) {
        (void) c;
        (void) id;
        *ret = (struct ublk_params) { .basic.dev_sectors = made.kernel_size >> 9 };
        return 0;
}

int control_update_size(Control *c, uint32_t id, uint64_t bytes) {
        (void) c;
        (void) id;
        note("kernel", bytes);
        if (made.update_error < 0)
                return made.update_error;
        made.kernel_size = bytes;
        return 0;
}

int holders_find_lasting(uint32_t id, uint64_t deadline_usec, Holders *ret) {
        (void) id;
        (void) deadline_usec;
        note("look", id);
        *ret = HOLDERS_NULL;
        if (!made.held)
                return 0;
        ret->items = calloc(1, sizeof(Holder));
        ret->items[0] = (Holder) { .kind = HOLDER_MOUNT, .what = strdup("/mnt") };
        ret->n = 1;
        return 0;
}

int holders_describe(const Holders *h, char **ret) {
        g_assert_cmpuint(h->n, ==, 1);
        return xstrdup("mounted at /mnt", ret);
}

void holders_done(Holders *h) {
        for (size_t i = 0; i < h->n; i++)
                free(h->items[i].what);
        free(h->items);
}

void worker_link_done(WorkerLink *l) {
        (void) l;
}

int worker_link_connect(WorkerLink *l, uint32_t id, pid_t pid, uint64_t deadline_usec, Failure *f) {
        (void) f;
        g_assert_cmpuint(id, ==, ID);
        g_assert_cmpint(pid, ==, PID);
        g_assert_cmpuint(deadline_usec, >, now_usec());
        *l = WORKER_LINK_NULL;
        return 0;
}

static WorkerReply reply(void) {
        return (WorkerReply) {
                .geometry = { .size = made.hook_size,
                              .logical_block_size = 512,
                              .physical_block_size = 4096,
                              .recovery = RECOVERY_REISSUE,
                              .can_resize = made.can_resize,
                              .takes_size = made.takes_size,
                              .read_only = made.read_only },
        };
}

int worker_link_call(WorkerLink *l, MessageType type, uint64_t deadline_usec, WorkerReply *ret, Failure *f) {
        (void) l;
        (void) deadline_usec;
        g_assert_cmpuint(type, ==, MESSAGE_HELLO);
        if (made.dies && strstr(made.done, "hook"))
                return failure_set(f, FAILURE_WORKER, EOWNERDEAD, "the worker died");
        *ret = reply();
        return 0;
}

int worker_link_resize(WorkerLink *l, uint64_t bytes, uint64_t deadline_usec, WorkerReply *ret, Failure *f) {
        (void) l;
        (void) deadline_usec;
        note("hook", bytes);
        if (made.dies)
                return failure_set(f, FAILURE_WORKER, EOWNERDEAD, "the worker died");
        if (made.slow)
                return failure_set(f, FAILURE_WORKER, ETIMEDOUT, "no answer");
        if (made.error > 0)
                return failure_set(f, FAILURE_HOOK, made.error, "it won't");
        made.hook_size = made.answer > 0 ? made.answer : bytes;
        *ret = reply();
        return 0;
}

static void begin(void) {
        DeviceConfig *c = device_config_new(ID);

        (void) xstrdup("disk0", &c->name);
        (void) xstrdup("file", &c->hook);
        (void) xstrdup("auto", &c->data_path);
        c->created_usec = 5;
        g_assert_cmpint(device_config_save(c), ==, 0);
        memset(&made, 0, sizeof(made));
        made.features = UBLK_F_UPDATE_SIZE;
        made.tag = device_config_kernel_tag(c);
        made.state = UBLK_S_DEV_LIVE;
        made.kernel_size = made.hook_size = OLD;
        made.can_resize = made.takes_size = true;
        device_config_free(c);
}

static void assert_fails(uint64_t bytes, FailureKind kind, const char *part, const char *done, bool unchanged) {
        Failure f = FAILURE_NULL;
        Resized resized;

        g_assert_cmpint(resize_device(ID, bytes, &resized, &f), <, 0);
        g_test_message("%s", f.message);
        g_assert_cmpint(f.kind, ==, kind);
        g_assert_nonnull(strstr(f.message, part));
        g_assert_cmpstr(made.done, ==, done);
        g_assert_cmpint(resized.unchanged, ==, unchanged);
        failure_done(&f);
}

/* The kernel comes last, with resize_settle. */
static void test_larger(void) {
        Failure f = FAILURE_NULL;
        Resized resized;

        begin();
        g_assert_cmpint(resize_device(ID, 2 * OLD, &resized, &f), ==, 0);
        g_assert_cmpstr(made.done, ==, "hook 2097152; ");
        g_assert_cmpuint(resized.size, ==, 2 * OLD);
        g_assert_true(resized.takes_size);
        g_assert_cmpint(resize_settle(ID, &resized, &f), ==, 0);
        g_assert_cmpstr(made.done, ==, "hook 2097152; kernel 2097152; ");
        g_assert_cmpuint(resized.size, ==, 2 * OLD);
        g_assert_cmpint(resize_settle(ID, &resized, &f), ==, 0);
        g_assert_cmpstr(made.done, ==, "hook 2097152; kernel 2097152; ");
        /* Not quite what was asked for. */
        begin();
        made.answer = 2 * OLD + 512;
        made.takes_size = false;
        g_assert_cmpint(resize_device(ID, 2 * OLD, &resized, &f), ==, 0);
        g_assert_cmpuint(resized.size, ==, 2 * OLD + 512);
        g_assert_false(resized.takes_size);
}

static void test_refused(void) {
        begin();
        made.features = UBLK_F_USER_COPY;
        assert_fails(2 * OLD, FAILURE_KERNEL, "update-size, which came with Linux 6.16", "", true);
        begin();
        made.can_resize = false;
        assert_fails(2 * OLD, FAILURE_UNSUPPORTED, "\"file\" can't change its size: it defines no resize(bytes)", "", true);
        begin();
        made.read_only = true;
        assert_fails(2 * OLD, FAILURE_UNSUPPORTED, "read-only", "", true);
        begin();
        assert_fails(1000, FAILURE_ARGUMENTS, "not a multiple of logical_block_size", "", true);
        begin();
        made.state = UBLK_S_DEV_QUIESCED;
        assert_fails(2 * OLD, FAILURE_WORKER, "is not live", "", true);
        begin();
        made.tag++; /* of another program, or of another device */
        assert_fails(2 * OLD, FAILURE_WORKER, "is not live", "", true);
}

static void test_hook_refuses(void) {
        begin();
        made.error = ENOSPC;
        assert_fails(2 * OLD, FAILURE_HOOK, "it won't", "hook 2097152; ", true);
        g_assert_cmpuint(made.kernel_size, ==, OLD);
        /* It may do it yet, or have done it: nobody knows. */
        begin();
        made.slow = true;
        assert_fails(2 * OLD, FAILURE_WORKER, "no answer", "hook 2097152; ", false);
        begin();
        made.error = ETIMEDOUT; /* hook-timeout: it will not */
        assert_fails(2 * OLD, FAILURE_HOOK, "it won't", "hook 2097152; ", true);
        begin();
        made.dies = true;
        assert_fails(2 * OLD, FAILURE_WORKER, "the worker died", "hook 2097152; ", false);
}

static void test_held(void) {
        begin();
        made.held = true;
        assert_fails(OLD / 2, FAILURE_BUSY, "/dev/ublkb3 is in use: mounted at /mnt; it can't be made smaller", "look 3; ", true);
        g_assert_cmpuint(made.hook_size, ==, OLD);
        g_assert_cmpuint(made.kernel_size, ==, OLD);
}

static char *node(void) {
        _cleanup_free_ char *path = NULL;

        g_assert_cmpint(config_path(&path, "/dev/ublkb3"), ==, 0);
        return g_strdup(path);
}

/* The kernel first, so that nobody reads what is no longer there; and back again if the hook won't. */
static void test_smaller(void) {
        g_autofree char *path = node(), *directory = g_path_get_dirname(path);
        Failure f = FAILURE_NULL;
        Resized resized;

        begin();
        assert_fails(OLD / 2, FAILURE_BUSY, "No such file", "look 3; ", true);
        g_assert_cmpint(g_mkdir(directory, 0755), ==, 0);
        g_assert_true(g_file_set_contents(path, "", 0, NULL));
        begin();
        g_assert_cmpint(resize_device(ID, OLD / 2, &resized, &f), ==, 0);
        g_assert_cmpstr(made.done, ==, "look 3; kernel 524288; hook 524288; ");
        g_assert_cmpuint(resized.size, ==, OLD / 2);
        begin();
        made.error = EPERM;
        assert_fails(OLD / 2, FAILURE_HOOK, "it won't", "look 3; kernel 524288; hook 524288; kernel 1048576; ", true);
        begin();
        made.update_error = -ETIMEDOUT;
        assert_fails(OLD / 2, FAILURE_KERNEL, "timed out", "look 3; kernel 524288; ", false);
        (void) g_unlink(path);
        (void) g_rmdir(directory);
}

/* The worker runs other people's code, and the kernel takes any number. */
static void test_untrusted(void) {
        static const uint64_t sizes[] = { 0, 1000, UINT64_C(1) << 63, UINT64_MAX - 511 };
        Failure f = FAILURE_NULL;
        Resized resized;

        for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
                begin();
                made.hook_size = sizes[i];
                g_assert_cmpint(resize_settle(ID, &resized, &f), ==, -EBADMSG);
                g_assert_nonnull(strstr(f.message, "the worker's answer makes no sense: "));
                g_assert_cmpstr(made.done, ==, "");
                assert_fails(2 * OLD, FAILURE_WORKER, "makes no sense", "", true);
        }
        begin();
        made.hook_size = OLD / 2;
        made.held = true;
        g_assert_cmpint(resize_settle(ID, &resized, &f), ==, -EBUSY);
        g_assert_cmpstr(made.done, ==, "look 3; ");
        failure_done(&f);
}

static void test_unsettled(void) {
        Failure f = FAILURE_NULL;
        Resized resized;

        begin();
        made.hook_size = 2 * OLD;
        made.update_error = -ENODEV;
        g_assert_cmpint(resize_settle(ID, &resized, &f), <, 0);
        g_assert_cmpint(f.kind, ==, FAILURE_KERNEL);
        failure_done(&f);
}

int main(int argc, char **argv) {
        g_autofree char *root = NULL;
        int r;

        g_test_init(&argc, &argv, NULL);
        root = g_dir_make_tmp("test-resize-XXXXXX", NULL);
        config_set_root(root);
        g_test_add_func("/resize/larger", test_larger);
        g_test_add_func("/resize/refused", test_refused);
        g_test_add_func("/resize/hook-refuses", test_hook_refuses);
        g_test_add_func("/resize/held", test_held);
        g_test_add_func("/resize/smaller", test_smaller);
        g_test_add_func("/resize/untrusted", test_untrusted);
        g_test_add_func("/resize/unsettled", test_unsettled);
        r = g_test_run();
        (void) device_config_remove(ID);
        for (const char *const *d = (const char *const[]) { "/run/ublk-ruby/devices", "/run/ublk-ruby", "/run", "", NULL }; *d; d++) {
                g_autofree char *path = g_strconcat(root, *d, NULL);
                (void) g_rmdir(path);
        }
        return r;
}
