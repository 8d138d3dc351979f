/* SPDX-License-Identifier: MIT */

/*
 * Manager.CheckHook: what is a hook, and what would it make of these arguments? They are written down as for a device, which
 * there never is, and ublk-ruby-check@hook-K.service has a look (service/examine.h). Its answer, which a hook may have had
 * a hand in, becomes a{sv}.
 */

#include "dbus/calls.h"
#include "dbus/manager-bus.h"
#include "dbus/operation.h"
#include "service/log.h"
#include "service/paths.h"

#include <inttypes.h>

/* No answer of ours is deeper. */
#define DEPTH_MAX 4

static int append_object(sd_bus_message *m, const json_t *object, int depth);

static int append_list(sd_bus_message *m, const json_t *list, int depth) {
        const json_t *item;
        size_t i;
        int r;

        r = sd_bus_message_open_container(m, 'v', "aa{sv}");
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "a{sv}");
        json_array_foreach(list, i, item)
                if (r >= 0 && json_is_object(item))
                        r = append_object(m, item, depth);
        for (int k = 0; r >= 0 && k < 2; k++)
                r = sd_bus_message_close_container(m);
        return r;
}

static int append_variant(sd_bus_message *m, const json_t *value, int depth) {
        int r;

        switch (json_typeof(value)) {
        case JSON_STRING:
                return sd_bus_message_append(m, "v", "s", json_string_value(value));
        case JSON_INTEGER:
                return sd_bus_message_append(m, "v", "t", (uint64_t) json_integer_value(value));
        case JSON_TRUE:
        case JSON_FALSE:
                return sd_bus_message_append(m, "v", "b", json_is_true(value));
        case JSON_ARRAY:
                return append_list(m, value, depth);
        default:
                r = sd_bus_message_open_container(m, 'v', "a{sv}");
                if (r >= 0)
                        r = append_object(m, value, depth);
                return r < 0 ? r : sd_bus_message_close_container(m);
        }
}

static bool can_be_told(const json_t *value) {
        return !json_is_null(value) && !json_is_real(value);
}

/* {sv} for each member, in an array that is open. */
static int append_members(sd_bus_message *m, const json_t *object, int depth) {
        const char *key;
        json_t *value;
        int r = 0;

        json_object_foreach((json_t *) object, key, value) {
                if (!can_be_told(value))
                        continue;
                r = sd_bus_message_open_container(m, 'e', "sv");
                if (r >= 0)
                        r = sd_bus_message_append(m, "s", key);
                if (r >= 0)
                        r = append_variant(m, value, depth);
                if (r >= 0)
                        r = sd_bus_message_close_container(m);
                if (r < 0)
                        return r;
        }
        return r;
}

static int append_object(sd_bus_message *m, const json_t *object, int depth) {
        int r;

        if (depth >= DEPTH_MAX)
                return -EBADMSG;
        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r >= 0 && json_is_object(object))
                r = append_members(m, object, depth + 1);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_report(sd_bus_message *m, const Operation *op) {
        const json_t *geometry = json_object_get(op->answer, "geometry");
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r >= 0)
                r = append_members(m, json_object_get(op->answer, "schema"), 1);
        if (r >= 0 && json_is_object(geometry)) {
                r = sd_bus_message_open_container(m, 'e', "sv");
                if (r >= 0)
                        r = sd_bus_message_append(m, "s", "geometry");
                if (r >= 0)
                        r = append_variant(m, geometry, 1);
                if (r >= 0)
                        r = sd_bus_message_close_container(m);
        }
        if (r >= 0 && sd_bus_error_is_set(&op->step_error))
                r = sd_bus_message_append(m, "{sv}{sv}", "error", "s", op->step_error.name, "message", "s", op->step_error.message);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static void reply(Operation *op) {
        sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_method_return(op->message, &m);
        if (r >= 0)
                r = append_report(m, op);
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
