/* SPDX-License-Identifier: MIT */
#include "service/supervisor.h"

#include "service/end-reason.h"
#include "service/last-word.h"
#include "service/log.h"
#include "service/paths.h"
#include "service/stuck.h"
#include "service/trial.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#define CONNECTIONS_MAX 8
#define BACKLOG 256
/* How long the queues may take to finish what is in hand, and Ruby to run its at_exit blocks. Together what stop.c leaves
 * of TimeoutStopSec= of the unit. The second is below the limit that hooks/interpreter.c has for the same: here is the one
 * that counts in a worker, as it also covers an interpreter that never gets to its end. */
#define HAND_OVER_USEC (4 * USEC_PER_SEC)
#define EXIT_USEC (2 * USEC_PER_SEC)
#define TICK_MSEC 500
/* Who asks for stuck requests waits so long for a Ruby that does not answer. */
#define TRACE_USEC (500 * USEC_PER_MSEC)
#define TRACE_TICK_MSEC 10

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

static void nudge(int fd) {
        uint64_t one = 1;
        (void) !write(fd, &one, sizeof(one));
}

void supervisor_publish(const Failure *failure) {
        _cleanup_free_ char *text = NULL;

        if (failure_to_text(failure, &text) < 0)
                return;
        (void) sd_notifyf(0, "STATUS=%s\nERRNO=%i", text, failure->error > 0 ? failure->error : EIO);
}

/* Everything in this thread that ends the process goes through here: no at_exit, Ruby may be stuck in it. */
static void end_process(int status) {
        last_word_say(status);
        _exit(status);
}

static void load_timed_out(Supervisor *s) {
        Failure f = FAILURE_NULL;

        (void) failure_set(&f, FAILURE_HOOK, ETIMEDOUT,
                           "hook \"%s\" did not finish loading and initialize within %s (%.1f s); make it faster, or raise start-timeout",
                           s->config->hook, s->load_limit_usec > s->config->start_timeout_usec ? "three times its start-timeout" : "start-timeout",
                           (double) s->load_limit_usec / USEC_PER_SEC);
        log_error("%s", f.message);
        supervisor_publish(&f);
        end_process(s->failing_status);
}

static void begin_hand_over(Supervisor *s) {
        s->hand_over_deadline_usec = now_usec() + HAND_OVER_USEC;
        pthread_mutex_lock(&s->lock);
        s->hand_over = true;
        pthread_cond_broadcast(&s->changed);
        Phase phase = s->phase;
        pthread_mutex_unlock(&s->lock);
        if (phase == PHASE_LOADING)
                end_process(EXIT_HANDED_OVER);
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

/* Nobody else puts it there, and it stays. */
static Stuck *get_stuck(Supervisor *s) {
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
        Stuck *stuck = get_stuck(s);
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
                end_process(EXIT_CRASHED);
        }
        wait = (wait + USEC_PER_MSEC - 1) / USEC_PER_MSEC;
        if (wait < (uint64_t) s->timeout_msec)
                s->timeout_msec = (int) wait;
}

/* What time alone brings about. */
static void check_time(Supervisor *s) {
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
                end_process(exit_status);
        if (phase != PHASE_EXITING && s->hand_over_deadline_usec > 0 && now >= s->hand_over_deadline_usec) {
                log_warning("A request was still in the hook %.0f s after the hand-over was asked for; it is left to the next worker.",
                            (double) HAND_OVER_USEC / USEC_PER_SEC);
                end_process(EXIT_HANDED_OVER);
        }
}

static void fill_statistics(Supervisor *s, Statistics *ret) {
        for (size_t i = 0; i < s->n_queues; i++)
                queue_add_statistics(s->queues[i], ret);
        ret->serving = s->n_queues > 0;
}

