/* SPDX-License-Identifier: MIT */
#include "service/supervisor-parts.h"

#include "service/end-reason.h"
#include "service/last-word.h"
#include "service/paths.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

/* What Ruby has for its at_exit blocks. Below the limit that hooks/interpreter.c has for the same: here is the one that counts in
 * a worker, as it also covers an interpreter that never gets to its end. */
#define EXIT_USEC (2 * USEC_PER_SEC)
#define TRACE_TICK_MSEC 10

void supervisor_nudge(int fd) {
        uint64_t one = 1;
        (void) !write(fd, &one, sizeof(one));
}

void supervisor_publish(const Failure *failure) {
        _cleanup_free_ char *text = NULL;

        if (failure_to_text(failure, &text) < 0)
                return;
        (void) sd_notifyf(0, "STATUS=%s\nERRNO=%i", text, failure->error > 0 ? failure->error : EIO);
}

void supervisor_end_process(int status) {
        last_word_say(status);
        _exit(status);
}

static void begin_hand_over(Supervisor *s) {
        s->hand_over_deadline_usec = now_usec() + HAND_OVER_USEC;
        pthread_mutex_lock(&s->lock);
        s->hand_over = true;
        pthread_cond_broadcast(&s->changed);
        Phase phase = s->phase;
        pthread_mutex_unlock(&s->lock);
        if (phase == PHASE_LOADING)
                supervisor_end_process(EXIT_HANDED_OVER);
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
                        supervisor_end_process(EXIT_CRASHED);
                supervisor_check_time(s);
                /* A hook has closed what is not its own: nothing here works any more, so the next worker takes over. */
                if ((fds[0].revents | fds[1].revents | fds[2].revents) & POLLNVAL)
                        supervisor_end_process(EXIT_CRASHED);
                if (fds[1].revents) {
                        uint64_t count;
                        (void) !read(s->nudge_fd, &count, sizeof(count));
                        supervisor_send_due_answers(s);
                }
                if (fds[2].revents)
                        begin_hand_over(s);
                for (size_t i = 0; i < CONNECTIONS_MAX; i++)
                        if (fds[3 + i].revents)
                                supervisor_handle_call(s, &s->connections[i]);
                if (fds[0].revents)
                        supervisor_accept(s);
                supervisor_answer_stuck(s);
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
        if (chmod(address.sun_path, 0660) < 0 || listen(fd, SUPERVISOR_BACKLOG) < 0)
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
        supervisor_nudge(s->wake_fd);
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
        supervisor_nudge(s->nudge_fd);
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
        supervisor_nudge(s->nudge_fd);
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
        supervisor_nudge(s->nudge_fd);
}
