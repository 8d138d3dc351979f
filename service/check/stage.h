/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A stage of a check: a child process with a Ruby of its own, the hook loaded in it, and the checks that it runs
 * one by one. What it finds goes to the parent as lines of JSON. However the child ends, and if it never does, the
 * parent knows what it was at.
 */

#include "service/check/disk.h"

typedef struct CheckStep {
        const char *id;
        const char *title;
        int (*run)(CheckDisk *d); /* 0; 1 with check_skip; -1 with check_fault */
        bool writes;              /* not for a disk that is read-only */
        bool keeps;               /* nor for one that holds nothing, and says so */
        bool needs_all;           /* only if nothing before it in the stage had a fault */
        bool essential;           /* without it nothing that follows makes sense, in other stages either */
} CheckStep;

typedef struct CheckStage {
        const CheckStep *steps;
        size_t n_steps;
        bool only_schema;   /* the script is asked for its options, and nothing is built */
        bool watch_files;   /* what the hook does with files is watched, and can be made to fail */
        bool may_be_killed; /* a step kills the process: that is no fault */
} CheckStage;

/* What a run of a stage starts from. */
typedef struct CheckRun {
        const CheckOptions *options;
        CheckShared *shared;
        const Argument *arguments;
        const Argument *other_arguments;
        const char *state; /* in which state directories are made */
        bool sink;
        bool show_geometry;
} CheckRun;

typedef enum CheckEnd {
        CHECK_ENDED,
        CHECK_ENDED_KILLED,      /* by itself, as may_be_killed allows */
        CHECK_ENDED_BADLY,       /* reported as a fault */
        CHECK_ENDED_INTERRUPTED, /* by a signal to the parent */
} CheckEnd;

/* Gets each line of a stage; borrowed. */
typedef void (*CheckSink)(void *userdata, const json_t *line);

/* Lines: {"check", "title", "result": "ok", "fault" or "skipped", "id", "message", "note"}, {"geometry": {…}},
 * {"schema": {…}}, {"times": {…}}, {"load": {…}} for a hook that could not be loaded. */
CheckEnd check_stage_run(const CheckStage *stage, const CheckRun *run, CheckSink sink, void *userdata);

/* The child's side, in its process; lines go to fd. 0, or a negative errno if Ruby does not start. */
int check_stage_serve(const CheckStage *stage, const CheckRun *run, int fd);

/* The schema of the script; nothing is built. */
extern const CheckStage check_stage_describe;

/* In the order in which they are run. */
extern const CheckStage check_stage_geometry;
extern const CheckStage check_stage_data;
extern const CheckStage check_stage_crash;
extern const CheckStage check_stage_recover;
extern const CheckStage check_stage_reload;
extern const CheckStage check_stage_threads;
extern const CheckStage check_stage_errors;
extern const CheckStage check_stage_time;

/* Until a signal arrives. */
void check_catch_signals(void);
bool check_is_interrupted(void);
