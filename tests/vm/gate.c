/* SPDX-License-Identifier: MIT */

/*
 * For LD_PRELOAD of ublk-ruby-control: stops it where a scenario wants it, at a command to the ublk driver. While there is a
 * file $UBLK_GATES/COMMAND.before, the next such command is not given to the kernel yet; COMMAND.after: it is, but
 * control does not look at what comes of it. The file is then renamed to COMMAND.at, and control goes on as soon as that
 * is gone.
 */

#include "service/uapi.h"

#include <dlfcn.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STEP_USEC 2000
/* Longer than any step of control may take: a scenario that forgets its gate fails, and does not hang. */
#define STEPS_MAX (60 * 1000000 / STEP_USEC)

static const struct {
        unsigned operation;
        const char *name;
} gates[] = {
        { UBLK_U_CMD_ADD_DEV, "add-dev" },
        { UBLK_U_CMD_START_DEV, "start-dev" },
        { UBLK_U_CMD_START_USER_RECOVERY, "start-recovery" },
        { UBLK_U_CMD_END_USER_RECOVERY, "end-recovery" },
};

static void pass(const char *gate, const char *when) {
        const char *directory = getenv("UBLK_GATES");
        char shut[256], at[256];

        if (!directory || !gate)
                return;
        (void) snprintf(shut, sizeof(shut), "%s/%s.%s", directory, gate, when);
        (void) snprintf(at, sizeof(at), "%s/%s.at", directory, gate);
        if (rename(shut, at) < 0)
                return;
        for (int i = 0; i < STEPS_MAX && access(at, F_OK) == 0; i++)
                (void) usleep(STEP_USEC);
}

/* The gate of the command that is about to be submitted; control has one at a time. */
static const char *gate_of(const struct io_uring *ring) {
        unsigned index = ring->sq.sqe_head & ring->sq.ring_mask;
        const struct io_uring_sqe *sqe = &ring->sq.sqes[ring->flags & IORING_SETUP_SQE128 ? index * 2 : index];

        if (ring->sq.sqe_head == ring->sq.sqe_tail || sqe->opcode != IORING_OP_URING_CMD)
                return NULL;
        for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++)
                if (gates[i].operation == sqe->cmd_op)
                        return gates[i].name;
        return NULL;
}

int io_uring_submit(struct io_uring *ring) {
        int (*submit)(struct io_uring *) = (int (*)(struct io_uring *)) dlsym(RTLD_NEXT, "io_uring_submit");
        const char *gate = gate_of(ring);
        int r;

        pass(gate, "before");
        r = submit(ring);
        pass(gate, "after");
        return r;
}
