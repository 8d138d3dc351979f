/* SPDX-License-Identifier: MIT */

/* The verb logs: becomes journalctl of a device's unit. */

#include "dbus/ctl.h"
#include "service/name.h"
#include "service/paths.h"

/* A device that could not be made is no device, but its unit has said why: an id will do. */
static int find_unit(Ctl *c, const char *designation, char **ret) {
        _cleanup_free_ char *path = NULL;
        json_t *device;
        uint32_t id;
        int r;

        if (device_id_parse(designation, &id) >= 0)
                return xasprintf(ret, UNIT_DEVICE, id);
        if (ctl_get_device(c, designation, &path) < 0)
                return -ENODEV;
        device = ctl_get_all(c, path, "org.ublk.Device", designation);
        if (!device)
                return -ENODEV;
        r = xstrdup(json_string_value(json_object_get(device, "Unit")), ret);
        json_decref(device);
        return r;
}

int ctl_logs(Ctl *c, int argc, char **argv) {
        static const char *const json[_JSON_MODE_MAX] = { [JSON_SHORT] = "--output=json", [JSON_PRETTY] = "--output=json-pretty" };
        _cleanup_free_ char *unit = NULL, *lines = NULL;
        char *words[7] = { (char *) "journalctl", (char *) "-u" };
        size_t n = 2;

        (void) argc;
        if (find_unit(c, argv[1], &unit) < 0 || (c->lines && xasprintf(&lines, "--lines=%s", c->lines) < 0))
                return CTL_FAILED;
        words[n++] = unit;
        if (lines)
                words[n++] = lines;
        if (c->follow)
                words[n++] = (char *) "--follow";
        if (c->json != JSON_OFF)
                words[n++] = (char *) json[c->json];
        execvp(words[0], words);
        fprintf(stderr, "ublkctl: journalctl can't be run: %s\n", strerror(errno));
        return CTL_FAILED;
}
