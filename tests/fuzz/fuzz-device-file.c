/* SPDX-License-Identifier: MIT */

/* N.conf: written by the manager or by hand, read by manager, generator, control and worker. */

#include "dbus/options.h"
#include "fuzz-bus.h"
#include "fuzz-config.h"
#include "service/name.h"
#include "service/text.h"

/* On the bus its arguments have the types and values that they have in the file. */
static void check_arguments(const DeviceConfig *c) {
        _cleanup_(device_config_freep) DeviceConfig *again = device_config_new(c->id);
        sd_bus_error e = SD_BUS_ERROR_NULL;
        sd_bus_message *m = bus_call();

        must(again && xstrdup(c->name, &again->name) >= 0 && xstrdup(c->hook, &again->hook) >= 0);
        must(arguments_append(m, c) >= 0);
        bus_seal(m);
        /* A file may give an argument a name that is an option's. */
        if (options_read(m, again, &e) >= 0)
                for (size_t i = 0; i < again->n_arguments; i++) {
                        const Argument *a = &again->arguments[i], *b = device_config_find_argument(c, a->name);

                        must(b && a->type == b->type);
                        must(a->type != 's' || streq(a->value, b->value));
                }
        sd_bus_message_unref(m);
        sd_bus_error_free(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *text = NULL, *message = NULL;
        Input in = { data, size };
        int r;

        text = input_string(&in);
        r = device_config_parse(3, text, &c, &message);
        if (r < 0) {
                must(r == -EBADMSG && !c && message && text_is_valid(message));
                return 0;
        }
        must(!message && name_is_valid(c->name) && c->hook && c->data_path && c->n_arguments <= CONFIG_MAX_ARGUMENTS);
        config_must_last(c);
        check_arguments(c);
        return 0;
}
