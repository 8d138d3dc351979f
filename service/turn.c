/* SPDX-License-Identifier: MIT */
#include "service/turn.h"

#include "service/activation-attempts.h"
#include "service/end-reason.h"
#include "service/log.h"
#include "service/paths.h"

#include <time.h>

#define QUERY_USEC USEC_PER_SEC
#define TICK_USEC (250 * USEC_PER_MSEC)

/* The start that has failed is still a job: it ends when this does. */
static bool is_wanted(uint32_t id, UnitJobQuery job_type) {
        _cleanup_free_ char *unit = NULL, *type = NULL;

        return xasprintf(&unit, UNIT_DEVICE, id) >= 0 && job_type(unit, QUERY_USEC, &type) >= 0 && !streq(type, "none") &&
               !streq(type, "start");
}

static bool is_mended(const DeviceConfig *c, int exit_status) {
        Failure ignored = FAILURE_NULL;
        bool mended;

        if (exit_status != EXIT_CREDENTIALS)
                return false;
        mended = secrets_are_there(c, &ignored);
        failure_done(&ignored);
        return mended;
}

static void say_why(const DeviceConfig *c, int exit_status, uint64_t delay) {
        _cleanup_free_ char *text = NULL;
        Failure f = FAILURE_NULL;

        if (end_reason(c, exit_status, NULL, &f) > 0)
                (void) failure_describe(&f, &text);
        failure_done(&f);
        log_warning("The last starts of %s all failed; the next one begins in %.1f s. %s.", c->name, (double) delay / USEC_PER_SEC,
                    text ? text : "systemd could not run the worker");
}

void turn_await(uint32_t id, int exit_status, UnitJobQuery job_type) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL;
        uint64_t delay, deadline;
        bool secrets_are_gone;

        if (exit_status < EXIT_SYSTEMD_MIN || exit_status > EXIT_SYSTEMD_MAX || device_config_load(id, &c, &message) < 0)
                return;
        delay = attempts_delay(c);
        if (delay == 0)
                return;
        say_why(c, exit_status, delay);
        deadline = now_usec() + delay;
        secrets_are_gone = exit_status == EXIT_CREDENTIALS && !is_mended(c, exit_status);
        while (now_usec() < deadline && !is_wanted(id, job_type) && !(secrets_are_gone && is_mended(c, exit_status)))
                (void) nanosleep(&(struct timespec) { .tv_nsec = TICK_USEC * NSEC_PER_USEC }, NULL);
        attempts_note_waited(c);
}
