/* SPDX-License-Identifier: MIT */

/*
 * A Ruby thread beside those that serve, which grants what is wanted of a call that takes long (service/calls.h): a look at its
 * backtrace, and an exception in it. It gets its turn while the hook runs Ruby code, sleeps, or waits in the kernel; it gets
 * none while C code keeps the interpreter to itself.
 *
 * With it there always is a thread that is not asleep for ever, so that Ruby's own search for deadlocks finds none.
 */

#include "hooks/binding.h"

#include "service/log.h"

typedef struct Join {
        Hook *hook;
        HookCall *call;
} Join;

static VALUE join(VALUE argument) {
        Join *j = (Join *) argument;
        size_t index;
        HookCall *call = calls_join(j->hook->calls, &index);

        if (!call)
                rb_raise(rb_eRuntimeError, "there are more serving threads than are watched");
        /* An array of the interpreter's own: the collector may move a thread. */
        rb_ary_store(j->hook->threads, (long) index, rb_thread_current());
        j->call = call;
        return Qnil;
}

HookCall *hook_call(Hook *hook) {
        static _Thread_local Calls *calls; /* that the next one belongs to */
        static _Thread_local HookCall *call, unwatched;
        Join j = { .hook = hook };
        int state = 0;

        if (call && calls == hook->calls)
                return call;
        calls = hook->calls;
        call = &unwatched;
        if (!calls)
                return call;
        (void) rb_protect(join, (VALUE) &j, &state);
        hook_check_forked();
        if (state != 0)
                hook_ignore_failure(hook, "before it served anything, so that it is not watched");
        else
                call = j.call;
        return call;
}

static VALUE take_interrupts(VALUE argument) {
        const HookCall *call = (const HookCall *) argument;

        while (atomic_load(&call->interrupt) == CALL_BEING_INTERRUPTED)
                rb_thread_schedule();
        rb_thread_check_ints();
        return Qnil;
}

static bool is_hook_timeout(VALUE error) {
        VALUE library = rb_const_get(rb_cObject, rb_intern("UBLK"));

        return !RB_SPECIAL_CONST_P(error) && RB_BUILTIN_TYPE(error) != T_IMEMO &&
               RTEST(rb_obj_is_kind_of(error, rb_const_get(library, rb_intern("HookTimeout"))));
}

/* The request has its answer. An exception that was meant for it, and came too late, must not meet the next one. */
void hook_settle_interrupt(Hook *hook, HookCall *call) {
        int state;

        do {
                state = 0;
                (void) rb_protect(take_interrupts, (VALUE) call, &state);
                hook_check_forked();
                if (state != 0 && is_hook_timeout(rb_errinfo()))
                        rb_set_errinfo(Qnil);
                else if (state != 0)
                        hook_ignore_failure(hook, "between two requests");
        } while (state != 0);
        atomic_store(&call->interrupt, CALL_LEFT_ALONE);
}

typedef struct Grant {
        Hook *hook;
        size_t index;
        uint64_t number;
        unsigned wishes;
        HookCall *raising; /* the call that is being interrupted */
        char backtrace[CALLS_MAX_BACKTRACE];
        bool has_backtrace;
} Grant;

static void take_backtrace(Grant *g, VALUE thread) {
        VALUE text = rb_funcall(g->hook->runtime, rb_intern("trace"), 1, thread);

        if (NIL_P(text))
                return;
        (void) snprintf(g->backtrace, sizeof(g->backtrace), "%s", StringValueCStr(text));
        g->has_backtrace = true;
        RB_GC_GUARD(text);
}

/* Other threads may run inside of each call into Ruby. From the moment at which the call is found and marked, it can't end
 * before it is unmarked (hook_settle_interrupt). */
static void interrupt(Grant *g, VALUE thread) {
        VALUE error = rb_funcall(g->hook->runtime, rb_intern("hook_timeout"), 1, rb_utf8_str_new_cstr(g->hook->interruption));

        g->raising = calls_find(g->hook->calls, g->index, g->number);
        if (!g->raising)
                return;
        atomic_store(&g->raising->interrupt, CALL_BEING_INTERRUPTED);
        (void) rb_funcall(thread, rb_intern("raise"), 1, error);
}

static VALUE grant(VALUE argument) {
        Grant *g = (Grant *) argument;
        VALUE thread = rb_ary_entry(g->hook->threads, (long) g->index);

        if (NIL_P(thread) || !calls_find(g->hook->calls, g->index, g->number))
                return Qnil;
        take_backtrace(g, thread);
        if (g->wishes & CALL_WISH_INTERRUPT)
                interrupt(g, thread);
        return Qnil;
}

/* Until the backtrace is there, that call may have ended: then it is of something else. */
static void grant_all(Hook *hook) {
        Grant g = { .hook = hook };

        while (calls_take_wish(hook->calls, &g.index, &g.number, &g.wishes)) {
                int state = 0;

                g.raising = NULL;
                g.has_backtrace = false;
                (void) rb_protect(grant, (VALUE) &g, &state);
                if (state != 0)
                        hook_ignore_failure(hook, "that watches the others");
                if (g.raising)
                        atomic_store(&g.raising->interrupt, CALL_INTERRUPTED);
                else if (!calls_find(hook->calls, g.index, g.number))
                        g.has_backtrace = false;
                calls_grant(hook->calls, g.index, g.number, g.has_backtrace ? g.backtrace : NULL);
        }
}

static void wait_for_wish(void *argument) {
        calls_wait(argument);
}

static void watch(void *userdata) {
        Hook *hook = userdata;

        for (;;) {
                hook_unlocked(hook, wait_for_wish, hook->calls);
                grant_all(hook);
        }
}

/* Out of reach of a hook that looks at every object. */
static VALUE make_threads(VALUE argument) {
        (void) argument;
        return rb_obj_hide(rb_ary_new());
}

int hook_watch(Hook *hook, Calls *calls, const char *message) {
        int state = 0;

        hook->threads = rb_protect(make_threads, Qnil, &state);
        if (state != 0) {
                hook_ignore_failure(hook, "before it is watched");
                return -EAGAIN;
        }
        hook->calls = calls;
        hook->interruption = message;
        return hook_spawn(hook, watch, hook);
}
