/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the files of the binding share, and nobody else sees: the Hook itself, and the one way from a Ruby
 * exception to a Failure. All of it is used with the interpreter held.
 */

#include <ruby.h>

#include "hooks/hook.h"

/* A child that a hook forked and that came back into our C code ends with this. It must not touch the device. */
#define HOOK_FORKED_STATUS 70 /* EX_SOFTWARE */

struct Hook {
        Server server;
        HookSettings settings; /* of the last hook_load; its strings are not ours and not used after it */
        Geometry geometry;
        VALUE target;          /* registered with the collector; Qnil until something is loaded */
        VALUE runtime;         /* the module UBLK::Runtime; Qnil until the first hook_load */
        VALUE contract_error;  /* the class UBLK::ContractError */
        VALUE minor_collection; /* the keywords of GC.start, frozen */
        VALUE unmap[2];        /* the keywords of write_zeroes, by !no_unmap, frozen */
        bool takes_unmap;      /* write_zeroes has the keyword unmap: */
        bool reads_into;       /* reads are given a buffer */
        bool writes_from;      /* writes are */
        bool ending;           /* hook_run is taking Ruby down: threads may go */
        bool *is_ours;         /* owned: true where requests may be answered, false in a process that was forked */
        Calls *calls;          /* borrowed; NULL: nobody watches */
        VALUE threads;         /* an Array: those that serve, by their index in calls */
        const char *interruption; /* borrowed: what UBLK::HookTimeout says */
        uint64_t payload;      /* bytes of payload that became Strings since the last collection of ours */
        uint64_t garbage;      /* so many of them bring on the next one */
        uint64_t collected_nsec; /* when it was; CLOCK_MONOTONIC */
        size_t n_collections;  /* that calls was told of */
        HookProfile *profile;  /* borrowed; NULL: nobody wants to know */
};

/* From here on a copy takes longer than giving the interpreter away and getting it back. */
#define UNLOCKED_COPY_MIN (64 * 1024)

/* How much payload becomes garbage before it is collected, at least. What is in flight meanwhile waits: for a megabyte, where there
 * are few live objects, about as long as some requests take. Left to itself the collector frees eight at once, which more than one
 * request in a hundred notices. */
#define HOOK_GARBAGE_MIN (1 << 20)

/* A hook with nothing loaded; NULL: no memory. The collector knows its objects until hook_done. */
Hook *hook_init(Hook *hook);
void hook_done(Hook *hook);
/* Takes what it needs of the Ruby library, once that is loaded. runtime: the module in UBLK whose `describe`
 * judges exceptions. May raise. */
void hook_prepare(Hook *hook, const char *runtime);

/* Set in a forked child, by pthread_atfork. */
extern bool hook_is_forked;

/* After every call into Ruby, before anything else. */
static inline void hook_check_forked(void) {
        if (__builtin_expect(hook_is_forked, 0))
                _exit(HOOK_FORKED_STATUS);
}

/* Turns what ended an rb_protect (a state other than 0) into a Failure and clears it. method: the method of
 * the target that was running, 0 if none. Never raises. The failure's error is never 0. */
void hook_describe_failure(Hook *hook, ID method, Failure *ret);

/* For what hit no request: one warning, and life goes on. */
void hook_ignore_failure(Hook *hook, const char *where);

/* Loads the library, once per process. May raise. */
void hook_prepare_runtime(Hook *hook);

void hook_signals_save(void);
/* Whether there was anything to restore. */
bool hook_signals_restore(void);
/* In a forked child, which must die of a signal as any process does, and not ask its parent to hand over. */
void hook_signals_forget(void);

/* watch.c: the calling task's HookCall, one that nobody looks at if it is not watched; and what an interrupted request has to do
 * in its end, so that nothing of it reaches the next one. */
HookCall *hook_call(Hook *hook);
void hook_settle_interrupt(Hook *hook, HookCall *call);

void hook_serve(void *userdata, Request *const *requests, size_t n);
void hook_unlocked(void *userdata, void (*fn)(void *argument), void *argument);
void hook_tidy(void *userdata);
bool hook_wants_tidy(void *userdata);
/* In hook->profile. */
void hook_count_objects(const Hook *hook);
/* Tells those who watch what the collector has cost, if that is more than it was. */
void hook_count_collections(Hook *hook);

/* Defines UBLK::Memory. May raise. */
void memory_define(void);
/* What buffer.c needs of it. Whether it is one; that a range is inside of it: may raise; bytes out of a range or into it, 0 or a
 * negative errno: never raises, may let the interpreter go meanwhile. */
bool memory_is(VALUE object);
void memory_check(VALUE memory, uint64_t offset, size_t length);
int memory_move(VALUE memory, uint64_t offset, void *bytes, size_t length, bool out);
/* Around a load: settings while it lasts, NULL after it. */
void memory_loading(const HookSettings *settings);
/* In the present load, or the last one. */
bool memory_was_asked_for(void);

/* Defines UBLK::Buffer. May raise. */
void buffer_define(void);

/* The calling task's memory for the requests of a hook, and the one handle of it. */
typedef struct BufferSpace BufferSpace;
/* With room for size bytes. Allocates when it is asked for the first time, or for more; may be called ahead. 0 or -ENOMEM. */
int buffer_space(const Hook *hook, size_t size, BufferSpace **ret);
/* By the task that used it, or not. */
void buffer_space_done(const Hook *hook);
uint8_t *buffer_bytes(const BufferSpace *s);
/* The handle, over the first size bytes. writable: they are to be filled. Makes an object when it is called first; may raise. */
VALUE buffer_hand_out(BufferSpace *s, size_t size, bool writable);
/* From here on the handle is of no use. The bytes stay until buffer_space is called again. */
void buffer_take_back(BufferSpace *s);

/* transfer.c: one step of moving bytes between memory and a file. */
typedef struct Transfer {
        bool write;
        int fd;
        int whereabouts;
        uint8_t *bytes;
        size_t length;
        off_t position;
        ssize_t n;     /* how many it were; 0: there are no more to read */
        int error;
} Transfer;
/* Finds out what of the IO is needed. May raise. */
void transfer_aim(Transfer *t, VALUE io);
/* Whether it is done, as there was nothing to wait for. Never raises. */
bool transfer_at_once(Transfer *t);
/* While others may have the interpreter: the bytes must stay. Never raises. */
void transfer_unlocked(Transfer *t);
/* Raises what went wrong, and what others have sent to this thread. False: it has to be done again. */
bool transfer_check(const Transfer *t);

/* Defines UBLK::Sys: system calls that Ruby lacks. May raise. */
void sys_define(void);

/* capture.c: the settings' code for runtime.rb, [[path, real path, source], …] or nil; from here on what Ruby loads is reported to
 * these settings. May raise. */
VALUE capture_begin(const HookSettings *settings);
/* Defines UBLK::Code.loaded. May raise. */
void capture_define(void);
