/* SPDX-License-Identifier: MIT */
#include "dbus/answer.h"

#include "dbus/errors.h"
#include "service/text.h"

int answer_parse(const char *text, json_t **ret) {
        json_t *answer = json_loads(text, 0, NULL);

        if (!json_is_object(answer)) {
                json_decref(answer);
                return -EBADMSG;
        }
        *ret = answer;
        return 0;
}

int answer_check(const json_t *answer, const char *unit, sd_bus_error *e) {
        json_t *object = json_object_get(answer, "failure");
        json_int_t error = json_integer_value(json_object_get(answer, "error"));
        Failure f = FAILURE_NULL;

        if (error == 0)
                return 0;
        if (error < 0 || error > 4095)
                error = EIO;
        if (object && failure_from_json(object, &f) >= 0)
                (void) bus_error_set_failure(e, &f);
        else
                bus_error_setf(e, BUS_ERROR_WORKER_FAILED, "%s: %s", unit, strerror((int) error));
        failure_done(&f);
        return (int) -error;
}

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

/* JSON lets more pass than the bus. */
static int append_string(sd_bus_message *m, const char *s) {
        _cleanup_free_ char *copy = strdup(s);

        if (!copy)
                return -ENOMEM;
        text_clean(copy);
        return sd_bus_message_append(m, "v", "s", copy);
}

static int append_variant(sd_bus_message *m, const json_t *value, int depth) {
        int r;

        switch (json_typeof(value)) {
        case JSON_STRING:
                return append_string(m, json_string_value(value));
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

static bool can_be_told(const char *key, const json_t *value) {
        return text_is_valid(key) && !json_is_null(value) && !json_is_real(value);
}

/* {sv} for each member, in an array that is open. */
static int append_members(sd_bus_message *m, const json_t *object, int depth) {
        const char *key;
        json_t *value;
        int r = 0;

        json_object_foreach((json_t *) object, key, value) {
                if (!can_be_told(key, value))
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

int answer_append_report(sd_bus_message *m, const json_t *answer, const sd_bus_error *error) {
        const json_t *geometry = json_object_get(answer, "geometry");
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        if (r >= 0)
                r = append_members(m, json_object_get(answer, "schema"), 1);
        if (r >= 0 && json_is_object(geometry)) {
                r = sd_bus_message_open_container(m, 'e', "sv");
                if (r >= 0)
                        r = sd_bus_message_append(m, "s", "geometry");
                if (r >= 0)
                        r = append_variant(m, geometry, 1);
                if (r >= 0)
                        r = sd_bus_message_close_container(m);
        }
        if (r >= 0 && sd_bus_error_is_set(error))
                r = sd_bus_message_append(m, "{sv}{sv}", "error", "s", error->name, "message", "s", error->message);
        return r < 0 ? r : sd_bus_message_close_container(m);
}
