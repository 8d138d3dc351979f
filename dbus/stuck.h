/* SPDX-License-Identifier: MIT */
#pragma once

/* Device.GetStuckRequests: what a device's worker says is in its hook. */

#include "dbus/worker-query.h"

extern const QueryKind stuck_query;
