/* SPDX-License-Identifier: MIT */

/* Whether single requests do what they say: shape, bounds, places, bytes. */

#include "service/check/steps.h"

#include <inttypes.h>

#define TIMES 4
#define SINGLE_BLOCKS 64

int check_geometry(CheckDisk *d) {
        const char *no_arguments[] = { NULL };
        const struct {
                const char *name;
                json_int_t expected;
        } facts[] = {
                { "size", (json_int_t) d->geometry.size },
                { "logical_block_size", d->geometry.logical_block_size },
                { "physical_block_size", d->geometry.physical_block_size },
        };

        for (unsigned i = 0; i < TIMES; i++) {
                Failure failure = FAILURE_NULL;
                json_t *answer;

                if (hook_check(d->hook, "geometry", no_arguments, &answer, &failure) < 0) {
                        (void) check_fault(d, "geometry-changes", "asked again for its shape the target failed: %s",
                                           failure.message);
                        failure_done(&failure);
                        return -1;
                }
                for (size_t j = 0; j < ELEMENTSOF(facts); j++) {
                        const json_t *value = json_object_get(answer, facts[j].name);

                        if (json_is_integer(value) && json_integer_value(value) != facts[j].expected)
                                (void) check_fault(d, "geometry-changes",
                                                   "%s was %lld when the disk was made, and is %lld now", facts[j].name,
                                                   (long long) facts[j].expected, (long long) json_integer_value(value));
                        else if (!json_is_integer(value))
                                (void) check_fault(d, "geometry-changes",
                                                   "%s was %lld when the disk was made, and is no Integer now",
                                                   facts[j].name, (long long) facts[j].expected);
                }
                json_decref(answer);
                if (d->fault)
                        return -1;
        }
        return 0;
}

/* The answer only; the bytes are not known yet. */
static int read_raw(CheckDisk *d, uint64_t offset, uint64_t length) {
        int r = 0;

        disk_add_read(d, offset, (uint32_t) length);
        disk_serve(d);
        if (d->requests[0].request.result != (int64_t) length)
                r = disk_diagnose_failure(d, &d->requests[0]);
        disk_clear(d);
        return r;
}

/* That the last block is the one that fails, and not every other. */
static int check_last_block(CheckDisk *d) {
        uint64_t size = d->geometry.size;
        const char *id, *message;

        if (read_raw(d, size - d->block, d->block) == 0)
                return 0;
        id = json_string_value(json_object_get(d->fault, "id"));
        message = json_string_value(json_object_get(d->fault, "message"));
        if (streq_ptr(id, "read-failed"))
                (void) json_object_update_new(d->fault, json_pack("{s:s, s:o}", "id", "last-block", "message",
                                                                  json_sprintf("the last block can't be read: %s",
                                                                               message)));
        return -1;
}

/* Where what a request reads starts and ends next to something. */
static int check_bounds(CheckDisk *d) {
        uint64_t size = d->geometry.size;
        const struct {
                uint64_t offset, length;
        } ranges[] = {
                { 0, d->block },
                { size - d->block, d->block }, /* check_last_block, by then known to succeed */
                { 0, 4096 },
                { 4096 - d->block, 2 * d->block },
                { d->block, 4096 },
                { 2 * d->block, 8192 },
                { 0, d->max_io },
                { size - d->max_io, d->max_io },
        };

        for (size_t i = 0; i < ELEMENTSOF(ranges); i++)
                if (ranges[i].length <= d->max_io && ranges[i].offset + ranges[i].length <= size)
                        if (i == 1 ? check_last_block(d) : read_raw(d, ranges[i].offset, ranges[i].length))
                                return -1;
        return 0;
}

/* What a whole has, its parts have. */
static int check_parts(CheckDisk *d) {
        for (unsigned i = 0; i < 64; i++) {
                uint64_t offset;
                uint32_t length;

                disk_random_range(d, i % 2 ? d->max_io : 16 * d->block < d->max_io ? 16 * d->block : d->max_io,
                                  &offset, &length);
                if (disk_read(d, offset, length) < 0)
                        return -1;
        }
        return 0;
}

