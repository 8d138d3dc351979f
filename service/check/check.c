/* SPDX-License-Identifier: MIT */
#include "service/check/check.h"

#include "service/check/report.h"
#include "service/check/stage.h"
#include "service/log.h"

#include <sys/mman.h>

typedef struct Check {
        CheckOptions options;
        CheckCopies copies;
        CheckReport report;
        CheckShared *shared;
} Check;

static int give_up(Check *c, const char *message) {
        check_report_error(&c->report, "arguments", message ? message : "out of memory");
        return -EINVAL;
}

static bool schema_says(const Check *c, const char *key) {
        return json_is_true(json_object_get(c->report.schema, key));
}

/* Whether a target with a further set of arguments has its data in another place: in other copies, or in itself. */
static bool is_another_disk(const Check *c) {
        if (c->copies.n_copied > 0 || c->copies.missing)
                return true;
        return c->copies.n_paths == 0 && (c->shared->in_memory || streq_ptr(json_string_value(json_object_get(c->report.geometry,
                                                                                                          "recovery")), "none"));
}

/* Runs a stage on copies of its own. further: with a second set of them, for a second target. then: a stage that
 * finds what this one leaves. */
static CheckEnd run_stage(Check *c, const CheckStage *stage, bool further, const CheckStage *then) {
        Argument *arguments = NULL, *other = NULL;
        _cleanup_free_ char *message = NULL;
        CheckEnd end = CHECK_ENDED_BADLY;
        CheckRun run;
        int r;

        r = check_copies_make(&c->copies, &arguments, &message);
        if (r >= 0 && further && is_another_disk(c))
                r = check_copies_make(&c->copies, &other, &message);
        if (r < 0) {
                if (!check_is_interrupted())
                        (void) give_up(c, message);
        } else {
                run = (CheckRun) {
                        .options = &c->options,
                        .shared = c->shared,
                        .arguments = arguments,
                        .other_arguments = other,
                        .state = c->copies.state,
                        .sink = schema_says(c, "sink"),
                        .show_geometry = !c->report.geometry,
                };
                end = check_stage_run(stage, &run, check_report_line, &c->report);
                if (then && end == CHECK_ENDED_KILLED) {
                        c->report.load_id = "recovery-load";
                        end = check_stage_run(then, &run, check_report_line, &c->report);
                        c->report.load_id = NULL;
                }
        }
        check_copies_remove(&c->copies);
        check_arguments_free(&c->options, arguments);
        check_arguments_free(&c->options, other);
        return end;
}

/* Without a schema nothing is copied yet. */
static void describe(Check *c) {
        (void) run_stage(c, &check_stage_describe, false, NULL);
        c->copies.schema = c->report.schema;
}

/* Every option that must be given was given. */
static bool has_all_arguments(const Check *c) {
        const json_t *option;
        size_t i;

        json_array_foreach(json_object_get(c->report.schema, "options"), i, option) {
                bool given = !json_is_true(json_object_get(option, "required"));

                for (size_t j = 0; j < c->options.n_arguments; j++)
                        given = given || streq_ptr(c->options.arguments[j].name,
                                                   json_string_value(json_object_get(option, "name")));
                if (!given)
                        return false;
        }
        return true;
}

static void describe_disk(Check *c) {
        char *text = NULL;

        if (has_all_arguments(c)) {
                (void) run_stage(c, &check_stage_geometry, false, NULL);
                return;
        }
        (void) xstrdup("Disk: give the hook its required arguments to see what it makes of them.", &text);
        check_report_note(&c->report, text);
}

/* What becomes of the user's things. */
static void explain(Check *c) {
        char *text = NULL;

        for (size_t i = 0; i < c->options.n_arguments; i++) {
                const Argument *a = &c->options.arguments[i];

                if (!check_argument_is_path(&c->copies, a))
                        continue;
                (void) xasprintf(&text, c->options.in_place ? "%s=%s is used itself, and is overwritten (--in-place)." :
                                                              "%s=%s is not touched: the hook gets copies of it.", a->name, a->value);
                check_report_note(&c->report, TAKE_PTR(text));
        }
        if (schema_says(c, "network") && !c->options.in_place && !c->options.read_only) {
                c->options.read_only = true;
                (void) xasprintf(&text, "The hook uses the network, where no copies can be made: only reads are checked. "
                                        "--in-place writes as well, and overwrites what is there.");
                check_report_note(&c->report, TAKE_PTR(text));
        }
}

static void check_all(Check *c) {
        const struct {
                const CheckStage *stage;
                bool further;
                const CheckStage *then;
        } stages[] = {
                { &check_stage_data, false, NULL },
                { &check_stage_crash, false, &check_stage_recover },
                { &check_stage_reload, true, NULL },
                { &check_stage_threads, false, NULL },
                { &check_stage_errors, false, NULL },
        };

        unsigned before;

        for (size_t i = 0; i < ELEMENTSOF(stages) && !c->report.stop && !check_is_interrupted(); i++) {
                before = c->report.n_faults;
                (void) run_stage(c, stages[i].stage, stages[i].further, stages[i].then);
                /* What is lost with the process is lost with the target as well. */
                if (stages[i].stage == &check_stage_crash && c->report.n_faults > before)
                        i++;
        }
}

static int run(Check *c) {
        describe(c);
        if (!c->report.stop && c->report.schema && !check_is_interrupted()) {
                if (!c->options.describe)
                        explain(c);
                if (c->options.describe)
                        describe_disk(c);
                else if (c->options.rounds > 0)
                        (void) run_stage(c, &check_stage_time, false, NULL);
                else
                        check_all(c);
        }
        if (check_is_interrupted()) {
                log_error("Interrupted.");
                return CHECK_INTERRUPTED;
        }
        return check_report_end(&c->report);
}

int check_main(int argc, char *argv[]) {
        Check c = { 0 };
        int r;

        r = check_options_parse(argc, argv, &c.options);
        if (r <= 0) {
                check_options_done(&c.options);
                return r < 0 ? CHECK_USAGE : CHECK_PASSED;
        }
        c.copies.options = &c.options;
        check_report_init(&c.report, &c.options, &c.copies);
        c.shared = mmap(NULL, sizeof(CheckShared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (c.shared == MAP_FAILED)
                r = log_error_errno(-errno, "Can't check");
        else {
                check_catch_signals();
                r = run(&c);
                (void) munmap(c.shared, sizeof(CheckShared));
        }
        check_copies_done(&c.copies);
        check_report_done(&c.report);
        check_options_done(&c.options);
        return r < 0 ? CHECK_FAULTS : r;
}
