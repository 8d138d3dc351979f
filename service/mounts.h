/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where a path leads, as /proc/self/mountinfo has it: whoever asks touches no file, and so does not wait for a server that is
 * gone, for what autofs would mount, or for a disk without a worker. Symbolic links are not followed. Paths are absolute; for tests
 * the table lies below the root of config.h, where there is one.
 */

#include "service/util.h"

typedef struct Mount {
        const char *device; /* "8:1" */
        const char *root;   /* which directory of the file system is … */
        const char *point;  /* … here */
        const char *type, *source;
} Mount;

typedef struct Mounts {
        char *text; /* owned; what all of these point into */
        Mount *all; /* owned */
        size_t n;
} Mounts;

int mounts_read(Mounts *m);
/* Takes text. */
int mounts_parse(Mounts *m, char *text);
void mounts_done(Mounts *m);

/* The one that path lies on; NULL: none that is seen, as for / itself in a chroot. */
const Mount *mounts_find(const Mounts *m, const char *path);
/* On another one than /, or on another part of the same file system than it would be if only / were mounted. */
bool mounts_is_elsewhere(const Mounts *m, const char *path);

/* O_PATH. -EREMOTE: whoever touches what is there might wait for ever; or there is a symbolic link on the way, which may lead to such a place. */
int mounts_open_at_hand(const char *path, int *ret_fd);
