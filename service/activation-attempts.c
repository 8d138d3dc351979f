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
/* Of one whose predecessor did serve, if not for long: others wait for it who have nothing to do with its end. */
#define MAX_DELAY_LIVED_USEC USEC_PER_SEC
/* Between `release` and the start that systemd makes by itself. A later one was made by somebody. */
#define FRESH_USEC (5 * USEC_PER_SEC)

/* What was noted last. */
enum {
        STATE_LIVE = 'l',   /* the device came (back) to life */
        STATE_LIVED = 'e',  /* the worker ended, after that */
        STATE_FAILED = 'f', /* the worker ended without it */
        STATE_WAITED = 'w', /* and the next one has been waited for */
};

typedef struct Attempts {
        unsigned count;
        char state;
        uint64_t when_usec;  /* CLOCK_MONOTONIC: of what was noted last */
        uint64_t since_usec; /* of the first of count */
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
            sscanf(text, "%4u %c %" SCNu64 " %" SCNu64 " %" SCNx64, &a.count, &a.state, &a.when_usec, &a.since_usec,
                   &tag) != 5 ||
            tag != device_config_kernel_tag(c))
                return (Attempts) { 0 };
        return a;
}

static int attempts_write(const DeviceConfig *c, const Attempts *a) {
        _cleanup_free_ char *directory = NULL, *path = NULL, *text = NULL;
        int r;

        r = config_path(&directory, PATH_MARKERS);
        if (r >= 0)
                r = mkdir_parents(directory, 0755);
        if (r >= 0)
                r = attempts_path(c->id, &path);
        if (r >= 0)
                r = xasprintf(&text, "%u %c %" PRIu64 " %" PRIu64 " %" PRIx64 "\n", a->count, a->state, a->when_usec,
                              a->since_usec, device_config_kernel_tag(c));
        return r < 0 ? r : write_file_atomic(path, text, strlen(text), 0644);
}

static void note(const DeviceConfig *c, const Attempts *a) {
        int r;

        r = attempts_write(c, a);
        if (r < 0)
                log_warning("Can't note how the starts of device %u go, ignoring: %s", c->id, strerror(-r));
}

static bool is_past(uint64_t now, uint64_t when, uint64_t interval) {
        return when > now || now - when >= interval;
}

void attempts_note(const DeviceConfig *c) {
        Attempts a = attempts_read(c);
        uint64_t now = now_usec();

        if (a.count == 0 || (a.state == STATE_LIVE && is_past(now, a.when_usec, ATTEMPTS_STABLE_USEC)))
                a = (Attempts) { .since_usec = now, .state = a.state };
        a.count += a.count < MAX_COUNT;
        a.state = a.state == STATE_LIVE ? STATE_LIVED : STATE_FAILED;
        a.when_usec = now;
        note(c, &a);
}

void attempts_note_live(const DeviceConfig *c) {
        Attempts a = attempts_read(c);

        if (a.count == 0)
                return; /* nothing to compare with: whenever it ends, that is the first time */
        a.state = STATE_LIVE;
        a.when_usec = now_usec();
        note(c, &a);
}

void attempts_note_waited(const DeviceConfig *c) {
        Attempts a = attempts_read(c);

        if (a.count == 0)
                return;
        a.state = STATE_WAITED;
        note(c, &a);
}

void attempts_forget(uint32_t id) {
        _cleanup_free_ char *path = NULL;

        if (attempts_path(id, &path) >= 0 && unlink(path) < 0 && errno != ENOENT)
                log_warning("Can't remove %s, ignoring: %s", path, strerror(errno));
}

uint64_t attempts_delay(const DeviceConfig *c) {
        Attempts a = attempts_read(c);
        uint64_t delay = FIRST_DELAY_USEC, max = a.state == STATE_LIVED ? MAX_DELAY_LIVED_USEC : MAX_DELAY_USEC;

        if (a.count <= FREE_ATTEMPTS || a.state == STATE_WAITED || is_past(now_usec(), a.when_usec, FRESH_USEC))
                return 0;
        for (unsigned i = FREE_ATTEMPTS + 1; i < a.count && delay < max; i++)
                delay *= 2;
        return delay < max ? delay : max;
}

bool attempts_are_exhausted(const DeviceConfig *c, unsigned *ret_count, uint64_t *ret_usec) {
        Attempts a = attempts_read(c);
        uint64_t now = now_usec();

        if (a.count < ATTEMPTS_MAX || a.since_usec > now || now - a.since_usec < ATTEMPTS_MAX_USEC)
                return false;
        *ret_count = a.count;
        *ret_usec = now - a.since_usec;
        return true;
}
