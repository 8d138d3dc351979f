/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One block-layer request on its way through whoever serves it, and how its payload is reached. The queue fills
 * it in (service/queue.h), hooks/ answers it; a simulated device can do the first part as well.
 */

#include "service/uapi.h"
#include "service/util.h"

typedef enum Operation {
        OPERATION_READ         = UBLK_IO_OP_READ,
        OPERATION_WRITE        = UBLK_IO_OP_WRITE,
        OPERATION_FLUSH        = UBLK_IO_OP_FLUSH,
        OPERATION_DISCARD      = UBLK_IO_OP_DISCARD,
        OPERATION_WRITE_ZEROES = UBLK_IO_OP_WRITE_ZEROES,
        /* None of the block layer's, which has no such number: the disk is to be length bytes long. Has no transport. Then
         * length is what the hook made of it. */
        OPERATION_RESIZE       = 64,
} Operation;

/* "read", "write", "flush", "discard", "write_zeroes", "resize": also the hook's method. NULL for any other number. */
const char *operation_to_string(uint8_t op);

typedef struct Request Request;

/* How payload moves. Both give 0, or a negative errno: never a short copy. Any alignment, any part of the
 * request; buffer may be any memory of this process. */
typedef struct Transport {
        int (*pull)(const Request *request, void *buffer, uint32_t offset, uint32_t length);       /* of a write */
        int (*push)(const Request *request, const void *buffer, uint32_t offset, uint32_t length); /* of a read */
} Transport;

struct Request {
        const Transport *transport; /* borrowed */
        void *source;               /* borrowed: what the transport works on */
        uint64_t offset;            /* bytes, a multiple of 512 */
        uint64_t length;            /* bytes; 0 for a flush, up to 2 TiB for discard and write_zeroes */
        int32_t result;             /* answer: length (read and write), 0 or more (others), or a negative errno */
        uint16_t queue;
        uint16_t tag;
        uint8_t op;
        bool no_unmap;              /* write_zeroes: the range must stay allocated */
};

/* What serves requests. All functions are called by a serving task that holds the interpreter, where there is one. */
typedef struct Server {
        void *userdata;
        /* Answers requests[0 … n): sets every result before it returns. */
        void (*serve)(void *userdata, Request *const *requests, size_t n);
        /* Calls fn(argument) while others may use the interpreter; fn may block, and a signal may end its wait early. */
        void (*unlocked)(void *userdata, void (*fn)(void *argument), void *argument);
        /* Every request that was served has its answer: time to collect garbage. */
        void (*tidy)(void *userdata);
        /* Whether tidy would take its time, so that answers have to be sent before it. NULL: it has nothing to do. */
        bool (*wants_tidy)(void *userdata);
} Server;

/* The errno with which a request ends, made fit for the block layer: errnos above 4095, 0 and those that have a
 * meaning of their own there (EAGAIN, EBUSY, ENOMEM, EREMCHG) become EIO. Takes and gives a negative number. */
int request_error(int64_t error);
