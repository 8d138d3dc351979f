/* SPDX-License-Identifier: MIT */
#include "service/report.h"

#include "service/log.h"
#include "service/supervisor.h"

#include <pthread.h>
#include <systemd/sd-journal.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t interval_start;
static unsigned n_reported, n_suppressed;

/* Whether this one is to be reported; *ret_suppressed is how many were not since the last one that was. */
static bool take_turn(unsigned *ret_suppressed) {
        uint64_t now = now_usec();
        bool turn;

        pthread_mutex_lock(&lock);
        if (now - interval_start >= REPORT_INTERVAL_USEC) {
                interval_start = now;
                n_reported = 0;
        }
        turn = n_reported < REPORT_BURST;
        if (turn) {
                n_reported++;
                *ret_suppressed = n_suppressed;
                n_suppressed = 0;
        } else
                n_suppressed++;
        pthread_mutex_unlock(&lock);
        return turn;
}

static void send_entry(const char *device, const Request *request, const Failure *failure, const char *text, unsigned suppressed) {
        const char *class_name = failure->class_name ? failure->class_name : "";
        const char *op = request ? operation_to_string(request->op) : NULL;

        if (!request || !op) {
                (void) sd_journal_send("PRIORITY=%i", LOG_ERR, "MESSAGE=%s: %s", device, text,
                                       "UBLK_DEVICE=%s", device, "RUBY_CLASS=%s", class_name,
                                       "UBLK_SUPPRESSED=%u", suppressed, NULL);
                return;
        }
        (void) sd_journal_send("PRIORITY=%i", LOG_ERR,
                               "MESSAGE=%s: %s of %llu bytes at %llu failed (errno %i): %s", device, op,
                               (unsigned long long) request->length, (unsigned long long) request->offset,
                               request->result < 0 ? -request->result : failure->error, text,
                               "UBLK_DEVICE=%s", device, "UBLK_OP=%s", op,
                               "UBLK_OFFSET=%llu", (unsigned long long) request->offset,
                               "UBLK_LENGTH=%llu", (unsigned long long) request->length,
                               "UBLK_ERRNO=%i", request->result < 0 ? -request->result : failure->error,
                               "UBLK_SUPPRESSED=%u", suppressed, "RUBY_CLASS=%s", class_name, NULL);
}

void report_failure(const char *device, const Request *request, const Failure *failure) {
        _cleanup_free_ char *text = NULL;
        unsigned suppressed = 0;

        if (!take_turn(&suppressed) || failure_describe_fully(failure, &text) < 0)
                return;
        if (suppressed > 0)
                log_warning("%s: %u more errors of the hook were not logged", device, suppressed);
        send_entry(device, request, failure, text, suppressed);
        supervisor_publish(failure);
}

void report_stuck(const char *device, const CallView *call, unsigned stage, uint64_t age_usec, const char *text) {
        const char *op = operation_to_string(call->op);

        if (!op)
                op = "unknown";
        (void) sd_journal_send("PRIORITY=%i", stage < 3 ? LOG_WARNING : LOG_ERR,
                               "MESSAGE=%s: %s", device, text, "UBLK_DEVICE=%s", device, "UBLK_OP=%s", op,
                               "UBLK_OFFSET=%llu", (unsigned long long) call->offset,
                               "UBLK_LENGTH=%llu", (unsigned long long) call->length,
                               "UBLK_STAGE=%u", stage, "UBLK_AGE_USEC=%llu", (unsigned long long) age_usec, NULL);
}
