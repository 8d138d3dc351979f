/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the serving tasks have in the hook at the moment: a HookCall for each task, which that task alone writes, and anybody may
 * read at any time. And what is wanted of a call that takes long: its backtrace, or that it is interrupted. Wishes are granted
 * by a thread that may use the interpreter (hooks/watch.c), once it gets its turn there, and not before.
 *
 * There is no clock in it, as reading one would cost more than all the rest: how long a call takes is for the reader to find
 * out (stuck.h), by looking often enough.
 *
 * Beside that it has what the interpreter's collector has cost, for the same readers.
 */

#include "service/request.h"

#include <stdatomic.h>

/* Of a backtrace: frames, a line each. */
#define CALLS_MAX_BACKTRACE 2048

#define OPERATION_NOTHING UINT8_MAX

/* Whether somebody raises, or has raised, an exception in a call. */
typedef enum CallInterrupt {
        CALL_LEFT_ALONE,
        CALL_BEING_INTERRUPTED, /* the task must not go on to its next call before this is over */
        CALL_INTERRUPTED,
} CallInterrupt;

typedef struct HookCall {
        _Alignas(64) _Atomic uint64_t sequence; /* odd while the task writes; half of it is the call's number */
        _Atomic uint64_t offset;
        _Atomic uint64_t length;
        _Atomic uint8_t op;                     /* OPERATION_NOTHING: the task has nothing in the hook */
        _Atomic uint8_t interrupt;              /* a CallInterrupt; written with the interpreter held */
        pid_t task;
} HookCall;

/* A HookCall as it was at some moment. Its number tells it from all others of that task. */
typedef struct CallView {
        uint64_t number;
        uint64_t offset;
        uint64_t length;
        uint8_t op;
        pid_t task;
} CallView;

/* By the task, round each request. A handful of plain stores. */
static inline void call_begin(HookCall *c, const Request *request) {
        uint64_t sequence = atomic_load_explicit(&c->sequence, memory_order_relaxed);

        atomic_store_explicit(&c->sequence, sequence + 1, memory_order_relaxed);
        atomic_thread_fence(memory_order_release);
        atomic_store_explicit(&c->offset, request->offset, memory_order_relaxed);
        atomic_store_explicit(&c->length, request->length, memory_order_relaxed);
        atomic_store_explicit(&c->op, request->op, memory_order_relaxed);
        atomic_store_explicit(&c->sequence, sequence + 2, memory_order_release);
}

/* By the task, when it has nothing more in the hook. */
static inline void call_end(HookCall *c) {
        atomic_store_explicit(&c->op, OPERATION_NOTHING, memory_order_relaxed);
}

typedef struct Calls Calls;

/* For at most max tasks. */
int calls_new(size_t max, Calls **ret);
Calls *calls_free(Calls *c);
static inline void calls_freep(Calls **c) {
        calls_free(*c);
}

/* By a task that will serve, once: its own HookCall, and the index of it. NULL when there are more tasks than was said. */
HookCall *calls_join(Calls *c, size_t *ret_index);

size_t calls_max(const Calls *c);
/* Those that have joined; this and what follows from any thread. */
size_t calls_count(const Calls *c);
/* False if that task has nothing in the hook just now. */
bool calls_get(const Calls *c, size_t index, CallView *ret);

/* By who holds the interpreter: that its collector has run so often, for so long in all. Two plain stores. */
void calls_note_collections(Calls *c, uint64_t n, uint64_t usec);
/* From any thread. */
void calls_get_collections(const Calls *c, uint64_t *ret_n, uint64_t *ret_usec);

typedef enum CallWish {
        CALL_WISH_BACKTRACE = 1 << 0,
        CALL_WISH_INTERRUPT = 1 << 1, /* comes with a backtrace of before */
} CallWish;

/* For the call with that number; what was wanted of an earlier one of that task is forgotten. */
void calls_want(Calls *c, size_t index, uint64_t number, CallWish wish);
/* Whether any wish for that call is yet to be granted. */
bool calls_is_wanting(Calls *c, size_t index, uint64_t number);
/* The latest backtrace of that call, "" if there is none. */
void calls_get_backtrace(Calls *c, size_t index, uint64_t number, char ret[static CALLS_MAX_BACKTRACE]);

/* By the thread that grants. */

/* Waits for a wish; a signal may end that early. Blocks: let go of the interpreter. */
void calls_wait(Calls *c);
/* Takes a wish over. False if there is none. */
bool calls_take_wish(Calls *c, size_t *ret_index, uint64_t *ret_number, unsigned *ret_wishes);
/* With the interpreter held, so that the task can't leave the call meanwhile: its HookCall, or NULL if it is in that call no more. */
HookCall *calls_find(Calls *c, size_t index, uint64_t number);
/* The wish that was taken is granted, or past granting. backtrace: frames, a line each; NULL if there is none. */
void calls_grant(Calls *c, size_t index, uint64_t number, const char *backtrace);
