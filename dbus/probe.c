/* SPDX-License-Identifier: MIT */

/* What this kernel can do, asked of `ublk-ruby-control probe` since the manager has no capability to ask by itself. */

#include "dbus/calls.h"
#include "dbus/manager-bus.h"
#include "service/log.h"

/* Whoever reads that this kernel can't serve makes it be looked at again, but not more often. */
#define INTERVAL_USEC (2 * USEC_PER_SEC)

/* Lets every operation go on that waits. Each may end, and may change the list. */
static void wake_waiting(ManagerBus *mb) {
        for (Operation *op = mb->operations; op;) {
                if (!op->awaits_probe) {
                        op = op->next;
                        continue;
                }
                op->awaits_probe = false;
                op->then(op, 0);
                op = mb->operations;
        }
}

static int take_answer(Operation *op) {
        char *json = json_dumps(op->answer, JSON_COMPACT);
        int r;

        r = json ? manager_take_probe(op->mb->manager, json) : -ENOMEM;
        free(json);
        return r;
}

static void on_probed(Operation *op, int r) {
        bool first = !op->mb->ready;
        ManagerBus *mb = op->mb;

        if (r >= 0)
                r = take_answer(op);
        if (r < 0) {
                const char *why = op->step_error.message ? op->step_error.message : strerror(-r);

                log_warning("What this kernel supports is not known: %s", why);
                (void) manager_set_unsupported(mb->manager, why);
        } else if (!mb->manager->support.supported)
                log_notice("This kernel can't serve: %s", mb->manager->support.reason);
        mb->probe = operation_free(op);
        mb->probed_usec = now_usec();
        manager_bus_support_changed(mb);
        wake_waiting(mb);
        if (first)
                manager_bus_arrived(mb);
}

int probe_begin(ManagerBus *mb) {
        Operation *op;
        int r;

        if (mb->probe)
                return 0;
        r = operation_new(mb, NULL, 0, NULL, &op, NULL);
        if (r < 0)
                return r;
        mb->probe = op;
        if (!mb->ready)
                mb->n_awaited++;
        operation_run_control(op, "probe", on_probed);
        return 0;
}

static void probe_again(ManagerBus *mb) {
        int r;

        r = probe_begin(mb);
        if (r < 0)
                log_error_errno(r, "The probe can't be started");
}

static int on_due(sd_event_source *s, uint64_t usec, void *userdata) {
        ManagerBus *mb = userdata;

        (void) s, (void) usec;
        mb->probe_timer = sd_event_source_disable_unref(mb->probe_timer);
        probe_again(mb);
        return 0;
}

void probe_note_read(ManagerBus *mb) {
        uint64_t due = mb->probed_usec + INTERVAL_USEC, now = now_usec();

        if (mb->manager->support.supported || mb->probe || mb->probe_timer || mb->draining)
                return;
        if (now >= due)
                probe_again(mb);
        else
                (void) sd_event_add_time_relative(mb->event, &mb->probe_timer, CLOCK_MONOTONIC, due - now, 0, on_due, mb);
}

void operation_await_probe(Operation *op, OperationNext then) {
        int r;

        op->then = then;
        op->awaits_probe = true;
        r = probe_begin(op->mb);
        if (r < 0) {
                op->awaits_probe = false;
                then(op, r);
        }
}
