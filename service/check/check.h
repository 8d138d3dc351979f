/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * `ublk-ruby-worker --check` and `--describe`: whether a hook keeps the contract of ublk-hook(7), found out
 * without a kernel device and without privileges. The process that the user starts has no Ruby in it: it makes
 * copies of what the hook's arguments name, runs each stage of the check in a child (check-stage.h), in which the
 * hook serves a simulated device, reports (check-report.h), and takes the copies away, however it ends.
 */

#include "service/config.h"

typedef enum CheckJson {
        CHECK_JSON_OFF,
        CHECK_JSON_SHORT,
        CHECK_JSON_PRETTY,
} CheckJson;

typedef struct CheckOptions {
        char *hook;              /* the name, as messages have it */
        char *path;              /* of the script, absolute */
        const char *class_name;  /* borrowed from argv, as all that follows */
        const char *data_path;   /* NULL: auto */
        Argument *arguments;     /* of the user */
        size_t n_arguments;
        Recovery recovery;
        bool read_only;
        uint32_t max_io_size;
        uint64_t seed;
        uint64_t hook_timeout_usec; /* a batch that takes longer is stuck */
        unsigned seconds;        /* of the random part; 0: a number of steps instead */
        unsigned rounds;         /* of --time; 0: check, do not measure */
        bool describe;
        bool gc_stress;
        bool in_place;
        bool any_hook;           /* as root: one that others can have written, too */
        CheckJson json;
} CheckOptions;

#define CHECK_DEFAULT_TIMEOUT_USEC (20 * USEC_PER_SEC)

/* Exit statuses. */
enum {
        CHECK_PASSED = 0,
        CHECK_FAULTS = 1,
        CHECK_USAGE = 2,
        CHECK_INTERRUPTED = 130, /* as a shell has it for SIGINT */
};

/* Whether the arguments of ublk-ruby-worker ask for a check. */
bool check_is_asked(int argc, char *argv[]);

/* The exit status. */
int check_main(int argc, char *argv[]);

/* Reads argv into *ret (check_options_done frees it). 1: go on; 0: done, help was shown; -EINVAL: reported. */
int check_options_parse(int argc, char *argv[], CheckOptions *ret);
void check_options_done(CheckOptions *o);
