/* SPDX-License-Identifier: MIT */

/*
 * Manager.CheckHook: what is a hook, and what would it make of these arguments? They are written down as for a device, which
 * there never is, and ublk-ruby-check@hook-K.service has a look (service/examine.h). Its answer, which a hook may have had
 * a hand in, becomes a{sv}.
 */

#include "dbus/answer.h"
#include "dbus/calls.h"
#include "dbus/manager-bus.h"
#include "dbus/operation.h"
#include "service/log.h"
#include "service/paths.h"

#include <inttypes.h>

static void reply(Operation *op) {
        sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_method_return(op->message, &m);
        if (r >= 0)
                r = answer_append_report(m, op->answer, &op->step_error);
        if (r >= 0)
                r = sd_bus_send(NULL, m, NULL);
        sd_bus_message_unref(m);
        if (r < 0) {
                operation_set_error(op, SD_BUS_ERROR_FAILED, "What there is to tell can't be told: %s", strerror(-r));
                operation_fail(op);
        } else
                operation_free(op);
}

static void forget_proposal(const Operation *op) {
        if (unlink(op->proposal_path) < 0 && errno != ENOENT)
                log_warning("%s can't be removed, ignoring: %s", op->proposal_path, strerror(errno));
}

static void on_checked(Operation *op, int r) {
        forget_proposal(op);
        if (r < 0 && !op->answer) {
                operation_keep_step_error(op);
                operation_fail(op);
        } else
                reply(op);
}

int check_hook_begin(ManagerBus *mb, sd_bus_message *m, DeviceConfig *config, sd_bus_error *e) {
        char instance[32];
        uint32_t number;
        Operation *op;
        int r;
        uid_t uid;

        /* It is run, if not for long. */
        r = authorise(mb, m, create_action(config), /* name= */ "", config->hook, &uid, e);
        if (r <= 0)
                return r < 0 ? r : 1;
        r = operation_new(mb, m, uid, NULL, &op, e);
        if (r < 0)
                return r;
        number = mb->n_proposals++;
        r = config_path(&op->proposal_path, PATH_PROPOSALS "/%" PRIu32 ".conf", number);
        if (r >= 0)
                r = device_config_save_to(config, op->proposal_path);
        if (r < 0) {
                operation_set_error(op, SD_BUS_ERROR_FAILED, "The arguments can't be written down: %s", strerror(-r));
                operation_fail(op);
                return 1;
        }
        (void) snprintf(instance, sizeof(instance), PROPOSAL_PREFIX "%" PRIu32, number);
        operation_run_check_of(op, instance, on_checked);
        return 1;
}
