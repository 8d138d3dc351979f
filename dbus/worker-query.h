/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A question to a device's worker that is passed on to whoever wants to know: Device.GetStuckRequests, Device.GetStatistics. No
 * Operation, since it has to be answered while one is at work, and changes nothing. One question of a kind to a worker at a
 * time: who comes meanwhile gets the same answer.
 */

#include "service/device.h"
#include "service/protocol.h"

#include <systemd/sd-bus.h>

typedef struct DeviceBus DeviceBus;
typedef struct WorkerQuery WorkerQuery;

typedef struct QueryKind {
        MessageType type;
        size_t max_reply; /* bytes */
        uint64_t timeout_usec;
        const char *about; /* "what is in its hook" */
        /* 0, or a negative errno. */
        int (*check)(const void *reply, size_t size, uint32_t device_id);
        /* What a call is answered with. reply has been checked; NULL: there is no worker, or one that has not come so far. */
        int (*append)(sd_bus_message *m, const Device *d, const void *reply);
} QueryKind;

/* As a bus handler returns: 1, or a negative errno with e filled. slot, of the device, is where the query is kept while it
 * lasts. kind is borrowed. */
int worker_query_begin(DeviceBus *db, const QueryKind *kind, WorkerQuery **slot, sd_bus_message *m, sd_bus_error *e);
/* The device goes away: those who wait are told so. */
WorkerQuery *worker_query_free(WorkerQuery *q);
