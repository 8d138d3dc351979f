/* SPDX-License-Identifier: MIT */
#pragma once

/* What a check tells its user: a line per check as it ends, or one JSON document in the end. */

#include "service/check/copy.h"

typedef struct CheckReport {
        const CheckOptions *options;
        const CheckCopies *copies;
        json_t *schema, *geometry, *checks, *notes, *error; /* owned */
        const char *load_id; /* of the fault if the hook can't be loaded although it could before; NULL: the general one */
        unsigned n_ok, n_faults;
        bool stop;         /* nothing more is worth trying */
        bool usage;        /* what the user gave is wrong, not the hook */
} CheckReport;

void check_report_init(CheckReport *r, const CheckOptions *o, const CheckCopies *copies);
void check_report_done(CheckReport *r);

/* A CheckSink: a line of a stage. */
void check_report_line(void *userdata, const json_t *line);
/* Something that the user should know beforehand. Takes text. */
void check_report_note(CheckReport *r, char *text);
/* The check can't be done. */
void check_report_error(CheckReport *r, const char *kind, const char *message);
/* Ends the report; the exit status. */
int check_report_end(CheckReport *r);

/* What to do about a fault; never NULL. */
const char *check_hint(const char *id);
