/* SPDX-License-Identifier: MIT */
#include "service/calls.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>

#define READ_TRIES 100

/* What is wanted of a task's call, and what came of it. */
typedef struct Desk {
        uint64_t number;         /* of the call that all of this is about */
        unsigned wishes;         /* CallWish */
        bool at_work;            /* some were taken, and not granted yet */
        uint64_t traced;         /* number of the call that backtrace is of; none has 0 */
        char backtrace[CALLS_MAX_BACKTRACE];
} Desk;

struct Calls {
        HookCall *calls;
        size_t max;
        _Atomic size_t n;
        _Atomic uint64_t n_collections, collecting_usec;
        sem_t wanted;
        pthread_mutex_t lock; /* over the desks */
        Desk *desks;
};

int calls_new(size_t max, Calls **ret) {
        Calls *c = calloc(1, sizeof(Calls));

        if (!c)
                return -ENOMEM;
        c->max = max;
        c->lock = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
        (void) sem_init(&c->wanted, /* pshared= */ 0, 0);
        c->calls = aligned_alloc(_Alignof(HookCall), max * sizeof(HookCall));
        c->desks = calloc(max, sizeof(Desk));
        if (!c->calls || !c->desks) {
                calls_free(c);
                return -ENOMEM;
        }
        memset(c->calls, 0, max * sizeof(HookCall));
        *ret = c;
        return 0;
}

Calls *calls_free(Calls *c) {
        if (!c)
                return NULL;
        (void) sem_destroy(&c->wanted);
        free(c->calls);
        free(c->desks);
        free(c);
        return NULL;
}

HookCall *calls_join(Calls *c, size_t *ret_index) {
        size_t index;
        HookCall *call = NULL;

        pthread_mutex_lock(&c->lock);
        index = atomic_load(&c->n);
        if (index < c->max) {
                call = &c->calls[index];
                call->task = (pid_t) syscall(SYS_gettid);
                call_end(call);
                atomic_store(&c->n, index + 1);
                *ret_index = index;
        }
        pthread_mutex_unlock(&c->lock);
        return call;
}

size_t calls_max(const Calls *c) {
        return c->max;
}

size_t calls_count(const Calls *c) {
        return atomic_load(&c->n);
}

static bool try_get(const HookCall *call, CallView *ret) {
        uint64_t sequence = atomic_load_explicit(&call->sequence, memory_order_acquire);

        *ret = (CallView) {
                .number = sequence / 2,
                .offset = atomic_load_explicit(&call->offset, memory_order_relaxed),
                .length = atomic_load_explicit(&call->length, memory_order_relaxed),
                .op = atomic_load_explicit(&call->op, memory_order_relaxed),
                .task = call->task,
        };
        atomic_thread_fence(memory_order_acquire);
        return sequence % 2 == 0 && atomic_load_explicit(&call->sequence, memory_order_relaxed) == sequence;
}

/* The task never waits for a reader. One that is found writing time and again has only just begun that call. */
bool calls_get(const Calls *c, size_t index, CallView *ret) {
        CallView v;

        for (int i = 0; i < READ_TRIES; i++)
                if (try_get(&c->calls[index], &v)) {
                        *ret = v;
                        return v.op != OPERATION_NOTHING;
                }
        return false;
}

void calls_note_collections(Calls *c, uint64_t n, uint64_t usec) {
        atomic_store_explicit(&c->collecting_usec, usec, memory_order_relaxed);
        atomic_store_explicit(&c->n_collections, n, memory_order_relaxed);
}

void calls_get_collections(const Calls *c, uint64_t *ret_n, uint64_t *ret_usec) {
        *ret_n = atomic_load_explicit(&c->n_collections, memory_order_relaxed);
        *ret_usec = atomic_load_explicit(&c->collecting_usec, memory_order_relaxed);
}

void calls_want(Calls *c, size_t index, uint64_t number, CallWish wish) {
        Desk *d = &c->desks[index];
        bool news;

        pthread_mutex_lock(&c->lock);
        if (d->number != number) {
                d->number = number;
                d->wishes = 0;
                d->at_work = false;
        }
        news = !(d->wishes & wish);
        d->wishes |= wish;
        pthread_mutex_unlock(&c->lock);
        if (news)
                (void) sem_post(&c->wanted);
}

bool calls_is_wanting(Calls *c, size_t index, uint64_t number) {
        const Desk *d = &c->desks[index];
        bool wanting;

        pthread_mutex_lock(&c->lock);
        wanting = d->number == number && (d->wishes != 0 || d->at_work);
        pthread_mutex_unlock(&c->lock);
        return wanting;
}

void calls_get_backtrace(Calls *c, size_t index, uint64_t number, char ret[static CALLS_MAX_BACKTRACE]) {
        const Desk *d = &c->desks[index];

        pthread_mutex_lock(&c->lock);
        if (d->traced == number && number != 0)
                memcpy(ret, d->backtrace, CALLS_MAX_BACKTRACE);
        else
                ret[0] = 0;
        pthread_mutex_unlock(&c->lock);
}

void calls_wait(Calls *c) {
        (void) sem_wait(&c->wanted);
}

bool calls_take_wish(Calls *c, size_t *ret_index, uint64_t *ret_number, unsigned *ret_wishes) {
        bool taken = false;

        pthread_mutex_lock(&c->lock);
        for (size_t i = 0; i < c->max && !taken; i++) {
                Desk *d = &c->desks[i];

                if (d->wishes == 0)
                        continue;
                *ret_index = i;
                *ret_number = d->number;
                *ret_wishes = d->wishes;
                d->wishes = 0;
                d->at_work = taken = true;
        }
        pthread_mutex_unlock(&c->lock);
        return taken;
}

HookCall *calls_find(Calls *c, size_t index, uint64_t number) {
        CallView v;

        return calls_get(c, index, &v) && v.number == number ? &c->calls[index] : NULL;
}

void calls_grant(Calls *c, size_t index, uint64_t number, const char *backtrace) {
        Desk *d = &c->desks[index];

        pthread_mutex_lock(&c->lock);
        if (d->number == number) {
                d->at_work = false;
                if (backtrace) {
                        (void) snprintf(d->backtrace, sizeof(d->backtrace), "%s", backtrace);
                        d->traced = number;
                }
        }
        pthread_mutex_unlock(&c->lock);
}
