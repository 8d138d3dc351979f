/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the targets share. Each is a program of one parser that untrusted bytes reach, fuzz-NAME.c, in two builds: with libFuzzer
 * (tests/fuzz/run), and with replay.c, which runs what is kept in corpus/NAME as tests. A target looks not only for crashes: what
 * must be true of any input is said by must().
 */

#include "service/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert(3): no build leaves it out. */
#define must(condition)                                                                                                        \
        do                                                                                                                     \
                if (!(condition)) {                                                                                            \
                        fprintf(stderr, "%s:%d: this must be true: %s\n", __FILE__, __LINE__, #condition);                     \
                        abort();                                                                                               \
                }                                                                                                              \
        while (false)

/* What is left of an input. */
typedef struct Input {
        const uint8_t *data;
        size_t size;
} Input;

/* 0 past the end. */
static inline uint8_t input_byte(Input *i) {
        if (i->size == 0)
                return 0;
        i->size--;
        return *i->data++;
}

static inline uint64_t input_number(Input *i, size_t bytes) {
        uint64_t n = 0;

        while (bytes-- > 0)
                n = n << 8 | input_byte(i);
        return n;
}

/* At most max bytes; *ret_size is how many there are. */
static inline const uint8_t *input_bytes(Input *i, size_t max, size_t *ret_size) {
        const uint8_t *bytes = i->data;

        *ret_size = max < i->size ? max : i->size;
        i->data += *ret_size;
        i->size -= *ret_size;
        return bytes;
}

/* Up to the next NUL, or the end; owned by the caller. */
static inline char *input_string(Input *i) {
        size_t n = strnlen((const char *) i->data, i->size), skipped;
        char *s = n > 0 ? strndup((const char *) i->data, n) : strdup("");

        must(s);
        (void) input_bytes(i, n + 1, &skipped);
        return s;
}