int check_boundary_reads(CheckDisk *d) {
        d->text = true; /* until check_encodings */
        d->names = (CheckNames) { .shifted = "shifted-read", .misplaced = "misplaced-read", .unlike = "read-unstable" };
        if (check_bounds(d) < 0 || disk_learn(d) < 0)
                return -1;
        return check_parts(d);
}

/* Whether the disk is what it would be if writes, reads or both took block numbers for bytes. text: what was
 * written to the first n blocks, one after the other. */
static int check_units(CheckDisk *d, const uint8_t *text, unsigned n, unsigned block) {
        const uint32_t units[] = { CHECK_BLOCK_MIN, d->block };

        for (size_t u = 0; u < ELEMENTSOF(units); u++) {
                _cleanup_free_ uint8_t *model = calloc(n + 1, d->block);
                uint64_t step = d->block / units[u];

                block = block > 0 ? block : 1; /* block 0 is at byte 0 in any unit */
                for (unsigned i = 0; model && i < n; i++)
                        memcpy(model + i * step, text + (size_t) i * d->block, d->block);
                if (!model || step * block + d->block > step * (n - 1) + d->block)
                        continue;
                if (memcmp(d->requests[block].payload, model + step * block, d->block) == 0)
                        return check_fault(d, "offset-unit",
                                           "what is written to block %u goes to byte %" PRIu64 ": the offset was divided by %u",
                                           block, step * block, units[u]);
        }
        return 0;
}

/* Whether all blocks hold what was written last: the String of one write served for all. */
static int diagnose_misplaced(CheckDisk *d, unsigned n, unsigned wrong) {
        unsigned same = 0;

        for (unsigned i = 0; i < n; i++)
                same += memcmp(d->requests[i].payload, disk_expected(d, (uint64_t) (n - 1) * d->block), d->block) == 0;
        if (n > 2 && same > n / 2)
                return check_fault(d, "payload-reused",
                                   "%u of %u blocks hold what was written to block %u after them", same - 1, n, n - 1);
        return disk_diagnose_data(d, &d->requests[wrong]);
}

/* Each block by itself; then each is read by itself. */
int check_single_blocks(CheckDisk *d) {
        unsigned n = d->windows[0].length / d->block < SINGLE_BLOCKS ? (unsigned) (d->windows[0].length / d->block) : SINGLE_BLOCKS;
        uint8_t text[SINGLE_BLOCKS * 4096];
        unsigned changed = 0;
        int r = 0;

        for (unsigned i = 0; i < n; i++) {
                disk_add_write(d, (uint64_t) i * d->block, d->block);
                memcpy(text + (size_t) i * d->block, d->requests[i].payload, d->block);
        }
        if (disk_run(d) < 0)
                return -1;

        for (unsigned i = 0; i < n; i++)
                disk_add_read(d, (uint64_t) i * d->block, d->block);
        disk_serve(d);
        for (unsigned i = 0; i < n && r == 0; i++) {
                const SimulatedRequest *q = &d->requests[i];

                changed += memcmp(q->payload, d->shared->previous + (size_t) i * d->block, d->block) != 0;
                if (q->request.result != (int32_t) d->block)
                        r = disk_diagnose_failure(d, q);
                else if (!d->sink && n > 2 && memcmp(q->payload, text + (size_t) i * d->block, d->block) != 0)
                        r = check_units(d, text, n, i);
        }
        if (r == 0 && changed == 0 && !d->sink)
                r = check_fault(d, "write-lost", "%u blocks were written, and not one of them reads as it was written", n);
        for (unsigned i = 0; i < n && r == 0; i++)
                if (memcmp(d->requests[i].payload, disk_expected(d, (uint64_t) i * d->block), d->block) != 0)
                        r = diagnose_misplaced(d, n, i);
        disk_clear(d);
        return r;
}

