/* SPDX-License-Identifier: MIT */

/*
 * A crash: one process writes and is killed in the middle of a batch, without a chance to do anything; the next one
 * loads the hook with the same arguments. What a disk with recovery has acknowledged must be there, since the
 * kernel does not send it again.
 */

#include "service/check/steps.h"

#include <inttypes.h>

#define SLOT_BLOCKS 8
#define FLUSHED_SLOTS 24
#define WRITTEN_SLOTS 16
#define IN_FLIGHT_SLOTS 8
#define MAX_SLOTS (CHECK_ARENA_SIZE / (CHECK_BLOCK_MIN * SLOT_BLOCKS))

/* The starts of all ranges of SLOT_BLOCKS blocks (of 1 on a small disk) in random order. */
typedef struct Slots {
        uint64_t offsets[MAX_SLOTS];
        size_t n;
        uint32_t length;
        size_t next;
} Slots;

static void slots_init(CheckDisk *d, Slots *s) {
        uint64_t total = 0;

        for (size_t i = 0; i < d->n_windows; i++)
                total += d->windows[i].length;
        s->n = s->next = 0;
        s->length = total / d->block >= (FLUSHED_SLOTS + WRITTEN_SLOTS + IN_FLIGHT_SLOTS) * SLOT_BLOCKS ? SLOT_BLOCKS * d->block : d->block;
        for (size_t i = 0; i < d->n_windows; i++)
                for (uint64_t at = 0; at + s->length <= d->windows[i].length && s->n < MAX_SLOTS; at += s->length)
                        s->offsets[s->n++] = d->windows[i].offset + at;
        for (size_t i = s->n; i > 1; i--) {
                size_t j = disk_random_below(d, i);
                uint64_t x = s->offsets[j];

                s->offsets[j] = s->offsets[i - 1];
                s->offsets[i - 1] = x;
        }
}

static void mark(CheckDisk *d, uint64_t offset, uint32_t length, CheckBlockState state) {
        memset(disk_state(d, offset), state, length / CHECK_BLOCK_MIN);
}

/* Some blocks of each slot, in batches of four. */
static int write_slots(CheckDisk *d, Slots *s, size_t n, CheckBlockState state) {
        for (size_t i = 0; i < n && s->next < s->n; i++) {
                uint64_t offset = s->offsets[s->next++];
                uint32_t length = (uint32_t) (1 + disk_random_below(d, s->length / d->block)) * d->block;

                disk_add_write(d, offset, length);
                mark(d, offset, length, state);
                if (i % 4 == 3 && disk_run(d) < 0)
                        return -1;
        }
        return d->n_requests > 0 ? disk_run(d) : 0;
}

/* Does not return, if all goes well: the process dies while it serves the batch. */
static int die_in_batch(CheckDisk *d, Slots *s) {
        for (size_t i = 0; i < IN_FLIGHT_SLOTS && s->next < s->n; i++) {
                uint64_t offset = s->offsets[s->next++];

                disk_add_write(d, offset, s->length);
                mark(d, offset, s->length, BLOCK_IN_FLIGHT);
                memcpy(d->shared->previous + (disk_expected(d, offset) - d->shared->expected),
                       d->requests[d->n_requests - 1].payload, s->length);
        }
        if (d->n_requests == 0)
                return check_skip(d, "the disk is too small");
        d->requests[d->n_requests / 2].kill_on_pull = true;
        disk_serve(d);
        return check_fault(d, "write-failed", "a batch of writes was answered before its data was fetched");
}

