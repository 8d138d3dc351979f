/* SPDX-License-Identifier: MIT */

/*
 * The handlers that the main installed before Ruby started. Ruby keeps them, but a hook that calls trap
 * replaces them, and then nobody could ask the worker to hand over.
 */

#include <signal.h>

#include "hooks/binding.h"

static const int guarded_signals[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGCHLD };
static struct sigaction saved_actions[ELEMENTSOF(guarded_signals)];

void hook_signals_save(void) {
        for (size_t i = 0; i < ELEMENTSOF(guarded_signals); i++)
                (void) sigaction(guarded_signals[i], NULL, &saved_actions[i]);
}

/* Those that had no handler are Ruby's to use. */
void hook_signals_restore(void) {
        for (size_t i = 0; i < ELEMENTSOF(guarded_signals); i++)
                if (saved_actions[i].sa_handler != SIG_DFL)
                        (void) sigaction(guarded_signals[i], &saved_actions[i], NULL);
}
