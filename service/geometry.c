/* SPDX-License-Identifier: MIT */
#include "service/geometry.h"

#include "service/uapi.h"

#include <stdarg.h>

#define SECTOR_SHIFT 9
#define LOGICAL_MIN 512U
/* Linux takes up to a page; 4096 is what every machine's page has room for. */
#define LOGICAL_MAX 4096U
#define PHYSICAL_MAX (256U << 20)
/* The block layer keeps a request's length in 32 bits of bytes. */
#define DISCARD_MAX_SECTORS (UINT32_MAX >> SECTOR_SHIFT)

static int refuse(char **ret_message, int error, const char *format, ...) _printf_(3, 4);

static int refuse(char **ret_message, int error, const char *format, ...) {
        char *message;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&message, format, ap);
        va_end(ap);
        if (n < 0)
                return -ENOMEM;
        *ret_message = message;
        return error;
}

static int check_size(const Geometry *g, char **ret_message) {
        if (g->size == 0)
                return refuse(ret_message, -EINVAL, "size is 0: a disk needs at least one block of %u bytes",
                              g->logical_block_size);
        if (g->size > GEOMETRY_MAX_SIZE)
                return refuse(ret_message, -EINVAL,
                              "size is %llu bytes, more than a block device can have (%llu)",
                              (unsigned long long) g->size, (unsigned long long) GEOMETRY_MAX_SIZE);
        if (g->size % g->logical_block_size != 0)
                return refuse(ret_message, -EINVAL,
                              "size is %llu bytes, not a multiple of logical_block_size, which is %u",
                              (unsigned long long) g->size, g->logical_block_size);
        return 0;
}

static int check_flags(const Geometry *g, char **ret_message) {
        const struct {
                const char *name;
                uint8_t value;
        } flags[] = {
                { "read_only", g->read_only },
                { "rotational", g->rotational },
                { "can_discard", g->can_discard },
                { "can_write_zeroes", g->can_write_zeroes },
                { "in_memory", g->in_memory },
                { "can_resize", g->can_resize },
                { "takes_size", g->takes_size },
                { "buffers", g->buffers },
        };

        for (size_t i = 0; i < ELEMENTSOF(flags); i++)
                if (flags[i].value > 1)
                        return refuse(ret_message, -EINVAL, "%s is %u, not 0 or 1", flags[i].name,
                                      flags[i].value);
        return 0;
}

int geometry_check(const Geometry *g, char **ret_message) {
        uint32_t logical = g->logical_block_size, physical = g->physical_block_size;
        int r;

        if (!is_power_of_2(logical) || logical < LOGICAL_MIN || logical > LOGICAL_MAX)
                return refuse(ret_message, -EINVAL,
                              "logical_block_size is %u, not a power of two from %u to %u", logical,
                              LOGICAL_MIN, LOGICAL_MAX);
        if (!is_power_of_2(physical) || physical < logical || physical > PHYSICAL_MAX)
                return refuse(
                        ret_message, -EINVAL,
                        "physical_block_size is %u, not a power of two from logical_block_size (%u) to %u",
                        physical, logical, PHYSICAL_MAX);
        r = check_size(g, ret_message);
        if (r < 0)
                return r;
        if (g->recovery <= RECOVERY_DEFAULT || g->recovery >= _RECOVERY_MAX)
                return refuse(ret_message, -EINVAL,
                              "recovery is %u, which is none of none, fail, fail-io, reissue", g->recovery);
        return check_flags(g, ret_message);
}

static uint8_t shift(uint32_t power_of_2) {
        return (uint8_t) __builtin_ctz(power_of_2);
}

void geometry_to_params(const Geometry *g, uint32_t max_io_size, struct ublk_params *ret) {
        struct ublk_params p = {
                .len = sizeof(p),
                .types = UBLK_PARAM_TYPE_BASIC,
                .basic = {
                        /* Always: without it the block layer swallows every flush, and the hook would not hear of one. */
                        .attrs = UBLK_ATTR_VOLATILE_CACHE,
                        .logical_bs_shift = shift(g->logical_block_size),
                        .physical_bs_shift = shift(g->physical_block_size),
                        .io_min_shift = shift(g->physical_block_size),
                        .io_opt_shift = shift(g->physical_block_size),
                        .max_sectors = max_io_size >> SECTOR_SHIFT,
                        .dev_sectors = g->size >> SECTOR_SHIFT,
                },
        };

        if (g->read_only)
                p.basic.attrs |= UBLK_ATTR_READ_ONLY;
        if (g->rotational)
                p.basic.attrs |= UBLK_ATTR_ROTATIONAL;
        if (g->can_discard || g->can_write_zeroes) {
                p.types |= UBLK_PARAM_TYPE_DISCARD;
                p.discard.discard_granularity = g->physical_block_size;
        }
        if (g->can_discard) {
                p.discard.max_discard_sectors = DISCARD_MAX_SECTORS;
                p.discard.max_discard_segments = 1;
        }
        if (g->can_write_zeroes)
                p.discard.max_write_zeroes_sectors = DISCARD_MAX_SECTORS;
        *ret = p;
}

/* What a client could tell apart. Whether discards and zeroes reach the hook is no part of it: a hook that no
 * longer takes them answers EOPNOTSUPP, and one that now could is simply not asked. */
int geometry_match_params(const Geometry *g, const struct ublk_params *p, char **ret_message) {
        const struct ublk_param_basic *b = &p->basic;
        bool read_only = b->attrs & UBLK_ATTR_READ_ONLY;

        if (b->dev_sectors != g->size >> SECTOR_SHIFT)
                return refuse(ret_message, -ESTALE, "size was %llu bytes and now would be %llu",
                              (unsigned long long) b->dev_sectors << SECTOR_SHIFT,
                              (unsigned long long) g->size);
        if (b->logical_bs_shift != shift(g->logical_block_size))
                return refuse(ret_message, -ESTALE, "logical_block_size was %u and now would be %u",
                              1U << (b->logical_bs_shift & 31), g->logical_block_size);
        if (b->physical_bs_shift != shift(g->physical_block_size))
                return refuse(ret_message, -ESTALE, "physical_block_size was %u and now would be %u",
                              1U << (b->physical_bs_shift & 31), g->physical_block_size);
        if (read_only != (g->read_only != 0))
                return refuse(ret_message, -ESTALE, "read_only was %s and now would be %s",
                              read_only ? "true" : "false", g->read_only ? "true" : "false");
        return 0;
}
