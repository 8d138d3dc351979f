/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The ublk control device: one ring of 128-byte SQEs and one function per command. Every command has a deadline;
 * past it the command is cancelled (the kernel then ends it with -EINTR) and the function gives -ETIMEDOUT.
 * Needs CAP_SYS_ADMIN in the initial user namespace for everything but features.
 *
 * Common errors: -ENODEV the id is unknown; -EOPNOTSUPP this kernel has no such command; -ETIMEDOUT.
 */

#include "service/uapi.h"
#include "service/util.h"

#define CONTROL_TIMEOUT_USEC (10 * USEC_PER_SEC)

typedef struct Control Control;

/* -ENOENT: no /dev/ublk-control; -EACCES or -EPERM; -ENOSYS, -EPERM from io_uring (see probe.h, which tells them apart). */
int control_new(Control **ret);
Control *control_free(Control *c);
static inline void control_freep(Control **c) {
        control_free(*c);
}

/* CLOCK_MONOTONIC, 0 for none: past it every command gives -ETIMEDOUT, whatever its own limit is. */
void control_set_deadline(Control *c, uint64_t deadline_usec);

int control_get_features(Control *c, uint64_t *ret);
int control_get_info(Control *c, uint32_t id, struct ublk_dev_info *ret);
int control_get_params(Control *c, uint32_t id, struct ublk_params *ret);
/* info: dev_id, nr_hw_queues, queue_depth, max_io_buf_bytes, flags, ublksrv_flags wanted; on return what the kernel made of them. */
int control_add(Control *c, struct ublk_dev_info *info);
int control_set_params(Control *c, uint32_t id, const struct ublk_params *p);
int control_stop(Control *c, uint32_t id, uint64_t timeout_usec);
/* Since Linux 7.0 (UBLK_F_SAFE_STOP_DEV): -EBUSY and no change while anyone has ublkbN open. */
int control_try_stop(Control *c, uint32_t id, uint64_t timeout_usec);
/* Since Linux 6.16 (UBLK_F_UPDATE_SIZE): -ENODEV if there is no disk yet. The kernel checks nothing of it. */
int control_update_size(Control *c, uint32_t id, uint64_t bytes);
/* Asynchronous: gives up the id as soon as the last user of the nodes is gone. */
int control_delete(Control *c, uint32_t id);
/* -EBUSY while anyone has ublkcN open. */
int control_start_recovery(Control *c, uint32_t id);
/* These two wait until every tag is fetched. watch_fd (a pidfd, or -EBADF): readable means that the worker died, which cancels
 * the command and gives -EOWNERDEAD. */
int control_start(Control *c, uint32_t id, pid_t pid, int watch_fd, uint64_t timeout_usec);
int control_end_recovery(Control *c, uint32_t id, pid_t pid, int watch_fd, uint64_t timeout_usec);

/* Every ublk device of this host, ours or not, from /sys/class/ublk-char; ascending. */
int control_list_ids(uint32_t **ret, size_t *ret_n);
