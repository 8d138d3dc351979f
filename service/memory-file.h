/* SPDX-License-Identifier: MIT */
#pragma once

/* The file in memory that a UBLK::Memory of Ruby lies in. */

#include "service/util.h"

#define MEMORY_NAME_MAX 32 /* of a-z, 0-9, _ and - */
#define MEMORIES_MAX 16    /* of one hook */

/* A memfd of size bytes, all of them holes. It can neither grow nor shrink, so that no access to a mapping of it is a SIGBUS,
 * whoever gets hold of the descriptor. */
int memory_file_create(const char *name, uint64_t size, int *ret_fd);
/* Whether fd is such a file. */
bool memory_file_is_one(int fd);
