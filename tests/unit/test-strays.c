/* SPDX-License-Identifier: MIT */

/* Which ublk device is a stray, and what removing one does. */

#include "service/activation-attempts.h"
#include "service/marker.h"
#include "service/strays.h"

#include "tests/unit/test-stop-kernel.h"

#include <glib.h>

static void assert_why(const char *part) {
        _cleanup_free_ char *why = NULL;

        g_assert_cmpint(stray_judge(&kernel.info, &why), ==, part != NULL);
        if (part)
                g_assert_nonnull(strstr(why, part));
        else
                g_assert_null(why);
}

static int stray(bool force, const char *message) {
        Failure f = FAILURE_NULL;
        bool served = true;
        int r;

        r = stray_remove(TEST_ID, force, &served, &f);
        g_assert_false(served);
        if (message)
                g_assert_nonnull(strstr(f.message, message));
        failure_done(&f);
        return r;
}

static void remove_file(void) {
        g_assert_cmpint(device_config_remove(TEST_ID), ==, 0);
}

static void test_judge(void) {
        DeviceConfig *config;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        assert_why(NULL);
        device_config_free(kernel_configure("reissue", 6, false)); /* also puts its tag into the kernel */
        kernel.info.ublksrv_flags = device_config_kernel_tag(config);
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        assert_why("that of disk0, another device");
        kernel_put("/run/ublk-ruby/devices/3.conf", "[Device]\nName=disk0\nColour=red\n");
        assert_why("can't be read (line 3");
        remove_file();
        assert_why("there is no file of it; nobody serves it, its I/O waits");
        kernel.info.state = UBLK_S_DEV_FAIL_IO;
        assert_why("its I/O fails");
        kernel.info.state = UBLK_S_DEV_DEAD;
        assert_why("it has ended");
        kernel.info.ublksrv_flags = UINT64_C(0x7275624c00000001); /* of the library */
        assert_why(NULL);
        kernel.info.ublksrv_flags = 0;
        assert_why(NULL);
        device_config_free(config);
        kernel_end();
}

static void test_remove(void) {
        DeviceConfig *config;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        g_assert_cmpint(marker_write(config, false), ==, 0);
        g_assert_cmpint(stray(true, "its file describes it"), ==, -EINVAL);
        remove_file();
        kernel_mount();
        g_assert_cmpint(stray(false, "/mnt"), ==, -EBUSY);
        g_assert_cmpstr(kernel.calls, ==, "");
        g_assert_cmpint(stray(true, NULL), ==, 0);
        g_assert_cmpstr(kernel.calls, ==, "stop delete ");
        g_assert_cmpint(marker_read(config), ==, MARKER_NONE);
        g_assert_cmpint(stray(true, "no ublk device 3"), ==, -ENODEV);
        device_config_free(config);
        kernel_end();
}

/* What is known of the device whose file lies there is not the stray's. */
static void test_remove_of_another(void) {
        DeviceConfig *other;

        kernel_begin();
        other = kernel_configure("reissue", 6, false);
        kernel.info.ublksrv_flags++;
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        g_assert_cmpint(marker_write(other, false), ==, 0);
        attempts_note(other);
        g_assert_cmpint(stray(false, NULL), ==, 0);
        g_assert_cmpstr(kernel.calls, ==, "stop delete ");
        g_assert_cmpint(marker_read(other), ==, MARKER_LIVE);
        device_config_free(other);
        kernel_end();
}

static void test_foreign(void) {
        kernel_begin();
        kernel.exists = true;
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        g_assert_cmpint(stray(false, "another program"), ==, -EPERM);
        g_assert_cmpint(stray(true, "another program"), ==, -EPERM);
        g_assert_cmpstr(kernel.calls, ==, "");
        kernel_end();
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/strays/judge", test_judge);
        g_test_add_func("/strays/remove", test_remove);
        g_test_add_func("/strays/remove-of-another", test_remove_of_another);
        g_test_add_func("/strays/foreign", test_foreign);
        return g_test_run();
}
