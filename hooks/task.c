/* SPDX-License-Identifier: MIT */

/*
 * The threads that serve, between batches: waiting without the interpreter, collecting garbage while nobody
 * waits for an answer, and starting further threads.
 */

#include "hooks/binding.h"

#include <ruby/thread.h>
#include <sys/param.h>

/* From here on it is the collector's own limit that counts. */
#define GARBAGE_MAX (8 << 20)
#define COLLECTING_SHARE 8

typedef struct Unlocked {
        void (*fn)(void *argument);
        void *argument;
        bool called;
} Unlocked;

static void *unlocked_call(void *argument) {
        Unlocked *u = argument;

        u->called = true;
        u->fn(u->argument);
        return NULL;
}

static VALUE unlocked_run(VALUE argument) {
        (void) rb_thread_call_without_gvl(unlocked_call, (void *) argument, RUBY_UBF_IO, NULL);
        return Qnil;
}

/* Here arrives what other threads of the hook send to this one: Thread#raise, Thread#kill, an exit, an
 * Interrupt. They hit no request, and must not end the loop. Before fn they are taken in one by one, and fn
 * is called in any case. */
void hook_unlocked(void *userdata, void (*fn)(void *argument), void *argument) {
        Hook *hook = userdata;
        Unlocked u = { fn, argument, false };

        do {
                int state = 0;

                (void) rb_protect(unlocked_run, (VALUE) &u, &state);
                hook_check_forked();
                if (state == 0)
                        continue;
                if (hook->ending)
                        rb_jump_tag(state);
                hook_ignore_failure(hook, "between two requests");
        } while (!u.called);
}

/* Asked after each batch, so it makes no object and calls no method, which a hook might have defined anew. */
void hook_count_collections(Hook *hook) {
        size_t n = rb_gc_count();

        if (n == hook->n_collections || !hook->calls)
                return;
        hook->n_collections = n;
        calls_note_collections(hook->calls, n, (uint64_t) rb_gc_stat(ID2SYM(rb_intern("time"))) * USEC_PER_MSEC);
}

void hook_count_objects(const Hook *hook) {
        atomic_store_explicit(&hook->profile->objects, rb_gc_stat(ID2SYM(rb_intern("total_allocated_objects"))), memory_order_relaxed);
}

#ifdef RUBY_INTERNAL_THREAD_EVENT_RESUMED
static void count_hand_over(rb_event_flag_t event, const rb_internal_thread_event_data_t *data, void *userdata) {
        HookProfile *p = userdata;

        (void) event;
        (void) data;
        profile_add(&p->hand_overs, 1);
}
#endif

void hook_profile(Hook *hook, HookProfile *p) {
        hook->profile = p;
#ifdef RUBY_INTERNAL_THREAD_EVENT_RESUMED
        (void) rb_internal_thread_add_event_hook(count_hand_over, RUBY_INTERNAL_THREAD_EVENT_RESUMED, p);
#endif
}

static VALUE collect(VALUE argument) {
        Hook *hook = (Hook *) argument;

        (void) rb_gc_enable(); /* a hook that calls GC.disable would grow for ever */
        return rb_funcallv_kw(rb_mGC, rb_intern("start"), 1, &hook->minor_collection, RB_PASS_KEYWORDS);
}

bool hook_wants_tidy(void *userdata) {
        const Hook *hook = userdata;

        return hook->payload >= hook->garbage;
}

/* The more live objects there are the longer it takes: then it is to be rarer, so that it takes no more than that share of the
 * time. */
static void pace(Hook *hook, uint64_t begun) {
        uint64_t ended = profile_now(), taken = ended - begun, apart = ended - hook->collected_nsec;

        if (taken > apart / COLLECTING_SHARE)
                hook->garbage = MIN(hook->garbage * 2, GARBAGE_MAX);
        else if (taken < apart / COLLECTING_SHARE / 2)
                hook->garbage = MAX(hook->garbage / 2, HOOK_GARBAGE_MIN);
        hook->collected_nsec = ended;
}

/* A minor collection: a full one takes 50 ms with a million objects. What a hook took away is put back here, now and
 * then: it costs system calls. */
void hook_tidy(void *userdata) {
        Hook *hook = userdata;
        uint64_t begun;
        int state = 0;

        if (!hook_wants_tidy(hook))
                return;
        hook->payload = 0;
        (void) hook_signals_restore();
        begun = profile_now();
        (void) rb_protect(collect, (VALUE) hook, &state);
        pace(hook, begun);
        hook_check_forked();
        if (state != 0)
                hook_ignore_failure(hook, "while it collected garbage");
        hook_count_collections(hook);
}

typedef struct Spawn {
        void (*fn)(void *userdata);
        void *userdata;
} Spawn;

static VALUE spawn_run(void *argument) {
        Spawn s = *(Spawn *) argument;

        free(argument);
        s.fn(s.userdata);
        return Qnil;
}

static VALUE spawn_thread(VALUE argument) {
        return rb_thread_create(spawn_run, (void *) argument);
}

int hook_spawn(Hook *hook, void (*fn)(void *userdata), void *userdata) {
        Spawn *s = malloc(sizeof(*s));
        int state = 0;

        if (!s)
                return -ENOMEM;
        *s = (Spawn) { fn, userdata };
        (void) rb_protect(spawn_thread, (VALUE) s, &state);
        if (state == 0)
                return 0;
        free(s); /* no thread was made, or it would own this */
        hook_ignore_failure(hook, "while it started a thread");
        return -EAGAIN;
}
