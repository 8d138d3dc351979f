/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A device that isn't there: requests whose payload lies in this process, served by the real Server. For
 * `ublk-ruby-worker --check` and for tests.
 */

#include "service/failure.h"
#include "service/request.h"

typedef struct SimulatedRequest {
        Request request;     /* its source is this object */
        uint8_t *payload;    /* borrowed, request.length bytes; NULL for what moves none */
        uint64_t moved;      /* bytes that the server pulled or pushed */
        bool kill_on_pull;   /* the process gets SIGKILL where the server fetches the payload */
        Failure failure;     /* what the server's owner may note of it; freed by simulated_request_done */
} SimulatedRequest;

/* A read's payload is filled with a byte that betrays what was never answered. */
void simulated_request_init(SimulatedRequest *r, uint8_t op, uint64_t offset, uint64_t length, void *payload);
void simulated_request_done(SimulatedRequest *r);

/* The one that a Request handed to a server belongs to. */
SimulatedRequest *simulated_request_of(const Request *request);

/* Up to SIMULATED_MAX_BATCH requests as one batch; then, as the queue has it do, the server tidies up. */
#define SIMULATED_MAX_BATCH 64
void simulated_serve(const Server *server, SimulatedRequest *requests, size_t n);
