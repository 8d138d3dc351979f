/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The rig of the hook's tests: the real interpreter, scripts written on the spot, and requests whose payload is plain
 * memory. One interpreter serves all cases, each of which loads its own script.
 */

#include "hooks/hook.h"
#include "test-hook-mode.h"

#include <glib.h>

/* What one case works with. Reset by rig_load. */
typedef struct Rig {
        Hook *hook;
        char *directory; /* of the scripts; removed at the end */
        char *script;    /* path of the last one */
        HookSettings settings;
        Geometry geometry;
        Failure failure; /* of the last rig_load */

        unsigned n_reports;
        Failure report;  /* the last one */
        Request reported;
} Rig;

extern Rig rig;

/* Writes body to NAME.rb and loads it. arguments: triples of name, D-Bus type, value, NULL at the end. */
int rig_load(const char *name, const char *body, const char *const *arguments);
/* The same with settings changed beforehand by the caller in rig.settings. */
int rig_load_with(const char *name, const char *body, const char *const *arguments, const HookSettings *base);
/* A stock hook, by name. */
int rig_load_stock(const char *name, const char *const *arguments);

/* Serves one request through the real server and returns its result. buffer: length bytes, for read and write. */
int rig_request(uint8_t op, uint64_t offset, uint64_t length, void *buffer);
void rig_serve(Request *requests, size_t n);
void rig_fill(Request *request, uint8_t op, uint64_t offset, uint64_t length, void *buffer);

/* That the last load failed so, and that its message contains each of the words (NULL-terminated). */
void rig_assert_failure(FailureKind kind, const char *const *words);
void rig_assert_report(unsigned n, int error, const char *class_name, const char *word);

#define WORDS(...) ((const char *const[]) { __VA_ARGS__, NULL })

void add_load_tests(void);
void add_argument_tests(void);
void add_memory_tests(void);
void add_code_tests(void);
void add_serve_tests(void);
void add_buffer_tests(void);
void add_misbehaviour_tests(void);
void add_guard_tests(void);
void add_stock_tests(void);
void add_watch_tests(void);
void add_end_tests(void);
void add_mode_tests(void);
