/* SPDX-License-Identifier: MIT */

/*
 * ublk-ruby-worker N: serves the I/O of one device with its hook. Run by ublk-ruby-device@N.service, which
 * also brings it back. The order matters: memory and privileges first, then Ruby, and the device only once everything
 * that a request may need is there.
 */

#include "hooks/hook.h"
#include "service/activation-attempts.h"
#include "service/check/check.h"
#include "service/examine.h"
#include "service/give-up.h"
#include "service/hookdir.h"
#include "service/kept-code.h"
#include "service/last-word.h"
#include "service/log.h"
#include "service/marker.h"
#include "service/memories.h"
#include "service/paths.h"
#include "service/privileges.h"
#include "service/report.h"
#include "service/state.h"
#include "service/supervisor.h"
#include "service/trial.h"

#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>

typedef struct Worker {
        DeviceConfig *config;
        char *hook_path;
        int failing_status; /* for a hook that is wrong: EXIT_WRONG, or EXIT_CRASHED for a device that is live */
        Supervisor *supervisor;
        Calls *calls;
        Profile *profile; /* NULL: nobody wants to know */
        Culprits *culprits;
        char *timeout_message; /* of UBLK::HookTimeout */
        Hook *hook;
        const Server *server;
        QueueDevice device;
        Queue **queues;
        Store store;
        Memories memories;
        KeptCode code;
        _Atomic bool on_trial; /* the code is new, and the one before it is waiting … */
        uint64_t trial_usec;   /* … so long */
        int wake_fd;           /* of queue 0: an epoll descriptor of what its task is woken by */
        Failure resize_failure; /* what the hook raised when it was asked to resize */

        pthread_mutex_t lock; /* over what follows: the queues' tasks meet here */
        pthread_cond_t changed;
        size_t n_fetched;
        size_t n_ended;
        int fetch_error;
        int end;              /* worst of the queues' ends: a negative errno, else QUEUE_WOKEN, else QUEUE_STOPPED */
} Worker;

/* What a queue's task starts from. */
typedef struct Task {
        Worker *worker;
        Queue *queue;
} Task;

static Supervisor *signal_supervisor;

static void on_hand_over_signal(int signo) {
        int saved = errno;

        (void) signo;
        if (signal_supervisor)
                supervisor_request_hand_over(signal_supervisor);
        else {
                last_word_say(EXIT_HANDED_OVER);
                _exit(EXIT_HANDED_OVER);
        }
        errno = saved;
}

static void install_signal_handlers(void) {
        static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR2 };
        struct sigaction action = { .sa_handler = on_hand_over_signal, .sa_flags = SA_RESTART };

        for (size_t i = 0; i < ELEMENTSOF(signals); i++)
                (void) sigaction(signals[i], &action, NULL);
        (void) signal(SIGPIPE, SIG_IGN);
}

static int fail(const Failure *failure, int status) {
        _cleanup_free_ char *text = NULL;

        (void) failure_describe_fully(failure, &text);
        log_error("%s", text ? text : "out of memory");
        supervisor_publish(failure);
        return status;
}

/* The request goes with the process, unanswered: where recovery is reissue, the next worker has it again. */
static __attribute__((noreturn)) void fail_trial(const Worker *w, const Request *request, const Failure *failure) {
        _cleanup_free_ char *text = NULL;

        (void) failure_describe_fully(failure, &text);
        log_error("New code of %s has failed at its trial, at %s of %llu bytes at %llu; going back to the code before it: %s",
                  w->config->name, operation_to_string(request->op), (unsigned long long) request->length,
                  (unsigned long long) request->offset, text ? text : "out of memory");
        supervisor_publish(failure);
        _exit(EXIT_CRASHED);
}

static void note_resize_failure(Worker *w, const Failure *failure) {
        (void) failure_set(&w->resize_failure, failure->kind, failure->error, "%s", failure->message ? failure->message : "resize failed");
        (void) failure_set_origin(&w->resize_failure, failure->class_name, failure->file, failure->line);
}

