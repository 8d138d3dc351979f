/* SPDX-License-Identifier: MIT */
#include "service/supervisor.h"

#include "service/log.h"
#include "service/paths.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#define CONNECTIONS_MAX 8
/* How long the queues may take to finish what is in hand, and Ruby to run its at_exit blocks. Together below
 * TimeoutStopSec= of the unit. */
#define HAND_OVER_USEC (4 * USEC_PER_SEC)
#define EXIT_USEC (3 * USEC_PER_SEC)
#define TICK_MSEC 500

typedef enum Phase {
        PHASE_LOADING, /* Ruby is loading the hook */
        PHASE_READY,   /* waiting for OPEN */
        PHASE_OPENING, /* OPEN has come, its answer is due */
        PHASE_SERVING,
        PHASE_EXITING,
} Phase;

struct Supervisor {
        const DeviceConfig *config; /* borrowed */
        int failing_status;
        int listen_fd;
        int wake_fd;
        int nudge_fd;               /* ends the thread's poll, so that it sees what changed */
        int connections[CONNECTIONS_MAX];
        int opener;                 /* the connection that waits for the answer to OPEN; one of the above */
        uint64_t watchdog_usec;     /* 0: none wanted */
        uint64_t pinged_usec;
        uint64_t load_deadline_usec;
        uint64_t hand_over_deadline_usec;

        pthread_mutex_t lock;       /* over what follows */
        pthread_cond_t changed;
        Phase phase;
        bool hand_over;
        bool answer_due;            /* the main thread has the answer to OPEN */
        int open_error;
        char *open_text;
        Geometry geometry;
        Queue *const *queues;
        size_t n_queues;
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
        _exit(status);
}

static void load_timed_out(Supervisor *s) {
        Failure f = FAILURE_NULL;

        (void) failure_set(&f, FAILURE_HOOK, ETIMEDOUT,
                           "hook \"%s\" did not finish loading and initialize within start-timeout (%.1f s); make it faster, "
                           "or raise start-timeout",
                           s->config->hook, (double) s->config->start_timeout_usec / USEC_PER_SEC);
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

/* What time alone brings about. */
static void check_time(Supervisor *s) {
        uint64_t now = now_usec();

        pthread_mutex_lock(&s->lock);
        Phase phase = s->phase;
        uint64_t exit_deadline = s->exit_deadline_usec;
        int exit_status = s->exit_status;
        pthread_mutex_unlock(&s->lock);

        if (s->watchdog_usec > 0 && now >= s->pinged_usec + s->watchdog_usec / 2) {
                (void) sd_notify(0, "WATCHDOG=1");
                s->pinged_usec = now;
        }
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
        fill_statistics(s, &reply.statistics);
        pthread_mutex_unlock(&s->lock);
        if (text) {
                reply.text_size = (uint32_t) strnlen(text, sizeof(reply.text));
                memcpy(reply.text, text, reply.text_size);
        }
        (void) send(connection, &reply, sizeof(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void close_connection(Supervisor *s, int *connection) {
        if (s->opener == *connection)
                s->opener = -EBADF;
        *connection = safe_close(*connection);
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

static void handle_call(Supervisor *s, int *connection) {
        WorkerCall call;
        ssize_t n;
        int error = 0;

        n = recv(*connection, &call, sizeof(call), MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0 || !call_is_valid(s, &call, n)) {
                close_connection(s, connection);
                return;
        }
        switch (call.type) {
        case MESSAGE_HELLO:
        case MESSAGE_STATISTICS:
                pthread_mutex_lock(&s->lock);
                error = s->phase == PHASE_LOADING ? EAGAIN : 0;
                pthread_mutex_unlock(&s->lock);
                break;
        case MESSAGE_OPEN:
                error = handle_open(s, *connection);
                if (error == 0)
                        return;
                break;
        case MESSAGE_ABORT:
                handle_abort(&call);
                return;
        }
        send_reply(s, *connection, call.type, error, NULL);
}

static void accept_connection(Supervisor *s) {
        _cleanup_close_ int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != 0)
                return;
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                if (s->connections[i] < 0) {
                        s->connections[i] = TAKE_FD(fd);
                        return;
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
                        fds[3 + i] = (struct pollfd) { .fd = s->connections[i], .events = POLLIN };

                if (poll(fds, ELEMENTSOF(fds), TICK_MSEC) < 0 && errno != EINTR)
                        end_process(EXIT_CRASHED);
                check_time(s);
                if (fds[1].revents) {
                        uint64_t count;
                        (void) !read(s->nudge_fd, &count, sizeof(count));
                        answer_open(s);
                }
                if (fds[2].revents)
                        begin_hand_over(s);
                for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                        if (fds[3 + i].revents)
                                handle_call(s, &s->connections[i]);
                if (fds[0].revents)
                        accept_connection(s);
        }
        return NULL;
}

static int make_socket(uint32_t id, int *ret) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_close_ int fd = -EBADF;
        int n;

        n = snprintf(address.sun_path, sizeof(address.sun_path), PATH_WORKER_SOCKET, id);
        if (n < 0 || (size_t) n >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        (void) unlink(address.sun_path);
        if (bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
                return -errno;
        /* The manager has uid 0 but no capability to pass a mode; who may talk is decided by SO_PEERCRED. */
        if (chmod(address.sun_path, 0666) < 0 || listen(fd, 16) < 0)
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

int supervisor_start(const DeviceConfig *config, int failing_status, Supervisor **ret) {
        Supervisor *s = malloc(sizeof(Supervisor));
        int r;

        if (!s)
                return -ENOMEM;
        *s = (Supervisor) {
                .config = config,
                .failing_status = failing_status,
                .listen_fd = -EBADF,
                .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                .nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                .opener = -EBADF,
                .load_deadline_usec = now_usec() + config->start_timeout_usec,
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .changed = PTHREAD_COND_INITIALIZER,
        };
        for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                s->connections[i] = -EBADF;
        (void) sd_watchdog_enabled(0, &s->watchdog_usec);
        r = s->wake_fd < 0 || s->nudge_fd < 0 ? -errno : make_socket(config->id, &s->listen_fd);
        if (r >= 0)
                r = start_thread(s);
        if (r < 0) {
                safe_close(s->listen_fd);
                safe_close(s->wake_fd);
                safe_close(s->nudge_fd);
                free(s);
                return r;
        }
        /* systemd's own limit is for a worker that does not get this far. */
        (void) sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu", (unsigned long long) (config->start_timeout_usec + 5 * USEC_PER_SEC));
        *ret = s;
        return 0;
}

int supervisor_wake_fd(Supervisor *s) {
        return s->wake_fd;
}

void supervisor_request_hand_over(Supervisor *s) {
        nudge(s->wake_fd);
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

void supervisor_serving(Supervisor *s, Queue *const *queues, size_t n_queues) {
        pthread_mutex_lock(&s->lock);
        s->queues = queues;
        s->n_queues = n_queues;
        s->phase = PHASE_SERVING;
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
        s->phase = PHASE_EXITING;
        s->exit_status = status;
        s->exit_deadline_usec = now_usec() + EXIT_USEC;
        s->queues = NULL;
        s->n_queues = 0;
        pthread_mutex_unlock(&s->lock);
}
