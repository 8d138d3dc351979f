/* SPDX-License-Identifier: MIT */

/*
 * A disk that fails below the hook: the file methods that it calls raise Errno::EIO, once or for as long as one
 * request takes (lib/ublk/check/faults.rb). The client must hear of it, unless the hook has the data elsewhere.
 */

#include "service/check/steps.h"

#include <inttypes.h>

#define TRIES 4
#define TRY_BLOCKS 8

typedef struct Injected {
        unsigned fired; /* how often an error was raised */
        char what[256]; /* "File#pread raised Errno::EIO (/etc/…/file.rb:23)" */
        char culprit[64]; /* the method whose `ensure` has a `return`, or "" */
        int32_t result;
} Injected;

static json_t *ask(CheckDisk *d, const char *method, const char *argument) {
        const char *arguments[] = { argument, NULL };
        Failure failure = FAILURE_NULL;
        json_t *answer = NULL;

        if (hook_check(d->hook, method, arguments, &answer, &failure) < 0)
                answer = NULL;
        failure_done(&failure);
        return answer;
}

static void arm(CheckDisk *d, const char *const *kinds) {
        Failure failure = FAILURE_NULL;

        (void) hook_check(d->hook, "arm", kinds, NULL, &failure);
        failure_done(&failure);
}

/* Serves the batch's one request while these kinds of file methods fail. disk_clear follows. */
static Injected serve_failing(CheckDisk *d, const char *const *kinds) {
        Injected i = { 0 };
        json_t *answer;
        const char *s;

        arm(d, kinds);
        disk_serve(d);
        answer = ask(d, "disarm", NULL);
        i.result = d->requests[0].request.result;
        i.fired = (unsigned) json_integer_value(json_object_get(answer, "fired"));
        s = json_string_value(json_object_get(answer, "at"));
        (void) snprintf(i.what, sizeof(i.what), "%s raised Errno::EIO%s%s%s",
                        json_string_value(json_object_get(answer, "method")),
                        s ? " (" : "", s ? s : "", s ? ")" : "");
        s = json_string_value(json_object_get(answer, "ensure"));
        (void) snprintf(i.culprit, sizeof(i.culprit), "%s", s ? s : "");
        json_decref(answer);
        return i;
}

static int report_swallowed(CheckDisk *d, const Injected *i, const char *what) {
        if (i->culprit[0])
                return check_fault(d, "ensure-hides-error", "%s, and %s: the ensure of %s ends with a return",
                                   i->what, what, i->culprit);
        return check_fault(d, "error-swallowed", "%s, and %s", i->what, what);
}

/* A target that has nothing in memory of what was written. */
static void forget(CheckDisk *d) {
        Failure failure = FAILURE_NULL;

        if (d->geometry.recovery != RECOVERY_NONE)
                (void) disk_load(d, d->arguments, &failure);
        failure_done(&failure);
}

/* After a flush nothing is left that only the kernel's page cache has. */
int check_durable(CheckDisk *d) {
        uint32_t length = d->max_io < 16 * d->block ? d->max_io : 16 * d->block;
        json_t *answer;
        int64_t bytes;

        if (disk_learn(d) < 0)
                return -1;
        if (d->geometry.recovery == RECOVERY_NONE)
                return check_skip(d, "recovery is none: the data ends with the process");
        json_decref(ask(d, "forget_unsynced", NULL));
        if (disk_write(d, 0, length) < 0 || disk_flush(d) < 0)
                return -1;
        answer = ask(d, "unsynced", NULL);
        bytes = json_integer_value(json_object_get(answer, "bytes"));
        if (bytes >= length)
                (void) check_fault(d, "flush-no-sync",
                                   "flush was answered, but %" PRId64 " bytes written to %s were given neither fsync nor fdatasync", bytes,
                                   json_string_value(json_object_get(answer, "path")));
        json_decref(answer);
        return d->fault ? -1 : 0;
}

int check_read_errors(CheckDisk *d) {
        static const char *const kinds[] = { "read", NULL };
        uint32_t length = d->max_io < TRY_BLOCKS * d->block ? d->max_io : TRY_BLOCKS * d->block;
        unsigned fired = 0;

        for (size_t w = 0; w < d->n_windows && !d->geometry.read_only; w++)
                if (disk_write(d, d->windows[w].offset, length) < 0)
                        return -1;
        if (disk_flush(d) < 0)
                return -1;
        forget(d);
        for (unsigned t = 0; t < TRIES; t++) {
                uint64_t offset = d->windows[t % d->n_windows].offset;
                const SimulatedRequest *q = &d->requests[0];
                Injected i;
                bool hidden, zero;

                disk_add_read(d, offset, length);
                i = serve_failing(d, kinds);
                fired += i.fired;
                zero = check_is_zero(q->payload, length);
                hidden = i.fired > 0 && i.result >= 0 && memcmp(q->payload, disk_expected(d, offset), length) != 0;
                disk_clear(d);
                if (hidden)
                        return report_swallowed(d, &i, zero ? "read answered with zeroes, as if all was well" :
                                                "read answered with other data, as if all was well");
        }
        return fired > 0 ? 0 : check_skip(d, "the hook reads no file with Ruby's methods");
}

int check_write_errors(CheckDisk *d) {
        static const char *const kinds[] = { "write", NULL };
        uint32_t length = d->max_io < TRY_BLOCKS * d->block ? d->max_io : TRY_BLOCKS * d->block;
        unsigned fired = 0;

        for (unsigned t = 0; t < TRIES; t++) {
                uint64_t offset = d->windows[t % d->n_windows].offset;
                bool same;
                Injected i;

                disk_add_write(d, offset, length);
                i = serve_failing(d, kinds);
                fired += i.fired;
                disk_apply(d, &d->requests[0]);
                disk_clear(d);
                if (i.fired == 0 || i.result < 0) {
                        if (disk_write(d, offset, length) < 0) /* what an unanswered one left behind is anything */
                                return -1;
                        continue;
                }
                if (disk_flush(d) < 0)
                        return -1;
                forget(d);
                disk_add_read(d, offset, length);
                disk_serve(d);
                same = memcmp(d->requests[0].payload, disk_expected(d, offset), length) == 0;
                disk_clear(d);
                if (!same)
                        return report_swallowed(d, &i, "write was acknowledged, as if all was well");
        }
        return fired > 0 ? 0 : check_skip(d, "the hook writes no file with Ruby's methods in write");
}

int check_flush_errors(CheckDisk *d) {
        static const char *const kinds[] = { "write", "sync", NULL };
        Injected i;

        if (disk_write(d, d->windows[0].offset, d->block) < 0)
                return -1;
        disk_add_flush(d);
        i = serve_failing(d, kinds);
        disk_clear(d);
        if (i.fired > 0 && i.result >= 0)
                return report_swallowed(d, &i, "flush was answered, as if all was well");
        return i.fired > 0 ? 0 : check_skip(d, "the hook writes and syncs no file with Ruby's methods in flush");
}
