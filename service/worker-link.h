/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Control's end of the conversation with a worker (protocol.h), and the worker itself as a pidfd: whatever is
 * waited for is given up as soon as the process is gone. What it answers is checked for its form here, for
 * its sense in activate.c.
 */

#include "service/protocol.h"

typedef struct WorkerLink {
        uint32_t id;
        pid_t pid;
        int pid_fd;
        int fd;
        uid_t uid; /* of the process that listens, which is the worker */
} WorkerLink;

#define WORKER_LINK_NULL ((WorkerLink) { .pid_fd = -EBADF, .fd = -EBADF })
void worker_link_done(WorkerLink *l);

/* Deadlines are CLOCK_MONOTONIC. */

/* Makes sure that the process at the other end is pid. Waits while others crowd the socket. */
int worker_link_connect(WorkerLink *l, uint32_t id, pid_t pid, uint64_t deadline_usec, Failure *f);

/* One call and its reply. -EOWNERDEAD if the worker died, -ETIMEDOUT; an error that the worker reports is its
 * own Failure. */
int worker_link_call(WorkerLink *l, MessageType type, uint64_t deadline_usec, WorkerReply *ret, Failure *f);
/* RESIZE likewise. */
int worker_link_resize(WorkerLink *l, uint64_t bytes, uint64_t deadline_usec, WorkerReply *ret, Failure *f);
/* Has the worker publish the failure as its own. Best effort. */
void worker_link_abort(WorkerLink *l, const Failure *f);

bool worker_link_is_alive(const WorkerLink *l);
