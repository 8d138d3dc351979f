/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The simulated disk that a stage of a check works on: the loaded hook, requests in batches, and for a few windows
 * of the disk what must be read there. Everything returns 0, or -1 once a fault has been noted for the check that
 * is running; the first fault ends a check.
 */

#include "hooks/hook.h"
#include "service/check/check.h"
#include "service/check/simulated.h"

#include <jansson.h>

#define CHECK_WINDOWS 4
#define CHECK_WINDOW_SIZE (UINT64_C(1) << 20)
#define CHECK_WINDOW_STRESSED (UINT64_C(64) << 10) /* under --gc-stress a request takes a millisecond or more */
#define CHECK_ARENA_SIZE (CHECK_WINDOWS * CHECK_WINDOW_SIZE)
#define CHECK_PAYLOAD_SIZE (4 * CHECK_WINDOW_SIZE) /* of all requests of a batch */
#define CHECK_BLOCK_MIN 512

/* Of a block, for the check of a crash. */
typedef enum CheckBlockState {
        BLOCK_UNTOUCHED,
        BLOCK_FLUSHED,   /* written, acknowledged, and a flush was acknowledged after that */
        BLOCK_WRITTEN,   /* written and acknowledged */
        BLOCK_IN_FLIGHT, /* in a batch that was never acknowledged */
} CheckBlockState;

/* Shared by the process that reports and its stages, so that one knows what the other did when it died. */
typedef struct CheckShared {
        char check[32];       /* the check at work */
        uint64_t since_usec;  /* when the server got what it has in hand; 0: nothing */
        bool loading;         /* what it has in hand is the script */
        bool in_memory;       /* the hook has data in UBLK::Memory */
        uint64_t size;        /* of the disk, when it was built first */
        uint8_t op;           /* else this request, the first of its batch */
        uint64_t offset;
        uint64_t length;

        uint8_t expected[CHECK_ARENA_SIZE];
        uint8_t previous[CHECK_ARENA_SIZE]; /* what each block held before its last change */
        uint8_t baseline[CHECK_ARENA_SIZE]; /* what it held at first */
        uint8_t state[CHECK_ARENA_SIZE / CHECK_BLOCK_MIN];
} CheckShared;

/* A part of the disk that is known. */
typedef struct CheckWindow {
        uint64_t offset;
        uint64_t length;
        uint64_t at; /* in the arrays of CheckShared */
} CheckWindow;

/* The id of a fault for each way in which data can be wrong; NULL keeps the general one. */
typedef struct CheckNames {
        const char *shifted;   /* right, but some bytes further on or back */
        const char *misplaced; /* another block's data */
        const char *stale;     /* what the block held before */
        const char *zeroes;
        const char *corrupt;   /* anything else */
        const char *unlike;    /* all of the above that have no name of their own here */
} CheckNames;

typedef struct CheckDisk {
        Hook *hook;
        const Server *server;
        const CheckOptions *options;
        const Argument *arguments;       /* that name the copies */
        const Argument *other_arguments; /* the same with further copies; NULL if there are none */
        const char *state;               /* in which state directories are made */
        const char *device;              /* that is loaded: what is kept is kept by its name */
        bool sink;                       /* the disk holds nothing, and says so */
        bool text;                       /* what is written is ASCII: whether bytes are bytes is not known yet */
        Geometry geometry;
        uint32_t block;                  /* its logical block size */
        uint32_t max_io;
        CheckShared *shared;
        CheckWindow windows[CHECK_WINDOWS];
        size_t n_windows;
        uint64_t random;                 /* state of the generator */
        CheckNames names;                /* of the check at work */
        char context[80];                /* what came before, for messages: "after write of 512 bytes at 0: " */

        SimulatedRequest requests[SIMULATED_MAX_BATCH];
        size_t n_requests;
        uint8_t *payload;                /* CHECK_PAYLOAD_SIZE bytes */
        size_t payload_used;
        uint64_t n_stale_calls;          /* of a UBLK::Buffer whose request has its answer; those that were seen */

        json_t *fault;                   /* of the check at work: id, message */
        char *note;                      /* of the check at work, or why it was skipped */
        json_t *figures;                 /* what it measured */
} CheckDisk;

/* Of the check at work. Notes the fault and returns -1; a second one of the same check is dropped. */
int check_fault(CheckDisk *d, const char *id, const char *format, ...) _printf_(3, 4);
/* Returns 0. */
int check_note(CheckDisk *d, const char *format, ...) _printf_(2, 3);
/* Not everything can be checked on every disk: returns 1. */
int check_skip(CheckDisk *d, const char *format, ...) _printf_(2, 3);

/* What the messages of the faults that follow begin with, up to the end of the check; "" for nothing. */
void check_context(CheckDisk *d, const char *format, ...) _printf_(2, 3);

/* For a device of that name. Owned by the caller. */
int disk_state_directory(const CheckDisk *d, const char *device, char **ret);

/* Loads the hook with these arguments; 0 or a negative errno. */
int disk_load(CheckDisk *d, const Argument *arguments, Failure *ret_failure);
/* After the first load. */
void disk_choose_windows(CheckDisk *d);
/* Reads all windows: from then on their contents are expected. */
int disk_learn(CheckDisk *d);

uint64_t disk_random(CheckDisk *d);
/* 0 … limit − 1 */
uint64_t disk_random_below(CheckDisk *d, uint64_t limit);
/* A block-aligned range of at most max bytes inside a window. */
void disk_random_range(CheckDisk *d, uint32_t max, uint64_t *ret_offset, uint32_t *ret_length);

/* Collects a batch; ranges lie in windows. disk_run serves it, keeps the windows' contents up to date, and checks every answer in
 * the order of the requests. */
void disk_add_read(CheckDisk *d, uint64_t offset, uint32_t length);
void disk_add_write(CheckDisk *d, uint64_t offset, uint32_t length); /* of random data */
void disk_add_write_of(CheckDisk *d, uint64_t offset, uint32_t length, const void *data);
void disk_add_flush(CheckDisk *d);
void disk_add_zero(CheckDisk *d, uint8_t op, uint64_t offset, uint32_t length, bool no_unmap);
int disk_run(CheckDisk *d);
/* Serves the batch and judges nothing. disk_clear follows. */
void disk_serve(CheckDisk *d);
void disk_clear(CheckDisk *d);

/* Batches of one. */
int disk_read(CheckDisk *d, uint64_t offset, uint32_t length);
int disk_write(CheckDisk *d, uint64_t offset, uint32_t length);
int disk_flush(CheckDisk *d);
/* Reads the range in pieces of step bytes (cut at the end). */
int disk_verify(CheckDisk *d, uint64_t offset, uint64_t length, uint32_t step);
int disk_verify_all(CheckDisk *d);

const CheckWindow *disk_window(const CheckDisk *d, uint64_t offset, uint64_t length);
uint8_t *disk_expected(const CheckDisk *d, uint64_t offset);
uint8_t *disk_state(const CheckDisk *d, uint64_t offset);
/* What an answered request means for the windows' contents. */
void disk_apply(CheckDisk *d, const SimulatedRequest *r);

/* check-diagnose.c */

/* A request that was not answered with success: what was wrong, by name. -1. */
int disk_diagnose_failure(CheckDisk *d, const SimulatedRequest *r);
/* A read whose bytes are not the expected ones. -1. */
int disk_diagnose_data(CheckDisk *d, const SimulatedRequest *r);
bool check_is_constant(const uint8_t *data, size_t n);
bool check_is_zero(const uint8_t *data, size_t n);
