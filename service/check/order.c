/* SPDX-License-Identifier: MIT */

/* Batches: what each write was given is what it writes, in the order in which the requests came. */

#include "service/check/steps.h"

#define SLOTS 32
#define ROUNDS 4
#define FLUSH_EVERY 32
#define RANDOM_STEPS 400
#define RANDOM_STEPS_STRESSED 40

static int collect(CheckDisk *d) {
        const char *no_arguments[] = { NULL };
        Failure failure = FAILURE_NULL;
        int r;

        r = hook_check(d->hook, "collect", no_arguments, NULL, &failure);
        failure_done(&failure);
        return r;
}

/* Slots of two blocks with one between them, every second one in its own turn: no two of these writes touch. */
static void write_slots(CheckDisk *d, unsigned first, uint32_t unit) {
        for (unsigned i = first; i < SLOTS; i += 2)
                disk_add_write(d, (uint64_t) i * 3 * unit, 2 * unit);
}

/* What the hook keeps of many writes, looked at when all are done and its garbage was collected. */
int check_batches(CheckDisk *d) {
        uint32_t unit = d->block;

        if (d->windows[0].length < (uint64_t) SLOTS * 3 * unit)
                return check_skip(d, "the disk is too small");
        d->names = (CheckNames) { .misplaced = "payload-reused", .corrupt = "payload-changed" };
        for (unsigned round = 0; round < ROUNDS; round++) {
                for (unsigned first = 0; first < 2; first++) {
                        write_slots(d, first, unit);
                        if (disk_run(d) < 0)
                                return -1;
                        (void) collect(d);
                }
                if (round % 2 && disk_flush(d) < 0)
                        return -1;
                for (unsigned i = SLOTS; i-- > 0;)
                        if (disk_read(d, (uint64_t) i * 3 * unit, 2 * unit) < 0)
                                return -1;
        }
        return 0;
}

/* Ranges in blocks, written in this order in one batch; length 0 ends a case. */
static const struct {
        uint8_t first, n;
} overlaps[][4] = {
        { { 0, 8 }, { 4, 8 } },
        { { 4, 8 }, { 0, 8 } },
        { { 0, 16 }, { 5, 1 } },
        { { 5, 1 }, { 0, 16 } },
        { { 3, 4 }, { 3, 4 }, { 3, 4 } },
        { { 0, 4 }, { 2, 4 }, { 4, 4 }, { 6, 4 } },
};

int check_overlaps(CheckDisk *d) {
        uint64_t start = 16 * (uint64_t) d->block, length = 16 * (uint64_t) d->block;

        if (d->windows[0].length < start + length || length > d->max_io)
                return check_skip(d, "the disk is too small");
        d->names = (CheckNames) { .unlike = "write-order" };
        for (size_t i = 0; i < ELEMENTSOF(overlaps); i++)
                for (unsigned flush = 0; flush < 2; flush++) {
                        for (size_t j = 0; j < ELEMENTSOF(overlaps[i]) && overlaps[i][j].n > 0; j++)
                                disk_add_write(d, start + overlaps[i][j].first * d->block, overlaps[i][j].n * d->block);
                        if (flush)
                                disk_add_flush(d);
                        check_context(d, "after writes to blocks %u to %u, then %u to %u%s, in one batch: ",
                                      16 + overlaps[i][0].first,
                                      15 + overlaps[i][0].first + overlaps[i][0].n, 16 + overlaps[i][1].first,
                                      15 + overlaps[i][1].first + overlaps[i][1].n, overlaps[i][2].n > 0 ? " and so on" : "");
                        if (disk_run(d) < 0 || disk_read(d, start, (uint32_t) length) < 0)
                                return -1;
                }

        /* A read between two writes sees the first. */
        check_context(d, "in a batch of writes and reads in turn: ");
        d->names = (CheckNames) { .unlike = "read-order" };
        for (unsigned i = 0; i < 4; i++) {
                disk_add_write(d, start, 4 * d->block);
                disk_add_read(d, start + d->block, 4 * d->block);
        }
        return disk_run(d);
}

/* Alone, twice, and between writes; what was written stays. */
int check_flush(CheckDisk *d) {
        uint32_t unit = d->block;

        d->names = (CheckNames) { .unlike = "flush-damages" };
        disk_add_flush(d);
        disk_add_flush(d);
        for (unsigned i = 0; i < 8 && (i + 1) * (uint64_t) unit <= d->windows[0].length; i++) {
                disk_add_write(d, (uint64_t) i * unit, unit);
                disk_add_flush(d);
        }
        if (disk_run(d) < 0)
                return -1;
        return disk_verify(d, 0, d->windows[0].length < 4096 ? d->windows[0].length : 4096, unit);
}

/* More of the same, in random order, for as long as asked. */
static int random_step(CheckDisk *d) {
        static const uint8_t operations[] = { OPERATION_READ, OPERATION_READ, OPERATION_WRITE, OPERATION_WRITE,
                OPERATION_DISCARD,
                                              OPERATION_WRITE_ZEROES };
        unsigned n = 1 + (unsigned) disk_random_below(d, 4);

        for (unsigned i = 0; i < n; i++) {
                bool flush = disk_random_below(d, FLUSH_EVERY) == 0; /* each waits for a real disk, most likely */
                uint8_t op = flush ? OPERATION_FLUSH : operations[disk_random_below(d, ELEMENTSOF(operations))];
                uint64_t offset;
                uint32_t length;

                disk_random_range(d, disk_random_below(d, 4) == 0 || 16 * d->block > d->max_io ? d->max_io :
                                  16 * d->block, &offset, &length);
                if (d->geometry.read_only || (op == OPERATION_DISCARD && !d->geometry.can_discard) ||
                    (op == OPERATION_WRITE_ZEROES && !d->geometry.can_write_zeroes))
                        op = OPERATION_READ;
                if (op == OPERATION_READ)
                        disk_add_read(d, offset, length);
                else if (op == OPERATION_WRITE)
                        disk_add_write(d, offset, length);
                else if (op == OPERATION_FLUSH)
                        disk_add_flush(d);
                else
                        disk_add_zero(d, op, offset, length, disk_random_below(d, 2));
        }
        return disk_run(d);
}

int check_random(CheckDisk *d) {
        unsigned steps = d->options->gc_stress ? RANDOM_STEPS_STRESSED : RANDOM_STEPS, n = 0;
        uint64_t end = now_usec() + d->options->seconds * USEC_PER_SEC;

        for (; d->options->seconds > 0 ? now_usec() < end : n < steps; n++)
                if (random_step(d) < 0)
                        return -1;
        if (disk_verify_all(d) < 0)
                return -1;
        return check_note(d, "%u batches", n);
}
