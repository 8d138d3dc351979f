/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Device.GetStuckRequests: what a device's worker says is in its hook, passed on to whoever wants to know. No Operation, since
 * it has to be answered while one is at work, and changes nothing. One question to a worker at a time: who comes meanwhile
 * gets the same answer.
 */

#include "service/device.h"

#include <systemd/sd-bus.h>

typedef struct DeviceBus DeviceBus;
typedef struct StuckQuery StuckQuery;

/* As a bus handler returns: 1, or a negative errno with e filled. */
int stuck_begin(DeviceBus *db, sd_bus_message *m, sd_bus_error *e);
/* The device goes away: those who wait are told so. */
StuckQuery *stuck_query_free(StuckQuery *q);
