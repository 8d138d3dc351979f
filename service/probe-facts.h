/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What `probe` finds on a machine, and the verdict on it: two steps, so that the verdict can be tested for
 * machines that nobody has at hand.
 */

#include "service/probe.h"

typedef struct ProbeFacts {
        char kernel[66];         /* utsname.release */
        bool loaded;             /* /sys/module/ublk_drv */
        bool builtin;            /* in modules.builtin */
        bool modules_known;      /* /lib/modules/RELEASE can be looked at */
        bool module_there;       /* in modules.dep */
        char kept_by[256]; /* what keeps the module from loading: "install … in /etc/modprobe.d/…"; or empty
                            */
        bool node;               /* /dev/ublk-control */
        bool initial_namespace;  /* the first user namespace: the driver takes capabilities of no other */
        bool admin;              /* we have CAP_SYS_ADMIN */
        bool isolation;          /* Landlock can scope signals */
        uint32_t io_uring_disabled; /* kernel.io_uring_disabled; 0 where there is no such switch */
        bool worker_exists;      /* the worker's user is known */
        bool worker_in_group;    /* it is in kernel.io_uring_group */
        int open_error;          /* of /dev/ublk-control, 0 or negative errno */
        int ring_error;          /* of the control ring */
        int features_error;      /* of GET_FEATURES */
        uint64_t features;
} ProbeFacts;

/* Below config_set_root()'s root, but for what only the running kernel can say (uname, credentials, the
 * device). */
void probe_facts_read(ProbeFacts *ret);
/* What can be read from files below that root, for a kernel of this release. */
void probe_facts_read_files(const char *release, ProbeFacts *ret);

/* Pure. */
void probe_judge(const ProbeFacts *f, Probe *ret);
