/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The worker's second thread, in plain C: it answers the socket (protocol.h), pings systemd's watchdog, ends a hook
 * that never finishes loading, judges requests that the hook does not give back (stuck.h), and sees to it that a hand-over ends
 * in time, all while Ruby is busy or stuck. It never touches Ruby.
 */

#include "service/calls.h"
#include "service/culprits.h"
#include "service/exit-status.h"
#include "service/protocol.h"
#include "service/queue.h"

typedef struct Supervisor Supervisor;

/* Makes the socket (PATH_WORKER_SOCKET) and starts the thread. failing_status: the exit status for a hook that is wrong or
 * too slow to load. trusted_uid: whose calls are answered. config is borrowed. */
int supervisor_start(const DeviceConfig *config, int failing_status, uid_t trusted_uid, Supervisor **ret);

/* An eventfd that becomes readable, for ever, once a hand-over is asked for: for queue_new. */
int supervisor_wake_fd(Supervisor *s);
/* From a signal handler. */
void supervisor_request_hand_over(Supervisor *s);

/* calls has what the hook is at, which is judged by the configuration's hook-timeout once the queues serve; culprits is told of
 * the one for which the process has to end. Both are borrowed for ever. Once, before that. */
int supervisor_watch(Supervisor *s, Calls *calls, Culprits *culprits);

/* Ruby begins to load the hook: tells systemd so, which is what is left if the hook ends the process (end-reason.h). */
void supervisor_loading(void);
/* The hook is built: answers HELLO from now on, and tells systemd READY=1. */
void supervisor_ready(Supervisor *s, const Geometry *geometry);
/* Waits for OPEN; false if a hand-over was asked for instead. Blocks: let go of the interpreter. */
bool supervisor_wait_open(Supervisor *s);
/* From now on the hook's code is in this state. trial_usec: how long the trial lasts, if it is on one. keep: called for KEEP_CODE while
 * that is CODE_ON_TRIAL and nothing is stuck in the hook, by the thread; gives the new state, or a negative errno. */
void supervisor_set_code(Supervisor *s, CodeState state, uint64_t trial_usec, int (*keep)(void *userdata), void *userdata);
/* Answers the pending OPEN: every tag is fetched (queues, borrowed until supervisor_exiting, at most as many as the
 * configuration says, are asked for their counters and for their soundness from now on) … */
void supervisor_serving(Supervisor *s, Queue *const *queues, size_t n_queues);
/* … or it can't be done. Also publishes the failure. */
void supervisor_open_failed(Supervisor *s, const Failure *failure);

/* An eventfd that becomes readable when a RESIZE has come: queue 0's task is to be woken by it as well, since the hook is asked
 * between two requests. */
int supervisor_resize_fd(Supervisor *s);
/* By that task: what is asked for, and resize_fd is read. False if nothing is. */
bool supervisor_take_resize(Supervisor *s, uint64_t *ret_bytes);
/* … and what came of it: the disk's size, or a failure (else NULL). Answers the pending RESIZE. */
void supervisor_resized(Supervisor *s, uint64_t size, const Failure *failure);

/* Makes a failure known: systemd's StatusText and StatusErrno. Any thread. */
void supervisor_publish(const Failure *failure);

/* The process is about to end with status; if it hasn't in a few seconds (Ruby's at_exit blocks may hang), the
 * thread ends it. It looks at the queues no more. The first call counts. */
void supervisor_exiting(Supervisor *s, int status);
