/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the worker says when it ends by its own decision: its exit status, a second time. Code of a hook can end the process with any
 * status, a C extension by exit(3) for example, and then it has crashed, whatever the number means elsewhere.
 *
 * It contains mistakes; who wants to say it can. It is a symbolic link in the worker's RuntimeDirectory, to that number: made without a
 * descriptor, of which a hook may have left none, and read without following anything, as the directory belongs to the worker's
 * user, and the reader is root.
 */

#include <stdint.h>

/* Before any code of a hook: none is said yet. Without this last_word_say does nothing. */
void last_word_begin(uint32_t id);
/* Right before the end. Nothing, unless status is a reserved one (exit-status.h). Safe in signal handlers. */
void last_word_say(int status);

/* By `release`: what to take exit_status for. A reserved one that was not said is EXIT_CRASHED. */
int last_word_judge(uint32_t id, int exit_status);
