/* SPDX-License-Identifier: MIT */
#pragma once

/* What this process has that a hook has to declare: measured, since a drop-in of the administrator's may have changed it. */

#include "service/config.h"

typedef struct Grants {
        bool network; /* sockets of IPv4 or IPv6 */
        bool jit;     /* memory that is writable and executable at once */
        const char *credentials; /* systemd's directory of those of this unit; NULL: it has none. Borrowed of the environment */
        const char *secrets;     /* the arguments that the service knows to be secrets, as in DeviceConfig; borrowed of it */
} Grants;

void grants_measure(const DeviceConfig *c, Grants *ret);