static void on_hook_failure(void *userdata, const Request *request, const Failure *failure) {
        Worker *w = userdata;

        if (request->op == OPERATION_RESIZE)
                note_resize_failure(w, failure);
        else if (atomic_load(&w->on_trial) && !failure->is_answer)
                fail_trial(w, request, failure);
        report_failure(w->config->name, request, failure);
}

static int on_memory(void *userdata, const char *name, uint64_t size, int *ret_fd, Failure *ret_failure) {
        Worker *w = userdata;

        return memories_get(&w->memories, name, size, ret_fd, ret_failure);
}

static void on_loaded(void *userdata, const char *path, const char *real_path, const void *source, size_t size) {
        Worker *w = userdata;

        kept_code_add(&w->code, path, real_path, source, size);
}

static int load_hook(Worker *w, Geometry *ret) {
        Grants grants;
        HookSettings settings = {
                .name = w->config->hook,
                .path = w->hook_path,
                .class_name = w->config->class_name,
                .device = w->config->name,
                .arguments = w->config->arguments,
                .n_arguments = w->config->n_arguments,
                .recovery = w->config->recovery,
                .read_only = w->config->read_only,
                .grants = &grants,
                .state_owner = w->config->created_usec,
                .data_path = w->config->data_path,
                .mlock = w->config->mlock,
                .memory = on_memory,
                .report = on_hook_failure,
                .loaded = on_loaded,
                .userdata = w,
                .code = kept_code_found(&w->code),
        };
        _cleanup_free_ char *state = NULL;
        Failure failure = FAILURE_NULL;
        int r;

        grants_measure(w->config, &grants);
        r = state_path(w->config->name, &state);
        if (r < 0)
                return r;
        settings.state_directory = state;
        r = hook_load(w->hook, &settings, ret, &failure);
        /* Also of a hook that rescues it and would go on with an empty disk. */
        if (w->memories.lost)
                r = -ENODATA;
        if (r < 0)
                (void) fail(w->memories.lost ? &w->memories.failure : &failure, 0);
        failure_done(&failure);
        return r;
}

/* What the hook is at can be seen, and be ended, from the moment at which it serves. */
static int watch_hook(Worker *w) {
        const DeviceConfig *c = w->config;
        int r;

        r = calls_new(c->queues, &w->calls);
        if (r >= 0)
                r = xasprintf(&w->timeout_message, "not done within hook-timeout (%.1f s); make it faster, or raise hook-timeout",
                              (double) c->hook_timeout_usec / (double) USEC_PER_SEC);
        if (r >= 0)
                r = hook_watch(w->hook, w->calls, w->timeout_message);
        if (r >= 0)
                r = culprits_new(c, &w->culprits);
        if (r >= 0)
                r = supervisor_watch(w->supervisor, w->calls, w->culprits);
        return r < 0 ? log_error_errno(r, "Requests can't be watched") : 0;
}

/* The task of queue 0 does more than to serve: what it is woken by is one or the other. */
static int make_wake_fd(Worker *w) {
        int fds[] = { supervisor_wake_fd(w->supervisor), supervisor_resize_fd(w->supervisor) };
        struct epoll_event event = { .events = EPOLLIN };

        w->wake_fd = epoll_create1(EPOLL_CLOEXEC);
        if (w->wake_fd < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(fds); i++)
                if (epoll_ctl(w->wake_fd, EPOLL_CTL_ADD, fds[i], &event) < 0)
                        return -errno;
        return 0;
}

static int make_queues(Worker *w) {
        int r;

        w->queues = calloc(w->config->queues, sizeof(Queue *));
        if (!w->queues)
                return -ENOMEM;
        r = make_wake_fd(w);
        if (r < 0)
                return r;
        r = queue_device_open(&w->device, w->config->id, w->config->queues, w->config->depth);
        for (uint32_t i = 0; r >= 0 && i < w->config->queues; i++)
                r = queue_new(&w->device, (uint16_t) i, i == 0 ? w->wake_fd : supervisor_wake_fd(w->supervisor), &w->queues[i]);
        return r;
}

