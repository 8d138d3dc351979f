/* SPDX-License-Identifier: MIT */
#include "service/stuck.h"

#include "service/config.h"
#include "service/log.h"
#include "service/report.h"

#include <assert.h>

#define LOG_MAX_USEC (5 * USEC_PER_SEC)
#define GRACE_MIN_USEC (2 * USEC_PER_SEC)
#define GRACE_MAX_USEC (10 * USEC_PER_SEC)
#define TICK_MIN_USEC (20 * USEC_PER_MSEC)
#define TICK_MAX_USEC (500 * USEC_PER_MSEC)
/* So long the first stage waits for a backtrace. Ruby changes threads every 100 ms. */
#define TRACE_USEC USEC_PER_SEC
/* Who looks every half second, and did not for so long, did not run. */
#define GAP_USEC (2 * USEC_PER_SEC)

/* A call of one task, as far as it has come. Times are of the clock that stuck_check is given; 0: not yet. */
typedef struct StuckCall {
        uint64_t number;
        uint64_t since;
        uint64_t asked;       /* for the backtrace of the first stage */
        bool logged;
        uint64_t interrupted;
        uint64_t judged;      /* asked for the backtrace that code on trial is sent back with */
} StuckCall;

/* A task's wait for its turn. */
typedef struct StuckTurn {
        bool waiting;
        bool logged;
        uint64_t round;
        uint64_t since;
} StuckTurn;

struct Stuck {
        const char *device;
        Calls *calls;
        StuckLimits limits;
        uint64_t timeout_usec;
        uint64_t looked;
        uint64_t trial_ended; /* when it was first asked whether the code may stay; 0: not yet */
        StuckCall *tasks;
        StuckTurn *turns;
        size_t n_tasks, n_turns;
};

static_assert(sizeof((StuckRequest) { 0 }.backtrace) == CALLS_MAX_BACKTRACE, "one backtrace fits where the other does");

static uint64_t clamp(uint64_t x, uint64_t min, uint64_t max) {
        return x < min ? min : x > max ? max : x;
}

StuckLimits stuck_limits(uint64_t t) {
        if (t == 0)
                return (StuckLimits) { .log_usec = LOG_MAX_USEC, .interrupt_usec = UINT64_MAX, .tick_usec = TICK_MAX_USEC };
        return (StuckLimits) {
                .log_usec = clamp(t / 2, 0, LOG_MAX_USEC),
                .interrupt_usec = t,
                .grace_usec = clamp(t / 3, GRACE_MIN_USEC, GRACE_MAX_USEC),
                .tick_usec = clamp(t / 16, TICK_MIN_USEC, TICK_MAX_USEC),
        };
}

int stuck_new(const char *device, uint64_t hook_timeout_usec, Calls *calls, Stuck **ret) {
        Stuck *s = malloc(sizeof(Stuck));

        if (!s)
                return -ENOMEM;
        *s = (Stuck) {
                .device = device,
                .calls = calls,
                .limits = stuck_limits(hook_timeout_usec),
                .timeout_usec = hook_timeout_usec,
                .n_tasks = calls_max(calls),
                .n_turns = calls_max(calls),
        };
        s->tasks = calloc(s->n_tasks, sizeof(StuckCall));
        s->turns = calloc(s->n_turns, sizeof(StuckTurn));
        if (!s->tasks || !s->turns) {
                stuck_free(s);
                return -ENOMEM;
        }
        *ret = s;
        return 0;
}

Stuck *stuck_free(Stuck *s) {
        if (!s)
                return NULL;
        free(s->tasks);
        free(s->turns);
        free(s);
        return NULL;
}

static double seconds(uint64_t usec) {
        return (double) usec / (double) USEC_PER_SEC;
}

/* What only the kernel knows of a task that Ruby can't be asked about: "R", "S in futex_do_wait", NULL if nothing. */
static char *describe_task(pid_t task) {
        _cleanup_free_ char *stat_path = NULL, *wchan_path = NULL, *stat = NULL, *wchan = NULL;
        char *text = NULL;
        const char *end;

        if (config_path(&stat_path, "/proc/self/task/%d/stat", (int) task) < 0 || read_file(stat_path, 4096, &stat, NULL) < 0 ||
            !(end = strrchr(stat, ')')) || strlen(end) < 3 ||
            config_path(&wchan_path, "/proc/self/task/%d/wchan", (int) task) < 0)
                return NULL;
        if (read_file(wchan_path, 256, &wchan, NULL) < 0 || streq(wchan, "0") || streq(wchan, ""))
                (void) xasprintf(&text, "%c", end[2]);
        else
                (void) xasprintf(&text, "%c in %s", end[2], wchan);
        return text;
}

