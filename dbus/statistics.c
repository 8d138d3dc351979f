/* SPDX-License-Identifier: MIT */
#include "dbus/statistics.h"

#include "service/manager-counters.h"
#include "service/request.h"

static int append_number(sd_bus_message *m, const char *key, uint64_t value) {
        return sd_bus_message_append(m, "{sv}", key, "t", value);
}

/* Opens the entry of key, whose value is a dictionary with such entries. */
static int open_dictionary(sd_bus_message *m, const char *key, const char *type, const char *entry) {
        int r;

        r = sd_bus_message_open_container(m, 'e', "sv");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", key);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'v', type);
        return r < 0 ? r : sd_bus_message_open_container(m, 'a', entry);
}

static int close_dictionary(sd_bus_message *m) {
        int r = 0;

        for (int i = 0; r >= 0 && i < 3; i++)
                r = sd_bus_message_close_container(m);
        return r;
}

static int append_errors(sd_bus_message *m, const Counters *c) {
        int r;

        r = open_dictionary(m, "errors", "a{st}", "{st}");
        for (int i = 0; r >= 0 && i < COUNTERS_ERRNOS; i++) {
                const char *name = strerrorname_np(i);

                if (c->errors[i] > 0)
                        r = sd_bus_message_append(m, "{st}", i > 0 && name ? name : "others", c->errors[i]);
        }
        return r < 0 ? r : close_dictionary(m);
}

static int append_histogram(sd_bus_message *m, const char *name, const uint64_t counts[static COUNTERS_BUCKETS]) {
        int r;

        r = sd_bus_message_open_container(m, 'e', "sat");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", name);
        if (r >= 0)
                r = sd_bus_message_append_array(m, 't', counts, COUNTERS_BUCKETS * sizeof(counts[0]));
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_latencies(sd_bus_message *m, const Counters *c) {
        int r;

        r = open_dictionary(m, "latency", "a{sat}", "{sat}");
        for (uint8_t op = 0; r >= 0 && op < COUNTERS_OPERATIONS; op++)
                if (operation_to_string(op))
                        r = append_histogram(m, operation_to_string(op), c->latencies[op]);
        return r < 0 ? r : close_dictionary(m);
}

/* Without a worker nothing is counted. */
static int append(sd_bus_message *m, const Device *d, const void *reply) {
        static const Counters nothing;
        const Counters *c = reply ? &((const CountersReply *) reply)->counters : &nothing;
        const struct {
                const char *key;
                uint64_t value;
        } numbers[] = {
                { "age", c->age_usec },
                { "requests", c->sum.requests },
                { "completed", c->sum.completed },
                { "failed", c->sum.failed },
                { "read-bytes", c->sum.read_bytes },
                { "written-bytes", c->sum.written_bytes },
                { "hook-time", c->hook_nsec / NSEC_PER_USEC },
                { "gc-count", c->gc_count },
                { "gc-time", c->gc_usec },
        };
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(numbers); i++)
                r = append_number(m, numbers[i].key, numbers[i].value);
        if (r >= 0)
                r = sd_bus_message_append(m, "{sv}{sv}", "in-flight", "u", c->sum.in_flight, "restarts", "u", d->restarts);
        if (r >= 0)
                r = append_errors(m, c);
        if (r >= 0)
                r = append_latencies(m, c);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int check(const void *reply, size_t size, uint32_t device_id) {
        return counters_reply_check(reply, size, device_id);
}

const QueryKind statistics_query = {
        .type = MESSAGE_COUNTERS,
        .max_reply = sizeof(CountersReply),
        .timeout_usec = COUNTERS_TIMEOUT_USEC,
        .about = "what it has counted",
        .check = check,
        .append = append,
};
