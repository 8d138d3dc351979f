/* SPDX-License-Identifier: MIT */
#pragma once

/* Device.GetStatistics: what a device's worker has counted. */

#include "dbus/worker-query.h"

extern const QueryKind statistics_query;
