/* SPDX-License-Identifier: MIT */
#pragma once

/* The directories in which hooks are found by name, first match wins: /etc, /usr/local/lib, /usr/lib. */

#include "service/util.h"

/* Of a hook that is given by its path, in bytes. */
#define HOOK_PATH_MAX 1024

/* NULL-terminated. UBLK_RUBY_HOOK_PATH (colon-separated) replaces them, for tests and for running from a
 * build tree; it is honoured only where the caller passes use_environment. */
typedef struct HookDirectories {
        char **paths;
        size_t n_paths;
        char *base; /* of trust.h, for tests: the root that config.h has; NULL: none */
        bool from_environment; /* each directory is trusted as much as whoever set it: is its own base */
} HookDirectories;

int hook_directories_init(HookDirectories *d, bool use_environment);
void hook_directories_done(HookDirectories *d);

/* A device's hook is a name or the absolute path of a script. A good path has no "//", "/." and "/..", and no control characters. */
bool hook_is_path(const char *hook);
bool hook_path_is_valid(const char *path);

/* What a device is to run: the full path of its hook. One that goes by name must be in one of the directories, and be root's alone
 * to change (trust.h); for one that goes by its path whoever gave it answers. -ENOENT: there is none; -EPERM: it is not to be
 * trusted; -EINVAL: neither a name nor a path; *ret_message, if there is one, is a sentence's end that begins with the hook. */
int hook_directories_resolve(const HookDirectories *d, const char *hook, char **ret_path, char **ret_message);

/* Full path of the hook NAME, whoever may change it. -EINVAL: not a valid name; -ENOENT: in none of the directories. The file is
 * not opened; a symbolic link that leads nowhere is there. */
int hook_directories_find(const HookDirectories *d, const char *name, char **ret_path);

typedef struct HookFile {
        char *name;
        char *path;
} HookFile;

/* Every hook that find would give, sorted by name. Free with hook_files_free. */
int hook_directories_list(const HookDirectories *d, HookFile **ret, size_t *ret_n);
void hook_files_free(HookFile *files, size_t n);
