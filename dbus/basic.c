/* SPDX-License-Identifier: MIT */
#include "dbus/basic.h"

#include <inttypes.h>

int basic_read(sd_bus_message *m, char type, BasicValue *ret) {
        BasicValue v = {};
        int r;

        if (!type || !strchr("ybnqiuxtdsog", type))
                return -EINVAL;
        r = sd_bus_message_read_basic(m, type, &v);
        if (r < 0)
                return r;
        *ret = v;
        return r;
}

uint64_t basic_to_integer(const BasicValue *v, char type) {
        switch (type) {
        case 'y':
                return v->y;
        case 'n':
                return (uint64_t) v->n;
        case 'q':
                return v->q;
        case 'i':
                return (uint64_t) v->i;
        case 'u':
                return v->u;
        case 'x':
                return (uint64_t) v->x;
        default:
                return v->t;
        }
}

int basic_to_text(const BasicValue *v, char type, char **ret) {
        switch (type) {
        case 'b':
                return xstrdup(v->b ? "true" : "false", ret);
        case 'd':
                return xasprintf(ret, "%.17g", v->d);
        case 's':
        case 'o':
        case 'g':
                return xstrdup(v->s, ret);
        case 'n':
        case 'i':
        case 'x':
                return xasprintf(ret, "%" PRIi64, (int64_t) basic_to_integer(v, type));
        default:
                return xasprintf(ret, "%" PRIu64, basic_to_integer(v, type));
        }
}