/* For tools/bench --profile. */
static int profile(Worker *w) {
        int r;

        r = profile_open(w->config->id, w->config->queues, &w->profile);
        if (r < 0 || !w->profile)
                return r;
        hook_profile(w->hook, &w->profile->hook);
        for (uint32_t i = 0; i < w->config->queues; i++)
                queue_profile(w->queues[i], &w->profile->queues[i]);
        return 0;
}

static void note_fetched(Worker *w, int r) {
        pthread_mutex_lock(&w->lock);
        w->n_fetched++;
        if (r < 0)
                w->fetch_error = r;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
}

static void note_ended(Worker *w, int end) {
        /* A queue that ends by an error takes the process with it at once: on Linux 7.x a task that is gone while
         * its process lives wedges the device. */
        if (end < 0) {
                log_error_errno(end, "A queue of %s ended", w->config->name);
                _exit(EXIT_CRASHED);
        }
        pthread_mutex_lock(&w->lock);
        w->n_ended++;
        if (end > w->end)
                w->end = end;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
}

/* Says of the worker before this one what it could say for a moment only. */
static void tell_end(Worker *w) {
        Failure f = FAILURE_NULL;
        CallView v;

        if (!culprits_take_news(w->culprits, &v))
                return;
        (void) failure_set(&f, FAILURE_HOOK, ETIMEDOUT, "the last worker was ended, as %s of %llu bytes at %llu was not done within "
                                                        "hook-timeout and could not be interrupted; see: journalctl UBLK_STAGE=3",
                           operation_to_string(v.op), (unsigned long long) v.length, (unsigned long long) v.offset);
        (void) failure_set_origin(&f, "UBLK::HookTimeout", NULL, 0);
        supervisor_publish(&f);
        failure_done(&f);
}

/* By the task that will serve it. From here on requests come, and nothing is allocated for them. */
static int fetch(Worker *w, Queue *q) {
        int r;

        r = hook_reserve(w->hook, w->config->max_io_size);
        return r < 0 ? r : queue_fetch(q);
}

static void run_queue(void *userdata) {
        Task *task = userdata;
        Worker *w = task->worker;
        int r;

        r = fetch(w, task->queue);
        note_fetched(w, r);
        if (r >= 0)
                note_ended(w, queue_serve(task->queue, w->server));
}

static void wait_fetched(void *userdata) {
        Worker *w = userdata;

        pthread_mutex_lock(&w->lock);
        while (w->n_fetched < w->config->queues)
                pthread_cond_wait(&w->changed, &w->lock);
        pthread_mutex_unlock(&w->lock);
}

static void wait_ended(void *userdata) {
        Worker *w = userdata;

        pthread_mutex_lock(&w->lock);
        while (w->n_ended < w->config->queues)
                pthread_cond_wait(&w->changed, &w->lock);
        pthread_mutex_unlock(&w->lock);
}

static void unlocked(Worker *w, void (*fn)(void *)) {
        const Server *server = hook_server(w->hook);

        server->unlocked(server->userdata, fn, w);
}

/* Every further queue gets a task of its own; queue 0 is fetched here. Ends when all are. */
static int start_queues(Worker *w, Task *tasks) {
        int r;

        for (uint32_t i = 0; i < w->config->queues; i++) {
                tasks[i] = (Task) { w, w->queues[i] };
                if (i == 0)
                        continue;
                r = hook_spawn(w->hook, run_queue, &tasks[i]);
                if (r < 0)
                        return r;
        }
        note_fetched(w, fetch(w, w->queues[0]));
        unlocked(w, wait_fetched);
        return w->fetch_error;
}

/* A new state of the code, as supervisor.h wants it. Too long to be kept is no reason to go back. */
static int keep_code(void *userdata) {
        Worker *w = userdata;
        int r;

        r = kept_code_keep(&w->code);
        if (r < 0 && r != -E2BIG)
                return r;
        atomic_store(&w->on_trial, false);
        return r < 0 ? CODE_NOT_KEPT : CODE_KEPT;
}

