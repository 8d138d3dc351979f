/* SPDX-License-Identifier: MIT */

/* What time alone brings about. */

#include "service/end-reason.h"
#include "service/log.h"
#include "service/supervisor-parts.h"
#include "service/trial.h"

#include <systemd/sd-daemon.h>

static void load_timed_out(Supervisor *s) {
        Failure f = FAILURE_NULL;

        (void) failure_set(&f, FAILURE_HOOK, ETIMEDOUT,
                           "hook \"%s\" did not finish loading and initialize within %s (%.1f s); make it faster, or raise start-timeout",
                           s->config->hook, s->load_limit_usec > s->config->start_timeout_usec ? "three times its start-timeout" : "start-timeout",
                           (double) s->load_limit_usec / USEC_PER_SEC);
        log_error("%s", f.message);
        supervisor_publish(&f);
        supervisor_end_process(s->failing_status);
}

/* A task that is lost in our own code, or in the kernel where it should not block, will never serve again. A hook that is
 * stuck is none of systemd's business. */
static bool queues_are_sound(Supervisor *s) {
        bool sound = true;

        pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < s->n_queues; i++)
                if (!queue_is_sound(s->queues[i], &s->rounds[i]))
                        sound = false;
        pthread_mutex_unlock(&s->lock);
        return sound;
}

static void ping_watchdog(Supervisor *s, uint64_t now) {
        bool sound = queues_are_sound(s); /* at each tick, so that there is a last time to compare with */

        if (!sound && !s->unsound)
                log_warning("A queue of %s does not come round; systemd's watchdog is not pinged until it does.", s->config->name);
        s->unsound = !sound;
        if (!sound || now < s->pinged_usec + s->watchdog_usec / 2)
                return;
        (void) sd_notify(0, "WATCHDOG=1");
        s->pinged_usec = now;
}

Stuck *supervisor_get_stuck(Supervisor *s) {
        Stuck *stuck;

        pthread_mutex_lock(&s->lock);
        stuck = s->stuck;
        pthread_mutex_unlock(&s->lock);
        return stuck;
}

static bool get_turn(Supervisor *s, size_t queue, bool *ret_waiting, uint64_t *ret_round) {
        bool there;

        pthread_mutex_lock(&s->lock);
        there = queue < s->n_queues;
        if (there)
                *ret_waiting = queue_awaits_turn(s->queues[queue], ret_round);
        pthread_mutex_unlock(&s->lock);
        return there;
}

static int check_turns(Supervisor *s, Stuck *stuck, uint64_t now, Failure *f) {
        uint64_t round;
        bool waiting;
        int r = 0;

        for (size_t i = 0; r >= 0 && get_turn(s, i, &waiting, &round); i++)
                r = stuck_check_turn(stuck, i, waiting, round, now, f);
        return r;
}

/* What the hook has not given back. */
static void check_stuck(Supervisor *s, uint64_t now) {
        Stuck *stuck = supervisor_get_stuck(s);
        Failure f = FAILURE_NULL;
        CallView call;
        uint64_t wait;
        int r;

        if (!stuck)
                return;
        r = stuck_check(stuck, now, &wait, &call, &f);
        if (r >= 0)
                r = check_turns(s, stuck, now, &f);
        else if (call.op != OPERATION_RESIZE) /* nobody gives that to the next worker */
                culprits_note(s->culprits, &call);
        if (r < 0) {
                supervisor_publish(&f);
                supervisor_end_process(EXIT_CRASHED);
        }
        wait = (wait + USEC_PER_MSEC - 1) / USEC_PER_MSEC;
        if (wait < (uint64_t) s->timeout_msec)
                s->timeout_msec = (int) wait;
}

/* Code that does not give a request back must not stay: once it does, hook-timeout is all that is left, and fails the request. */
int supervisor_judge_trial(Supervisor *s, uint64_t trial_usec, char **ret_text) {
        uint64_t limit = trial_usec < TRIAL_MIN_CALL_USEC ? TRIAL_MIN_CALL_USEC : trial_usec < TRIAL_MAX_CALL_USEC ? trial_usec : TRIAL_MAX_CALL_USEC;
        _cleanup_free_ char *text = NULL;
        Stuck *stuck = supervisor_get_stuck(s);
        uint64_t now = now_usec();
        Failure f = FAILURE_NULL;
        int r;

        if (!stuck)
                return 0;
        check_stuck(s, now);
        r = stuck_judge_trial(stuck, now, limit, &f);
        if (r == -EBUSY) {
                (void) failure_describe_fully(&f, &text);
                log_error("New code of %s has failed at its trial: %s", s->config->name, text ? text : "out of memory");
                (void) failure_to_text(&f, ret_text);
        }
        failure_done(&f);
        return r;
}

void supervisor_check_time(Supervisor *s) {
        uint64_t now = now_usec();

        pthread_mutex_lock(&s->lock);
        Phase phase = s->phase;
        uint64_t exit_deadline = s->exit_deadline_usec;
        int exit_status = s->exit_status;
        pthread_mutex_unlock(&s->lock);

        s->timeout_msec = TICK_MSEC;
        if (s->watchdog_usec > 0)
                ping_watchdog(s, now);
        if (phase == PHASE_SERVING)
                check_stuck(s, now);
        if (phase == PHASE_LOADING && now >= s->load_deadline_usec)
                load_timed_out(s);
        if (phase == PHASE_EXITING && now >= exit_deadline)
                supervisor_end_process(exit_status);
        if (phase != PHASE_EXITING && s->hand_over_deadline_usec > 0 && now >= s->hand_over_deadline_usec) {
                log_warning("A request was still in the hook %.0f s after the hand-over was asked for; it is left to the next worker.",
                            (double) HAND_OVER_USEC / USEC_PER_SEC);
                supervisor_end_process(EXIT_HANDED_OVER);
        }
}