/* Writes of several blocks, read block by block. */
int check_long_writes(CheckDisk *d) {
        const uint32_t lengths[] = { 2, 3, 8, 16, 33, 64 };

        for (size_t i = 0; i < ELEMENTSOF(lengths); i++) {
                uint64_t length = (uint64_t) lengths[i] * d->block, offset = (i % 3) * d->block;
                CheckNames last = { .shifted = "shifted-write", .stale = "write-tail", .zeroes = "write-tail" };

                if (length > d->max_io || offset + length > d->windows[0].length)
                        break;
                d->names = (CheckNames) { .shifted = "shifted-write" };
                check_context(d, "%s", "");
                if (disk_write(d, offset, (uint32_t) length) < 0)
                        return -1;
                check_context(d, "after write of %" PRIu64 " bytes at %" PRIu64 ": ", length, offset);
                if (disk_verify(d, offset, length - d->block, d->block) < 0)
                        return -1;
                d->names = last; /* only its last block is wrong */
                if (disk_read(d, offset + length - d->block, d->block) < 0)
                        return -1;
        }
        return 0;
}

/* Reads, and then writes, that cross a 4 KiB boundary or many. */
int check_across(CheckDisk *d) {
        const struct {
                uint64_t offset, length;
        } ranges[] = {
                { 4096 - d->block, 2 * d->block },
                { 0, 8192 },
                { d->block, 8192 },
                { 4096 + d->block, 16384 },
                { 8192 - d->block, 65536 },
                { 0, d->max_io },
                { d->block, d->max_io - d->block },
        };

        if (d->windows[0].length < 8192)
                return check_skip(d, "the disk is too small");
        d->names = (CheckNames) { .shifted = "shifted-read" };
        for (size_t i = 0; i < ELEMENTSOF(ranges); i++)
                if (ranges[i].length > 0 && ranges[i].length <= d->max_io &&
                    ranges[i].offset + ranges[i].length <= d->windows[0].length)
                        if (disk_read(d, ranges[i].offset, (uint32_t) ranges[i].length) < 0)
                                return -1;
        d->names = (CheckNames) { .shifted = "shifted-write" };
        for (size_t i = 0; i < ELEMENTSOF(ranges); i++)
                if (ranges[i].length > 0 && ranges[i].length <= d->max_io &&
                    ranges[i].offset + ranges[i].length <= d->windows[0].length)
                        if (disk_write(d, ranges[i].offset, (uint32_t) ranges[i].length) < 0 ||
                            disk_verify(d, ranges[i].offset, ranges[i].length, d->block) < 0)
                                return -1;
        return 0;
}

static void fill_repeated(uint8_t *data, uint32_t length, const char *text, size_t n) {
        for (uint32_t i = 0; i < length; i++)
                data[i] = (uint8_t) text[i % n];
}

/* Bytes that some encoding might take for something. */
int check_encodings(CheckDisk *d) {
        static const struct {
                const char *what, *text;
                size_t n;
        } kinds[] = {
#define KIND(what, text) { what, text, sizeof(text) - 1 }
                KIND("text of one byte per character", "the quick brown fox "),
                KIND("UTF-8 text", "na\xc3\xafve \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x92\xbe \xe2\x82\xac "),
                KIND("broken UTF-8", "\xc3\xe6\xbc\xf0\x9f\xff\xfe\x80"),
                KIND("lines", "one\r\ntwo\nthree\rfour\x1a"),
                KIND("white space and zeroes at its ends", " \t\0\0\n\0 "),
        };
        uint32_t length = 4096 <= d->max_io ? 4096 : d->block;
        uint8_t data[4096];

        d->text = false;
        for (size_t i = 0; i <= ELEMENTSOF(kinds); i++) {
                const char *what = i < ELEMENTSOF(kinds) ? kinds[i].what : "every byte from 0 to 255";
                _cleanup_free_ char *message = NULL;

                for (uint32_t j = 0; j < length; j++)
                        data[j] = (uint8_t) j;
                if (i < ELEMENTSOF(kinds))
                        fill_repeated(data, length, kinds[i].text, kinds[i].n);
                disk_add_write_of(d, 0, length, data);
                if (disk_run(d) == 0 && disk_read(d, 0, length) == 0)
                        continue;
                if (i > 0) {
                        (void) xstrdup(json_string_value(json_object_get(d->fault, "message")), &message);
                        (void) json_object_update_new(d->fault, json_pack("{s:s, s:o}", "id", "encoding", "message",
                                                                          json_sprintf("where the data is %s: %s",
                                                                                       what, message)));
                }
                return -1;
        }
        return 0;
}