/* The device is known to fit the code by now: what does not must never come back by itself. */
static void begin_to_keep_code(Worker *w) {
        int r = CODE_ON_TRIAL;

        if (!atomic_load(&w->on_trial))
                r = keep_code(w);
        supervisor_set_code(w->supervisor, r < 0 ? CODE_NOT_KEPT : (CodeState) r, w->trial_usec, keep_code, w);
}

/* Between two requests, as if it were one: guarded, watched and reported like any. */
static void resize(Worker *w, uint64_t bytes) {
        Request request = { .op = OPERATION_RESIZE, .length = bytes, .result = -EIO }, *list[] = { &request };

        failure_done(&w->resize_failure);
        w->server->serve(w->server->userdata, list, 1);
        if (request.result >= 0)
                log_info("%s: its hook made it %llu bytes long.", w->config->name, (unsigned long long) request.length);
        else if (!w->resize_failure.message)
                (void) failure_set(&w->resize_failure, FAILURE_HOOK, -request.result, "resize: %s", strerror(-request.result));
        supervisor_resized(w->supervisor, request.length, request.result < 0 ? &w->resize_failure : NULL);
}

static int serve_queue_0(Worker *w) {
        uint64_t bytes;
        int r;

        while ((r = queue_serve(w->queues[0], w->server)) == QUEUE_WOKEN && supervisor_take_resize(w->supervisor, &bytes))
                resize(w, bytes);
        return r;
}

static int serve(Worker *w) {
        _cleanup_free_ Task *tasks = calloc(w->config->queues, sizeof(Task));
        Failure failure = FAILURE_NULL;
        int r;

        w->server = culprits_guard(w->culprits, hook_server(w->hook), on_hook_failure, w);
        r = tasks ? make_queues(w) : -ENOMEM;
        if (r >= 0)
                r = profile(w);
        if (r >= 0)
                r = start_queues(w, tasks);
        if (r < 0) {
                (void) failure_set(&failure, FAILURE_WORKER, -r, "can't open and fetch /dev/ublkc%u: %s", w->config->id, strerror(-r));
                log_error("%s", failure.message);
                supervisor_open_failed(w->supervisor, &failure);
                failure_done(&failure);
                return EXIT_CRASHED;
        }
        begin_to_keep_code(w);
        supervisor_serving(w->supervisor, w->queues, w->config->queues);
        tell_end(w);
        note_ended(w, serve_queue_0(w));
        unlocked(w, wait_ended);
        culprits_forget(w->culprits);
        /* Rings and node stay open until the process ends, although the hook's at_exit blocks come first, and take up to
         * EXIT_USEC of supervisor.c: Linux 6.12 delivers a request to the ring that is being closed as long as its task lives,
         * gives it to nobody else, and waits for its answer for ever (ublk_wait_tagset_rqs_idle). */
        return w->end == QUEUE_STOPPED ? EXIT_STOPPED : EXIT_HANDED_OVER;
}

static void wait_open(void *userdata) {
        Worker *w = userdata;

        (void) supervisor_wait_open(w->supervisor);
}

static int run_worker(Hook *hook, void *userdata) {
        Worker *w = userdata;
        Geometry geometry;
        int status;

        w->hook = hook;
        supervisor_loading();
        if (load_hook(w, &geometry) < 0)
                /* Another try would find no more. But the code before this one may have no use for it. */
                status = w->memories.lost && !w->on_trial ? EXIT_WRONG : w->failing_status;
        else if (watch_hook(w) < 0)
                status = EXIT_CRASHED;
        else {
                supervisor_ready(w->supervisor, &geometry);
                unlocked(w, wait_open);
                status = supervisor_wait_open(w->supervisor) ? serve(w) : EXIT_HANDED_OVER;
        }
        supervisor_exiting(w->supervisor, status);
        if (status == EXIT_STOPPED)
                store_clear(&w->store);
        return status;
}

