/* SPDX-License-Identifier: MIT */
#pragma once

/* The a{sv} of CreateDevice ⇄ DeviceConfig: the service's own options by name and exact type, the rest for the hook. */

#include "service/config.h"

#include <systemd/sd-bus.h>

/* What DeviceConfig.id is where the caller asked for none. */
#define OPTION_ID_ANY UINT32_MAX

typedef struct Option {
        const char *name;
        char type;              /* the D-Bus type that it must have */
        const char *config_key; /* device_config_set; NULL: treated apart */
} Option;

/* One after the other; NULL past the last. */
const Option *option_at(size_t i);
/* NULL for what would be an argument of the hook. */
const Option *option_find(const char *name);

/* Reads the dictionary at the message's position into c. On error fills e with InvalidArgs (or NotSupported), which
 * names the key and what is allowed. */
int options_read(sd_bus_message *m, DeviceConfig *c, sd_bus_error *e);
/* For methods with one option, a boolean that is false if it is not given. */
int options_read_flag(sd_bus_message *m, const char *name, bool *ret, sd_bus_error *e);
/* For methods with one option, a time: t, in microseconds, at most max. What is not given stays as it is. */
int options_read_time(sd_bus_message *m, const char *name, uint64_t max, uint64_t *ret, sd_bus_error *e);
/* For methods that have no options yet: every key is unknown. */
int options_read_none(sd_bus_message *m, sd_bus_error *e);

/* Reads a dictionary of arguments alone, which take the place of those of the same name. On error as options_read; what is a
 * secret can't be changed, and neither can an option of the service's own. */
int arguments_change(sd_bus_message *m, DeviceConfig *c, sd_bus_error *e);

/* The hook's arguments as a{sv}, each in the type that it was given in. Secrets are left out. */
int arguments_append(sd_bus_message *m, const DeviceConfig *c);
