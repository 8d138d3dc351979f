/* SPDX-License-Identifier: MIT */
#include "dbus/options.h"

#include "dbus/basic.h"
#include "dbus/errors.h"
#include "service/secret.h"
#include "service/uapi.h"

static const Option options[] = {
        { "queues",        'u', "Queues" },
        { "depth",         'u', "Depth" },
        { "max-io-size",   'u', "MaxIOSize" },
        { "read-only",     'b', "ReadOnly" },
        { "recovery",      's', "Recovery" },
        { "on-failure",    's', "OnFailure" },
        { "id",            'u', NULL },
        { "persistent",    'b', NULL },
        { "mlock",         'b', "Mlock" },
        { "hook-timeout",  't', "HookTimeoutUSec" },
        { "start-timeout", 't', "StartTimeoutUSec" },
        { "partscan",      'b', "PartScan" },
        { "data-path",     's', "DataPath" },
        { "class",         's', "Class" },
        { "processes",     'u', NULL },
        { "concurrency",   'u', NULL },
};

#define OPTIONS_TEXT                                                                                               \
        "queues (u), depth (u), max-io-size (u), read-only (b), recovery (s), on-failure (s), id (u), "            \
        "persistent (b), mlock (b), hook-timeout (t), start-timeout (t), partscan (b), data-path (s), class (s)"

const Option *option_at(size_t i) {
        return i < ELEMENTSOF(options) ? &options[i] : NULL;
}

const Option *option_find(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(options); i++)
                if (streq(options[i].name, name))
                        return &options[i];
        return NULL;
}

static int set_id(DeviceConfig *c, const char *text, sd_bus_error *e) {
        if (parse_u32(text, UBLK_MAX_ID, &c->id) < 0)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "Option id must be 0 to %u, not %s.",
                                      UBLK_MAX_ID, text);
        return 0;
}

static int refuse_undone(const char *name, sd_bus_error *e) {
        return bus_error_setf(e, SD_BUS_ERROR_NOT_SUPPORTED,
                              "Option %s: this version (" PROJECT_VERSION ") doesn't do it yet. Leave it out.", name);
}

static int set_special(DeviceConfig *c, const Option *o, const char *text, sd_bus_error *e) {
        if (streq(o->name, "id"))
                return set_id(c, text, e);
        if (streq(o->name, "persistent"))
                return parse_boolean(text, &c->persistent);
        return refuse_undone(o->name, e);
}

/* A promise that nothing here keeps would be found out when it is needed. The defaults are what is done. */
static int check_done(const DeviceConfig *c, const Option *o, sd_bus_error *e) {
        bool done = !streq(o->name, "data-path") || strncmp(c->data_path, "routed", strlen("routed")) != 0;

        return done ? 0 : refuse_undone(o->name, e);
}

/* One queue per CPU is the most that the block layer spreads over; how many there are only the machine knows. */
static int check_queues(const DeviceConfig *c, sd_bus_error *e) {
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);

        if (cpus > 0 && c->queues > (unsigned long) cpus)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                      "Option queues must be 1 to the number of CPUs, which is %ld, not %u.", cpus,
                                      c->queues);
        return 0;
}

static int set_own(DeviceConfig *c, const Option *o, const char *text, sd_bus_error *e) {
        const char *limits = NULL;
        int r;

        if (!o->config_key)
                return set_special(c, o, text, e);
        r = device_config_set(c, o->config_key, text, &limits);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "Option %s must be %s, not \"%.64s\".", o->name,
                                      limits ? limits : "known", text);
        return streq(o->name, "queues") ? check_queues(c, e) : check_done(c, o, e);
}

static int set_argument(DeviceConfig *c, const char *key, char type, const char *text, sd_bus_error *e) {
        switch (device_config_add_argument(c, key, type, text)) {
        case 0:
                return 0;
        case -ENOMEM:
                return -ENOMEM;
        case -EEXIST:
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "Argument %s is given twice.", key);
        case -E2BIG:
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                      "Argument %s: a hook takes at most %d arguments of at most %d bytes.", key,
                                      CONFIG_MAX_ARGUMENTS, CONFIG_MAX_VALUE);
        default:
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                      "Unknown option \"%.64s\". The service's own are " OPTIONS_TEXT
                                      "; an argument of the hook has a name of a-z, 0-9 and _.",
                                      key);
        }
}

