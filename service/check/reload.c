/* SPDX-License-Identifier: MIT */

/*
 * The hook loaded more than once in a process: again for the same disk, and from the same class for another one, as
 * a program does that makes two devices. Where the second sees the first, its state is in a class variable.
 */

#include "service/check/steps.h"

#include <inttypes.h>

#define REGION_BLOCKS 64

static uint32_t region(const CheckDisk *d) {
        uint64_t length = REGION_BLOCKS * (uint64_t) d->block;

        return (uint32_t) (length < d->windows[0].length ? length : d->windows[0].length);
}

static int load(CheckDisk *d, const Argument *arguments, const char **ret_why) {
        static char why[512];
        _cleanup_free_ char *text = NULL;
        Failure failure = FAILURE_NULL;
        int r;

        r = disk_load(d, arguments, &failure);
        if (r < 0) {
                (void) failure_describe(&failure, &text);
                (void) snprintf(why, sizeof(why), "%s", text ? text : strerror(-r));
                *ret_why = why;
        }
        failure_done(&failure);
        return r;
}

/* What was flushed is there when the script is loaded anew. */
int check_reload(CheckDisk *d) {
        const char *why;

        if (d->geometry.recovery == RECOVERY_NONE)
                return check_skip(d, "recovery is none: the data ends with the target");
        if (disk_learn(d) < 0)
                return -1;
        if (disk_write(d, 0, region(d)) < 0 || disk_flush(d) < 0)
                return -1;
        if (load(d, d->arguments, &why) < 0)
                return check_skip(d, "it can't be loaded while it serves: %s", why);
        d->names = (CheckNames) { .unlike = "reload-lost" };
        return disk_verify(d, 0, region(d), d->block);
}

static void same_class(CheckDisk *d, const char *yes) {
        const char *arguments[] = { yes, NULL };
        Failure failure = FAILURE_NULL;

        (void) hook_check(d->hook, "same_class", arguments, NULL, &failure);
        failure_done(&failure);
}

/* "; class variables: @@file" */
static char *class_variables(CheckDisk *d) {
        const char *no_arguments[] = { NULL };
        Failure failure = FAILURE_NULL;
        char *text = NULL, *longer;
        json_t *names = NULL, *name;
        size_t i;

        if (hook_check(d->hook, "class_variables_of", no_arguments, &names, &failure) >= 0)
                json_array_foreach(names, i, name)
                        if (xasprintf(&longer, "%s%s%s", text ? text : "; class variables: ", text ? ", " : "",
                                      json_string_value(name)) >= 0) {
                                free(text);
                                text = longer;
                        }
        failure_done(&failure);
        json_decref(names);
        return text;
}

/* The first blocks of the disk that serves now are these. */
static int expect(CheckDisk *d, const uint8_t *expected, const char *what) {
        for (uint32_t at = 0; at < region(d); at += d->block) {
                int r = 0;

                disk_add_read(d, at, d->block);
                disk_serve(d);
                if (d->requests[0].request.result != (int32_t) d->block)
                        r = disk_diagnose_failure(d, &d->requests[0]);
                else if (memcmp(d->requests[0].payload, expected + at, d->block) != 0) {
                        _cleanup_free_ char *variables = class_variables(d);

                        r = check_fault(d, "class-state", "block %u of %s%s", at / d->block, what, variables ?
                                        variables : "");
                }
                disk_clear(d);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A second target of the same class, of an image that is as the first one's was in the beginning. */
static int compare_targets(CheckDisk *d) {
        _cleanup_free_ uint8_t *baseline = malloc(region(d)), *written = malloc(region(d));
        const char *why;

        if (!baseline || !written || disk_learn(d) < 0)
                return -1;
        memcpy(baseline, d->shared->baseline, region(d));
        if (disk_write(d, 0, region(d)) < 0 || disk_flush(d) < 0 || disk_verify(d, 0, region(d), d->block) < 0)
                return -1;
        memcpy(written, disk_expected(d, 0), region(d));

        if (load(d, d->other_arguments, &why) < 0)
                return check_skip(d, "a second target can't be built: %s", why);
        if (expect(d, baseline, "a second target's disk holds what was written to the first's") < 0)
                return -1;
        if (d->geometry.recovery == RECOVERY_NONE)
                return 0;
        if (disk_write(d, 0, region(d)) < 0 || disk_flush(d) < 0)
                return -1;
        if (load(d, d->arguments, &why) < 0)
                return check_skip(d, "a second target can't be built: %s", why);
        return expect(d, written, "the first target's disk holds what was written to the second's");
}

int check_two_targets(CheckDisk *d) {
        const char *why;
        int r;

        if (!d->other_arguments)
                return check_skip(d, "nothing says where a second disk would have its data");
        same_class(d, "yes");
        r = load(d, d->arguments, &why) < 0 ? check_skip(d, "a second target can't be built: %s", why) : compare_targets(d);
        same_class(d, "no");
        return r;
}
