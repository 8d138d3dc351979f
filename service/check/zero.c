/* SPDX-License-Identifier: MIT */

/*
 * Discard and write_zeroes: the range reads as zeroes from then on, and nothing beside it changes. The block layer would
 * let a discarded range read as anything; a disk whose answer depends on what its cache still has is a disk that
 * nobody can debug, so here it is zeroes or EOPNOTSUPP.
 */

#include "service/check/steps.h"

#include <inttypes.h>

#define NEIGHBOURS 4 /* blocks on each side */

typedef struct Zeroing {
        uint8_t op;
        bool no_unmap;
        const char *stale;     /* ids */
        const char *neighbour;
} Zeroing;

/* The blocks beside the range still hold what they held. 0, or -1. */
static int check_neighbours(CheckDisk *d, const Zeroing *z, uint64_t offset, uint64_t length) {
        for (uint64_t i = 1; i <= NEIGHBOURS; i++)
                for (int side = 0; side < 2; side++) {
                        uint64_t at = side ? offset + length + (i - 1) * d->block : offset - i * d->block;
                        bool same, zero;

                        disk_add_read(d, at, d->block);
                        disk_serve(d);
                        if (d->requests[0].request.result != (int32_t) d->block)
                                return disk_diagnose_failure(d, &d->requests[0]);
                        same = memcmp(d->requests[0].payload, disk_expected(d, at), d->block) == 0;
                        zero = check_is_zero(d->requests[0].payload, d->block);
                        disk_clear(d);
                        if (!same)
                                return check_fault(d, z->neighbour,
                                                   "block %" PRIu64 ", %" PRIu64 " block%s %s the range, was %s as well",
                                                   at / d->block, i, i == 1 ? "" : "s", side ? "behind" : "in front of", zero ? "zeroed" : "changed");
                }
        return 0;
}

/* One range: written, read (so that a cache has it), zeroed, looked at, and written again in part. */
static int zero_range(CheckDisk *d, const Zeroing *z, uint64_t offset, uint64_t length) {
        uint64_t margin = NEIGHBOURS * (uint64_t) d->block;
        int32_t result;

        if (disk_write(d, offset - margin, (uint32_t) (length + 2 * margin)) < 0 || disk_flush(d) < 0 ||
            disk_verify(d, offset - margin, length + 2 * margin, d->block) < 0 || disk_read(d, offset,
                                                                                            (uint32_t) length) < 0)
                return -1;

        disk_add_zero(d, z->op, offset, (uint32_t) length, z->no_unmap);
        disk_serve(d);
        result = d->requests[0].request.result;
        if (result == -EOPNOTSUPP)
                return check_skip(d, "answered with EOPNOTSUPP%s", z->op == OPERATION_WRITE_ZEROES ?
                                  ": the kernel writes zeroes itself" : "");
        if (result < 0)
                return disk_diagnose_failure(d, &d->requests[0]);
        disk_apply(d, &d->requests[0]);
        disk_clear(d);

        check_context(d, "after %s of %" PRIu64 " bytes at %" PRIu64 "%s: ", operation_to_string(z->op), length, offset,
                      z->op == OPERATION_WRITE_ZEROES && z->no_unmap ? " (unmap: false)" : "");
        d->names = (CheckNames) { .stale = z->stale, .unlike = z->stale };
        if (disk_read(d, offset, (uint32_t) length) < 0 || disk_verify(d, offset, length, d->block) < 0 ||
            check_neighbours(d, z, offset, length) < 0)
                return -1;
        d->names = (CheckNames) { 0 };
        check_context(d, "when part of a range was written again after %s: ", operation_to_string(z->op));
        return disk_write(d, offset, d->block) < 0 || disk_flush(d) < 0 ? -1 :
               disk_verify(d, offset - margin, length + 2 * margin, d->block);
}

static int check_ranges(CheckDisk *d, const Zeroing *z) {
        static const struct {
                uint16_t first, n; /* blocks */
        } ranges[] = { { 8, 1 }, { 7, 3 }, { 8, 8 }, { 9, 64 }, { 15, 17 }, { 16, 256 }, { 31, 511 } };
        int r = 0, done = 0;

        for (size_t i = 0; i < ELEMENTSOF(ranges) && r == 0; i++) {
                uint64_t offset = ranges[i].first * (uint64_t) d->block, length = ranges[i].n * (uint64_t) d->block;

                if (length + 2 * NEIGHBOURS * d->block > d->max_io ||
                    offset + length + NEIGHBOURS * d->block > d->windows[0].length)
                        break;
                r = zero_range(d, z, offset, length);
                disk_clear(d);
                d->names = (CheckNames) { 0 };
                check_context(d, "%s", "");
                done++;
        }
        return r == 0 && done == 0 ? check_skip(d, "the disk is too small") : r;
}

int check_discard(CheckDisk *d) {
        const Zeroing discard = { OPERATION_DISCARD, false, "discard-stale", "discard-neighbour" };

        if (!d->geometry.can_discard)
                return check_skip(d, "the hook does not define it");
        return check_ranges(d, &discard);
}

int check_write_zeroes(CheckDisk *d) {
        const Zeroing ways[] = {
                { OPERATION_WRITE_ZEROES, true, "write-zeroes", "write-zeroes-neighbour" },
                { OPERATION_WRITE_ZEROES, false, "write-zeroes", "write-zeroes-neighbour" },
        };
        int r = 0, skipped = 0;

        if (!d->geometry.can_write_zeroes)
                return check_skip(d, "the hook does not define it: the kernel writes zeroes itself");
        for (size_t i = 0; i < ELEMENTSOF(ways) && r >= 0; i++) {
                r = check_ranges(d, &ways[i]);
                skipped += r > 0;
        }
        return r < 0 ? r : skipped == ELEMENTSOF(ways);
}