static int read_option(sd_bus_message *m, DeviceConfig *c, const char *key, sd_bus_error *e) {
        _cleanup_free_ char *text = NULL;
        const Option *o = option_find(key);
        const char *contents;
        BasicValue v;
        int r;

        r = sd_bus_message_peek_type(m, NULL, &contents);
        if (r < 0)
                return r;
        if (o && (contents[0] != o->type || contents[1]))
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                      "Option %s has D-Bus type %s, it must have type %c.", key, contents, o->type);
        if (contents[1] || !strchr("ybnqiuxtds", contents[0]))
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                      "Argument %.64s has D-Bus type %s; a hook takes y b n q i u x t d s.", key,
                                      contents);
        r = sd_bus_message_enter_container(m, 'v', contents);
        if (r < 0)
                return r;
        r = basic_read(m, contents[0], &v);
        if (r >= 0)
                r = basic_to_text(&v, contents[0], &text);
        if (r < 0)
                return r;
        r = o ? set_own(c, o, text, e) : set_argument(c, key, contents[0], text, e);
        if (r < 0)
                return r;
        return sd_bus_message_exit_container(m);
}

/* A key of the service's own given twice would silently win over the first, so it is refused as well. */
static int note_seen(const char *key, uint32_t *seen, sd_bus_error *e) {
        const Option *o = option_find(key);
        uint32_t bit = o ? UINT32_C(1) << (o - options) : 0;

        if (*seen & bit)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "Option %s is given twice.", key);
        *seen |= bit;
        return 0;
}

/* All of it has to fit into the device's file, or nobody could read that again. */
static int check_file_size(const DeviceConfig *c, sd_bus_error *e) {
        _cleanup_free_ char *text = NULL;
        int r;

        r = device_config_serialize(c, &text);
        if (r == -E2BIG)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                      "The arguments of the hook are longer than a device's file may be, %d bytes in all.",
                                      CONFIG_MAX_FILE);
        return r;
}

int options_read(sd_bus_message *m, DeviceConfig *c, sd_bus_error *e) {
        uint32_t seen = 0;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                const char *key;

                r = sd_bus_message_read(m, "s", &key);
                if (r < 0)
                        return r;
                r = note_seen(key, &seen, e);
                if (r < 0)
                        return r;
                r = read_option(m, c, key, e);
                if (r < 0)
                        return r;
                r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        return r < 0 ? r : check_file_size(c, e);
}

static int change_argument(sd_bus_message *m, DeviceConfig *c, const char *key, sd_bus_error *e) {
        _cleanup_free_ char *text = NULL;
        const char *contents;
        BasicValue v;
        int r;

        if (option_find(key))
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                      "%s is an option of the service, and fixed when a device is made; an argument of its hook can be changed.", key);
        if (secret_is_listed(c->secrets, key))
                return bus_error_setf(e, SD_BUS_ERROR_NOT_SUPPORTED,
                                      "Argument %s is a secret, which its unit has. Change what is in its file, and restart the device.", key);
        r = sd_bus_message_peek_type(m, NULL, &contents);
        if (r < 0)
                return r;
        if (contents[1] || !strchr("ybnqiuxtds", contents[0]))
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "Argument %.64s has D-Bus type %s; a hook takes y b n q i u x t d s.", key,
                                      contents);
        r = sd_bus_message_enter_container(m, 'v', contents);
        if (r >= 0)
                r = basic_read(m, contents[0], &v);
        if (r >= 0)
                r = basic_to_text(&v, contents[0], &text);
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r < 0)
                return r;
        r = device_config_set_argument(c, key, contents[0], text);
        return r == -EINVAL || r == -E2BIG ? set_argument(c, key, contents[0], text, e) : r; /* which says why */
}

int arguments_change(sd_bus_message *m, DeviceConfig *c, sd_bus_error *e) {
        size_t n = 0;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "{sv}");
        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                const char *key;

                n++;
                r = sd_bus_message_read(m, "s", &key);
                if (r >= 0)
                        r = change_argument(m, c, key, e);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
        }
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r >= 0 && n == 0)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "No argument is given that is to be changed.");
        return r < 0 ? r : check_file_size(c, e);
}