/* Below a journal entry, as below those of failures. */
static char *indent_backtrace(const char *frames) {
        char *text = NULL, *line;
        char copy[CALLS_MAX_BACKTRACE], *rest = copy;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        (void) snprintf(copy, sizeof(copy), "%s", frames);
        while ((line = strsep(&rest, "\n")))
                if (line[0])
                        fprintf(f, "\n    from %s", line);
        if (fclose(f) == 0)
                return text;
        free(text);
        return NULL;
}

/* "read of 4096 bytes at 0" */
static char *describe_call(const CallView *v) {
        const char *op = operation_to_string(v->op);
        char *text = NULL;

        (void) xasprintf(&text, "%s of %llu bytes at %llu", op ? op : "a request", (unsigned long long) v->length,
                         (unsigned long long) v->offset);
        return text;
}

static void log_call(Stuck *s, size_t task, const CallView *v, uint64_t age) {
        _cleanup_free_ char *what = describe_call(v), *backtrace = NULL, *next = NULL, *text = NULL;
        char frames[CALLS_MAX_BACKTRACE];

        calls_get_backtrace(s->calls, task, v->number, frames);
        backtrace = indent_backtrace(frames);
        if (s->timeout_usec == 0)
                (void) xstrdup("hook-timeout is 0, so it is left alone", &next);
        else
                (void) xasprintf(&next, "it is interrupted at hook-timeout, %.1f s", seconds(s->timeout_usec));
        (void) xasprintf(&text, "%s has been in the hook for %.1f s; %s%s%s", what ? what : "", seconds(age), next ? next : "",
                         frames[0] ? "" : ". There is no backtrace, as C code keeps the interpreter to itself",
                         backtrace ? backtrace : "");
        report_stuck(s->device, v, /* stage= */ 1, age, text ? text : "out of memory");
}

static int end_call(Stuck *s, size_t task, const CallView *v, uint64_t age, Failure *ret) {
        _cleanup_free_ char *what = describe_call(v), *state = describe_task(v->task), *backtrace = NULL, *text = NULL;
        char frames[CALLS_MAX_BACKTRACE];
        int r;

        calls_get_backtrace(s->calls, task, v->number, frames);
        backtrace = indent_backtrace(frames);
        r = failure_set(ret, FAILURE_HOOK, ETIMEDOUT,
                        "%s was in the hook for %.1f s, and %s; the worker was ended", what ? what : "", seconds(age),
                        calls_is_wanting(s->calls, task, v->number) ?
                                "could not be interrupted, as C code keeps the interpreter to itself" :
                                "the exception at hook-timeout did not end it: it is caught, or C code does not let it in");
        (void) failure_set_origin(ret, "UBLK::HookTimeout", NULL, 0);
        (void) xasprintf(&text, "%s%s%s%s", ret->message ? ret->message : "", state ? ". State of its thread: " : "",
                         state ? state : "", backtrace ? backtrace : "");
        report_stuck(s->device, v, /* stage= */ 3, age, text ? text : "out of memory");
        return r;
}

static void note_wait(uint64_t now, uint64_t due, uint64_t *wait) {
        uint64_t left = due > now ? due - now : 0;

        if (left < *wait)
                *wait = left;
}

static uint64_t later(uint64_t time, uint64_t gap, uint64_t now) {
        return time == 0 ? 0 : time + gap < now ? time + gap : now;
}

/* Nothing happened meanwhile, in the hook either. */
static void skip_gap(Stuck *s, uint64_t now) {
        uint64_t gap = s->looked > 0 && now > s->looked + GAP_USEC ? now - s->looked : 0;

        s->looked = now;
        if (gap == 0)
                return;
        s->trial_ended = later(s->trial_ended, gap, now);
        for (size_t i = 0; i < s->n_tasks; i++) {
                StuckCall *c = &s->tasks[i];

                c->since = later(c->since, gap, now);
                c->asked = later(c->asked, gap, now);
                c->interrupted = later(c->interrupted, gap, now);
                c->judged = later(c->judged, gap, now);
        }
        for (size_t i = 0; i < s->n_turns; i++)
                s->turns[i].since = later(s->turns[i].since, gap, now);
}

