/* SPDX-License-Identifier: MIT */
#pragma once

/* Whether a file can have been written by nobody but root: code that is run for all must not be anybody's to change. */

#include "service/util.h"

/*
 * Follows path, which is absolute, one directory after the other, and looks at each by a descriptor of its own, so that nothing
 * can be put in its place meanwhile. What lies on the way, symbolic links and where they lead included, must belong to root and
 * be writable by nobody else; the end must be a regular file.
 *
 * base: a directory, all above which is taken on trust, and below which the user who runs this is as good as root: for tests and
 * for running from a build tree. NULL: there is none.
 *
 * 0; -EPERM: it can't be trusted; another negative errno: it can't be looked at. *ret_message (owned by the caller) then says what
 * is wrong with which part, and how to mend it.
 */
int trust_check(const char *path, const char *base, char **ret_message);
