/* SPDX-License-Identifier: MIT */
#pragma once

/* One run of `activate`: what its steps share. */

#include "service/control.h"
#include "service/worker-link.h"

/* The whole run. Below TimeoutStartSec= of the unit, so that what a caller gets to read is the reason and not that limit. */
#define ACTIVATION_USEC (40 * USEC_PER_SEC)
/* For what the worker does: opening and fetching. It has loaded its hook by then. */
#define ACTIVATION_WORKER_USEC (30 * USEC_PER_SEC)
/* For what the kernel does after a former worker's death, and for the last user of a deleted device to go. */
#define ACTIVATION_SETTLE_USEC (10 * USEC_PER_SEC)

typedef struct Activation {
        uint32_t id;
        uint64_t deadline_usec; /* of all steps together; 0: each has only its own */
        DeviceConfig *config; /* owned */
        Control *control;     /* owned */
        WorkerLink worker;
        Geometry geometry;    /* checked */
        bool is_new;          /* added by this run, and so undone by it */
        dev_t node_number;    /* of /dev/ublkcN */
        int node_fd; /* /dev/ublkcN as long as it is lent to the worker; O_PATH, which is no opening of it */
} Activation;

/* CLOCK_MONOTONIC: limit_usec from now, or the run's own deadline if that comes first. */
uint64_t activation_deadline(const Activation *a, uint64_t limit_usec);

/* activation-device.c: the kernel device. */

/* The flags that a device with this recovery is added with. */
uint64_t activation_flags(Recovery recovery);
/* Adds the device, or prepares the one that is there for a new worker. */
int activation_prepare(Activation *a, Failure *f);
/* START_DEV or END_USER_RECOVERY. */
int activation_start(Activation *a, Failure *f);
/* Takes a device of ours out of the kernel and waits until its id is free. */
int activation_delete(Activation *a, Failure *f);

/* activation-round.c: a recovery that a dying worker left half done. */

/* Whether this kernel keeps what a dead worker fetched until START_USER_RECOVERY: Linux before 6.15. */
bool activation_rounds_last(Activation *a);
/* Fetches whatever the last worker did not, and lets go of it again. -EBUSY while /dev/ublkcN is open. */
int activation_finish_round(Activation *a);

/* activation-node.c: /dev/ublkcN and udev. */

/* The workers share one uid: the node is the worker's only from here … */
int activation_lend_node(Activation *a, Failure *f);
/* … to here. */
int activation_take_node_back(Activation *a, Failure *f);
/* Until udev has made the links of the disk and its partitions, or for a few seconds. since_usec: CLOCK_MONOTONIC from before
 * the disk appeared. */
void activation_wait_for_udev(Activation *a, uint64_t since_usec);

/* activation-partitions.c: has the kernel told of the live disk's partitions. It never looks itself, since the worker has no
 * CAP_SYS_ADMIN as it opens the node (ublk_drv.c sets GD_SUPPRESS_PART_SCAN). What goes wrong is logged. */
void activation_scan_partitions(Activation *a);

/* Sleeps, unless the worker dies: then -EOWNERDEAD. Doubles *delay up to 100 ms. */
int activation_pause(Activation *a, uint64_t *delay_usec);