static void first_stage(Stuck *s, size_t task, const CallView *v, uint64_t now, uint64_t *wait) {
        StuckCall *c = &s->tasks[task];
        uint64_t age = now - c->since;

        if (c->logged || age < s->limits.log_usec) {
                if (!c->logged)
                        note_wait(now, c->since + s->limits.log_usec, wait);
                return;
        }
        if (c->asked == 0) {
                c->asked = now;
                calls_want(s->calls, task, v->number, CALL_WISH_BACKTRACE);
        }
        if (calls_is_wanting(s->calls, task, v->number) && now - c->asked < TRACE_USEC) {
                note_wait(now, now + TICK_MIN_USEC, wait);
                return;
        }
        c->logged = true;
        log_call(s, task, v, age);
}

/* The second, and whether the third is due. */
static bool last_stages(Stuck *s, size_t task, const CallView *v, uint64_t now, uint64_t *wait) {
        StuckCall *c = &s->tasks[task];

        if (s->limits.interrupt_usec == UINT64_MAX)
                return false;
        if (now - c->since < s->limits.interrupt_usec) {
                note_wait(now, c->since + s->limits.interrupt_usec, wait);
                return false;
        }
        if (c->interrupted == 0) {
                c->interrupted = now;
                calls_want(s->calls, task, v->number, CALL_WISH_INTERRUPT);
        }
        note_wait(now, c->interrupted + s->limits.grace_usec, wait);
        return now - c->interrupted >= s->limits.grace_usec;
}

/* False if that task has nothing in the hook. */
static bool look(Stuck *s, size_t task, uint64_t now, CallView *ret) {
        StuckCall *c = &s->tasks[task];

        if (!calls_get(s->calls, task, ret)) {
                *c = (StuckCall) { 0 };
                return false;
        }
        if (c->number != ret->number)
                *c = (StuckCall) { .number = ret->number, .since = now };
        return true;
}

/* Of several for which the process has to end the oldest is to blame: others may have waited for it. */
int stuck_check(Stuck *s, uint64_t now, uint64_t *ret_wait, CallView *ret_call, Failure *ret_failure) {
        uint64_t wait = s->limits.tick_usec;
        size_t worst = SIZE_MAX;
        CallView v;

        skip_gap(s, now);
        for (size_t i = 0; i < calls_count(s->calls); i++) {
                if (!look(s, i, now, &v))
                        continue;
                first_stage(s, i, &v, now, &wait);
                if (!last_stages(s, i, &v, now, &wait) || (worst != SIZE_MAX && s->tasks[worst].since <= s->tasks[i].since))
                        continue;
                worst = i;
                *ret_call = v;
        }
        *ret_wait = wait;
        return worst == SIZE_MAX ? 0 : end_call(s, worst, ret_call, now - s->tasks[worst].since, ret_failure);
}

int stuck_check_turn(Stuck *s, size_t queue, bool waiting, uint64_t round, uint64_t now, Failure *ret_failure) {
        StuckTurn *t;
        uint64_t age;
        int r;

        if (queue >= s->n_turns)
                return 0;
        t = &s->turns[queue];
        if (!waiting || !t->waiting || t->round != round) {
                *t = (StuckTurn) { .waiting = waiting, .round = round, .since = now };
                return 0;
        }
        age = now - t->since;
        if (age >= s->limits.log_usec && !t->logged) {
                t->logged = true;
                log_warning("Queue %zu of %s has been waiting for the interpreter for %.1f s: a thread of the hook keeps it to itself.",
                            queue, s->device, seconds(age));
        }
        if (s->limits.interrupt_usec == UINT64_MAX || age < s->limits.interrupt_usec + s->limits.grace_usec)
                return 0;
        r = failure_set(ret_failure, FAILURE_HOOK, ETIMEDOUT,
                        "queue %zu waited for the interpreter for %.1f s, as a thread of the hook keeps it to itself; the worker was ended",
                        queue, seconds(age));
        log_error("%s: %s", s->device, ret_failure->message ? ret_failure->message : "out of memory");
        return r;
}

/* The innermost frame, "FILE:LINE:in …", is where the hook is. */
static void set_place(Failure *f, const char *frames) {
        _cleanup_free_ char *file = NULL;
        const char *colon = frames;
        unsigned line;

        while ((colon = strchr(colon, ':')) && sscanf(colon, ":%9u", &line) != 1)
                colon++;
        file = colon ? strndup(frames, (size_t) (colon - frames)) : NULL;
        if (file)
                (void) failure_set_origin(f, NULL, file, line);
}

