/* SPDX-License-Identifier: MIT */

/* The verb top: what the devices are doing, again and again. */

#include "dbus/ctl-stats.h"

#include <inttypes.h>
#include <time.h>

#define INTERVAL_MIN_SEC 0.1
#define INTERVAL_MAX_SEC 3600.0

/* What a device did between two looks. */
typedef struct Rates {
        double seconds;
        double iops, read, written, failed; /* per second; bytes */
        double gc_count;                    /* per second */
        double gc_share, hook_share;        /* of the time, in percent; the hook's may be 100 for each queue */
        uint64_t in_flight;
        uint64_t p50, p99;                  /* as of histogram_percentile */
} Rates;

/* Since the last look, or since the worker began where that was later. */
static uint64_t difference(const json_t *stats, const json_t *before, const char *key) {
        return stats_number(stats, key) - (before ? stats_number(before, key) : 0);
}

static Histogram latency_between(const json_t *stats, const json_t *before) {
        Histogram h = { 0 }, h0 = { 0 };

        stats_add_latency(stats, NULL, &h);
        if (before)
                stats_add_latency(before, NULL, &h0);
        for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
                h.counts[i] -= h0.counts[i];
        return h;
}

static Rates rates_between(const json_t *stats, const json_t *before) {
        uint64_t age = stats_number(stats, "age");
        Rates r = { .in_flight = stats_number(stats, "in-flight") };
        Histogram h;

        /* Another worker has begun at 0. */
        if (before && (age <= stats_number(before, "age") || stats_number(stats, "requests") < stats_number(before, "requests")))
                before = NULL;
        r.seconds = (double) difference(stats, before, "age") / (double) USEC_PER_SEC;
        if (r.seconds <= 0)
                return r;
        r.iops = (double) difference(stats, before, "completed") / r.seconds;
        r.read = (double) difference(stats, before, "read-bytes") / r.seconds;
        r.written = (double) difference(stats, before, "written-bytes") / r.seconds;
        r.failed = (double) difference(stats, before, "failed") / r.seconds;
        r.gc_count = (double) difference(stats, before, "gc-count") / r.seconds;
        r.gc_share = (double) difference(stats, before, "gc-time") / (double) USEC_PER_SEC / r.seconds * 100;
        r.hook_share = (double) difference(stats, before, "hook-time") / (double) USEC_PER_SEC / r.seconds * 100;
        h = latency_between(stats, before);
        r.p50 = histogram_percentile(&h, 50);
        r.p99 = histogram_percentile(&h, 99);
        return r;
}

/* NULL where there is no such number. */
static json_t *bound_to_json(uint64_t usec) {
        return usec == 0 || usec == UINT64_MAX ? json_null() : json_integer((json_int_t) usec);
}

static void print_head(const Ctl *c, int width) {
        if (c->legend)
                printf("%-*s %-10s %9s %9s %9s %8s %8s %8s %7s %7s %6s\n", width, "DEVICE", "STATE", "IOPS", "READ MB/s", "WRIT MB/s", "P50", "P99",
                       "INFLIGHT", "HOOK %", "GC/s", "GC %");
}

static void print_row(const Ctl *c, int width, const json_t *d, const Rates *r) {
        const char *state = json_string_value(json_object_get(d, "state"));
        char p50[24], p99[24];

        printf("%-*s %s%-10s%s ", width, json_string_value(json_object_get(d, "name")), ctl_colour_of_state(c, state), state,
               ctl_colour_off(c));
        if (r->seconds <= 0) {
                printf("%9s %9s %9s %8s %8s %8s %7s %7s %6s\n", "-", "-", "-", "-", "-", "-", "-", "-", "-");
                return;
        }
        format_bound(r->p50, p50);
        format_bound(r->p99, p99);
        printf("%9.0f %9.1f %9.1f %8s %8s %8" PRIu64 " %7.1f %7.1f %6.1f\n", r->iops, r->read / 1e6, r->written / 1e6, p50, p99, r->in_flight,
               r->hook_share, r->gc_count, r->gc_share);
}

static json_t *row_to_json(const json_t *d, const Rates *r) {
        json_t *row = json_pack("{s:O, s:O}", "device", json_object_get(d, "name"), "state", json_object_get(d, "state"));

        if (r->seconds <= 0)
                return row;
        (void) json_object_update_new(row, json_pack("{s:f, s:f, s:I, s:I, s:f, s:o, s:o, s:I, s:f, s:f, s:f}", "seconds", r->seconds, "iops",
                                                     r->iops, "read", (json_int_t) r->read, "written", (json_int_t) r->written,
                                                     "failed", r->failed, "p50", bound_to_json(r->p50), "p99", bound_to_json(r->p99), "in-flight",
                                                     (json_int_t) r->in_flight, "hook", r->hook_share, "gc-count", r->gc_count, "gc",
                                                     r->gc_share));
        return row;
}

