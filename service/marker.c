/* SPDX-License-Identifier: MIT */
#include "service/marker.h"

#include "service/paths.h"

#define MARKER_MAX_FILE 4096

static int marker_path(uint32_t id, char **ret) {
        return config_path(ret, PATH_MARKERS "/ublkb%u.env", id);
}

static int write_marker(const DeviceConfig *c, const char *more) {
        _cleanup_free_ char *directory = NULL, *path = NULL, *text = NULL;
        int r;

        r = config_path(&directory, PATH_MARKERS);
        if (r < 0)
                return r;
        r = mkdir_parents(directory, 0755);
        if (r < 0)
                return r;
        r = marker_path(c->id, &path);
        if (r < 0)
                return r;
        r = xasprintf(&text, "UBLK_NAME=%s\n%s%s", c->name, c->partscan ? "UBLK_PARTSCAN=1\n" : "", more);
        if (r < 0)
                return r;
        return write_file_atomic(path, text, strlen(text), 0644);
}

int marker_write(const DeviceConfig *c, bool lost) {
        return write_marker(c, lost ? "UBLK_LOST=1\n" : "");
}

int marker_write_gone(const DeviceConfig *c) {
        return write_marker(c, "UBLK_GONE=1\n");
}

int marker_remove(uint32_t id) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = marker_path(id, &path);
        if (r < 0)
                return r;
        return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

int marker_read(const DeviceConfig *c) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        bool ours = false, lost = false;
        char *state, *line;
        int r;

        r = marker_path(c->id, &path);
        if (r < 0)
                return r;
        r = read_file(path, MARKER_MAX_FILE, &text, NULL);
        if (r == -ENOENT)
                return MARKER_NONE;
        if (r < 0)
                return r;
        for (state = text; (line = strsep(&state, "\n"));) {
                if (strncmp(line, "UBLK_NAME=", strlen("UBLK_NAME=")) == 0)
                        ours = streq(line + strlen("UBLK_NAME="), c->name);
                else if (streq(line, "UBLK_LOST=1"))
                        lost = true;
        }
        return !ours ? MARKER_NONE : lost ? MARKER_LOST : MARKER_LIVE;
}
