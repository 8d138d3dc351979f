/* SPDX-License-Identifier: MIT */
#include "service/probe.h"

#include "service/features.h"
#include "service/paths.h"
#include "service/probe-facts.h"

#include <jansson.h>
#include <stdarg.h>

static const char *const verdict_table[_PROBE_MAX] = {
        [PROBE_SUPPORTED]     = "supported",
        [PROBE_NO_DRIVER]     = "no-driver",
        [PROBE_NOT_LOADED]    = "module-not-loaded",
        [PROBE_NO_PERMISSION] = "no-permission",
        [PROBE_NO_IO_URING]   = "no-io-uring",
        [PROBE_NO_USER_COPY]  = "no-user-copy",
};

const char *probe_verdict_to_string(ProbeVerdict v) {
        return v < _PROBE_MAX ? verdict_table[v] : NULL;
}

static bool verdict(Probe *p, ProbeVerdict v, const char *format, ...) _printf_(3, 4);

static bool verdict(Probe *p, ProbeVerdict v, const char *format, ...) {
        va_list ap;

        p->verdict = v;
        va_start(ap, format);
        (void) vsnprintf(p->reason, sizeof(p->reason), format, ap);
        va_end(ap);
        return true;
}

/* Each of these says whether it has found the reason, and sets it. */

static bool driver_is_missing(const ProbeFacts *f, Probe *p) {
        if (f->loaded || f->builtin || f->node)
                return false;
        if (f->module_there && *f->kept_by)
                return verdict(p, PROBE_NOT_LOADED,
                               "The module ublk_drv is kept from loading by %s: remove that, then run "
                               "`modprobe ublk_drv`.",
                               f->kept_by);
        if (f->module_there)
                return verdict(p, PROBE_NOT_LOADED,
                               "The module ublk_drv is not loaded: run `modprobe ublk_drv` as root.");
        if (f->modules_known)
                return verdict(p, PROBE_NO_DRIVER,
                               "Linux %s was built without the ublk driver: boot a kernel with "
                               "CONFIG_BLK_DEV_UBLK, 6.5 or later.",
                               f->kernel);
        return verdict(p, PROBE_NO_DRIVER,
                       "Linux %s has no ublk driver, and there are no modules for it in /lib/modules/%s: "
                       "install them, or boot a kernel with CONFIG_BLK_DEV_UBLK, 6.5 or later; "
                       "in a container, load ublk_drv on the host.",
                       f->kernel, f->kernel);
}

static bool io_uring_is_disabled(const ProbeFacts *f, Probe *p) {
        if (f->io_uring_disabled >= 2)
                return verdict(p, PROBE_NO_IO_URING,
                               "io_uring is disabled for everyone: set the sysctl kernel.io_uring_disabled "
                               "to 0 (or to 1, with the group of user " WORKER_USER
                               " as kernel.io_uring_group).");
        if (f->io_uring_disabled == 1 && !f->worker_in_group)
                return verdict(p, PROBE_NO_IO_URING,
                               "io_uring is disabled for the worker's user " WORKER_USER "%s "
                               "(kernel.io_uring_disabled=1): set kernel.io_uring_disabled to 0, "
                               "or kernel.io_uring_group to a group of that user.",
                               f->worker_exists ? "" : ", which does not exist");
        return false;
}

static bool permission_is_missing(const ProbeFacts *f, Probe *p) {
        if (!f->node)
                return verdict(p, PROBE_NO_PERMISSION,
                               "The ublk driver is there, but " UBLK_CONTROL_NODE " is not: this looks "
                               "like a container or a private /dev; the service has to run on the host.");
        if (f->open_error == -EACCES)
                return verdict(p, PROBE_NO_PERMISSION,
                               "No permission to open " UBLK_CONTROL_NODE ": run this as root.");
        if (f->open_error < 0)
                return verdict(p, PROBE_NO_PERMISSION,
                               UBLK_CONTROL_NODE " can't be opened (%s): a device policy or a container "
                               "keeps it from this process.",
                               strerror(-f->open_error));
        if (!f->initial_namespace)
                return verdict(p, PROBE_NO_PERMISSION,
                               "The ublk driver takes no orders from a user namespace: the service has to "
                               "run on the host, not in a container.");
        if (!f->admin)
                return verdict(p, PROBE_NO_PERMISSION,
                               "Adding a ublk device takes CAP_SYS_ADMIN, which this process lacks: run it "
                               "as root, outside of a container.");
        return false;
}

