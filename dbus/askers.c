/* SPDX-License-Identifier: MIT */
#include "dbus/askers.h"

#include "dbus/errors.h"
#include "service/util.h"

static size_t count(const Askers *a, uid_t uid) {
        size_t n = 0;

        for (size_t i = 0; i < a->n; i++)
                n += a->all[i].uid == uid;
        return n;
}

int askers_add(Askers *a, sd_bus_message *m, uid_t uid, sd_bus_error *e) {
        Asker *grown;

        if (count(a, uid) >= ASKERS_MAX_PER_USER)
                return bus_error_setf(e, SD_BUS_ERROR_LIMITS_EXCEEDED,
                                      "%d calls of user id %u wait for this answer, which is the most; try again later.",
                                      ASKERS_MAX_PER_USER, uid);
        grown = reallocarray(a->all, a->n + 1, sizeof(Asker));
        if (!grown)
                return -ENOMEM;
        a->all = grown;
        a->all[a->n++] = (Asker) { .message = sd_bus_message_ref(m), .uid = uid };
        return 1;
}

void askers_done(Askers *a) {
        while (a->n > 0)
                sd_bus_message_unref(a->all[--a->n].message);
        free(a->all);
        a->all = NULL;
}
