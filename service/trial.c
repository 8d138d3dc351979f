/* SPDX-License-Identifier: MIT */
#include "service/trial.h"

#include "service/paths.h"

#include <inttypes.h>

#define MAX_FILE 128

static int trial_path(uint32_t id, char **ret) {
        return config_path(ret, PATH_DEVICES_TRANSIENT "/%u.trial", id);
}

int trial_begin(const DeviceConfig *c, uint64_t time_usec) {
        _cleanup_free_ char *directory = NULL, *path = NULL, *text = NULL;
        int r;

        r = config_path(&directory, PATH_DEVICES_TRANSIENT);
        if (r >= 0)
                r = mkdir_parents(directory, 0755);
        if (r >= 0)
                r = trial_path(c->id, &path);
        if (r >= 0)
                r = xasprintf(&text, "%" PRIx64 " %" PRIu64 "\n", device_config_kernel_tag(c), time_usec);
        return r < 0 ? r : write_file_atomic(path, text, strlen(text), 0644);
}

int trial_end(uint32_t id) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = trial_path(id, &path);
        if (r < 0)
                return r;
        return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

bool trial_is_on(const DeviceConfig *c, uint64_t *ret_usec) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        uint64_t tag, usec;

        if (trial_path(c->id, &path) < 0 || read_file(path, MAX_FILE, &text, NULL) < 0 ||
            sscanf(text, "%16" SCNx64 " %20" SCNu64, &tag, &usec) != 2 || tag != device_config_kernel_tag(c))
                return false;
        if (ret_usec)
                *ret_usec = usec < TRIAL_MAX_USEC ? usec : TRIAL_MAX_USEC;
        return true;
}
