/* SPDX-License-Identifier: MIT */
#pragma once

/* What stats and top make of GetStatistics. */

#include "dbus/ctl.h"

#define HISTOGRAM_BUCKETS 32

/* How many requests took how long: less than 1 µs; from 2^(n-1) to below 2^n µs; the last bucket has no upper end. */
typedef struct Histogram {
        uint64_t counts[HISTOGRAM_BUCKETS];
} Histogram;

/* GetStatistics; NULL has been reported, if that is wanted. */
json_t *stats_get(Ctl *c, const char *path, const char *device, bool report);
uint64_t stats_number(const json_t *stats, const char *key);
/* Adds the requests of one operation, or of all for NULL. */
void stats_add_latency(const json_t *stats, const char *op, Histogram *h);

uint64_t histogram_total(const Histogram *h);
/* Less than this, in µs, did percent of the requests take. 0 if there are none, UINT64_MAX if they are in the last bucket. */
uint64_t histogram_percentile(const Histogram *h, unsigned percent);

/* "<64us", "<1.0s", "-" if there is none. */
void format_bound(uint64_t usec, char ret[static 24]);