int check_crash(CheckDisk *d) {
        _cleanup_free_ Slots *slots = malloc(sizeof(Slots));

        if (d->geometry.recovery == RECOVERY_NONE)
                return check_skip(d, "recovery is none: the data ends with the process");
        if (!slots || disk_learn(d) < 0)
                return -1;
        slots_init(d, slots);
        memset(d->shared->state, BLOCK_UNTOUCHED, sizeof(d->shared->state));
        if (write_slots(d, slots, FLUSHED_SLOTS < slots->n / 2 ? FLUSHED_SLOTS : slots->n / 2, BLOCK_FLUSHED) < 0 ||
            disk_flush(d) < 0 ||
            write_slots(d, slots, WRITTEN_SLOTS < slots->n / 4 ? WRITTEN_SLOTS : slots->n / 4, BLOCK_WRITTEN) < 0)
                return -1;
        return die_in_batch(d, slots);
}

typedef struct Loss {
        unsigned n, wrong;
        uint64_t first;
        const char *holds;
} Loss;

/* Compares all blocks of one state with what is expected of them. */
static int count_losses(CheckDisk *d, CheckBlockState state, Loss *ret) {
        *ret = (Loss) { 0 };
        for (size_t i = 0; i < d->n_windows; i++)
                for (uint64_t at = d->windows[i].offset; at < d->windows[i].offset + d->windows[i].length; at += d->block) {
                        const uint8_t *expected = disk_expected(d, at), *got;

                        if (*disk_state(d, at) != state)
                                continue;
                        ret->n++;
                        disk_add_read(d, at, d->block);
                        disk_serve(d);
                        if (d->requests[0].request.result != (int32_t) d->block)
                                return disk_diagnose_failure(d, &d->requests[0]);
                        got = d->requests[0].payload;
                        if (memcmp(got, expected, d->block) != 0 && ret->wrong++ == 0) {
                                ret->first = at / d->block;
                                ret->holds = memcmp(got, d->shared->previous + (expected - d->shared->expected),
                                                    d->block) == 0 ? "what it held before" :
                                             check_is_zero(got, d->block) ? "zeroes" : "other data";
                        }
                        disk_clear(d);
                }
        return 0;
}

static int report_loss(CheckDisk *d, const char *id, const char *what, const Loss *loss) {
        return check_fault(d, id,
                           "%u of %u blocks that were %s are lost when the process is killed; block %" PRIu64 " holds %s", loss->wrong,
                           loss->n, what, loss->first, loss->holds);
}

/* The requests that were never answered: the kernel sends them again, or fails them. */
static int settle_in_flight(CheckDisk *d) {
        for (size_t i = 0; i < d->n_windows; i++)
                for (uint64_t at = d->windows[i].offset; at < d->windows[i].offset + d->windows[i].length; at += d->block) {
                        const uint8_t *sent = d->shared->previous + (disk_expected(d, at) - d->shared->expected);

                        if (*disk_state(d, at) != BLOCK_IN_FLIGHT)
                                continue;
                        if (d->geometry.recovery == RECOVERY_REISSUE)
                                disk_add_write_of(d, at, d->block, sent);
                        else
                                disk_add_write(d, at, d->block);
                        if (disk_run(d) < 0)
                                return -1;
                }
        return 0;
}

/* In the next process. */
int check_recover(CheckDisk *d) {
        Loss flushed, written;

        if (d->geometry.size != d->shared->size)
                return check_fault(d, "geometry-changes",
                                   "the disk had %" PRIu64 " bytes before the crash and has %" PRIu64 " after it", d->shared->size,
                                   d->geometry.size);
        if (count_losses(d, BLOCK_FLUSHED, &flushed) < 0 || count_losses(d, BLOCK_WRITTEN, &written) < 0)
                return -1;
        if (flushed.wrong > 0)
                return report_loss(d, "flush-lost", "written, acknowledged and flushed", &flushed);
        if (written.wrong > 0)
                return report_loss(d, "crash-lost", "written and acknowledged", &written);
        d->names = (CheckNames) { .unlike = "reissue-lost" };
        if (settle_in_flight(d) < 0)
                return -1;
        d->names = (CheckNames) { .unlike = "crash-damage" };
        if (disk_verify_all(d) < 0)
                return -1;
        return check_note(d, "killed with kill -9; %u blocks flushed, %u only written, all there", flushed.n, written.n);
}
