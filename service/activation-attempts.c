/* SPDX-License-Identifier: MIT */
#include "service/activation-attempts.h"

#include "service/log.h"
#include "service/paths.h"

#include <inttypes.h>

#define MAX_FILE 128
#define MAX_COUNT 1000
/* So many starts follow each other as fast as systemd makes them (RestartSec=); then the delay doubles. */
#define FREE_ATTEMPTS 3
#define FIRST_DELAY_USEC (200 * USEC_PER_MSEC)
#define MAX_DELAY_USEC (10 * USEC_PER_SEC)
/* Between `release` and the start that systemd makes by itself. A later one was made by somebody. */
#define FRESH_USEC (5 * USEC_PER_SEC)

typedef struct Attempts {
        unsigned count;
        uint64_t when_usec; /* CLOCK_MONOTONIC: the latest */
} Attempts;

static int attempts_path(uint32_t id, char **ret) {
        return config_path(ret, PATH_MARKERS "/ublkb%u.attempts", id);
}

/* Of an earlier device with this id: none. */
static Attempts attempts_read(const DeviceConfig *c) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        Attempts a = { 0 };
        uint64_t tag;

        if (attempts_path(c->id, &path) < 0 || read_file(path, MAX_FILE, &text, NULL) < 0 ||
            sscanf(text, "%4u %" SCNu64 " %" SCNx64, &a.count, &a.when_usec, &tag) != 3 ||
            tag != device_config_kernel_tag(c))
                return (Attempts) { 0 };
        return a;
}

static int attempts_write(const DeviceConfig *c, unsigned count) {
        _cleanup_free_ char *directory = NULL, *path = NULL, *text = NULL;
        int r;

        r = config_path(&directory, PATH_MARKERS);
        if (r >= 0)
                r = mkdir_parents(directory, 0755);
        if (r >= 0)
                r = attempts_path(c->id, &path);
        if (r >= 0)
                r = xasprintf(&text, "%u %" PRIu64 " %" PRIx64 "\n", count, now_usec(), device_config_kernel_tag(c));
        return r < 0 ? r : write_file_atomic(path, text, strlen(text), 0644);
}

void attempts_note(const DeviceConfig *c) {
        unsigned count = attempts_read(c).count;
        int r;

        r = attempts_write(c, count < MAX_COUNT ? count + 1 : MAX_COUNT);
        if (r < 0)
                log_warning("Can't note that a start of device %u failed, ignoring: %s", c->id, strerror(-r));
}

void attempts_forget(uint32_t id) {
        _cleanup_free_ char *path = NULL;

        if (attempts_path(id, &path) >= 0 && unlink(path) < 0 && errno != ENOENT)
                log_warning("Can't remove %s, ignoring: %s", path, strerror(errno));
}

uint64_t attempts_delay(const DeviceConfig *c) {
        Attempts a = attempts_read(c);
        uint64_t now = now_usec(), delay = FIRST_DELAY_USEC;

        if (a.count <= FREE_ATTEMPTS || a.when_usec > now || now - a.when_usec > FRESH_USEC)
                return 0;
        for (unsigned i = FREE_ATTEMPTS + 1; i < a.count && delay < MAX_DELAY_USEC; i++)
                delay *= 2;
        return delay < MAX_DELAY_USEC ? delay : MAX_DELAY_USEC;
}
