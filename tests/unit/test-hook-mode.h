/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The same cases in a mode that shows at once the mistakes of the binding which otherwise wait for bad luck. The
 * environment chooses it, UBLK_TEST_MODE; meson's set-ups of the same names do: tests/meson.build.
 *
 *   stress    every allocation collects all garbage: an object that C holds where the collector does not look is gone
 *   compact   the same, and what may be moved is moved: so is an object whose address C keeps and the collector does
 *             not know of
 *   valgrind  memcheck sees every access to memory that our C code makes, and what it has not freed at the end
 */

#include <stdbool.h>

/* Reads the variable. Ends the program if it has another value, or if this is not valgrind. */
void mode_init(void);
/* Turns the mode on, for good. The rig has its hook by then. */
void mode_start(void);

/* Round the loading of a script: thousands of allocations, few of which are the binding's. Under stress cases that are
 * about loading load in the mode all the same. */
void mode_pause(void);
void mode_resume(void);

/* Whether everything takes longer. */
bool mode_is_on(void);
/* Whether every allocation collects garbage, so that a thousand of them take a second. */
bool mode_collects(void);
/* Whether this is valgrind, which runs one thread at a time and has less of an address space. */
bool mode_is_valgrind(void);
