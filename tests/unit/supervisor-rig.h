/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A worker's supervisor, in a process of its own as it ends that process, over real sockets. Ruby and the queues are made
 * up: the process does one of the parts below.
 */

#include "service/config.h"
#include "service/protocol.h"
#include "service/request.h"
#include "service/supervisor.h"

#include <stdatomic.h>

#define ID 3

/* What the main thread of the worker does. It goes on by a byte from the test for each step. */
typedef enum Part {
        PART_LOAD,      /* loads for ever */
        PART_READY,     /* is ready after a byte */
        PART_SERVE,     /* serves, a byte after OPEN */
        PART_FAIL,      /* can't open */
        PART_EXIT,      /* hangs in its exit */
        PART_HAND_OVER, /* is asked to hand over, once ready */
        PART_STOP_EARLY, /* is asked to hand over while it loads */
        PART_STUCK,     /* is asked to hand over, and serves on */
        PART_RESIZE,    /* serves, and makes the disk one block longer than it is told; a byte for each; the second one fails */
        PART_CALL,      /* serves, with a request in the hook */
        PART_SILENT,    /* the same, but nobody takes its backtrace */
        PART_WAIT,      /* the same, with nothing in the hook */
        PART_TRIAL,     /* has code on trial, and keeps it the second time that it is told to */
        PART_TRIAL_CALL, /* the same, with a request in the hook, until a byte comes */
} Part;

/* Below it is all that the worker has in /run. */
extern char *root;
/* Shared with the worker: whether its queue comes round, and whether it waits for the interpreter. */
extern _Atomic bool *sound, *waiting;
/* Of the next workers. */
extern uint64_t hook_timeout_usec;

void rig_set_up(void);
void rig_tear_down(void);

/* Starts the worker; trusted: whom it answers. */
void begin(Part part);
void begin_as(Part part, uid_t trusted, uint64_t start_timeout_usec);
/* Started, told to serve, and at it; returns the connection on which it was told. */
int begin_serving(Part part);
/* The byte that it waits for. */
void go_on(void);
/* Its exit status. */
int wait_for_end(void);
/* It is alive, and ends well. */
void end(void);

int connect_worker(void);
/* The same once the hook is built. */
int connect_ready(void);
WorkerCall call_of(MessageType type);
void put(int fd, const void *data, size_t size);
void put_call(int fd, MessageType type);
bool readable(int fd, unsigned msec);
WorkerReply get_reply(int fd, MessageType type);
WorkerReply call(int fd, MessageType type);
bool is_closed(int fd);

/* Between these the worker talks to a systemd that is the test. */
void listen_begin(void);
void listen_end(void);
/* The next message to it that begins so, or NULL; valid until the next call. */
char *get_notice(const char *prefix, unsigned msec);
void drain_notices(void);

/* The other files of tests. */
void add_supervisor_end_tests(void);
