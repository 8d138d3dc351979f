/* SPDX-License-Identifier: MIT */

/* The verbs that change something: create, delete, restart, reload, set, persist. */

#include "dbus/ctl.h"
#include "dbus/manager-bus.h"
#include "dbus/options.h"
#include "service/name.h"
#include "service/trial.h"

/* How long a call may take beside the hook's own start; the service's own limits end it before. */
#define CALL_TIMEOUT_USEC (120 * USEC_PER_SEC)

static int append_number(sd_bus_message *m, const Option *o, const char *text) {
        uint64_t v;

        if (parse_u64(text, o->type == 'u' ? UINT32_MAX : UINT64_MAX, &v) < 0) {
                fprintf(stderr, "ublkctl: %s takes a whole number, not \"%s\".\n", o->name, text);
                return -EINVAL;
        }
        if (o->type == 'u')
                return sd_bus_message_append(m, "v", "u", (uint32_t) v);
        return sd_bus_message_append(m, "v", "t", v);
}

static int append_boolean(sd_bus_message *m, const Option *o, const char *text) {
        bool b;

        if (parse_boolean(text, &b) < 0) {
                fprintf(stderr, "ublkctl: %s takes yes or no, not \"%s\".\n", o->name, text);
                return -EINVAL;
        }
        return sd_bus_message_append(m, "v", "b", b);
}

/* The service's own options have a type; what a hook makes of its arguments' text only the hook knows. */
static int append_value(sd_bus_message *m, const Option *o, const char *text) {
        if (!o || o->type == 's')
                return sd_bus_message_append(m, "v", "s", text);
        return o->type == 'b' ? append_boolean(m, o, text) : append_number(m, o, text);
}

