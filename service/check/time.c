/* SPDX-License-Identifier: MIT */

/* What a request of 4 KiB costs in the hook and the binding: no kernel, no device, batches as a busy queue makes them. */

#include "service/check/steps.h"

#include <time.h>

#define LENGTH 4096
#define BATCH 32
#define BATCHES 320
#define SPAN (UINT64_C(64) << 20) /* bytes of the disk that are used */

static int compare(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;

        return x < y ? -1 : x > y;
}

static uint64_t now_nsec(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000 * USEC_PER_MSEC * NSEC_PER_USEC + (uint64_t) t.tv_nsec;
}

/* µs per request; negative if one failed. */
static double time_round(CheckDisk *d, uint8_t op, uint64_t span) {
        uint64_t total = 0, start;

        for (unsigned i = 0; i < BATCHES; i++) {
                for (unsigned j = 0; j < BATCH; j++) {
                        uint64_t offset = disk_random_below(d, span / LENGTH) * LENGTH;

                        simulated_request_init(&d->requests[j], op, offset, LENGTH, d->payload + j * LENGTH);
                }
                start = now_nsec();
                simulated_serve(d->server, d->requests, BATCH);
                total += now_nsec() - start;
                for (unsigned j = 0; j < BATCH; j++)
                        if (d->requests[j].request.result != LENGTH) {
                                (void) disk_diagnose_failure(d, &d->requests[j]);
                                return -1;
                        }
        }
        return (double) total / (1000.0 * BATCH * BATCHES);
}

static int time_operation(CheckDisk *d, uint8_t op, const char *name, uint64_t span) {
        unsigned n = d->options->rounds;
        _cleanup_free_ double *times = calloc(n, sizeof(double));

        if (!times || time_round(d, op, span) < 0) /* the first round warms up, and counts not */
                return -1;
        for (unsigned i = 0; i < n; i++) {
                times[i] = time_round(d, op, span);
                if (times[i] < 0)
                        return -1;
        }
        qsort(times, n, sizeof(double), compare);
        (void) json_object_set_new(d->figures, name,
                                   json_pack("{s:f, s:f, s:f}", "median", times[n / 2], "min", times[0], "max",
                                             times[n - 1]));
        return 0;
}

int check_time(CheckDisk *d) {
        uint64_t span = d->geometry.size < SPAN ? d->geometry.size : SPAN;

        if (span < LENGTH)
                return check_skip(d, "the disk is too small");
        for (unsigned i = 0; i < BATCH * LENGTH; i++)
                d->payload[i] = (uint8_t) disk_random(d);
        d->figures = json_object();
        if (!d->geometry.read_only && time_operation(d, OPERATION_WRITE, "randwrite", span) < 0)
                return -1;
        return time_operation(d, OPERATION_READ, "randread", span);
}
