/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The contract between service/ and hooks/: all that a main knows of Ruby. There is one interpreter in a
 * process and one hook in it. Unless said otherwise a function is called on a thread that holds the
 * interpreter: the one on which hook_run called body, or one made by hook_spawn.
 */

#include "service/calls.h"
#include "service/code.h"
#include "service/failure.h"
#include "service/geometry.h"
#include "service/grants.h"
#include "service/memory-file.h"
#include "service/profile.h"
#include "service/request.h"

typedef struct Hook Hook;

typedef struct HookSettings {
        const char *name;          /* "file" */
        const char *path;          /* of the script */
        const char *class_name;    /* or NULL: `run X` wins, else the one concrete subclass the script defines */
        const char *device;        /* the device's name: `UBLK.device_name` */
        const Argument *arguments; /* checked against the class's schema before anything of it runs */
        size_t n_arguments;
        Recovery recovery;         /* RECOVERY_DEFAULT: what the class declares */
        bool read_only;            /* stricter than the hook */
        const Grants *grants;      /* what the unit gives; a hook that declares more is not built. NULL: there is no unit */
        const char *state_directory; /* `UBLK.state_directory`, made when that is first asked for; NULL: as in a plain program */
        uint64_t state_owner;      /* whose it is then: state.h */

        bool fresh_buffers;        /* for --check: each request has a UBLK::Buffer of its own, whose bytes are no earlier request's */
        const char *data_path;     /* "string": never a UBLK::Buffer; "buffer": always; "auto" or NULL: where the hook can */

        bool mlock;                /* memory is locked: what is found in a UBLK::Memory is brought in */

        /* For UBLK::Memory.new, which a hook may call while it is loaded and built: a descriptor of size bytes that outlives this
         * process, the caller's. 1: it was there before; 0: it is empty; a negative errno and *ret_failure. The name is valid,
         * and asked for once in a load. NULL: memory of this process. */
        int (*memory)(void *userdata, const char *name, uint64_t size, int *ret_fd, Failure *ret_failure);

        /* Called once for each request that a hook failed, with what it raised or did wrong. The answer to
         * the request is decided already: result is set, and is −failure->error. From a thread that holds the
         * interpreter; must not block for long. */
        void (*report)(void *userdata, const Request *request, const Failure *failure);
        /* Called with each file of the hook's own code that is loaded from the disk, then and later, before it runs. What is
         * installed (Ruby's library, gems, ours) is not reported, nor is what code has. From a thread that holds the interpreter;
         * must not raise. NULL: Ruby loads files as it does by itself, and code has to be NULL. */
        void (*loaded)(void *userdata, const char *path, const char *real_path, const void *source, size_t size);
        void *userdata;
        const Code *code; /* these files are loaded instead of what the disk has in their place, or has not; or NULL */
} HookSettings;

/* Starts the interpreter on the calling thread, which must be the process's main thread and must have dropped
 * its privileges, and calls body below its stack frame. Returns what body returns, or a negative errno if
 * Ruby does not start. body gets the hook with nothing loaded. The environment loses what injects code into
 * Ruby (RUBYOPT, GEM_HOME, …). Afterwards the at_exit blocks of the hook run. If they, or Ruby's threads,
 * take longer than 5 seconds, the process ends here, with what body returned as its exit status (1 if that is
 * none). */
int hook_run(int (*body)(Hook *hook, void *userdata), void *userdata);

/* Loads the script, checks the arguments, builds the target and asks it for its geometry (checked). On error
 * a negative errno and *ret_failure: FAILURE_HOOK with class, file and line; FAILURE_ARGUMENTS naming the
 * option and what the hook takes; FAILURE_NEEDS; FAILURE_NO_HOOK. Nothing raised, thrown or exited in Ruby gets past it. The
 * strings of settings are used only here, report and userdata as long as the hook serves. Signal handlers
 * that the main installed before hook_run are in place again. May be called again, for another script or the
 * same: the last one that loaded without error serves. */
int hook_load(Hook *hook, const HookSettings *settings, Geometry *ret, Failure *ret_failure);

/* The first part of that: loads the script and checks the arguments, and builds nothing. Errors as of hook_load. */
int hook_examine(Hook *hook, const HookSettings *settings, Failure *ret_failure);

/* What the queue calls; valid as long as the hook. */
const Server *hook_server(Hook *hook);

/* By a task that will serve, before it does: what a request of at most max_size bytes takes is allocated now. -ENOMEM. */
int hook_reserve(Hook *hook, uint32_t max_size);

/* How often hooks have used a UBLK::Buffer whose request had been answered. */
uint64_t hook_stale_calls(void);

/* From now on calls has what each serving task is at in the hook, and what is wanted of a call is granted by a Ruby thread
 * of its own: a backtrace; or the exception UBLK::HookTimeout (ETIMEDOUT), which is raised in that call or not at all.
 * message: of the exception; borrowed as calls is, for as long as the hook serves. Before any request. -EAGAIN. */
int hook_watch(Hook *hook, Calls *calls, const char *message);

/* From now on what the hook costs the interpreter is noted in p (borrowed as long as the process). Before any request. */
void hook_profile(Hook *hook, HookProfile *p);

/* A further task that may serve: a Ruby thread (never a bare pthread) that calls fn with the interpreter
 * held. -EAGAIN if there can't be one. When hook_run ends, a thread that still serves is ended out of
 * `unlocked`, without unwinding fn. */
int hook_spawn(Hook *hook, void (*fn)(void *userdata), void *userdata);

struct json_t;

/* What the script says of itself before anything of it is built; of settings only path, class_name and state_directory
 * count. Runs the script. An object: class, options (an array: name, type, required, default as text, doc), recovery,
 * concurrency, network, jit, sink. Errors as of hook_load. */
int hook_describe(Hook *hook, const HookSettings *settings, struct json_t **ret, Failure *ret_failure);

/* For --check: UBLK::Check.METHOD(target, *arguments) of lib/ublk/check.rb, arguments ending with NULL, and what
 * it returns as JSON; ret may be NULL. */
int hook_check(Hook *hook, const char *method, const char *const *arguments, struct json_t **ret, Failure *ret_failure);
