/* SPDX-License-Identifier: MIT */

/* The child of a stage: loads the hook and runs the checks. */

#include "service/check/stage.h"

#include <signal.h>

typedef struct Serving {
        const CheckStage *stage;
        const CheckRun *run;
        FILE *out;
        CheckDisk disk;
        bool faults;
        bool hopeless; /* an essential check had a fault */
} Serving;

/* Takes line. Full lines only: the process may be killed at any time. */
static void say(const Serving *s, json_t *line) {
        (void) json_dumpf(line, s->out, JSON_COMPACT);
        (void) fputc('\n', s->out);
        (void) fflush(s->out);
        json_decref(line);
}

static json_t *describe_failure(const Failure *f) {
        _cleanup_free_ char *text = NULL;

        (void) failure_describe(f, &text);
        return json_pack("{s:s, s:s}", "kind", failure_kind_to_string(f->kind), "message", text ? text : "");
}

static json_t *describe_geometry(const Geometry *g) {
        return json_pack("{s:I, s:i, s:i, s:s, s:b, s:b, s:b, s:b}", "size", (json_int_t) g->size, "logical-block-size",
                         (int) g->logical_block_size, "physical-block-size", (int) g->physical_block_size, "recovery",
                         recovery_to_string((Recovery) g->recovery), "read-only", g->read_only, "rotational", g->rotational, "discard",
                         g->can_discard, "write-zeroes", g->can_write_zeroes);
}

/* Why the check makes no sense here; NULL if it does. */
static const char *why_not(const Serving *s, const CheckStep *step) {
        if (s->hopeless || (step->needs_all && s->faults))
                return "an earlier fault is in the way";
        if (step->writes && s->disk.geometry.read_only)
                return "the disk is read-only";
        if (step->keeps && s->disk.sink)
                return "the disk says that it keeps nothing";
        return NULL;
}

static void say_result(Serving *s, const CheckStep *step, const char *result) {
        CheckDisk *d = &s->disk;
        json_t *line = json_pack("{s:s, s:s, s:s}", "check", step->id, "title", step->title, "result", result);

        if (d->fault) {
                (void) json_object_update(line, d->fault);
                (void) json_object_set_new(line, "essential", json_boolean(step->essential));
        }
        if (d->note)
                (void) json_object_set_new(line, "note", json_string(d->note));
        if (d->figures)
                (void) json_object_set_new(line, "figures", TAKE_PTR(d->figures));
        json_decref(d->fault);
        d->fault = NULL;
        free(TAKE_PTR(d->note));
        say(s, line);
}

/* Each check has random numbers of its own: what one does changes nothing for another. */
static void seed(CheckDisk *d, const char *id) {
        d->random = d->options->seed;
        for (; *id; id++)
                d->random = d->random * 31 + (uint8_t) *id;
}

static void run_step(Serving *s, const CheckStep *step) {
        CheckDisk *d = &s->disk;
        const char *why = why_not(s, step);
        int r;

        if (why) {
                (void) check_skip(d, "%s", why);
                say_result(s, step, "skipped");
                return;
        }
        (void) snprintf(d->shared->check, sizeof(d->shared->check), "%s", step->id);
        d->names = (CheckNames) { 0 };
        check_context(d, "%s", "");
        seed(d, step->id);
        r = step->run(d);
        disk_clear(d);
        if (d->fault) {
                s->faults = true;
                s->hopeless = s->hopeless || step->essential;
        }
        say_result(s, step, d->fault ? "fault" : r > 0 ? "skipped" : "ok");
}

static int ask(CheckDisk *d, const char *method, Failure *f) {
        const char *no_arguments[] = { NULL };

        return hook_check(d->hook, method, no_arguments, NULL, f);
}

static int prepare(Serving *s, Failure *f) {
        CheckDisk *d = &s->disk;
        int r;

        d->payload = malloc(CHECK_PAYLOAD_SIZE);
        if (!d->payload)
                return failure_set(f, FAILURE_WORKER, ENOMEM, "out of memory");
        r = ask(d, "prepare", f);
        if (r >= 0 && s->stage->watch_files)
                r = ask(d, "watch_files", f);
        if (r >= 0)
                r = disk_load(d, d->arguments, f);
        if (r < 0)
                return r;
        if (d->shared->size == 0)
                d->shared->size = d->geometry.size;
        if (s->run->show_geometry)
                say(s, json_pack("{s:o}", "geometry", describe_geometry(&d->geometry)));
        seed(d, "windows");
        disk_choose_windows(d);
        return d->options->gc_stress ? ask(d, "stress", f) : 0;
}

static int say_schema(Serving *s, Failure *f) {
        HookSettings settings = { .path = s->run->options->path, .class_name = s->run->options->class_name };
        _cleanup_free_ char *state = NULL;
        json_t *schema;
        int r;

        r = disk_state_directory(&s->disk, "check", &state);
        if (r < 0)
                return r;
        settings.state_directory = state;
        r = hook_describe(s->disk.hook, &settings, &schema, f);
        if (r >= 0)
                say(s, json_pack("{s:o}", "schema", schema));
        return r;
}

static int serve(Hook *hook, void *userdata) {
        Serving *s = userdata;
        Failure failure = FAILURE_NULL;
        int r;

        s->disk.hook = hook;
        r = s->stage->only_schema ? say_schema(s, &failure) : prepare(s, &failure);
        if (r < 0)
                say(s, json_pack("{s:o}", "load", describe_failure(&failure)));
        for (size_t i = 0; r >= 0 && i < s->stage->n_steps; i++)
                run_step(s, &s->stage->steps[i]);
        failure_done(&failure);
        free(s->disk.payload);
        return 0;
}

int check_stage_serve(const CheckStage *stage, const CheckRun *run, int fd) {
        Serving s = {
                .stage = stage,
                .run = run,
                .out = fdopen(fd, "w"),
                .disk = {
                        .options = run->options,
                        .shared = run->shared,
                        .arguments = run->arguments,
                        .other_arguments = run->other_arguments,
                        .state = run->state,
                        .sink = run->sink,
                },
        };

        return s.out ? hook_run(serve, &s) : -errno;
}