static void send_reply(Supervisor *s, int connection, uint32_t type, int error, const char *text) {
        WorkerReply reply = {
                .version = PROTOCOL_VERSION,
                .type = type,
                .error = error,
                .device_id = s->config->id,
                .queues = s->config->queues,
                .depth = s->config->depth,
                .max_io_size = s->config->max_io_size,
        };

        pthread_mutex_lock(&s->lock);
        reply.geometry = s->geometry;
        reply.code = s->code;
        fill_statistics(s, &reply.statistics);
        pthread_mutex_unlock(&s->lock);
        if (text) {
                reply.text_size = (uint32_t) strnlen(text, sizeof(reply.text));
                memcpy(reply.text, text, reply.text_size);
        }
        (void) send(connection, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void answer_counters(Supervisor *s, int connection) {
        CountersReply reply = { .version = PROTOCOL_VERSION, .type = MESSAGE_COUNTERS, .device_id = s->config->id };
        Counters *c = &reply.counters;

        pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < s->n_queues; i++)
                queue_add_counters(s->queues[i], c);
        c->sum.serving = s->n_queues > 0;
        c->age_usec = s->n_queues > 0 ? now_usec() - s->serving_usec : 0;
        if (s->calls)
                calls_get_collections(s->calls, &c->gc_count, &c->gc_usec);
        pthread_mutex_unlock(&s->lock);
        (void) send(connection, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void close_connection(Supervisor *s, Connection *c) {
        if (s->opener == c->fd)
                s->opener = -EBADF;
        if (s->resizer == c->fd)
                s->resizer = -EBADF;
        c->fd = safe_close(c->fd);
}

/* Backtraces are taken first, unless somebody had that done just now. */
static void handle_stuck(Supervisor *s, Connection *c) {
        Stuck *stuck = get_stuck(s);

        c->wants_stuck = true;
        if (s->trace_deadline_usec > 0)
                return;
        s->trace_deadline_usec = now_usec() + TRACE_USEC;
        if (stuck)
                stuck_trace(stuck, now_usec());
}

static void answer_stuck(Supervisor *s) {
        StuckReply *reply = s->stuck_reply; /* zeroes, but for what is set here */
        uint64_t now = now_usec();
        Stuck *stuck;

        if (s->trace_deadline_usec == 0)
                return;
        stuck = get_stuck(s);
        if (stuck && now < s->trace_deadline_usec && stuck_is_tracing(stuck, now))
                return;
        s->trace_deadline_usec = 0;
        reply->version = PROTOCOL_VERSION;
        reply->type = MESSAGE_STUCK;
        reply->device_id = s->config->id;
        reply->n_requests = stuck ? (uint32_t) stuck_list(stuck, now, reply->requests, STUCK_MAX_REQUESTS) : 0;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
                Connection *c = &s->connections[i];

                if (c->fd >= 0 && c->wants_stuck)
                        (void) send(c->fd, reply, stuck_reply_size(reply->n_requests), MSG_NOSIGNAL | MSG_DONTWAIT);
                c->wants_stuck = false;
        }
}

static bool call_is_valid(const Supervisor *s, const WorkerCall *call, ssize_t size) {
        return size == sizeof(*call) && call->version == PROTOCOL_VERSION && call->device_id == s->config->id &&
               call->type >= MESSAGE_HELLO && call->type < _MESSAGE_MAX && call->text_size <= sizeof(call->text);
}

static int handle_open(Supervisor *s, int connection) {
        bool acceptable;

        pthread_mutex_lock(&s->lock);
        acceptable = s->phase == PHASE_READY;
        if (acceptable) {
                s->phase = PHASE_OPENING;
                s->opener = connection;
                pthread_cond_broadcast(&s->changed);
        }
        pthread_mutex_unlock(&s->lock);
        return acceptable ? 0 : EBUSY;
}

static int handle_resize(Supervisor *s, const WorkerCall *call, int connection) {
        char text[32];
        uint64_t bytes;
        int error;

        if (call->text_size >= sizeof(text))
                return EINVAL;
        memcpy(text, call->text, call->text_size);
        text[call->text_size] = 0;
        if (parse_u64(text, GEOMETRY_MAX_SIZE, &bytes) < 0 || bytes == 0)
                return EINVAL;
        pthread_mutex_lock(&s->lock);
        error = s->phase != PHASE_SERVING || s->resizing ? EBUSY : 0;
        if (error == 0) {
                s->resizing = true;
                s->resize_bytes = bytes;
                s->resizer = connection;
        }
        pthread_mutex_unlock(&s->lock);
        if (error == 0)
                nudge(s->resize_fd);
        return error;
}

static void handle_abort(const WorkerCall *call) {
        char text[FAILURE_MAX_TEXT];
        Failure f = FAILURE_NULL;

        if (call->text_size >= sizeof(text))
                return;
        memcpy(text, call->text, call->text_size);
        text[call->text_size] = 0;
        if (failure_from_text(text, &f) >= 0)
                supervisor_publish(&f);
        failure_done(&f);
}

/* Code that does not give a request back must not stay: once it does, hook-timeout is all that is left, and fails the request. */
static int judge_trial(Supervisor *s, uint64_t trial_usec, char **ret_text) {
        uint64_t limit = trial_usec < TRIAL_MIN_CALL_USEC ? TRIAL_MIN_CALL_USEC : trial_usec < TRIAL_MAX_CALL_USEC ? trial_usec : TRIAL_MAX_CALL_USEC;
        _cleanup_free_ char *text = NULL;
        Stuck *stuck = get_stuck(s);
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

/* The code is fit: no worker falls back any more to what was there before it. */
static int handle_keep_code(Supervisor *s, char **ret_text) {
        uint64_t trial_usec;
        int r;

        pthread_mutex_lock(&s->lock);
        r = s->code == CODE_ON_TRIAL ? 0 : -ENOENT;
        trial_usec = s->trial_usec;
        pthread_mutex_unlock(&s->lock);
        if (r >= 0)
                r = judge_trial(s, trial_usec, ret_text);
        if (r >= 0)
                r = s->keep_code(s->keep_code_userdata);
        if (r < 0)
                return -r;
        pthread_mutex_lock(&s->lock);
        s->code = (CodeState) r;
        pthread_mutex_unlock(&s->lock);
        return 0;
}

static void handle_call(Supervisor *s, Connection *c) {
        _cleanup_free_ char *text = NULL;
        WorkerCall call;
        ssize_t n;
        int error = 0;

        n = recv(c->fd, &call, sizeof(call), MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0 || !call_is_valid(s, &call, n)) {
                close_connection(s, c);
                return;
        }
        c->last = ++s->n_calls;
        switch (call.type) {
        case MESSAGE_HELLO:
        case MESSAGE_STATISTICS:
                pthread_mutex_lock(&s->lock);
                error = s->phase == PHASE_LOADING ? EAGAIN : 0;
                pthread_mutex_unlock(&s->lock);
                break;
        case MESSAGE_OPEN:
                error = handle_open(s, c->fd);
                if (error == 0)
                        return;
                break;
        case MESSAGE_KEEP_CODE:
                error = handle_keep_code(s, &text);
                break;
        case MESSAGE_RESIZE:
                error = handle_resize(s, &call, c->fd);
                if (error == 0)
                        return;
                break;
        case MESSAGE_ABORT:
                handle_abort(&call);
                return;
        case MESSAGE_STUCK:
                handle_stuck(s, c);
                return;
        case MESSAGE_COUNTERS:
                answer_counters(s, c->fd);
                return;
        }
        send_reply(s, c->fd, call.type, error, text);
}

static bool peer_is_trusted(const Supervisor *s, int fd) {
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == s->trusted_uid;
}

/* A free one, or the one that was silent longest, but never the one that waits for its answer: whoever forgets to close
 * keeps nobody out. */
static Connection *find_slot(Supervisor *s) {
        Connection *best = NULL;

        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
                Connection *c = &s->connections[i];

                if (c->fd < 0)
                        return c;
                if (c->fd != s->opener && c->fd != s->resizer && (!best || c->last < best->last))
                        best = c;
        }
        close_connection(s, best);
        return best;
}

/* All that are there, up to a limit, so that a crowd keeps this thread from nothing else. */
static void accept_connections(Supervisor *s) {
        for (size_t i = 0; i < BACKLOG; i++) {
                _cleanup_close_ int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
                Connection *c;

                if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
                        return;
                if (fd < 0 || !peer_is_trusted(s, fd))
                        continue;
                c = find_slot(s);
                *c = (Connection) { .fd = TAKE_FD(fd), .last = ++s->n_calls };
        }
}

static void answer_open(Supervisor *s) {
        _cleanup_free_ char *text = NULL;
        bool due;
        int error;

        pthread_mutex_lock(&s->lock);
        due = s->answer_due;
        s->answer_due = false;
        error = s->open_error;
        text = TAKE_PTR(s->open_text);
        pthread_mutex_unlock(&s->lock);
        if (due && s->opener >= 0)
                send_reply(s, s->opener, MESSAGE_OPEN, error, text);
}

static void answer_resize(Supervisor *s) {
        _cleanup_free_ char *text = NULL;
        bool due;
        int error;

        pthread_mutex_lock(&s->lock);
        due = s->resize_due;
        error = s->resize_error;
        text = TAKE_PTR(s->resize_text);
        if (due)
                s->resizing = s->resize_due = false;
        pthread_mutex_unlock(&s->lock);
        if (due && s->resizer >= 0) {
                send_reply(s, s->resizer, MESSAGE_RESIZE, error, text);
                s->resizer = -EBADF;
        }
}

static void *supervisor_loop(void *userdata) {
        Supervisor *s = userdata;

        for (;;) {
                struct pollfd fds[3 + CONNECTIONS_MAX] = {
                        { .fd = s->listen_fd, .events = POLLIN },
                        { .fd = s->nudge_fd, .events = POLLIN },
                        /* Never read: it stays readable for the queues, so it is watched only until it is seen. */
                        { .fd = s->hand_over_deadline_usec > 0 ? -1 : s->wake_fd, .events = POLLIN },
                };
                for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                        fds[3 + i] = (struct pollfd) { .fd = s->connections[i].fd, .events = POLLIN };

                if (poll(fds, ELEMENTSOF(fds), s->trace_deadline_usec > 0 ? TRACE_TICK_MSEC : s->timeout_msec) < 0 && errno != EINTR)
                        end_process(EXIT_CRASHED);
                check_time(s);
                /* A hook has closed what is not its own: nothing here works any more, so the next worker takes over. */
                if ((fds[0].revents | fds[1].revents | fds[2].revents) & POLLNVAL)
                        end_process(EXIT_CRASHED);
                if (fds[1].revents) {
                        uint64_t count;
                        (void) !read(s->nudge_fd, &count, sizeof(count));
                        answer_open(s);
                        answer_resize(s);
                }
                if (fds[2].revents)
                        begin_hand_over(s);
                for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                        if (fds[3 + i].revents)
                                handle_call(s, &s->connections[i]);
                if (fds[0].revents)
                        accept_connections(s);
                answer_stuck(s);
        }
        return NULL;
}

static int make_socket(uint32_t id, int *ret) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;
        int r;

        r = config_path(&path, PATH_WORKER_SOCKET, id);
        if (r < 0)
                return r;
        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        strcpy(address.sun_path, path);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        (void) unlink(address.sun_path);
        if (bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        /* The manager has uid 0 but no capability to pass a mode: it is a member of our group. Who may talk is decided by
         * SO_PEERCRED; the mode only keeps crowds away. */
        if (chmod(address.sun_path, 0660) < 0 || listen(fd, BACKLOG) < 0)
                return -errno;
        *ret = TAKE_FD(fd);
        return 0;
}

static int start_thread(Supervisor *s) {
        pthread_attr_t attributes;
        pthread_t thread;
        int r;

        r = pthread_attr_init(&attributes);
        if (r != 0)
                return -r;
        (void) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        (void) pthread_attr_setstacksize(&attributes, 256 * 1024);
        r = pthread_create(&thread, &attributes, supervisor_loop, s);
        (void) pthread_attr_destroy(&attributes);
        return -r;
}

/* start-timeout is what the caller of CreateDevice waits for. At boot nobody does, all disks start at once beside everything else,
 * and one that fails takes its mounts with it, and is not tried again. */
static uint64_t load_limit(const DeviceConfig *config, int failing_status) {
        return config->creating || failing_status != EXIT_WRONG ? config->start_timeout_usec : 3 * config->start_timeout_usec;
}

static void supervisor_free(Supervisor *s) {
        safe_close(s->listen_fd);
        safe_close(s->wake_fd);
        safe_close(s->nudge_fd);
        safe_close(s->resize_fd);
        free(s->stuck_reply);
        free(s->rounds);
        free(s);
}

static int make_event(int *ret) {
        *ret = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return *ret < 0 ? -errno : 0;
}

static int open_all(Supervisor *s) {
        int r;

        r = make_event(&s->wake_fd);
        if (r >= 0)
                r = make_event(&s->nudge_fd);
        if (r >= 0)
                r = make_event(&s->resize_fd);
        return r < 0 ? r : make_socket(s->config->id, &s->listen_fd);
}

int supervisor_start(const DeviceConfig *config, int failing_status, uid_t trusted_uid, Supervisor **ret) {
        Supervisor *s = malloc(sizeof(Supervisor));
        int r;

        if (!s)
                return -ENOMEM;
        *s = (Supervisor) {
                .config = config,
                .failing_status = failing_status,
                .trusted_uid = trusted_uid,
                .listen_fd = -EBADF,
                .wake_fd = -EBADF,
                .nudge_fd = -EBADF,
                .opener = -EBADF,
                .resizer = -EBADF,
                .resize_fd = -EBADF,
                .timeout_msec = TICK_MSEC,
                .stuck_reply = calloc(1, sizeof(StuckReply)),
                .rounds = calloc(config->queues, sizeof(uint64_t)),
                .load_limit_usec = load_limit(config, failing_status),
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .changed = PTHREAD_COND_INITIALIZER,
        };
        s->load_deadline_usec = now_usec() + s->load_limit_usec;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                s->connections[i].fd = -EBADF;
        (void) sd_watchdog_enabled(0, &s->watchdog_usec);
        r = !s->rounds || !s->stuck_reply ? -ENOMEM : open_all(s);
        if (r >= 0)
                r = start_thread(s);
        if (r < 0) {
                supervisor_free(s);
                return r;
        }
        /* systemd's own limit is for a worker that does not get this far. */
        (void) sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu", (unsigned long long) (s->load_limit_usec + 5 * USEC_PER_SEC));
        *ret = s;
        return 0;
}

int supervisor_wake_fd(Supervisor *s) {
        return s->wake_fd;
}

void supervisor_request_hand_over(Supervisor *s) {
        nudge(s->wake_fd);
}

int supervisor_watch(Supervisor *s, Calls *calls, Culprits *culprits) {
        Stuck *stuck;
        int r;

        r = stuck_new(s->config->name, s->config->hook_timeout_usec, calls, &stuck);
        if (r < 0)
                return r;
        pthread_mutex_lock(&s->lock);
        s->stuck = stuck;
        s->calls = calls;
        s->culprits = culprits;
        pthread_mutex_unlock(&s->lock);
        return 0;
}

void supervisor_loading(void) {
        (void) sd_notify(0, "STATUS=" STATUS_LOADING);
}

void supervisor_ready(Supervisor *s, const Geometry *geometry) {
        pthread_mutex_lock(&s->lock);
        s->geometry = *geometry;
        s->phase = PHASE_READY;
        pthread_mutex_unlock(&s->lock);
        (void) sd_notify(0, "READY=1\nSTATUS=Hook loaded, waiting for the device");
}

bool supervisor_wait_open(Supervisor *s) {
        bool open;

        pthread_mutex_lock(&s->lock);
        while (s->phase == PHASE_READY && !s->hand_over)
                pthread_cond_wait(&s->changed, &s->lock);
        open = s->phase == PHASE_OPENING;
        pthread_mutex_unlock(&s->lock);
        return open;
}

void supervisor_set_code(Supervisor *s, CodeState state, uint64_t trial_usec, int (*keep)(void *userdata), void *userdata) {
        pthread_mutex_lock(&s->lock);
        s->code = state;
        s->trial_usec = trial_usec;
        s->keep_code = keep;
        s->keep_code_userdata = userdata;
        pthread_mutex_unlock(&s->lock);
}

void supervisor_serving(Supervisor *s, Queue *const *queues, size_t n_queues) {
        pthread_mutex_lock(&s->lock);
        s->queues = queues;
        s->n_queues = n_queues;
        s->phase = PHASE_SERVING;
        s->serving_usec = now_usec();
        s->answer_due = true;
        pthread_mutex_unlock(&s->lock);
        (void) sd_notifyf(0, "STATUS=Serving /dev/ublkb%u", s->config->id);
        nudge(s->nudge_fd);
}

void supervisor_open_failed(Supervisor *s, const Failure *failure) {
        char *text = NULL;

        supervisor_publish(failure);
        (void) failure_to_text(failure, &text);
        pthread_mutex_lock(&s->lock);
        s->open_error = failure->error > 0 ? failure->error : EIO;
        s->open_text = text;
        s->answer_due = true;
        pthread_mutex_unlock(&s->lock);
        nudge(s->nudge_fd);
}

void supervisor_exiting(Supervisor *s, int status) {
        pthread_mutex_lock(&s->lock);
        if (s->phase != PHASE_EXITING) {
                s->phase = PHASE_EXITING;
                s->exit_status = status;
                s->exit_deadline_usec = now_usec() + EXIT_USEC;
                s->queues = NULL;
                s->n_queues = 0;
        }
        pthread_mutex_unlock(&s->lock);
}

int supervisor_resize_fd(Supervisor *s) {
        return s->resize_fd;
}

bool supervisor_take_resize(Supervisor *s, uint64_t *ret_bytes) {
        uint64_t count;
        bool taken;

        (void) !read(s->resize_fd, &count, sizeof(count));
        pthread_mutex_lock(&s->lock);
        taken = s->resizing && s->resize_bytes > 0;
        if (taken)
                *ret_bytes = s->resize_bytes;
        s->resize_bytes = 0;
        pthread_mutex_unlock(&s->lock);
        return taken;
}

void supervisor_resized(Supervisor *s, uint64_t size, const Failure *failure) {
        char *text = NULL;

        if (failure)
                (void) failure_to_text(failure, &text);
        pthread_mutex_lock(&s->lock);
        if (!failure)
                s->geometry.size = size;
        s->resize_error = !failure ? 0 : failure->error > 0 ? failure->error : EIO;
        s->resize_text = text;
        s->resize_due = true;
        pthread_mutex_unlock(&s->lock);
        nudge(s->nudge_fd);
}
