/* SPDX-License-Identifier: MIT */
#pragma once

/* What the worker does with its privileges before anything of Ruby runs, and that it has none afterwards. */

#include "service/util.h"

/* Of the calling task and, by inheritance, of all that it makes later: memory that it allocates is never reclaimed by
 * writing to a disk that it serves itself (PR_SET_IO_FLUSHER, Linux 5.6; needs CAP_SYS_RESOURCE). */
int privileges_set_io_flusher(void);

/* Locks all memory, present and future, as it is touched: MCL_ONFAULT, since Ruby 3.3 reserves half a GiB. Needs
 * RLIMIT_MEMLOCK to be infinite (LimitMEMLOCK= in the unit), which is checked first: with a small limit every later
 * allocation would fail. */
int privileges_lock_memory(void);

/* After privileges_drop, before any other thread or process is made: this process and all that it makes can signal only one
 * another, and connect to abstract sockets of one another only. All workers have one uid. By Landlock, scoping of which came
 * with Linux 6.12; -EOPNOTSUPP where it can't be had. */
int privileges_isolate(void);
/* Whether it can. */
bool privileges_can_isolate(void);

/* Effective, permitted, inheritable, ambient: all empty; no new ones ever (NoNewPrivileges). */
int privileges_drop(void);
