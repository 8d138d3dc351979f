/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Copies of what a hook's arguments of type path name, so that a check can write as it likes. All lie below one
 * directory, which goes with the check. Sparse files stay sparse; where the file system shares blocks, it does.
 */

#include "service/check/check.h"

#include <jansson.h>

/* Of one file; a check makes several copies, one after the other. */
#define CHECK_COPY_MAX (UINT64_C(8) << 30)

typedef struct CheckCopies {
        const CheckOptions *options;
        const json_t *schema;  /* borrowed; as hook_describe has it */
        char *directory;       /* NULL until a set is made */
        char *state;           /* of the last set: in which state directories are made */
        unsigned n_sets;
        size_t n_paths;        /* arguments that name what is outside the process */
        size_t n_copied;       /* those of the last set that name copies */
        const Argument *missing; /* the user's, if it names nothing that is there; what the hook makes of it goes away as well */
} CheckCopies;

/* A set of arguments that name fresh copies, and a fresh place for state. Free with check_arguments_free. On error *ret_message says what to do. */
int check_copies_make(CheckCopies *c, Argument **ret, char **ret_message);
void check_arguments_free(const CheckOptions *o, Argument *arguments);
/* Everything. */
void check_copies_remove(CheckCopies *c);
void check_copies_done(CheckCopies *c);

/* Whether an argument is a path that is to be copied. */
bool check_argument_is_path(const CheckCopies *c, const Argument *a);
/* text with the names that the user knows instead of the copies'; owned by the caller. */
char *check_copies_translate(const CheckCopies *c, const char *text);
