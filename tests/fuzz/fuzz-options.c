/* SPDX-License-Identifier: MIT */

/*
 * The dictionaries of options and arguments that callers of the bus send. The input is a program that makes the message, since
 * that is what a caller can choose: what no message can be, the bus refuses before the service sees it. First the function that
 * reads it; then for each entry its key, the type of its value, and the value.
 */

#include "dbus/options.h"
#include "fuzz-bus.h"
#include "fuzz-config.h"
#include "service/text.h"

enum {
        READ_OPTIONS, /* CreateDevice, CheckHook */
        READ_CHANGES, /* Reconfigure */
        READ_FLAG,    /* DeleteDevice */
        READ_TIME,    /* ReloadDevice */
        READ_NONE,
        _READ_MAX,
};

static char *take_text(Input *in) {
        char *s = input_string(in);

        text_clean(s);
        return s;
}

static char *take_key(Input *in) {
        static const char *const others[] = { "keep-state", "trial-time", "size", "path", "key" };
        uint8_t choice = input_byte(in);
        const Option *o = option_at(choice);

        if (o)
                return strdup(o->name);
        return choice < 64 ? strdup(others[choice % ELEMENTSOF(others)]) : take_text(in);
}

static void append_value(sd_bus_message *m, Input *in, char type) {
        _cleanup_free_ char *s = NULL;
        union {
                double d;
                uint64_t t;
        } number;

        switch (type) {
        case 's':
                s = take_text(in);
                must(sd_bus_message_append(m, "v", "s", s) >= 0);
                break;
        case 'o':
                must(sd_bus_message_append(m, "v", "o", "/a") >= 0);
                break;
        case 'v':
                must(sd_bus_message_append(m, "v", "v", "s", "a") >= 0);
                break;
        case '(':
                must(sd_bus_message_append(m, "v", "(su)", "a", 1U) >= 0);
                break;
        case 'a':
                must(sd_bus_message_append(m, "v", "as", 1, "a") >= 0);
                break;
        case 'b':
                must(sd_bus_message_append(m, "v", "b", input_byte(in) & 1) >= 0);
                break;
        case 'd':
                number.t = input_number(in, 8);
                must(sd_bus_message_append(m, "v", "d", number.d) >= 0);
                break;
        case 'x':
        case 't':
                must(sd_bus_message_append(m, "v", (const char[]) { type, 0 }, input_number(in, 8)) >= 0);
                break;
        default:
                must(sd_bus_message_append(m, "v", (const char[]) { type, 0 }, (uint32_t) input_number(in, type == 'y' ? 1 : 4)) >= 0);
        }
}

static void append_entry(sd_bus_message *m, Input *in) {
        static const char types[] = "sutbdxyniqov(a";
        _cleanup_free_ char *key = take_key(in);

        must(key);
        must(sd_bus_message_open_container(m, 'e', "sv") >= 0);
        must(sd_bus_message_append(m, "s", key) >= 0);
        append_value(m, in, types[input_byte(in) % (ELEMENTSOF(types) - 1)]);
        must(sd_bus_message_close_container(m) >= 0);
}

static sd_bus_message *make_message(Input *in) {
        sd_bus_message *m = bus_call();

        must(sd_bus_message_open_container(m, 'a', "{sv}") >= 0);
        while (in->size > 0)
                append_entry(m, in);
        must(sd_bus_message_close_container(m) >= 0);
        bus_seal(m);
        return m;
}

static DeviceConfig *make_config(void) {
        DeviceConfig *c = device_config_new(OPTION_ID_ANY);

        must(c && xstrdup("disk0", &c->name) >= 0 && xstrdup("memory", &c->hook) >= 0);
        return c;
}

/* What was taken is told to others as it came, but for a secret. */
static void check_arguments(const DeviceConfig *c) {
        _cleanup_(device_config_freep) DeviceConfig *again = make_config();
        sd_bus_error e = SD_BUS_ERROR_NULL;
        sd_bus_message *m = bus_call();
        size_t n_secrets = 0;

        must(arguments_append(m, c) >= 0);
        bus_seal(m);
        must(options_read(m, again, &e) >= 0);
        for (size_t i = 0; i < c->n_arguments; i++) {
                const Argument *a = &c->arguments[i], *b = device_config_find_argument(again, a->name);

                if (b)
                        must(a->type == b->type && streq(a->value, b->value));
                else
                        n_secrets++;
        }
        must(n_secrets == (c->secrets != NULL) && again->n_arguments + n_secrets == c->n_arguments);
        sd_bus_message_unref(m);
}

static int read_options(sd_bus_message *m, sd_bus_error *e) {
        _cleanup_(device_config_freep) DeviceConfig *c = make_config();
        int r;

        r = options_read(m, c, e);
        if (r >= 0) {
                config_must_last(c);
                if (c->n_arguments > 0)
                        check_arguments(c);
        }
        return r;
}

static int read_changes(sd_bus_message *m, sd_bus_error *e) {
        _cleanup_(device_config_freep) DeviceConfig *c = make_config();
        int r;

        must(device_config_add_argument(c, "size", 't', "4096") >= 0);
        must(device_config_add_argument(c, "key", 's', "/etc/key") >= 0);
        must(device_config_set(c, "Secrets", "key", NULL) >= 0);
        r = arguments_change(m, c, e);
        must(streq(device_config_find_argument(c, "key")->value, "/etc/key"));
        if (r >= 0) {
                config_must_last(c);
                check_arguments(c);
        }
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint64_t time = 7, limit = UINT64_C(1) << 32;
        sd_bus_error e = SD_BUS_ERROR_NULL;
        Input in = { data, size };
        uint8_t reader = input_byte(&in);
        sd_bus_message *m = make_message(&in);
        bool flag;
        int r;

        switch (reader % _READ_MAX) {
        case READ_OPTIONS:
                r = read_options(m, &e);
                break;
        case READ_CHANGES:
                r = read_changes(m, &e);
                break;
        case READ_FLAG:
                r = options_read_flag(m, "keep-state", &flag, &e);
                break;
        case READ_TIME:
                r = options_read_time(m, "trial-time", limit, &time, &e);
                must(time <= limit);
                break;
        default:
                r = options_read_none(m, &e);
        }
        if (r < 0)
                bus_check_error(&e);
        else
                must(!sd_bus_error_is_set(&e));
        sd_bus_error_free(&e);
        sd_bus_message_unref(m);
        return 0;
}
