/* SPDX-License-Identifier: MIT */

/* What is wrong with an answer, in words that a hook's author can act on. */

#include "service/check/disk.h"

#include <inttypes.h>

#define MAX_SHIFT 16  /* bytes by which data is looked for beside its place */
#define PROBE 64      /* so many bytes must agree for that */

bool check_is_constant(const uint8_t *data, size_t n) {
        return n == 0 || memcmp(data, data + 1, n - 1) == 0;
}

bool check_is_zero(const uint8_t *data, size_t n) {
        return n == 0 || (data[0] == 0 && check_is_constant(data, n));
}

/* The number that ends a ContractError of the binding: what the hook returned. -1 if it was no number. */
static int64_t number_at_end(const char *message) {
        size_t n = message ? strlen(message) : 0, i = n;

        while (i > 0 && message[i - 1] >= '0' && message[i - 1] <= '9')
                i--;
        if (i == n)
                return -1;
        return i > 0 && message[i - 1] == '-' ? -1 : (int64_t) strtoll(message + i, NULL, 10);
}

static int diagnose_contract(CheckDisk *d, const SimulatedRequest *r) {
        const Request *q = &r->request;
        int64_t n = number_at_end(r->failure.message);
        bool more = n > (int64_t) q->length;

        if (n >= 0 && q->op == OPERATION_READ)
                return check_fault(d, more ? "long-read" : "short-read",
                                   "read of %" PRIu64 " bytes at %" PRIu64 " returned %" PRId64 " bytes",
                                   q->length, q->offset, n);
        if (n >= 0 && q->op == OPERATION_WRITE)
                return check_fault(d, more ? "long-write" : "short-write",
                                   "write acknowledged %" PRId64 " of %" PRIu64 " bytes at %" PRIu64,
                                   n, q->length, q->offset);
        return check_fault(d, "wrong-type", "%s of %" PRIu64 " bytes at %" PRIu64 ": %s", operation_to_string(q->op),
                           q->length, q->offset, r->failure.message);
}

int disk_diagnose_failure(CheckDisk *d, const SimulatedRequest *r) {
        static const struct {
                uint8_t op;
                const char *id;
        } ids[] = {
                { OPERATION_READ, "read-failed" },       { OPERATION_WRITE, "write-failed" },
                { OPERATION_FLUSH, "flush-failed" },     { OPERATION_DISCARD, "discard-failed" },
                { OPERATION_WRITE_ZEROES, "write-zeroes-failed" },
        };
        const Request *q = &r->request;
        _cleanup_free_ char *why = NULL;
        const char *id = "read-failed";

        if (streq_ptr(r->failure.class_name, "UBLK::ContractError"))
                return diagnose_contract(d, r);
        for (size_t i = 0; i < ELEMENTSOF(ids); i++)
                if (ids[i].op == q->op)
                        id = ids[i].id;
        if (r->failure.message)
                (void) failure_describe(&r->failure, &why);
        if (q->op == OPERATION_FLUSH)
                return check_fault(d, id, "flush failed: %s", why ? why : strerror(-q->result));
        return check_fault(d, id, "%s of %" PRIu64 " bytes at %" PRIu64 " failed: %s", operation_to_string(q->op),
                           q->length, q->offset,
                           why ? why : strerror(-q->result));
}

/* How far the data from byte i on lies from its place; 0 if it is not near it. */
static int find_shift(const uint8_t *got, const uint8_t *expected, size_t i, size_t n) {
        for (int k = 1; k <= MAX_SHIFT; k++) {
                size_t shift = (size_t) k;

                if (i + shift + PROBE > n)
                        break;
                if (memcmp(got + i + shift, expected + i, PROBE) == 0 && !check_is_constant(expected + i, PROBE))
                        return k;
                if (memcmp(got + i, expected + i + shift, PROBE) == 0 && !check_is_constant(got + i, PROBE))
                        return -k;
        }
        return 0;
}

/* Where in the windows a block of this content is, or was before its last change; the disk's size if nowhere. */
static uint64_t find_elsewhere(const CheckDisk *d, const uint8_t *block) {
        const uint8_t *const arenas[] = { d->shared->expected, d->shared->previous };

        if (check_is_constant(block, d->block))
                return d->geometry.size;
        for (size_t a = 0; a < ELEMENTSOF(arenas); a++)
                for (size_t i = 0; i < d->n_windows; i++)
                        for (uint64_t at = 0; at < d->windows[i].length; at += d->block)
                                if (memcmp(arenas[a] + d->windows[i].at + at, block, d->block) == 0)
                                        return d->windows[i].offset + at;
        return d->geometry.size;
}

