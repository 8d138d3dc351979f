/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the supervisor's parts share: supervisor.c, its life and what the other threads ask of it; supervisor-calls.c, who is
 * connected and what they are answered; supervisor-watch.c, what time brings about. Not for others.
 */

#include "service/protocol.h"
#include "service/stuck.h"
#include "service/supervisor.h"

#include <pthread.h>

#define CONNECTIONS_MAX 8
#define SUPERVISOR_BACKLOG 256
/* How long the queues may take to finish what is in hand. Together with what Ruby has for its at_exit blocks it is what stop.c
 * leaves of TimeoutStopSec= of the unit. */
#define HAND_OVER_USEC (4 * USEC_PER_SEC)
#define TICK_MSEC 500

typedef enum Phase {
        PHASE_LOADING, /* Ruby is loading the hook */
        PHASE_READY,   /* waiting for OPEN */
        PHASE_OPENING, /* OPEN has come, its answer is due */
        PHASE_SERVING,
        PHASE_EXITING,
} Phase;

typedef struct Connection {
        int fd;
        uint64_t last; /* of the supervisor's n_calls: when it was last heard */
        bool wants_stuck;
} Connection;

struct Supervisor {
        const DeviceConfig *config; /* borrowed */
        int failing_status;
        uid_t trusted_uid;          /* of peers */
        int listen_fd;
        int wake_fd;
        int nudge_fd;               /* ends the thread's poll, so that it sees what changed */
        Connection connections[CONNECTIONS_MAX];
        uint64_t n_calls;           /* and connections: a clock */
        int opener;                 /* the connection that waits for the answer to OPEN; one of the above */
        int resizer;                /* the same, for the answer to RESIZE */
        int resize_fd;
        uint64_t watchdog_usec;     /* 0: none wanted */
        uint64_t pinged_usec;
        bool unsound;               /* a queue was stuck at the last look; said once */
        uint64_t load_limit_usec, load_deadline_usec;
        uint64_t hand_over_deadline_usec;
        int timeout_msec;           /* of the next wait */
        uint64_t trace_deadline_usec; /* of those who want to know what is stuck; 0: nobody does */
        StuckReply *stuck_reply;    /* owned; big, so made ahead */

        pthread_mutex_t lock;       /* over what follows */
        pthread_cond_t changed;
        Phase phase;
        bool hand_over;
        bool answer_due;            /* the main thread has the answer to OPEN */
        int open_error;
        char *open_text;
        bool resizing;              /* a RESIZE is pending, … */
        uint64_t resize_bytes;      /* 0: … and the queue's task has taken it */
        bool resize_due;            /* that task has the answer */
        int resize_error;
        char *resize_text;
        Geometry geometry;
        CodeState code;
        uint64_t trial_usec;
        int (*keep_code)(void *userdata);
        void *keep_code_userdata;
        Queue *const *queues;
        size_t n_queues;
        uint64_t *rounds;           /* owned: of each queue, as seen last */
        uint64_t serving_usec;      /* when the queues began to */
        Stuck *stuck;               /* owned; NULL until there is something to watch */
        Calls *calls;               /* borrowed; there if stuck is */
        Culprits *culprits;         /* borrowed; there if stuck is */
        int exit_status;
        uint64_t exit_deadline_usec;
};

/* supervisor.c */

/* Everything in the supervisor's thread that ends the process goes through here: no at_exit, Ruby may be stuck in it. */
_Noreturn void supervisor_end_process(int status);
void supervisor_nudge(int fd);

/* supervisor-watch.c */

/* Looks at the watchdog, the queues, what is stuck, and every deadline; sets timeout_msec. May end the process. */
void supervisor_check_time(Supervisor *s);
/* Nobody else puts it there, and it stays; NULL: as yet there is nothing to watch. */
Stuck *supervisor_get_stuck(Supervisor *s);
/* -EBUSY: code on trial keeps a request for too long; *ret_text is its failure, as it goes over the socket. */
int supervisor_judge_trial(Supervisor *s, uint64_t trial_usec, char **ret_text);

/* supervisor-calls.c */

void supervisor_accept(Supervisor *s);
/* size: of what came, of which there may be more than call holds. */
bool supervisor_call_is_valid(const Supervisor *s, const WorkerCall *call, ssize_t size);
/* Reads one, and answers it, or notes that its answer is due later. */
void supervisor_handle_call(Supervisor *s, Connection *c);
/* OPEN's and RESIZE's, if another thread has found them. */
void supervisor_send_due_answers(Supervisor *s);
/* If the backtraces are there, or were waited for long enough. */
void supervisor_answer_stuck(Supervisor *s);
