/* SPDX-License-Identifier: MIT */
#include "service/trial.h"

#include "service/failure.h"
#include "service/needs.h"
#include "service/paths.h"

#include <inttypes.h>

#define MAX_FILE (128 + FAILURE_MAX_NEEDS)
/* In the place of the invocation that is not on trial. */
#define NOBODY "nobody" /* is, as yet */
#define ALL "all"       /* are */

typedef struct Trial {
        uint64_t usec;
        char invocation[40];
        char *needs; /* owned */
} Trial;

static int trial_path(uint32_t id, char **ret) {
        return config_path(ret, PATH_DEVICES_TRANSIENT "/%u.trial", id);
}

/* "TAG USEC INVOCATION NEED…" */
static int trial_write(const DeviceConfig *c, uint64_t time_usec, const char *needs, const char *invocation) {
        _cleanup_free_ char *directory = NULL, *path = NULL, *text = NULL;
        int r;

        r = config_path(&directory, PATH_DEVICES_TRANSIENT);
        if (r >= 0)
                r = mkdir_parents(directory, 0755);
        if (r >= 0)
                r = trial_path(c->id, &path);
        if (r >= 0)
                r = xasprintf(&text, "%" PRIx64 " %" PRIu64 " %s%s%s\n", device_config_kernel_tag(c), time_usec, invocation,
                              needs ? " " : "", needs ? needs : "");
        return r < 0 ? r : write_file_atomic(path, text, strlen(text), 0644);
}

int trial_prepare(const DeviceConfig *c, uint64_t time_usec, const char *needs) {
        return trial_write(c, time_usec, needs, NOBODY);
}

int trial_begin(const DeviceConfig *c, uint64_t time_usec, const char *needs, const char *invocation) {
        return trial_write(c, time_usec, needs, *invocation ? invocation : ALL);
}

int trial_end(uint32_t id) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = trial_path(id, &path);
        if (r < 0)
                return r;
        if (unlink(path) < 0 && errno != ENOENT)
                return -errno;
        return trial_forget_proposed(id);
}

static int proposed_path(uint32_t id, char **ret) {
        return config_path(ret, PATH_DEVICES_TRANSIENT "/%u.proposed", id);
}

int trial_propose(const DeviceConfig *proposed) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = proposed_path(proposed->id, &path);
        return r < 0 ? r : device_config_save_to(proposed, path);
}

int trial_take_proposed(DeviceConfig *c) {
        _cleanup_(device_config_freep) DeviceConfig *proposed = NULL;
        _cleanup_free_ char *path = NULL, *message = NULL;
        Argument *arguments = c->arguments;
        size_t n = c->n_arguments;
        int r;

        r = proposed_path(c->id, &path);
        if (r >= 0)
                r = device_config_load_from(path, c->id, &proposed, &message);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        if (device_config_kernel_tag(proposed) != device_config_kernel_tag(c))
                return 0; /* of an earlier device of this id */
        c->arguments = proposed->arguments;
        c->n_arguments = proposed->n_arguments;
        proposed->arguments = arguments;
        proposed->n_arguments = n;
        return 1;
}

int trial_forget_proposed(uint32_t id) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = proposed_path(id, &path);
        if (r < 0)
                return r;
        return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

static bool trial_read(const DeviceConfig *c, Trial *ret) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        Trial t = { 0 };
        uint64_t tag;
        int at = 0;

        if (trial_path(c->id, &path) < 0 || read_file(path, MAX_FILE, &text, NULL) < 0)
                return false;
        text[strcspn(text, "\n")] = 0;
        if (sscanf(text, "%16" SCNx64 " %20" SCNu64 " %39s %n", &tag, &t.usec, t.invocation, &at) != 3 ||
            tag != device_config_kernel_tag(c))
                return false;
        if (t.usec > TRIAL_MAX_USEC)
                t.usec = TRIAL_MAX_USEC;
        if (text[at] && xstrdup(text + at, &t.needs) < 0)
                return false;
        *ret = t;
        return true;
}

bool trial_includes(const DeviceConfig *c, const char *invocation, uint64_t *ret_usec) {
        bool included;
        Trial t;

        if (!trial_read(c, &t))
                return false;
        included = !streq(t.invocation, NOBODY) && !(invocation && streq(t.invocation, invocation));
        if (included && ret_usec)
                *ret_usec = t.usec;
        free(t.needs);
        return included;
}

bool trial_is_on(const DeviceConfig *c, uint64_t *ret_usec) {
        return trial_includes(c, NULL, ret_usec);
}

char *trial_needs(const DeviceConfig *c) {
        Trial t;

        return trial_read(c, &t) ? t.needs : NULL;
}

void trial_add_needs(DeviceConfig *c) {
        _cleanup_free_ char *needs = trial_needs(c);
        char *rest = needs, *need;

        while (rest && (need = strsep(&rest, " ")))
                (void) needs_note(c, need);
}
