/* SPDX-License-Identifier: MIT */

/* The checks in their order: the plain ones first, since a fault there would show in every other one. */

#include "service/check/steps.h"

static const CheckStep data_steps[] = {
        { "geometry", "the disk's shape stays the same", check_geometry, .essential = true },
        { "boundary-reads", "reads at both ends, across 4 KiB, of the largest size", check_boundary_reads,
                .essential = true },
        { "single-blocks", "each block where it belongs", check_single_blocks, .writes = true, .essential = true },
        { "long-writes", "writes of several blocks", check_long_writes, .writes = true, .essential = true },
        { "across", "requests that cross 4 KiB boundaries", check_across, .writes = true, .essential = true },
        { "encodings", "bytes are bytes", check_encodings, .writes = true, .essential = true },
        { "batches", "what writes were given, looked at later", check_batches, .writes = true, .essential = true },
        { "overlaps", "overlapping requests in one batch, in order", check_overlaps, .writes = true },
        { "flush", "flush changes no data", check_flush, .writes = true },
        { "discard", "discarded ranges and their neighbours", check_discard, .writes = true },
        { "write-zeroes", "zeroed ranges and their neighbours", check_write_zeroes, .writes = true },
        { "random", "random requests beside a shadow copy", check_random, .needs_all = true },
        { "geometry-later", "the disk's shape is still the same", check_geometry },
        { "resize", "another size, and back again", check_resize, .writes = true, .needs_all = true },
};

static const CheckStep crash_steps[] = {
        { "crash", "acknowledged data survives kill -9", check_crash, .writes = true, .keeps = true },
};

static const CheckStep recover_steps[] = {
        { "crash", "acknowledged data survives kill -9", check_recover },
};

static const CheckStep reload_steps[] = {
        { "two-targets", "two targets of one class share nothing", check_two_targets, .writes = true, .keeps = true },
        { "reload", "flushed data is there when the hook is loaded again", check_reload, .writes = true,
                .keeps = true, .needs_all = true },
};

static const CheckStep threads_steps[] = {
        { "threads", "two queues at once", check_threads },
};

static const CheckStep errors_steps[] = {
        { "durable", "flush syncs what was written", check_durable, .writes = true, .keeps = true },
        { "read-errors", "an error below reaches the reader", check_read_errors, .keeps = true },
        { "write-errors", "an error below reaches the writer", check_write_errors, .writes = true, .keeps = true },
        { "flush-errors", "an error below fails the flush", check_flush_errors, .writes = true, .keeps = true },
};

static const CheckStep time_steps[] = {
        { "time", "requests of 4 KiB", check_time },
};

#define STAGE(list) .steps = list, .n_steps = ELEMENTSOF(list)

const CheckStage check_stage_describe = { .only_schema = true };
const CheckStage check_stage_geometry = { 0 };
const CheckStage check_stage_data = { STAGE(data_steps) };
const CheckStage check_stage_crash = { STAGE(crash_steps), .may_be_killed = true };
const CheckStage check_stage_recover = { STAGE(recover_steps) };
const CheckStage check_stage_reload = { STAGE(reload_steps) };
const CheckStage check_stage_threads = { STAGE(threads_steps) };
const CheckStage check_stage_errors = { STAGE(errors_steps), .watch_files = true };
const CheckStage check_stage_time = { STAGE(time_steps) };
