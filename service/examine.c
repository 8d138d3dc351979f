/* SPDX-License-Identifier: MIT */
#include "service/examine.h"

#include "hooks/hook.h"
#include "service/hookdir.h"
#include "service/log.h"
#include "service/paths.h"
#include "service/privileges.h"
#include "service/trial.h"
#include "service/uapi.h"

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>

typedef struct Examination {
        DeviceConfig *config;
        char *hook_path;
        bool is_proposal;
        int answer_fd;
        bool has_first_answer;
        json_t *facts; /* of a proposal: what the answer has beside the failure; owned */
        Failure failure;
        pthread_mutex_t lock; /* over answering */
} Examination;

static char *answer_to_text(const Examination *x, int error, const Failure *f) {
        json_t *answer = x->facts ? json_copy(x->facts) : json_object();
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
        _cleanup_free_ char *text = answer_to_text(x, error, f);

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

static json_t *geometry_to_json(const Geometry *g) {
        return json_pack("{s:I, s:I, s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "size", (json_int_t) g->size, "logical-block-size",
                         (json_int_t) g->logical_block_size, "physical-block-size", (json_int_t) g->physical_block_size, "recovery",
                         recovery_to_string((Recovery) g->recovery), "read-only", g->read_only, "rotational", g->rotational, "discard",
                         g->can_discard, "write-zeroes", g->can_write_zeroes, "resize", g->can_resize);
}

/* Every option that must be given was given. */
static bool has_all_arguments(const Examination *x, const json_t *schema) {
        const json_t *option;
        size_t i;

        json_array_foreach(json_object_get(schema, "options"), i, option)
                if (json_is_true(json_object_get(option, "required")) &&
                    !device_config_find_argument(x->config, json_string_value(json_object_get(option, "name"))))
                        return false;
        return true;
}

/* A disk that needs what only its own unit would have is not built, and nothing is wrong with that. */
static int build(Examination *x, Hook *hook, const HookSettings *settings) {
        Geometry geometry;
        int r;

        r = hook_load(hook, settings, &geometry, &x->failure);
        if (r >= 0)
                (void) json_object_set_new(x->facts, "geometry", geometry_to_json(&geometry));
        return r < 0 && x->failure.kind == FAILURE_NEEDS ? 0 : r;
}

static int examine_proposal(Examination *x, Hook *hook, const HookSettings *settings) {
        json_t *schema;
        int r;

        r = hook_describe(hook, settings, &schema, &x->failure);
        if (r < 0)
                return r;
        (void) json_object_set_new(x->facts, "schema", schema);
        if (has_all_arguments(x, schema))
                return build(x, hook, settings);
        /* With too little, what is there may still be wrong. */
        r = hook_examine(hook, settings, &x->failure);
        return r < 0 && x->failure.kind == FAILURE_ARGUMENTS && x->config->n_arguments == 0 ? 0 : r;
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
                .state_directory = x->is_proposal ? "/tmp/ublk-ruby-state" : NULL, /* this unit has a /tmp of its own */
                .grants = &grants,
        };
        int r;

        r = x->is_proposal ? examine_proposal(x, hook, &settings) : hook_examine(hook, &settings, &x->failure);
        answer(x, r, &x->failure);
}

static int find_hook(Examination *x) {
        _cleanup_free_ char *message = NULL;
        HookDirectories directories;
        int r;

        r = hook_directories_init(&directories, /* use_environment= */ true);
        if (r >= 0)
                r = hook_directories_resolve(&directories, x->config->hook, &x->hook_path, &message);
        hook_directories_done(&directories);
        if (r < 0)
                return failure_set(&x->failure, r == -EPERM ? FAILURE_HOOK : FAILURE_NO_HOOK, -r, "%s", message ? message : strerror(-r));
        return 0;
}

static int load_proposal(Examination *x, uint32_t number, char **ret_message) {
        _cleanup_free_ char *path = NULL;
        int r;

        x->facts = json_object();
        r = config_path(&path, PATH_PROPOSALS "/%u.conf", number);
        return r < 0 ? r : device_config_load_from(path, 0, &x->config, ret_message);
}

static int prepare(Examination *x, uint32_t number) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = x->is_proposal ? load_proposal(x, number, &message) : device_config_load(number, &x->config, &message);
        if (r >= 0 && !x->is_proposal)
                r = trial_take_proposed(x->config);
        if (r < 0)
                return failure_set(&x->failure, FAILURE_WORKER, -r, "file %u.conf: %s", number, message ? message : strerror(-r));
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

int examine_main(const char *what) {
        bool is_proposal = strncmp(what, PROPOSAL_PREFIX, strlen(PROPOSAL_PREFIX)) == 0;
        Examination x = { .failure = FAILURE_NULL, .is_proposal = is_proposal, .lock = PTHREAD_MUTEX_INITIALIZER };
        uint32_t number;
        int r;

        if (parse_u32(is_proposal ? what + strlen(PROPOSAL_PREFIX) : what, is_proposal ? UINT32_MAX : UBLK_MAX_ID, &number) < 0) {
                log_error("--examine takes a device's id, 0 to %u, or " PROPOSAL_PREFIX "NUMBER.", UBLK_MAX_ID);
                return 2;
        }
        /* What the hook prints goes to the journal, with what this prints. */
        x.answer_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (x.answer_fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
                return log_error_errno(-errno, "There is nowhere to answer to") < 0;
        r = prepare(&x, number);
        if (r < 0)
                answer(&x, r, &x.failure);
        put_first_answer(&x);
        limit_time(&x);
        r = hook_run(examine, &x);
        return log_error_errno(r < 0 ? r : -EIO, "Ruby does not start") < 0;
}
