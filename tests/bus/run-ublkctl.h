/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs the ublkctl of the build tree. Arguments are in one string, which is split as a shell does. */

#include <jansson.h>

/* Its exit status has to be that one, and the part in what it prints: on standard output with status 0 or 3, which are no
 * errors, on either with another one. */
void ublkctl(const char *arguments, int status, const char *part);

/* What it writes to standard output, to standard error, or as JSON; owned by the caller. */
char *ublkctl_output(const char *arguments, int status);
char *ublkctl_errors(const char *arguments, int status);
json_t *ublkctl_json(const char *arguments, int status);