static bool is_chosen(const json_t *chosen, const json_t *d) {
        return json_object_size(chosen) == 0 || json_object_get(chosen, json_string_value(json_object_get(d, "path")));
}

static int width_of(const json_t *devices) {
        int width = 6;

        for (size_t i = 0; i < json_array_size(devices); i++) {
                int n = (int) strlen(json_string_value(json_object_get(json_array_get(devices, i), "name")));
                width = n > width ? n : width;
        }
        return width;
}

/* before: the last look, by path; replaced by this one. */
static void print_sample(Ctl *c, const json_t *devices, const json_t *chosen, json_t *before) {
        json_t *rows = json_array(), *now = json_object(), *d;
        int width = width_of(devices);
        size_t i;

        if (c->json == JSON_OFF) {
                if (c->colour)
                        fputs("\033[H\033[J", stdout);
                print_head(c, width);
        }
        json_array_foreach(devices, i, d) {
                const char *path = json_string_value(json_object_get(d, "path"));
                json_t *stats;
                Rates r = { 0 };

                if (!is_chosen(chosen, d))
                        continue;
                stats = stats_get(c, path, "", /* report= */ false);
                if (stats) {
                        r = rates_between(stats, json_object_get(before, path));
                        (void) json_object_set_new(now, path, stats);
                }
                if (c->json != JSON_OFF)
                        (void) json_array_append_new(rows, row_to_json(d, &r));
                else
                        print_row(c, width, d, &r);
        }
        if (c->json != JSON_OFF) {
                (void) json_dumpf(rows, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
                putchar('\n');
        } else if (!c->colour)
                putchar('\n');
        (void) json_object_clear(before);
        (void) json_object_update(before, now);
        json_decref(rows);
        json_decref(now);
}

/* The first look has nothing to be compared with, and is not printed. */
static int look(Ctl *c, const json_t *chosen, json_t *before, bool first) {
        json_t *devices = ctl_list_devices(c, "top"), *d;
        size_t i;

        if (!devices)
                return -EIO;
        if (!first)
                print_sample(c, devices, chosen, before);
        else
                json_array_foreach(devices, i, d) {
                        const char *path = json_string_value(json_object_get(d, "path"));
                        json_t *stats = stats_get(c, path, "", /* report= */ false);

                        if (stats)
                                (void) json_object_set_new(before, path, stats);
                }
        json_decref(devices);
        return fflush(stdout) != 0 ? -errno : 0;
}

static int parse_options(const Ctl *c, uint64_t *count, double *interval) {
        char *end;

        *count = UINT64_MAX;
        *interval = 1;
        if (c->count && (parse_u64(c->count, UINT32_MAX, count) < 0 || *count == 0)) {
                fprintf(stderr, "ublkctl: --count= takes a number from 1, not \"%s\".\n", c->count);
                return -EINVAL;
        }
        if (c->interval) {
                *interval = strtod(c->interval, &end);
                if (end == c->interval || *end || !(*interval >= INTERVAL_MIN_SEC && *interval <= INTERVAL_MAX_SEC)) {
                        fprintf(stderr, "ublkctl: --interval= takes seconds, %.1f to %.0f, not \"%s\".\n", INTERVAL_MIN_SEC, INTERVAL_MAX_SEC,
                                c->interval);
                        return -EINVAL;
                }
        }
        return 0;
}

static void sleep_for(double seconds) {
        struct timespec ts = { .tv_sec = (time_t) seconds, .tv_nsec = (long) ((seconds - (double) (time_t) seconds) * 1e9) };

        (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

static int choose(Ctl *c, char **designations, json_t *chosen) {
        for (; *designations; designations++) {
                _cleanup_free_ char *path = NULL;

                if (ctl_get_device(c, *designations, &path) < 0)
                        return -ENODEV;
                (void) json_object_set_new(chosen, path, json_true());
        }
        return 0;
}

int ctl_top(Ctl *c, int argc, char **argv) {
        json_t *chosen = json_object(), *before = json_object();
        double interval;
        uint64_t count;
        int r;

        (void) argc;
        r = parse_options(c, &count, &interval);
        if (r < 0) {
                json_decref(chosen);
                json_decref(before);
                return CTL_USAGE;
        }
        r = choose(c, argv + 1, chosen);
        if (r >= 0)
                r = look(c, chosen, before, /* first= */ true);
        for (uint64_t i = 0; r >= 0 && i < count; i++) {
                sleep_for(interval);
                r = look(c, chosen, before, /* first= */ false);
        }
        json_decref(chosen);
        json_decref(before);
        return r < 0 ? CTL_FAILED : CTL_OK;
}
