/* SPDX-License-Identifier: MIT */
#include "service/features.h"

#include <glib.h>

static void test_table(void) {
        for (size_t i = 0; i < UBLK_N_FEATURES; i++) {
                g_assert_cmphex(features[i].bit, ==, UINT64_C(1) << i);
                g_assert_nonnull(features[i].name);
                g_assert_nonnull(features[i].since);
                g_assert_nonnull(features[i].what);
                g_assert_true(g_regex_match_simple("^[a-z]+(-[a-z]+)*$", features[i].name, 0, 0));
                g_assert_true(g_regex_match_simple("^[67]\\.[0-9]+$", features[i].since, 0, 0));
                for (size_t k = 0; k < i; k++)
                        g_assert_cmpstr(features[k].name, !=, features[i].name);
        }
}

static void test_find(void) {
        g_assert_cmpstr(feature_find(UBLK_F_USER_COPY)->name, ==, "user-copy");
        g_assert_cmpstr(feature_find(UBLK_F_USER_COPY)->since, ==, "6.5");
        g_assert_cmpstr(feature_find(UBLK_F_USER_RECOVERY_FAIL_IO)->since, ==, "6.13");
        g_assert_null(feature_find(UINT64_C(1) << UBLK_N_FEATURES));
        g_assert_null(feature_find(0));
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/features/table", test_table);
        g_test_add_func("/features/find", test_find);
        return g_test_run();
}
