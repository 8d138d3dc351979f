/* SPDX-License-Identifier: MIT */

/* The verb stats: what the workers have counted. */

#include "dbus/ctl-stats.h"

#include "dbus/device-bus.h"
#include "dbus/manager-bus.h"

#include <inttypes.h>

json_t *stats_get(Ctl *c, const char *path, const char *device, bool report) {
        sd_bus_message *m = NULL, *reply = NULL;
        json_t *stats = NULL;
        int r;

        r = sd_bus_message_new_method_call(c->bus, &m, MANAGER_NAME, path, DEVICE_INTERFACE, "GetStatistics");
        if (r < 0)
                return NULL;
        if (report)
                r = ctl_call(c, m, 0, device, &reply);
        else {
                r = sd_bus_call(c->bus, m, 0, NULL, &reply);
                sd_bus_message_unref(m);
        }
        if (r >= 0)
                r = json_from_message(reply, &stats);
        sd_bus_message_unref(reply);
        return r < 0 ? NULL : stats;
}

uint64_t stats_number(const json_t *stats, const char *key) {
        return (uint64_t) json_integer_value(json_object_get(stats, key));
}

void stats_add_latency(const json_t *stats, const char *op, Histogram *h) {
        const char *key;
        json_t *counts;

        json_object_foreach(json_object_get(stats, "latency"), key, counts)
                for (size_t i = 0; (!op || streq(key, op)) && i < HISTOGRAM_BUCKETS; i++)
                        h->counts[i] += (uint64_t) json_integer_value(json_array_get(counts, i));
}

uint64_t histogram_total(const Histogram *h) {
        uint64_t total = 0;

        for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
                total += h->counts[i];
        return total;
}

uint64_t histogram_percentile(const Histogram *h, unsigned percent) {
        uint64_t total = histogram_total(h), below = 0;

        for (size_t i = 0; i < HISTOGRAM_BUCKETS && total > 0; i++) {
                below += h->counts[i];
                if ((double) below * 100 >= (double) total * percent)
                        return i == HISTOGRAM_BUCKETS - 1 ? UINT64_MAX : UINT64_C(1) << i;
        }
        return 0;
}

void format_bound(uint64_t usec, char ret[static 24]) {
        if (usec == 0)
                snprintf(ret, 24, "-");
        else if (usec == UINT64_MAX)
                snprintf(ret, 24, ">%" PRIu64 "s", (UINT64_C(1) << (HISTOGRAM_BUCKETS - 2)) / USEC_PER_SEC);
        else if (usec < 10000)
                snprintf(ret, 24, "<%" PRIu64 "us", usec);
        else if (usec < 10 * USEC_PER_SEC)
                snprintf(ret, 24, "<%" PRIu64 "ms", usec / USEC_PER_MSEC);
        else
                snprintf(ret, 24, "<%" PRIu64 "s", usec / USEC_PER_SEC);
}

static double seconds(const json_t *stats, const char *key) {
        return (double) stats_number(stats, key) / (double) USEC_PER_SEC;
}

static void print_errors(const json_t *errors) {
        const char *name, *before = " (";
        json_t *n;

        json_object_foreach((json_t *) errors, name, n) {
                printf("%s%s %" PRIu64, before, name, (uint64_t) json_integer_value(n));
                before = ", ";
        }
        puts(*before == ',' ? ")" : "");
}

static void print_latency(const Ctl *c, const json_t *stats) {
        const char *op;
        json_t *counts;

        if (c->legend)
                printf("\n  %-12s %12s %9s %9s %9s\n", "OPERATION", "REQUESTS", "P50", "P99", "MAX");
        json_object_foreach(json_object_get(stats, "latency"), op, counts) {
                char p50[24], p99[24], max[24];
                Histogram h = { 0 };

                stats_add_latency(stats, op, &h);
                format_bound(histogram_percentile(&h, 50), p50);
                format_bound(histogram_percentile(&h, 99), p99);
                format_bound(histogram_percentile(&h, 100), max);
                printf("  %-12s %12" PRIu64 " %9s %9s %9s\n", op, histogram_total(&h), p50, p99, max);
        }
}

static void print_stats(const Ctl *c, const json_t *stats) {
        char read[16], written[16];

        format_size(stats_number(stats, "read-bytes"), read);
        format_size(stats_number(stats, "written-bytes"), written);
        printf("%14s: %s\n", "Device", json_string_value(json_object_get(stats, "device")));
        if (stats_number(stats, "age") == 0)
                printf("%14s: by no worker, restarted %" PRIu64 " times\n", "Served", stats_number(stats, "restarts"));
        else
                printf("%14s: for %.1f s, restarted %" PRIu64 " times\n", "Served", seconds(stats, "age"), stats_number(stats, "restarts"));
        printf("%14s: %" PRIu64 ", %" PRIu64 " in flight\n", "Requests", stats_number(stats, "requests"), stats_number(stats, "in-flight"));
        printf("%14s: %" PRIu64, "Failed", stats_number(stats, "failed"));
        print_errors(json_object_get(stats, "errors"));
        printf("%14s: %s, written: %s\n", "Read", read, written);
        printf("%14s: for %.3f s\n", "In the hook", seconds(stats, "hook-time"));
        printf("%14s: %" PRIu64 " collections, %.3f s\n", "GC", stats_number(stats, "gc-count"), seconds(stats, "gc-time"));
        print_latency(c, stats);
}

static int show(Ctl *c, const char *device, const char *path) {
        json_t *stats = stats_get(c, path, device, /* report= */ true);

        if (!stats)
                return CTL_FAILED;
        (void) json_object_set_new(stats, "device", json_string(device));
        if (c->json != JSON_OFF) {
                ctl_print_json(c, stats);
                return CTL_OK;
        }
        print_stats(c, stats);
        json_decref(stats);
        return CTL_OK;
}

static int show_all(Ctl *c, const char *what) {
        json_t *devices = ctl_list_devices(c, what), *d;
        int status = CTL_OK;
        size_t i;

        if (!devices)
                return CTL_FAILED;
        json_array_foreach(devices, i, d) {
                if (i > 0 && c->json == JSON_OFF)
                        putchar('\n');
                if (show(c, json_string_value(json_object_get(d, "name")), json_string_value(json_object_get(d, "path"))) != CTL_OK)
                        status = CTL_FAILED;
        }
        json_decref(devices);
        return status;
}

int ctl_stats(Ctl *c, int argc, char **argv) {
        int status = CTL_OK;

        if (argc < 2)
                return show_all(c, argv[0]);
        for (int i = 1; i < argc; i++) {
                _cleanup_free_ char *path = NULL;

                if (i > 1 && c->json == JSON_OFF)
                        putchar('\n');
                if (ctl_get_device(c, argv[i], &path) < 0 || show(c, argv[i], path) != CTL_OK)
                        status = CTL_FAILED;
        }
        return status;
}