/* Blocks taken for bytes: the data is that of the disk's byte number (offset / 512 or so). */
static uint64_t find_unit(const CheckDisk *d, const uint8_t *got, uint64_t offset, uint64_t length) {
        const uint64_t units[] = { CHECK_BLOCK_MIN, d->block, 4096 };

        for (size_t i = 0; offset > 0 && i < ELEMENTSOF(units); i++)
                if (offset % units[i] == 0 && disk_window(d, offset / units[i], length) == &d->windows[0] &&
                    !check_is_constant(got, length) &&
                    memcmp(got, d->shared->expected + offset / units[i], length) == 0)
                        return units[i];
        return 0;
}

static const char *name_of(const CheckDisk *d, const char *name, const char *general) {
        return name ? name : d->names.unlike ? d->names.unlike : general;
}

/* How much of the answer is wrong; nothing where that is clear. */
static void describe_wrong(const CheckDisk *d, const uint8_t *got, const uint8_t *expected, uint64_t length,
                           char ret[static 48]) {
        uint64_t n = 0, blocks = length / d->block;

        for (uint64_t i = 0; i < length; i += d->block)
                n += memcmp(got + i, expected + i, d->block) != 0;
        ret[0] = '\0';
        if (blocks > 1)
                (void) snprintf(ret, 48, " (%" PRIu64 " of %" PRIu64 " blocks are wrong)", n, blocks);
}

/* What a UBLK::Buffer holds before it is filled (hooks/serve.c, spoil). */
static bool is_unfilled(const CheckDisk *d, const uint8_t *got, uint64_t length) {
        size_t n = length < PROBE ? length : PROBE;

        return d->geometry.buffers && (got[0] == 0x5a || got[0] == 0xa5) && check_is_constant(got, n);
}

int disk_diagnose_data(CheckDisk *d, const SimulatedRequest *r) {
        const Request *q = &r->request;
        const uint8_t *got = r->payload, *expected = disk_expected(d, q->offset), *previous;
        uint64_t i = 0, in_block, block, elsewhere, unit;
        char wrong[48];
        int shift;

        while (got[i] == expected[i])
                i++;
        in_block = i - i % d->block;
        block = (q->offset + in_block) / d->block;
        previous = d->shared->previous + (expected - d->shared->expected) + in_block;

#define READ "read of %" PRIu64 " bytes at %" PRIu64 ": "
#define WRONG "%s"
        if (is_unfilled(d, got + i, q->length - i))
                return check_fault(d, "buffer-unfilled",
                                   READ "from byte %" PRIu64 " of it on the buffer was not filled, and read_into said that it was",
                                   q->length, q->offset, i);
        unit = find_unit(d, got, q->offset, q->length);
        if (unit > 0)
                return check_fault(d, "offset-unit",
                                   READ "returned the data of byte %" PRIu64 ": the offset was divided by %" PRIu64,
                                   q->length, q->offset, q->offset / unit, unit);
        shift = find_shift(got, expected, i, q->length);
        if (shift != 0)
                return check_fault(d, name_of(d, d->names.shifted, "shifted"),
                                   READ "from byte %" PRIu64 " of block %" PRIu64 " on the data is shifted by %d byte%s",
                                   q->length, q->offset, i % d->block, block, shift, abs(shift) == 1 ? "" : "s");

        describe_wrong(d, got, expected, q->length, wrong);
        if (memcmp(got + in_block, previous, d->block) == 0)
                return check_fault(d, name_of(d, d->names.stale, "stale"),
                                   READ "block %" PRIu64 " still holds what it held before its last change" WRONG,
                                   q->length, q->offset, block, wrong);
        if (check_is_zero(got + in_block, d->block))
                return check_fault(d, name_of(d, d->names.zeroes, "lost"),
                                   READ "block %" PRIu64 " holds zeroes instead of what was written to it" WRONG,
                                   q->length, q->offset, block, wrong);
        elsewhere = find_elsewhere(d, got + in_block);
        if (elsewhere < d->geometry.size)
                return check_fault(d, name_of(d, d->names.misplaced, "misplaced"),
                                   READ "block %" PRIu64 " holds what was written to block %" PRIu64 WRONG,
                                   q->length, q->offset, block, elsewhere / d->block, wrong);
        return check_fault(d, name_of(d, d->names.corrupt, "corrupt"),
                           READ "byte %" PRIu64 " of block %" PRIu64 " is 0x%02x instead of 0x%02x" WRONG,
                           q->length, q->offset, i % d->block, block, got[i], expected[i], wrong);
}
