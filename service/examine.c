/* SPDX-License-Identifier: MIT */
#include "service/examine.h"

#include "hooks/hook.h"
#include "service/hookdir.h"
#include "service/log.h"
#include "service/privileges.h"

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>

typedef struct Examination {
        DeviceConfig *config;
        char *hook_path;
        int answer_fd;
        bool has_first_answer;
        Failure failure;
        pthread_mutex_t lock; /* over answering */
} Examination;

static char *answer_to_text(int error, const Failure *f) {
        json_t *answer = json_object();
        char *text;

        (void) json_object_set_new(answer, "error", json_integer(error < 0 ? -error : 0));
        if (error < 0)
                (void) json_object_set_new(answer, "failure", failure_to_json(f));
        text = json_dumps(answer, JSON_COMPACT);
        json_decref(answer);
        return text;
}

/* There is one answer: it takes the place of what was put there before. */
static int put_answer(const Examination *x, int error, const Failure *f) {
        _cleanup_free_ char *text = answer_to_text(error, f);

        if (!text)
                return -ENOMEM;
        if (x->has_first_answer && (ftruncate(x->answer_fd, 0) < 0 || lseek(x->answer_fd, 0, SEEK_SET) < 0))
                return -errno;
        return write_all(x->answer_fd, text, strlen(text));
}

/* What holds if the hook ends the process, so that nothing can be said any more. Not into a pipe, which can't be taken back. */
static void put_first_answer(Examination *x) {
        Failure f = FAILURE_NULL;
        int r;

        if (lseek(x->answer_fd, 0, SEEK_CUR) < 0)
                return;
        (void) failure_set(&f, FAILURE_HOOK, EIO, "the hook ended the process while it was loaded, by exit! or exec");
        r = put_answer(x, -EIO, &f);
        failure_done(&f);
        if (r < 0)
                log_warning("The answer can't be written yet, going on: %s", strerror(-r));
        x->has_first_answer = true;
}

/* And ends the process: what the hook has left running, or in at_exit, is not waited for. */
static __attribute__((noreturn)) void answer(Examination *x, int error, const Failure *f) {
        _cleanup_free_ char *text = NULL;
        int r;

        pthread_mutex_lock(&x->lock);
        r = put_answer(x, error, f);
        if (r < 0)
                log_error_errno(r, "The answer can't be written");
        if (error < 0 && failure_describe_fully(f, &text) >= 0)
                log_error("%s", text);
        _exit(r < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* No hook can stop a thread that is no Ruby's. */
static void *watch_time(void *userdata) {
        Examination *x = userdata;
        Failure f = FAILURE_NULL;

        (void) poll_until(-1, 0, now_usec() + x->config->start_timeout_usec);
        (void) failure_set(&f, FAILURE_HOOK, ETIMEDOUT,
                           "hook \"%s\" did not finish loading within start-timeout (%.1f s); make it faster, or raise start-timeout",
                           x->config->hook, (double) x->config->start_timeout_usec / USEC_PER_SEC);
        answer(x, -ETIMEDOUT, &f);
}

static void limit_time(Examination *x) {
        pthread_t thread;
        int r;

        r = pthread_create(&thread, NULL, watch_time, x);
        if (r != 0)
                log_warning("Nothing limits the time that the hook takes, going on: %s", strerror(r));
}

static int examine(Hook *hook, void *userdata) {
        Examination *x = userdata;
        /* Not what this unit has, but what the device's has been given: if that is not enough, it can be given more. */
        Grants grants = { .network = x->config->network, .jit = x->config->jit, .secrets = x->config->secrets };
        HookSettings settings = {
                .name = x->config->hook,
                .path = x->hook_path,
                .class_name = x->config->class_name,
                .device = x->config->name,
                .arguments = x->config->arguments,
                .n_arguments = x->config->n_arguments,
                .recovery = x->config->recovery,
                .read_only = x->config->read_only,
                .grants = &grants,
        };
        int r;

        r = hook_examine(hook, &settings, &x->failure);
        answer(x, r, &x->failure);
}

static int find_hook(Examination *x) {
        HookDirectories directories;
        int r;

        r = hook_directories_init(&directories, /* use_environment= */ true);
        if (r >= 0)
                r = hook_directories_find(&directories, x->config->hook, &x->hook_path);
        hook_directories_done(&directories);
        if (r < 0)
                return failure_set(&x->failure, FAILURE_NO_HOOK, -r, "there is no hook \"%s\": no %s.rb in the hook directories",
                                   x->config->hook, x->config->hook);
        return 0;
}

static int prepare(Examination *x, uint32_t id) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = device_config_load(id, &x->config, &message);
        if (r < 0)
                return failure_set(&x->failure, FAILURE_WORKER, -r, "device file %u.conf: %s", id, message ? message : strerror(-r));
        r = find_hook(x);
        if (r < 0)
                return r;
        r = privileges_drop();
        if (r >= 0)
                r = privileges_isolate();
        if (r < 0 && r != -EOPNOTSUPP)
                return failure_set(&x->failure, FAILURE_WORKER, -r, "can't let go of privileges: %s", strerror(-r));
        return 0;
}

int examine_main(uint32_t id) {
        Examination x = { .failure = FAILURE_NULL, .lock = PTHREAD_MUTEX_INITIALIZER };
        int r;

        /* What the hook prints goes to the journal, with what this prints. */
        x.answer_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (x.answer_fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
                return log_error_errno(-errno, "There is nowhere to answer to") < 0;
        r = prepare(&x, id);
        if (r < 0)
                answer(&x, r, &x.failure);
        put_first_answer(&x);
        limit_time(&x);
        r = hook_run(examine, &x);
        return log_error_errno(r < 0 ? r : -EIO, "Ruby does not start") < 0;
}
