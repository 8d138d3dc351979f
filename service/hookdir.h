/* SPDX-License-Identifier: MIT */
#pragma once

/* The directories in which hooks are found by name, first match wins: /etc, /usr/local/lib, /usr/lib. */

#include "service/util.h"

/* NULL-terminated. UBLK_RUBY_HOOK_PATH (colon-separated) replaces them, for tests and for running from a
 * build tree; it is honoured only where the caller passes use_environment. */
typedef struct HookDirectories {
        char **paths;
        size_t n_paths;
} HookDirectories;

int hook_directories_init(HookDirectories *d, bool use_environment);
void hook_directories_done(HookDirectories *d);

/* Full path of the hook NAME. -EINVAL: not a valid name; -ENOENT: in none of the directories. The file is not opened. */
int hook_directories_find(const HookDirectories *d, const char *name, char **ret_path);

typedef struct HookFile {
        char *name;
        char *path;
} HookFile;

/* Every hook that find would give, sorted by name. Free with hook_files_free. */
int hook_directories_list(const HookDirectories *d, HookFile **ret, size_t *ret_n);
void hook_files_free(HookFile *files, size_t n);
