/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The code of a hook as one of its workers found it: the script and the files that it loaded, in this order, each with
 * its whole source. As long as a device lives its later workers run this and not whatever is on the disk by then; between
 * two workers it lies in the unit's descriptor store (store.h) as a sealed memfd. Knows no Ruby.
 */

#include "service/util.h"

/* Beyond either, a hook's code is not kept. */
#define CODE_MAX_SIZE (8U << 20) /* bytes of a memfd */
#define CODE_MAX_FILES 4096

typedef struct CodeFile {
        char *path;      /* as it was loaded: what __FILE__ says */
        char *real_path; /* where that led to: what __dir__ and require_relative go by */
        char *source;    /* any bytes; one NUL more than size */
        size_t size;
} CodeFile;

typedef struct Code {
        CodeFile *files; /* the first one is the script */
        size_t n_files;
        size_t n_allocated;
        size_t size;     /* of the memfd that it would make */
} Code;

#define CODE_NULL ((Code) { 0 })
void code_done(Code *c);

/* Copies. A file of the same path is replaced. -E2BIG past the limits, -EINVAL for a path that is empty or has more than
 * PATH_MAX bytes; then nothing is changed. */
int code_add(Code *c, const char *path, const char *real_path, const void *source, size_t size);

/* A sealed memfd with all of it. -ENODATA if there is nothing. */
int code_to_fd(const Code *c, int *ret);
/* -EBADMSG if it isn't one of those, sealed and whole. The descriptor stays the caller's. */
int code_from_fd(int fd, Code *ret);

/* The first file that has another content on the disk by now, or is not there: borrowed, NULL if there is none. */
const char *code_find_changed(const Code *c);