static bool ring_is_missing(const ProbeFacts *f, Probe *p) {
        if (f->ring_error == 0)
                return false;
        if (f->ring_error == -ENOSYS)
                return verdict(p, PROBE_NO_IO_URING,
                               "Linux %s was built without io_uring: boot one with CONFIG_IO_URING.",
                               f->kernel);
        if (f->ring_error == -EPERM)
                return verdict(p, PROBE_NO_IO_URING,
                               "io_uring is refused to this process, though not by "
                               "kernel.io_uring_disabled: a seccomp filter or a security module, "
                               "such as a container's.");
        return verdict(p, PROBE_NO_IO_URING, "An io_uring can't be set up: %s.", strerror(-f->ring_error));
}

static bool user_copy_is_missing(const ProbeFacts *f, Probe *p) {
        /* The command itself is as old as the feature: Linux 6.1 answers EOPNOTSUPP, EINVAL or ENODEV. */
        if (f->features_error == -EOPNOTSUPP || f->features_error == -EINVAL ||
            f->features_error == -ENODEV ||
            (f->features_error == 0 && (f->features & FEATURES_NEEDED) != FEATURES_NEEDED))
                return verdict(p, PROBE_NO_USER_COPY,
                               "The ublk driver of Linux %s lacks USER_COPY, which came with 6.5: boot a "
                               "newer kernel.",
                               f->kernel);
        if (f->features_error < 0)
                return verdict(p, PROBE_NO_PERMISSION,
                               "The ublk driver does not say what it can do (%s): a security module, "
                               "perhaps.",
                               strerror(-f->features_error));
        return false;
}

void probe_judge(const ProbeFacts *f, Probe *ret) {
        *ret = (Probe) {
                .verdict = PROBE_SUPPORTED,
                .features = f->features_error == 0 ? f->features : 0,
                .isolation = f->isolation,
        };
        (void) snprintf(ret->kernel, sizeof(ret->kernel), "%s", f->kernel);
        (void) (driver_is_missing(f, ret) || io_uring_is_disabled(f, ret) || permission_is_missing(f, ret) ||
                ring_is_missing(f, ret) || user_copy_is_missing(f, ret));
}

void probe_run(Probe *ret) {
        ProbeFacts f;

        probe_facts_read(&f);
        probe_judge(&f, ret);
}

int probe_open_control(Control **ret, Failure *f) {
        Probe p;
        int r;

        r = control_new(ret);
        if (r >= 0)
                return 0;
        probe_run(&p);
        return failure_set(f, FAILURE_KERNEL, -r, "%s", *p.reason ? p.reason : strerror(-r));
}

static json_t *feature_names(uint64_t bits) {
        json_t *names = json_array();

        for (size_t i = 0; i < UBLK_N_FEATURES; i++)
                if (bits & features[i].bit)
                        (void) json_array_append_new(names, json_string(features[i].name));
        return names;
}

int probe_to_json(const Probe *p, char **ret) {
        json_t *j;
        char *text;

        j = json_pack("{sb ss ss ss so sI sb}", "supported", (int) (p->verdict == PROBE_SUPPORTED), "verdict",
                      probe_verdict_to_string(p->verdict), "kernel", p->kernel, "reason", p->reason,
                      "features", feature_names(p->features), "feature-bits", (json_int_t) p->features,
                      "signal-isolation", (int) p->isolation);
        if (!j)
                return -ENOMEM;
        text = json_dumps(j, JSON_COMPACT);
        json_decref(j);
        if (!text)
                return -ENOMEM;
        *ret = text;
        return 0;
}
