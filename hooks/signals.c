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
bool hook_signals_restore(void) {
        bool changed = false;

        for (size_t i = 0; i < ELEMENTSOF(guarded_signals); i++) {
                struct sigaction now;

                if (saved_actions[i].sa_handler == SIG_DFL || sigaction(guarded_signals[i], NULL, &now) < 0 ||
                    now.sa_handler == saved_actions[i].sa_handler)
                        continue;
                (void) sigaction(guarded_signals[i], &saved_actions[i], NULL);
                changed = true;
        }
        return changed;
}

void hook_signals_forget(void) {
        for (size_t i = 0; i < ELEMENTSOF(guarded_signals); i++) {
                struct sigaction now;

                if (saved_actions[i].sa_handler == SIG_DFL)
                        continue;
                if (sigaction(guarded_signals[i], NULL, &now) == 0 && now.sa_handler == saved_actions[i].sa_handler)
                        (void) signal(guarded_signals[i], SIG_DFL);
                saved_actions[i].sa_handler = SIG_DFL;
        }
}
