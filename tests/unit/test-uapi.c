/* SPDX-License-Identifier: MIT */
#include "service/uapi.h"

#include <glib.h>

/* The header itself asserts sizes and opcodes when it is compiled; here are the numbers that are computed. */
static void test_user_copy_position(void) {
        g_assert_cmphex(ublk_user_copy_position(0, 0, 0), ==, 0x80000000);
        g_assert_cmphex(ublk_user_copy_position(0, 1, 0), ==, 0x82000000);
        g_assert_cmphex(ublk_user_copy_position(1, 0, 0), ==, UINT64_C(0x20080000000));
        g_assert_cmphex(ublk_user_copy_position(0, 0, UBLK_MAX_IO_SIZE - 1), ==, 0x81ffffff);
        /* The last byte of one tag is followed by the first of the next. */
        g_assert_cmphex(ublk_user_copy_position(0, 0, UBLK_MAX_IO_SIZE - 1) + 1, ==, ublk_user_copy_position(0, 1, 0));
        g_assert_cmphex(ublk_user_copy_position(UBLK_MAX_QUEUES - 1, UBLK_MAX_QUEUE_DEPTH - 1, 0), <, UINT64_C(1) << 62);
}

static void test_descriptors(void) {
        g_assert_cmpuint(ublk_descriptors_size(1, 4096), ==, 4096);
        g_assert_cmpuint(ublk_descriptors_size(170, 4096), ==, 4096); /* 170 × 24 = 4080 */
        g_assert_cmpuint(ublk_descriptors_size(171, 4096), ==, 8192);
        g_assert_cmpuint(ublk_descriptors_size(UBLK_MAX_QUEUE_DEPTH, 4096), ==, 98304);
        g_assert_cmpuint(ublk_descriptors_size(UBLK_MAX_QUEUE_DEPTH, 65536), ==, 131072);
        g_assert_cmpuint(ublk_descriptors_offset(0, 4096), ==, 0);
        g_assert_cmpuint(ublk_descriptors_offset(3, 4096), ==, 3 * 98304);
}

static void test_sizes(void) {
        /* The kernel clips what is longer than it knows; it must never be shorter than what it writes. */
        g_assert_cmpuint(sizeof(struct ublk_params), >=, 76);
        g_assert_cmphex(UBLK_F_IO_DESC_SIZE, ==, 1 << (UBLK_N_FEATURES - 1));
        g_assert_cmpuint(UBLK_MAX_ID, ==, 1048575);
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/uapi/user-copy-position", test_user_copy_position);
        g_test_add_func("/uapi/descriptors", test_descriptors);
        g_test_add_func("/uapi/sizes", test_sizes);
        return g_test_run();
}
