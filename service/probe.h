/* SPDX-License-Identifier: MIT */
#pragma once

/* What this kernel can do, and where it can't serve, why, and what to do about it. */

#include "service/control.h"
#include "service/failure.h"

typedef enum ProbeVerdict {
        PROBE_SUPPORTED,
        PROBE_NO_DRIVER,     /* the kernel was built without CONFIG_BLK_DEV_UBLK */
        PROBE_NOT_LOADED,    /* the module is there, not loaded (or kept from loading) */
        PROBE_NO_PERMISSION, /* control device or CAP_SYS_ADMIN */
        PROBE_NO_IO_URING,   /* kernel.io_uring_disabled, for us or for the worker's user, or ENOSYS */
        PROBE_NO_USER_COPY,  /* Linux before 6.5 */
        _PROBE_MAX,
} ProbeVerdict;

const char *probe_verdict_to_string(ProbeVerdict v); /* "supported", "no-driver", "module-not-loaded", … */

typedef struct Probe {
        ProbeVerdict verdict;
        char kernel[66];   /* utsname.release */
        uint64_t features; /* UBLK_F_* bits; 0 unless they could be asked for */
        bool isolation;    /* workers, which share a uid, can be kept from signalling each other (privileges.h) */
        char reason[512];  /* cause and remedy, for a person; empty when supported */
} Probe;

/* Never fails: what it can't find out is part of the verdict. Reads only; loads no module. */
void probe_run(Probe *ret);
/* {"supported":…,"verdict":…,"kernel":…,"reason":…,"features":["user-copy",…],"feature-bits":…,
 * "signal-isolation":…}; owned by the caller. */
int probe_to_json(const Probe *p, char **ret);

/* control_new; where that fails, f is what a probe says about it. */
int probe_open_control(Control **ret, Failure *f);
