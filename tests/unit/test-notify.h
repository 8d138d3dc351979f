/* SPDX-License-Identifier: MIT */
#pragma once

/* A thread in systemd's place: takes what sd_notify(3) sends, and keeps a unit's descriptors by name. */

#include "service/util.h"

/* Also sets $NOTIFY_SOCKET. */
void notify_start(void);
/* With the descriptors that it has. */
void notify_stop(void);

/* "a b ", in the order in which they were sent. */
const char *notify_names(void);
/* What came: "+a -b ". Forgets it. */
const char *notify_log(void);

/* Runs f in a process to which the descriptors are passed as to a unit's main process; it has to get to its end. If it
 * sends "X_LATE=1" it is not told any more that its messages have been read. */
void notify_run(void (*f)(void));
