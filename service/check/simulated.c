/* SPDX-License-Identifier: MIT */
#include "service/check/simulated.h"

#include <signal.h>

#define POISON 0xa5

static int check_range(const SimulatedRequest *r, uint32_t offset, uint32_t length) {
        return r->payload && (uint64_t) offset + length <= r->request.length ? 0 : -EINVAL;
}

static int pull(const Request *request, void *buffer, uint32_t offset, uint32_t length) {
        SimulatedRequest *r = simulated_request_of(request);

        if (r->kill_on_pull)
                (void) kill(getpid(), SIGKILL);
        if (check_range(r, offset, length) < 0)
                return -EINVAL;
        memcpy(buffer, r->payload + offset, length);
        r->moved += length;
        return 0;
}

static int push(const Request *request, const void *buffer, uint32_t offset, uint32_t length) {
        SimulatedRequest *r = simulated_request_of(request);

        if (check_range(r, offset, length) < 0)
                return -EINVAL;
        memcpy(r->payload + offset, buffer, length);
        r->moved += length;
        return 0;
}

static const Transport simulated_transport = { .pull = pull, .push = push };

SimulatedRequest *simulated_request_of(const Request *request) {
        return request->source;
}

void simulated_request_init(SimulatedRequest *r, uint8_t op, uint64_t offset, uint64_t length, void *payload) {
        *r = (SimulatedRequest) {
                .request = {
                        .transport = &simulated_transport,
                        .source = r,
                        .offset = offset,
                        .length = length,
                        .op = op,
                        .result = INT32_MIN,
                },
                .payload = payload,
                .failure = FAILURE_NULL,
        };
        if (op == OPERATION_READ)
                memset(payload, POISON, length);
}

void simulated_request_done(SimulatedRequest *r) {
        failure_done(&r->failure);
}

void simulated_serve(const Server *server, SimulatedRequest *requests, size_t n) {
        Request *list[SIMULATED_MAX_BATCH];

        for (size_t i = 0; i < n && i < SIMULATED_MAX_BATCH; i++) {
                requests[i].request.tag = (uint16_t) i;
                list[i] = &requests[i].request;
        }
        server->serve(server->userdata, list, n < SIMULATED_MAX_BATCH ? n : SIMULATED_MAX_BATCH);
        if (server->tidy)
                server->tidy(server->userdata);
}