static int judge_call(Stuck *s, size_t task, uint64_t now, uint64_t limit, Failure *ret) {
        _cleanup_free_ char *what = NULL, *backtrace = NULL;
        StuckCall *c = &s->tasks[task];
        char frames[CALLS_MAX_BACKTRACE];
        CallView v;

        if (task >= calls_count(s->calls) || !look(s, task, now, &v) || c->since > s->trial_ended)
                return 0;
        if (now - c->since < limit)
                return -EAGAIN;
        if (c->judged == 0) {
                c->judged = now;
                calls_want(s->calls, task, v.number, CALL_WISH_BACKTRACE);
        }
        if (now == c->judged || (calls_is_wanting(s->calls, task, v.number) && now - c->judged < TRACE_USEC))
                return -EAGAIN;
        what = describe_call(&v);
        calls_get_backtrace(s->calls, task, v.number, frames);
        backtrace = indent_backtrace(frames);
        (void) failure_set(ret, FAILURE_HOOK, ETIMEDOUT, "%s has been in the hook for %.1f s%s", what ? what : "", seconds(now - c->since),
                           frames[0] ? "" : ", where C code keeps the interpreter to itself");
        set_place(ret, frames);
        (void) failure_set_backtrace(ret, backtrace && *backtrace ? backtrace + 1 : NULL);
        return -EBUSY;
}

static int judge_turn(const Stuck *s, size_t queue, uint64_t now, uint64_t limit, Failure *ret) {
        const StuckTurn *t = &s->turns[queue];

        if (!t->waiting || t->since > s->trial_ended)
                return 0;
        if (now - t->since < limit)
                return -EAGAIN;
        (void) failure_set(ret, FAILURE_HOOK, ETIMEDOUT,
                           "queue %zu has been waiting for the interpreter for %.1f s, as a thread of the hook keeps it to itself", queue,
                           seconds(now - t->since));
        return -EBUSY;
}

int stuck_judge_trial(Stuck *s, uint64_t now, uint64_t limit, Failure *ret_failure) {
        bool may_be_done_soon = false;
        int r = 0;

        if (s->trial_ended == 0)
                s->trial_ended = now;
        for (size_t i = 0; r != -EBUSY && i < s->n_tasks + s->n_turns; i++) {
                r = i < s->n_tasks ? judge_call(s, i, now, limit, ret_failure) : judge_turn(s, i - s->n_tasks, now, limit, ret_failure);
                may_be_done_soon |= r == -EAGAIN;
        }
        return r == -EBUSY ? r : may_be_done_soon ? -EAGAIN : 0;
}

static bool is_listed(Stuck *s, size_t task, uint64_t now, CallView *ret) {
        return calls_get(s->calls, task, ret) && ret->number == s->tasks[task].number &&
               now - s->tasks[task].since >= STUCK_MIN_AGE_USEC;
}

void stuck_trace(Stuck *s, uint64_t now) {
        CallView v;

        for (size_t i = 0; i < calls_count(s->calls); i++)
                if (is_listed(s, i, now, &v))
                        calls_want(s->calls, i, v.number, CALL_WISH_BACKTRACE);
}

bool stuck_is_tracing(Stuck *s, uint64_t now) {
        CallView v;

        for (size_t i = 0; i < calls_count(s->calls); i++)
                if (is_listed(s, i, now, &v) && calls_is_wanting(s->calls, i, v.number))
                        return true;
        return false;
}

/* Makes room for one of that age, or finds that it is too young. */
static StuckRequest *insert(StuckRequest *list, size_t *n, size_t max, uint64_t age) {
        size_t at = 0;

        while (at < *n && list[at].age_usec >= age)
                at++;
        if (at == max)
                return NULL;
        if (*n < max)
                (*n)++;
        memmove(&list[at + 1], &list[at], (*n - at - 1) * sizeof(StuckRequest));
        return &list[at];
}

size_t stuck_list(Stuck *s, uint64_t now, StuckRequest *ret, size_t max) {
        size_t n = 0;

        for (size_t i = 0; i < calls_count(s->calls); i++) {
                StuckRequest *r;
                CallView v;

                if (!is_listed(s, i, now, &v))
                        continue;
                r = insert(ret, &n, max, now - s->tasks[i].since);
                if (!r)
                        continue;
                *r = (StuckRequest) {
                        .op = v.op,
                        .offset = v.offset,
                        .length = v.length,
                        .age_usec = now - s->tasks[i].since,
                };
                calls_get_backtrace(s->calls, i, v.number, r->backtrace);
                r->backtrace_size = (uint32_t) strnlen(r->backtrace, sizeof(r->backtrace));
        }
        return n;
}