static int drop_privileges(const DeviceConfig *c) {
        int r;

        r = privileges_set_io_flusher();
        if (r < 0)
                return log_error_errno(r, "Can't become an I/O flusher (AmbientCapabilities=CAP_SYS_RESOURCE missing?)");
        r = c->mlock ? privileges_lock_memory() : 0;
        if (r < 0)
                return log_error_errno(r, "Can't lock memory (LimitMEMLOCK=infinity missing? mlock=no does without)");
        r = privileges_drop();
        if (r < 0)
                return log_error_errno(r, "Can't drop capabilities");
        /* `probe` says where a kernel can't. */
        r = privileges_isolate();
        if (r < 0 && r != -EOPNOTSUPP)
                return log_error_errno(r, "Can't isolate the worker from others");
        return 0;
}

static bool kernel_device_exists(uint32_t id) {
        _cleanup_free_ char *path = NULL;

        return config_path(&path, "/sys/class/ublk-char/ublkc%u", id) >= 0 && access(path, F_OK) == 0;
}

/* Reads what the device is, and refuses one whose data is gone. The exit status, or 0 to go on. */
static int read_device(Worker *w, uint32_t id) {
        _cleanup_free_ char *message = NULL;
        Failure failure = FAILURE_NULL;
        int r, marker;

        w->failing_status = kernel_device_exists(id) ? EXIT_CRASHED : EXIT_WRONG;
        r = device_config_load(id, &w->config, &message);
        if (r < 0) {
                (void) failure_set(&failure, FAILURE_WORKER, -r, "device file %u.conf: %s", id, message ? message : strerror(-r));
                return fail(&failure, w->failing_status);
        }
        if (give_up_read(w->config, &failure) > 0)
                return fail(&failure, EXIT_WRONG);
        marker = marker_read(w->config);
        if (marker == MARKER_LOST) {
                (void) failure_set(&failure, FAILURE_WORKER, ENODATA,
                                   "the data of %s went with its last worker (recovery none): an empty disk is not put in its place; "
                                   "delete it and create it anew",
                                   w->config->name);
                return fail(&failure, EXIT_WRONG);
        }
        /* One that can't be read may be that of a device that was live. */
        if (marker >= 0 && marker != MARKER_LIVE)
                w->failing_status = EXIT_WRONG;
        memories_open(&w->memories, &w->store, w->config, marker == MARKER_LIVE || (marker < 0 && kernel_device_exists(id)));
        return 0;
}

/* The code that the last worker had; on trial, and for the first worker, what is on the disk. */
static int find_hook(Worker *w) {
        HookDirectories directories;
        _cleanup_free_ char *message = NULL;
        Failure failure = FAILURE_NULL;
        const Code *code;
        int r;

        w->on_trial = trial_includes(w->config, getenv("INVOCATION_ID"), &w->trial_usec);
        if (w->on_trial) {
                trial_add_needs(w->config);
                r = trial_take_proposed(w->config);
                if (r < 0) {
                        (void) failure_set(&failure, FAILURE_WORKER, -r, "the arguments that are to be tried can't be read: %s", strerror(-r));
                        return fail(&failure, w->failing_status);
                }
        }
        kept_code_open(&w->code, &w->store, /* ignore= */ w->on_trial);
        code = kept_code_found(&w->code);
        if (code)
                return xstrdup(code->files[0].path, &w->hook_path);
        r = hook_directories_init(&directories, /* use_environment= */ true);
        if (r >= 0)
                r = hook_directories_resolve(&directories, w->config->hook, &w->hook_path, &message);
        hook_directories_done(&directories);
        if (r >= 0)
                return 0;
        (void) failure_set(&failure, r == -EPERM ? FAILURE_HOOK : FAILURE_NO_HOOK, -r, "%s", message ? message : strerror(-r));
        return fail(&failure, w->failing_status);
}

/* Who edits a hook and then restarts its device should not be left to wonder. */
static void say_what_is_run(const Worker *w) {
        const Code *code = kept_code_found(&w->code);
        const char *changed = code ? code_find_changed(code) : NULL;

        if (changed)
                log_notice("%s has changed since; %s goes on with the code that it has. To run what is on the disk: ublkctl reload %s",
                           changed, w->config->name, w->config->name);
}