/* One entry of a dictionary in which name, of that type, is the one key that may be there: up to its value. */
static int enter_option(sd_bus_message *m, const char *name, const char *type, bool *seen, sd_bus_error *e) {
        const char *key, *contents;
        int r;

        r = sd_bus_message_read(m, "s", &key);
        if (r < 0)
                return r;
        if (!name)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "Unknown option \"%.64s\": this method takes none yet.", key);
        if (!streq(key, name))
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "Unknown option \"%.64s\": this method takes %s (%s).", key,
                                      name, type);
        if (*seen)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "Option %s is given twice.", key);
        *seen = true;
        r = sd_bus_message_peek_type(m, NULL, &contents);
        if (r < 0)
                return r;
        return streq(contents, type) ? 0 :
                bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "Option %s has D-Bus type %s, it must have type %s.", key, contents, type);
}

/* The value goes to ret, which is of the type. name: NULL for none. */
static int read_one_option(sd_bus_message *m, const char *name, const char *type, void *ret, sd_bus_error *e) {
        bool seen = false;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                r = enter_option(m, name, type, &seen, e);
                if (r >= 0)
                        r = sd_bus_message_read(m, "v", type, ret);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        return r < 0 ? r : 0;
}

int options_read_flag(sd_bus_message *m, const char *name, bool *ret, sd_bus_error *e) {
        int flag = 0, r;

        r = read_one_option(m, name, "b", &flag, e);
        if (r >= 0)
                *ret = flag;
        return r;
}

int options_read_time(sd_bus_message *m, const char *name, uint64_t max, uint64_t *ret, sd_bus_error *e) {
        uint64_t usec = *ret;
        int r;

        r = read_one_option(m, name, "t", &usec, e);
        if (r < 0)
                return r;
        if (usec > max)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "Option %s must be 0 to %llu microseconds, not %llu.", name,
                                      (unsigned long long) max, (unsigned long long) usec);
        *ret = usec;
        return 0;
}

int options_read_none(sd_bus_message *m, sd_bus_error *e) {
        return read_one_option(m, NULL, "", NULL, e);
}

static int append_number(sd_bus_message *m, char type, const char *text) {
        int64_t x = strtoll(text, NULL, 10);
        uint64_t t = strtoull(text, NULL, 10);
        double d = strtod(text, NULL);
        bool b;

        switch (type) {
        case 'b':
                return sd_bus_message_append(m, "v", "b", parse_boolean(text, &b) >= 0 && b);
        case 'd':
                return sd_bus_message_append(m, "v", "d", d);
        case 'y':
                return sd_bus_message_append(m, "v", "y", (uint8_t) t);
        case 'n':
                return sd_bus_message_append(m, "v", "n", (int16_t) x);
        case 'q':
                return sd_bus_message_append(m, "v", "q", (uint16_t) t);
        case 'i':
                return sd_bus_message_append(m, "v", "i", (int32_t) x);
        case 'u':
                return sd_bus_message_append(m, "v", "u", (uint32_t) t);
        case 'x':
                return sd_bus_message_append(m, "v", "x", x);
        case 't':
                return sd_bus_message_append(m, "v", "t", t);
        }
        return -EINVAL;
}

static int argument_append(sd_bus_message *m, const Argument *a) {
        int r;

        r = sd_bus_message_open_container(m, 'e', "sv");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", a->name);
        if (r >= 0)
                r = a->type == 's' ? sd_bus_message_append(m, "v", "s", a->value) : append_number(m, a->type, a->value);
        if (r < 0)
                return r;
        return sd_bus_message_close_container(m);
}

int arguments_append(sd_bus_message *m, const DeviceConfig *c) {
        int r;

        r = sd_bus_message_open_container(m, 'a', "{sv}");
        for (size_t i = 0; r >= 0 && i < c->n_arguments; i++)
                if (!secret_is_listed(c->secrets, c->arguments[i].name))
                        r = argument_append(m, &c->arguments[i]);
        return r < 0 ? r : sd_bus_message_close_container(m);
}
