/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ublk.so: the same engine and the same binding that a worker has, inside a plain Ruby program. Here Ruby owns
 * the process: exceptions may pass through, interrupts end whatever waits, and there may be several devices.
 * Everything is defined below UBLK::Native; lib/ublk/native.rb and its neighbours are what people use.
 */

#include "hooks/binding.h"

/* attach.c: a Hook around an object, in an interpreter that is not ours. */

/* What the request loop has to know of the target beside its methods. */
typedef struct Attachment {
        Geometry geometry;
        bool takes_unmap;
        bool reads_into;
        bool writes_from;
        void (*report)(void *userdata, const Request *request, const Failure *failure);
        void *userdata;
} Attachment;

/* Needs UBLK::Native.describe. May raise; no more than that can go wrong. */
Hook *hook_attach(VALUE target, const Attachment *attachment);
void hook_detach(Hook *hook);

/* While set on a task: a child that it forks, and that comes back into our code, ends there. */
void hook_set_serving(bool serving);
void hook_watch_forks(void);

/* extension.c */

/* fn(argument) without the interpreter. Never loses what fn did: interrupts raise only as long as it was not
 * called. */
void native_unlocked(void (*fn)(void *argument), void *argument);
/* Raises RuntimeError in a process that only inherited the handle. */
void native_check_owner(pid_t owner, const char *what);
/* The C string of a static table or a literal, as a Symbol. */
static inline VALUE native_symbol(const char *name) {
        return ID2SYM(rb_intern(name));
}

void native_control_define(VALUE native);
void native_server_define(VALUE native);
