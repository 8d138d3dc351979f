/* SPDX-License-Identifier: MIT */
#pragma once

/* How the worker ends, and what systemd makes of it: RestartPreventExitStatus= and SuccessExitStatus= in the unit. */

#include <stdbool.h>

enum {
        EXIT_HANDED_OVER = 75, /* on SIGTERM or SIGUSR2: started again unless a stop was asked */
        EXIT_STOPPED     = 76, /* the device was stopped while it was served */
        EXIT_WRONG       = 78, /* hook or configuration wrong, on a device that never was live: no restart */
        EXIT_CRASHED     = 1,  /* anything else: restart and recover */
};

/* Those that only the worker itself may end with, as more is made of them than of a crash. The one list: a hook's exit! is kept from them
 * (guard.rb), and `release` believes no other code of its process (last-word.h). */
static const int exit_statuses_reserved[] = { EXIT_HANDED_OVER, EXIT_STOPPED, EXIT_WRONG };

static inline bool exit_status_is_reserved(int status) {
        for (unsigned i = 0; i < sizeof(exit_statuses_reserved) / sizeof(exit_statuses_reserved[0]); i++)
                if (exit_statuses_reserved[i] == status)
                        return true;
        return false;
}
