/* SPDX-License-Identifier: MIT */

/* resize: what was there is there at either size, and what was won can be used to its end. */

#include "service/check/steps.h"

#include <inttypes.h>

#define GROWTH (UINT64_C(1) << 20)

/* What a disk may answer that has no room, or may not. */
static bool is_refusal(int32_t result) {
        return result == -EOPNOTSUPP || result == -ENOSPC || result == -EFBIG || result == -EDQUOT || result == -EPERM;
}

/* 0 with *ret_size, 1 if it was refused, -1. */
static int resize_to(CheckDisk *d, uint64_t bytes, uint64_t *ret_size) {
        _cleanup_free_ char *why = NULL;
        SimulatedRequest r;
        int32_t result;

        simulated_request_init(&r, OPERATION_RESIZE, 0, bytes, NULL);
        r.request.transport = NULL;
        simulated_serve(d->server, &r, 1);
        result = r.request.result;
        *ret_size = r.request.length;
        if (result < 0 && r.failure.message)
                (void) failure_describe(&r.failure, &why);
        simulated_request_done(&r);
        if (result >= 0)
                return 0;
        if (is_refusal(result))
                return check_skip(d, "to %" PRIu64 " bytes it was refused: %s", bytes, why ? why : strerror(-result));
        return check_fault(d, "resize-failed", "from %" PRIu64 " to %" PRIu64 " bytes it failed: %s", d->geometry.size, bytes,
                           why ? why : strerror(-result));
}

/* One request beyond what the disk had. */
static int use(CheckDisk *d, uint8_t op, uint64_t offset, uint8_t *block) {
        _cleanup_free_ char *why = NULL;
        SimulatedRequest r;
        int32_t result;

        simulated_request_init(&r, op, offset, d->block, block);
        simulated_serve(d->server, &r, 1);
        result = r.request.result;
        if (r.failure.message)
                (void) failure_describe(&r.failure, &why);
        simulated_request_done(&r);
        if (result == (int32_t) d->block)
                return 0;
        return check_fault(d, "resize-unusable", "the block at %" PRIu64 ", which it has since it was resized, can't be %s: %s", offset,
                           op == OPERATION_READ ? "read" : "written", why ? why : strerror(-result));
}

static int use_last_block(CheckDisk *d, uint64_t size) {
        _cleanup_free_ uint8_t *written = malloc(d->block), *read = malloc(d->block);
        uint64_t offset = size - d->block;

        if (!written || !read)
                return check_fault(d, "resize-unusable", "out of memory");
        memset(written, 'z', d->block);
        if (use(d, OPERATION_READ, offset, read) < 0 || use(d, OPERATION_WRITE, offset, written) < 0 ||
            use(d, OPERATION_READ, offset, read) < 0)
                return -1;
        if (d->sink || memcmp(written, read, d->block) == 0)
                return 0;
        return check_fault(d, "resize-unusable", "the block at %" PRIu64 ", which it has since it was resized, does not read as it was written",
                           offset);
}

int check_resize(CheckDisk *d) {
        uint64_t before = d->geometry.size, size;
        int r;

        if (!d->geometry.can_resize)
                return check_skip(d, "the hook defines no resize");
        d->names = (CheckNames) { .unlike = "resize-loses" };
        r = resize_to(d, before + GROWTH, &size);
        if (r != 0)
                return r;
        check_context(d, "after resize from %" PRIu64 " to %" PRIu64 " bytes: ", before, size);
        if (!d->sink && disk_verify_all(d) < 0)
                return -1;
        if (size > before && use_last_block(d, size) < 0)
                return -1;
        r = resize_to(d, before, &size);
        if (r != 0)
                return r;
        check_context(d, "after resize back to %" PRIu64 " bytes: ", size);
        return d->sink ? 0 : disk_verify_all(d);
}
