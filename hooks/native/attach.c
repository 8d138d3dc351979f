/* SPDX-License-Identifier: MIT */

/*
 * A Hook around an object of the caller's, several in a process. It differs from a worker's in two points: what
 * other threads send to a serving one (Thread#raise, Thread#kill) ends it between two requests, and a forked
 * child is only ended if it is the copy of a serving task.
 */

#include "hooks/native/native.h"

#include <pthread.h>
#include <ruby/thread.h>

static _Thread_local bool task_serves;

static void mark_forked(void) {
        hook_is_forked = task_serves;
}

void hook_set_serving(bool serving) {
        task_serves = serving;
}

void hook_watch_forks(void) {
        (void) pthread_atfork(NULL, NULL, mark_forked);
}

typedef struct Unlocked {
        void (*fn)(void *argument);
        void *argument;
} Unlocked;

static void *unlocked_call(void *argument) {
        Unlocked *u = argument;

        u->fn(u->argument);
        return NULL;
}

/* May raise, right out of queue_serve: all answers are on their way, and the loop holds nothing. */
static void attached_unlocked(void *userdata, void (*fn)(void *argument), void *argument) {
        Unlocked u = { fn, argument };

        (void) userdata;
        (void) rb_thread_call_without_gvl(unlocked_call, &u, RUBY_UBF_IO, NULL);
}

Hook *hook_attach(VALUE target, const Attachment *attachment) {
        Hook *hook = ALLOC(Hook);

        if (!hook_init(hook)) {
                xfree(hook);
                rb_memerror();
        }
        hook->server.unlocked = attached_unlocked;
        hook->settings.report = attachment->report;
        hook->settings.userdata = attachment->userdata;
        hook->geometry = attachment->geometry;
        hook->takes_unmap = attachment->takes_unmap;
        hook->reads_into = attachment->reads_into;
        hook->writes_from = attachment->writes_from;
        hook->target = target;
        hook_prepare(hook, "Native");
        return hook;
}

void hook_detach(Hook *hook) {
        buffer_space_done(hook);
        hook_done(hook);
        xfree(hook);
}