/* A signal ends it, and the process. */
static void wait_turn(const DeviceConfig *c) {
        uint64_t delay = attempts_delay(c);

        if (delay == 0)
                return;
        log_warning("The last starts of %s all failed; the next one begins in %.1f s.", c->name, (double) delay / USEC_PER_SEC);
        (void) usleep((useconds_t) delay);
}

static int run(uint32_t id) {
        Worker w = {
                .device = QUEUE_DEVICE_NULL,
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .changed = PTHREAD_COND_INITIALIZER,
        };
        int r;

        last_word_begin(id);
        r = store_open(&w.store);
        if (r < 0) {
                /* It is there all the same: without it nothing must be taken for lost. */
                log_error_errno(r, "Can't take what systemd has kept of the last worker");
                return EXIT_CRASHED;
        }
        install_signal_handlers();
        r = read_device(&w, id);
        if (r == 0)
                r = find_hook(&w);
        if (r != 0)
                return r;
        if (!w.on_trial) /* it is not this code that failed */
                wait_turn(w.config);
        say_what_is_run(&w);
        if (drop_privileges(w.config) < 0)
                return EXIT_CRASHED;
        r = supervisor_start(w.config, w.failing_status, /* trusted_uid= */ 0, &w.supervisor);
        if (r < 0) {
                log_error_errno(r, "Can't make the worker's socket");
                return EXIT_CRASHED;
        }
        signal_supervisor = w.supervisor;
        r = hook_run(run_worker, &w);
        return r < 0 ? EXIT_CRASHED : r;
}

static void help(void) {
        printf("ublk-ruby-worker [OPTIONS] N\n\n"
               "Serves the I/O of device N with its hook. Run by ublk-ruby-device@N.service.\n\n"
               "  -h --help     Show this help\n"
               "     --version  Show the version\n"
               "     --check HOOK [KEY=VALUE...]\n"
               "                Look for faults in a hook, without a device; --check --help shows more\n"
               "     --describe HOOK [KEY=VALUE...]\n"
               "                Show a hook's options\n"
               "     --examine N\n"
               "                Load the hook of device N as it is on the disk now, check the device's arguments, build\n"
               "                nothing, and print what came of it as JSON. Run by ublk-ruby-check@N.service\n"
               "     --examine hook-K\n"
               "                Load a hook as a file in /run/ublk-ruby/proposals says, and print what it takes, and the disk\n"
               "                that it makes, as JSON. Run by ublk-ruby-check@hook-K.service\n\n"
               "Exit status: 75 handed over, 76 its device was stopped, 78 hook or configuration wrong on a device\n"
               "that never was live; anything else is a crash, from which systemd recovers the device.\n");
}

int main(int argc, char *argv[]) {
        enum { ARG_VERSION = 256, ARG_EXAMINE };
        static const struct option options[] = {
                { "help", no_argument, NULL, 'h' },
                { "version", no_argument, NULL, ARG_VERSION },
                { "examine", no_argument, NULL, ARG_EXAMINE },
                { 0 },
        };
        bool examine = false;
        uint32_t id;
        int c, r;

        log_setup("ublk-ruby-worker");
        if (check_is_asked(argc, argv))
                return check_main(argc, argv);
        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 'h':
                        help();
                        return 0;
                case ARG_VERSION:
                        puts("ublk-ruby " PROJECT_VERSION);
                        return 0;
                case ARG_EXAMINE:
                        examine = true;
                        break;
                default:
                        return 2;
                }
        if (examine && optind + 1 == argc)
                return examine_main(argv[optind]);
        if (optind + 1 != argc || parse_u32(argv[optind], UBLK_MAX_ID, &id) < 0) {
                log_error("One argument is needed: the device's id, 0 to %u.", UBLK_MAX_ID);
                return 2;
        }
        r = run(id);
        last_word_say(r);
        return r;
}
