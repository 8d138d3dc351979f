/* SPDX-License-Identifier: MIT */
#pragma once

/* What this process may do that a hook has to declare: measured, since a drop-in of the administrator's may have changed it. */

#include "service/util.h"

typedef struct Grants {
        bool network; /* sockets of IPv4 or IPv6 */
        bool jit;     /* memory that is writable and executable at once */
} Grants;

void grants_measure(Grants *ret);
