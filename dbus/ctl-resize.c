/* SPDX-License-Identifier: MIT */

/* The verb resize. */

#include "dbus/ctl.h"
#include "dbus/device-bus.h"
#include "dbus/manager-bus.h"

#include <inttypes.h>

/* Beyond what control gives the hook. */
#define RESIZE_TIMEOUT_USEC (120 * USEC_PER_SEC)

/* "1073741824", "1024M", "1GiB": powers of 1024, as an option of type :bytes is read. */
static int parse_size(const char *text, uint64_t *ret) {
        static const char units[] = "KMGTPE";
        size_t digits = strspn(text, "0123456789");
        const char *unit = text + digits, *u;
        _cleanup_free_ char *number = strndup(text, digits);
        uint64_t n, factor = 1;

        if (!number || parse_u64(number, UINT64_MAX, &n) < 0)
                return -EINVAL;
        if (*unit && (u = strchr(units, *unit))) {
                factor = UINT64_C(1) << (10 * (u - units + 1));
                unit++;
                if (*unit && !streq(unit, "iB"))
                        return -EINVAL;
        } else if (*unit && !streq(unit, "B"))
                return -EINVAL;
        if (n > UINT64_MAX / factor)
                return -ERANGE;
        *ret = n * factor;
        return 0;
}

static int show(Ctl *c, const char *designation, const char *path) {
        json_t *device = ctl_get_all(c, path, DEVICE_INTERFACE, designation);

        if (!device)
                return CTL_FAILED;
        if (c->json != JSON_OFF) {
                ctl_print_json(c, device);
                return CTL_OK;
        }
        printf("%" JSON_INTEGER_FORMAT "\n", json_integer_value(json_object_get(device, "Size")));
        json_decref(device);
        return CTL_OK;
}

int ctl_resize(Ctl *c, int argc, char **argv) {
        _cleanup_free_ char *path = NULL;
        sd_bus_message *m = NULL;
        uint64_t bytes;
        int r;

        (void) argc;
        if (parse_size(argv[2], &bytes) < 0) {
                fprintf(stderr, "ublkctl: \"%s\" is no size: bytes, or such as 512M or 10GiB.\n", argv[2]);
                return CTL_USAGE;
        }
        if (ctl_get_device(c, argv[1], &path) < 0)
                return CTL_FAILED;
        r = sd_bus_message_new_method_call(c->bus, &m, MANAGER_NAME, path, DEVICE_INTERFACE, "Resize");
        if (r >= 0)
                r = sd_bus_message_append(m, "ta{sv}", bytes, 0);
        if (r < 0) {
                sd_bus_message_unref(m);
                return CTL_FAILED;
        }
        if (ctl_call(c, m, RESIZE_TIMEOUT_USEC, argv[1], NULL) < 0)
                return CTL_FAILED;
        return show(c, argv[1], path);
}