/* NAME=VALUE */
static int append_assignment(sd_bus_message *m, const char *assignment, uint64_t *start_timeout) {
        const char *equals = strchr(assignment, '=');
        _cleanup_free_ char *key = NULL;
        const Option *o;
        int r;

        if (!equals || equals == assignment) {
                fprintf(stderr, "ublkctl: \"%s\" is not NAME=VALUE.\n", assignment);
                return -EINVAL;
        }
        key = strndup(assignment, (size_t) (equals - assignment));
        if (!key)
                return -ENOMEM;
        o = option_find(key);
        if (!o && !argument_name_is_valid(key)) {
                fprintf(stderr, "ublkctl: \"%s\" is neither an option of the service (ublkctl --help) nor a name for an argument "
                                "of a hook: a-z, 0-9 and _.\n", key);
                return -EINVAL;
        }
        if (o && streq(o->name, "start-timeout"))
                (void) parse_u64(equals + 1, CONFIG_MAX_TIMEOUT_USEC, start_timeout);
        r = sd_bus_message_open_container(m, 'e', "sv");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", key);
        if (r >= 0)
                r = append_value(m, o, equals + 1);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* A script may be given as in a shell; the service has another current directory. */
static int append_hook(sd_bus_message *m, const char *hook) {
        _cleanup_free_ char *path = NULL;

        if (strchr(hook, '/'))
                path = realpath(hook, NULL);
        return sd_bus_message_append(m, "s", path ? path : hook);
}

static int fill_create(sd_bus_message *m, bool dry_run, int argc, char **argv, uint64_t *start_timeout) {
        int r;

        r = dry_run ? 0 : sd_bus_message_append(m, "s", argv[1]);
        if (r >= 0)
                r = append_hook(m, argv[2]);
        if (r >= 0)
                r = sd_bus_message_open_container(m, 'a', "{sv}");
        for (int i = 3; r >= 0 && i < argc; i++)
                r = append_assignment(m, argv[i], start_timeout);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

/* What was made: its node alone, for scripts, or all of it. */
static int show_created(Ctl *c, const char *path) {
        json_t *device = ctl_get_all(c, path, "org.ublk.Device", "create");

        if (!device)
                return CTL_FAILED;
        if (c->json != JSON_OFF) {
                ctl_print_json(c, device);
                return CTL_OK;
        }
        puts(json_string_value(json_object_get(device, "Node")));
        json_decref(device);
        return CTL_OK;
}

/* What CheckHook says: whether it would do, and what it would be. */
static int show_report(Ctl *c, const char *name, sd_bus_message *reply) {
        const char *message;
        json_t *report, *geometry;
        char size[16];
        int status;

        if (json_from_message(reply, &report) < 0)
                return CTL_FAILED;
        message = json_string_value(json_object_get(report, "message"));
        status = message ? CTL_FAILED : CTL_OK;
        if (c->json != JSON_OFF) {
                ctl_print_json(c, report);
                return status;
        }
        geometry = json_object_get(report, "geometry");
        if (message) {
                _cleanup_free_ char *visible = ctl_visible(message, /* keep_lines= */ true);

                fprintf(stderr, "ublkctl: %s: %s\n", name, visible ? visible : "?");
        } else if (!geometry)
                printf("%s: the hook loads; what disk it makes can't be told before it has its unit.\n", name);
        else {
                format_size((uint64_t) json_integer_value(json_object_get(geometry, "size")), size);
                printf("%s: %s (%lld bytes) in blocks of %lld bytes, recovery %s%s\n", name, size,
                       (long long) json_integer_value(json_object_get(geometry, "size")),
                       (long long) json_integer_value(json_object_get(geometry, "logical-block-size")),
                       json_string_value(json_object_get(geometry, "recovery")),
                       json_is_true(json_object_get(geometry, "read-only")) ? ", read-only" : "");
        }
        json_decref(report);
        return status;
}

int ctl_create(Ctl *c, int argc, char **argv) {
        uint64_t start_timeout = CONFIG_DEFAULT_START_TIMEOUT_USEC;
        sd_bus_message *m, *reply = NULL;
        const char *path;
        int r;

        m = ctl_new_call(c, c->dry_run ? "CheckHook" : "CreateDevice");
        if (!m)
                return CTL_FAILED;
        r = fill_create(m, c->dry_run, argc, argv, &start_timeout);
        if (r < 0) {
                sd_bus_message_unref(m);
                return r == -EINVAL ? CTL_USAGE : CTL_FAILED;
        }
        r = ctl_call(c, m, CALL_TIMEOUT_USEC + start_timeout, argv[1], &reply);
        if (r < 0)
                return CTL_FAILED;
        if (c->dry_run)
                r = show_report(c, argv[1], reply);
        else {
                r = sd_bus_message_read(reply, "o", &path);
                r = r < 0 ? CTL_FAILED : show_created(c, path);
        }
        sd_bus_message_unref(reply);
        return r;
}

/* option: NULL, or one that is true. */
static sd_bus_message *new_device_call(Ctl *c, const char *method, const char *device, const char *option) {
        sd_bus_message *m = ctl_new_call(c, method);
        int r;

        if (!m)
                return NULL;
        r = option ? sd_bus_message_append(m, "sa{sv}", device, 1, option, "b", true) :
                     sd_bus_message_append(m, "sa{sv}", device, 0);
        return r < 0 ? sd_bus_message_unref(m) : m;
}

/* Who uses a device tells nobody when he is through with it, so it is tried again. */
static int call_until_free(Ctl *c, const char *method, const char *device, const char *option) {
        for (;;) {
                sd_bus_message *m = new_device_call(c, method, device, option);
                int r = m ? ctl_try(c, m, CALL_TIMEOUT_USEC, device) : -ENOMEM;

                if (r <= 0)
                        return r;
                (void) usleep(CTL_WAIT_USEC);
        }
}

static int call_once(Ctl *c, const char *method, const char *device, const char *option) {
        sd_bus_message *m = new_device_call(c, method, device, option);

        return m ? ctl_call(c, m, CALL_TIMEOUT_USEC, device, NULL) : -ENOMEM;
}

/* One after the other; the first failure does not keep the others from being tried. */
static int call_for_each(Ctl *c, const char *method, const char *option, int argc, char **argv) {
        int status = CTL_OK;

        for (int i = 1; i < argc; i++)
                if ((c->wait ? call_until_free : call_once)(c, method, argv[i], option) < 0)
                        status = CTL_FAILED;
        return status;
}

int ctl_delete(Ctl *c, int argc, char **argv) {
        return call_for_each(c, "DeleteDevice", c->keep_state ? "keep-state" : NULL, argc, argv);
}

int ctl_restart(Ctl *c, int argc, char **argv) {
        return call_for_each(c, "RestartDevice", NULL, argc, argv);
}

static int append_reload(sd_bus_message *m, const char *device, const uint64_t *trial_time) {
        if (trial_time)
                return sd_bus_message_append(m, "sa{sv}", device, 1, "trial-time", "t", *trial_time);
        return sd_bus_message_append(m, "sa{sv}", device, 0);
}

static int reload_one(Ctl *c, const char *device, const uint64_t *trial_time) {
        sd_bus_message *m = ctl_new_call(c, "ReloadDevice");

        if (!m || append_reload(m, device, trial_time) < 0) {
                sd_bus_message_unref(m);
                return CTL_FAILED;
        }
        /* The code is loaded to be looked at, then in its worker, and then the old one may have to come back. */
        return ctl_call(c, m, 3 * CALL_TIMEOUT_USEC + (trial_time ? *trial_time : TRIAL_DEFAULT_USEC), device, NULL) < 0 ? CTL_FAILED : CTL_OK;
}

static int parse_trial_time(const Ctl *c, uint64_t *ret) {
        if (!c->trial_time || parse_u64(c->trial_time, TRIAL_MAX_USEC, ret) >= 0)
                return 0;
        fprintf(stderr, "ublkctl: --trial-time= takes 0 to %llu microseconds, not \"%s\".\n", (unsigned long long) TRIAL_MAX_USEC,
                c->trial_time);
        return -EINVAL;
}

int ctl_reload(Ctl *c, int argc, char **argv) {
        uint64_t trial_time = 0;
        int status = CTL_OK;

        if (parse_trial_time(c, &trial_time) < 0)
                return CTL_USAGE;
        for (int i = 1; i < argc; i++)
                if (reload_one(c, argv[i], c->trial_time ? &trial_time : NULL) != CTL_OK)
                        status = CTL_FAILED;
        return status;
}

int ctl_persist(Ctl *c, int argc, char **argv) {
        _cleanup_free_ char *path = NULL;
        sd_bus_message *m = NULL;
        bool persistent;
        int r;

        (void) argc;
        if (parse_boolean(argv[2], &persistent) < 0) {
                fprintf(stderr, "ublkctl: persist takes yes or no, not \"%s\".\n", argv[2]);
                return CTL_USAGE;
        }
        if (ctl_get_device(c, argv[1], &path) < 0)
                return CTL_FAILED;
        r = sd_bus_message_new_method_call(c->bus, &m, MANAGER_NAME, path, "org.ublk.Device", "SetPersistent");
        if (r >= 0)
                r = sd_bus_message_append(m, "ba{sv}", persistent, 0);
        if (r < 0) {
                sd_bus_message_unref(m);
                return CTL_FAILED;
        }
        return ctl_call(c, m, CALL_TIMEOUT_USEC, argv[1], NULL) < 0 ? CTL_FAILED : CTL_OK;
}

/* What is text for the hook's own type to read, also where the service has an option of that name, which it then refuses. */
static int append_text(sd_bus_message *m, const char *assignment) {
        const char *equals = strchr(assignment, '=');
        _cleanup_free_ char *key = NULL;

        if (!equals || equals == assignment) {
                fprintf(stderr, "ublkctl: \"%s\" is not NAME=VALUE.\n", assignment);
                return -EINVAL;
        }
        key = strndup(assignment, (size_t) (equals - assignment));
        return key ? sd_bus_message_append(m, "{sv}", key, "s", equals + 1) : -ENOMEM;
}

static int fill_set(sd_bus_message *m, int argc, char **argv, const uint64_t *trial_time) {
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        for (int i = 2; r >= 0 && i < argc; i++)
                r = append_text(m, argv[i]);
        if (r >= 0)
                r = sd_bus_message_close_container(m);
        if (r < 0)
                return r;
        return trial_time ? sd_bus_message_append(m, "a{sv}", 1, "trial-time", "t", *trial_time) : sd_bus_message_append(m, "a{sv}", 0);
}

int ctl_set(Ctl *c, int argc, char **argv) {
        _cleanup_free_ char *path = NULL;
        uint64_t trial_time = TRIAL_DEFAULT_USEC;
        sd_bus_message *m = NULL;
        int r;

        if (parse_trial_time(c, &trial_time) < 0)
                return CTL_USAGE;
        if (ctl_get_device(c, argv[1], &path) < 0)
                return CTL_FAILED;
        r = sd_bus_message_new_method_call(c->bus, &m, MANAGER_NAME, path, "org.ublk.Device", "Reconfigure");
        if (r >= 0)
                r = fill_set(m, argc, argv, c->trial_time ? &trial_time : NULL);
        if (r < 0) {
                sd_bus_message_unref(m);
                return r == -EINVAL ? CTL_USAGE : CTL_FAILED;
        }
        return ctl_call(c, m, 3 * CALL_TIMEOUT_USEC + trial_time, argv[1], NULL) < 0 ? CTL_FAILED : CTL_OK;
}
