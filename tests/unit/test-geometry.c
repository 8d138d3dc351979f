/* SPDX-License-Identifier: MIT */
#include "service/geometry.h"
#include "service/uapi.h"

#include <glib.h>

static const Geometry good = {
        .size = 1 << 30,
        .logical_block_size = 512,
        .physical_block_size = 4096,
        .recovery = RECOVERY_REISSUE,
};

static void assert_refused(const Geometry *g, const char *text) {
        _cleanup_free_ char *message = NULL;

        g_assert_cmpint(geometry_check(g, &message), ==, -EINVAL);
        g_assert_nonnull(message);
        g_assert_nonnull(strstr(message, text));
}

static void assert_accepted(const Geometry *g) {
        _cleanup_free_ char *message = NULL;

        g_assert_cmpint(geometry_check(g, &message), ==, 0);
        g_assert_null(message);
}

static void test_size(void) {
        const uint64_t bad[] = { 0, 511, 513, UINT64_C(1) << 63, UINT64_MAX, GEOMETRY_MAX_SIZE + 1 };
        Geometry g = good;

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                g.size = bad[i];
                assert_refused(&g, "size is");
        }
        g.size = 512;
        assert_accepted(&g);
        g.size = GEOMETRY_MAX_SIZE;
        assert_accepted(&g);
        g.logical_block_size = g.physical_block_size = 4096;
        g.size = 4096 + 512;
        assert_refused(&g, "multiple of logical_block_size, which is 4096");
}

static void test_blocks(void) {
        const uint32_t bad_logical[] = { 0, 1, 256, 513, 1536, 8192, UINT32_MAX, UINT32_C(1) << 31 };
        const uint32_t bad_physical[] = { 0, 512, 1000, 5000, UINT32_C(1) << 29, UINT32_MAX };
        Geometry g = good;

        for (size_t i = 0; i < ELEMENTSOF(bad_logical); i++) {
                g.logical_block_size = bad_logical[i];
                assert_refused(&g, "logical_block_size is");
        }
        g.logical_block_size = 1024;
        for (size_t i = 0; i < ELEMENTSOF(bad_physical); i++) {
                g.physical_block_size = bad_physical[i];
                assert_refused(&g, "physical_block_size is");
        }
        g.physical_block_size = 256 << 20;
        assert_accepted(&g);
}

static void test_others(void) {
        Geometry g = good;

        g.recovery = RECOVERY_DEFAULT;
        assert_refused(&g, "recovery is 0");
        g.recovery = _RECOVERY_MAX;
        assert_refused(&g, "recovery is");
        g.recovery = UINT32_MAX;
        assert_refused(&g, "recovery is");
        g = good;
        g.read_only = 2;
        assert_refused(&g, "read_only is 2");
        g = good;
        g.can_write_zeroes = 255;
        assert_refused(&g, "can_write_zeroes is 255");
}

static void test_params(void) {
        Geometry g = good;
        struct ublk_params p;

        geometry_to_params(&g, 512 << 10, &p);
        g_assert_cmpuint(p.len, ==, sizeof(p));
        g_assert_cmphex(p.types, ==, UBLK_PARAM_TYPE_BASIC);
        /* Without it no flush would ever reach the hook. */
        g_assert_cmphex(p.basic.attrs, ==, UBLK_ATTR_VOLATILE_CACHE);
        g_assert_cmpuint(p.basic.logical_bs_shift, ==, 9);
        g_assert_cmpuint(p.basic.physical_bs_shift, ==, 12);
        g_assert_cmpuint(p.basic.io_min_shift, ==, 12);
        g_assert_cmpuint(p.basic.max_sectors, ==, 1024);
        g_assert_cmpuint(p.basic.dev_sectors, ==, 1 << 21);
        g_assert_cmpuint(p.discard.discard_granularity, ==, 0);

        g.read_only = g.rotational = 1;
        g.size = GEOMETRY_MAX_SIZE;
        geometry_to_params(&g, 4096, &p);
        g_assert_cmphex(p.basic.attrs, ==, UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_READ_ONLY | UBLK_ATTR_ROTATIONAL);
        g_assert_cmpuint(p.basic.dev_sectors, ==, GEOMETRY_MAX_SIZE / 512);
        g_assert_cmpuint(p.basic.max_sectors, ==, 8);
}

static void test_discard(void) {
        Geometry g = good;
        struct ublk_params p;

        g.can_discard = 1;
        geometry_to_params(&g, 512 << 10, &p);
        g_assert_cmphex(p.types, ==, UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD);
        g_assert_cmpuint(p.discard.discard_granularity, ==, 4096);
        g_assert_cmpuint(p.discard.max_discard_sectors, >, 0);
        g_assert_cmpuint((uint64_t) p.discard.max_discard_sectors * 512, <=, UINT32_MAX);
        /* The driver takes no other number. */
        g_assert_cmpuint(p.discard.max_discard_segments, ==, 1);
        g_assert_cmpuint(p.discard.max_write_zeroes_sectors, ==, 0);

        g.can_discard = 0;
        g.can_write_zeroes = 1;
        geometry_to_params(&g, 512 << 10, &p);
        g_assert_cmphex(p.types, ==, UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD);
        g_assert_cmpuint(p.discard.max_discard_sectors, ==, 0);
        g_assert_cmpuint(p.discard.max_write_zeroes_sectors, >, 0);
        /* The driver wants one even if nothing is discarded. */
        g_assert_cmpuint(p.discard.discard_granularity, >, 0);
}

static void assert_stale(const Geometry *g, const struct ublk_params *p, const char *text) {
        _cleanup_free_ char *message = NULL;

        g_assert_cmpint(geometry_match_params(g, p, &message), ==, -ESTALE);
        g_assert_nonnull(strstr(message, text));
}

static void test_match(void) {
        _cleanup_free_ char *message = NULL;
        struct ublk_params p;
        Geometry g = good;

        geometry_to_params(&g, 512 << 10, &p);
        g_assert_cmpint(geometry_match_params(&g, &p, &message), ==, 0);
        g.rotational = g.can_discard = 1; /* no other disk for that */
        g_assert_cmpint(geometry_match_params(&g, &p, &message), ==, 0);
        g.size = 1 << 20;
        assert_stale(&g, &p, "size was 1073741824 bytes and now would be 1048576");
        g = good;
        g.logical_block_size = 4096;
        assert_stale(&g, &p, "logical_block_size was 512");
        g = good;
        g.physical_block_size = 8192;
        assert_stale(&g, &p, "physical_block_size was 4096");
        g = good;
        g.read_only = 1;
        assert_stale(&g, &p, "read_only was false");
        g = good;
        p.basic.physical_bs_shift = 255; /* of a foreign device, say */
        assert_stale(&g, &p, "physical_block_size");
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/geometry/size", test_size);
        g_test_add_func("/geometry/blocks", test_blocks);
        g_test_add_func("/geometry/others", test_others);
        g_test_add_func("/geometry/params", test_params);
        g_test_add_func("/geometry/discard", test_discard);
        g_test_add_func("/geometry/match", test_match);
        return g_test_run();
}
