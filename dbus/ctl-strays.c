/* SPDX-License-Identifier: MIT */

/* The verb strays. */

#include "dbus/ctl.h"
#include "service/uapi.h"

#include <inttypes.h>

/* Longer than the service takes to stop a unit and to ask the kernel. */
#define CALL_TIMEOUT_USEC (120 * USEC_PER_SEC)

static json_t *list_strays(Ctl *c, const char *what) {
        sd_bus_message *m = ctl_new_call(c, "ListStrays"), *reply = NULL;
        json_t *strays;
        const char *why;
        uint32_t id;

        if (!m || ctl_call(c, m, CALL_TIMEOUT_USEC, what, &reply) < 0)
                return NULL;
        strays = json_array();
        if (sd_bus_message_enter_container(reply, 'a', "(us)") >= 0)
                while (sd_bus_message_read(reply, "(us)", &id, &why) > 0)
                        (void) json_array_append_new(strays, json_pack("{s:I, s:s}", "id", (json_int_t) id, "why", why));
        sd_bus_message_unref(reply);
        return strays;
}

static void print_strays(const Ctl *c, const json_t *strays) {
        size_t n = json_array_size(strays);

        if (c->legend && n > 0)
                printf("%4s %s\n", "ID", "WHY");
        for (size_t i = 0; i < n; i++) {
                const json_t *s = json_array_get(strays, i);

                printf("%4" JSON_INTEGER_FORMAT " %s\n", json_integer_value(json_object_get(s, "id")),
                       json_string_value(json_object_get(s, "why")));
        }
        if (c->legend)
                printf(n > 0 ? "\n%zu stray%s listed. To remove one: ublkctl strays --remove=ID\n" : "No strays.\n", n,
                       n == 1 ? "" : "s");
}

static int remove_stray(Ctl *c) {
        sd_bus_message *m;
        uint32_t id;
        int r;

        if (parse_u32(c->remove, UBLK_MAX_ID, &id) < 0) {
                fprintf(stderr, "ublkctl: --remove takes the id of a stray, not \"%s\". ublkctl strays lists them.\n", c->remove);
                return CTL_USAGE;
        }
        m = ctl_new_call(c, "RemoveStray");
        if (!m)
                return CTL_FAILED;
        r = sd_bus_message_append(m, "u", id);
        if (r >= 0)
                r = c->force ? sd_bus_message_append(m, "a{sv}", 1, "force", "b", true) : sd_bus_message_append(m, "a{sv}", 0);
        if (r < 0) {
                sd_bus_message_unref(m);
                return CTL_FAILED;
        }
        return ctl_call(c, m, CALL_TIMEOUT_USEC, c->remove, NULL) < 0 ? CTL_FAILED : CTL_OK;
}

int ctl_strays(Ctl *c, int argc, char **argv) {
        json_t *strays;

        (void) argc;
        if (c->remove)
                return remove_stray(c);
        if (c->force) {
                fputs("ublkctl: --force is for --remove. Usage: ublkctl strays [--remove=ID [--force]]\n", stderr);
                return CTL_USAGE;
        }
        strays = list_strays(c, argv[0]);
        if (!strays)
                return CTL_FAILED;
        if (c->json != JSON_OFF)
                ctl_print_json(c, strays);
        else {
                ctl_make_visible(strays);
                print_strays(c, strays);
                json_decref(strays);
        }
        return CTL_OK;
}
