/* SPDX-License-Identifier: MIT */

/* How long the service takes to answer what every client begins with: COUNT times each, on one open connection. */

#include "service/util.h"

#include <inttypes.h>
#include <systemd/sd-bus.h>

#define COUNT_MAX 100000

static int compare(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;

        return *x < *y ? -1 : *x > *y;
}

static int measure(sd_bus *bus, const char *interface, const char *method, uint32_t count) {
        _cleanup_free_ uint64_t *usec = calloc(count, sizeof(uint64_t));
        sd_bus_error e = SD_BUS_ERROR_NULL;

        if (!usec)
                return -ENOMEM;
        for (uint32_t i = 0; i < count; i++) {
                uint64_t start = now_usec();
                int r = sd_bus_call_method(bus, "org.ublk", "/org/ublk", interface, method, &e, NULL, NULL);

                usec[i] = now_usec() - start;
                if (r < 0) {
                        fprintf(stderr, "%s: %s\n", method, e.message ? e.message : strerror(-r));
                        sd_bus_error_free(&e);
                        return r;
                }
        }
        qsort(usec, count, sizeof(uint64_t), compare);
        printf("%-18s median %" PRIu64 " us, maximum %" PRIu64 " us\n", method, usec[count / 2], usec[count - 1]);
        return 0;
}

int main(int argc, char **argv) {
        sd_bus *bus = NULL;
        uint32_t count;
        int r;

        if (argc != 2 || parse_u32(argv[1], COUNT_MAX, &count) < 0 || count == 0) {
                fprintf(stderr, "usage: %s COUNT\n", argv[0]);
                return 2;
        }
        r = sd_bus_open_system(&bus);
        if (r < 0)
                fprintf(stderr, "The bus can't be reached: %s\n", strerror(-r));
        if (r >= 0)
                r = measure(bus, "org.freedesktop.DBus.Introspectable", "Introspect", count);
        if (r >= 0)
                r = measure(bus, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", count);
        sd_bus_flush_close_unref(bus);
        return r < 0 ? 1 : 0;
}
