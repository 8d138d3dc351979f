/* SPDX-License-Identifier: MIT */
#pragma once

/* The shape of a disk, as the built target reports it: what becomes the ublk parameters. */

#include "service/config.h"

/* Plain data with fixed sizes: it crosses the worker's socket. */
typedef struct Geometry {
        uint64_t size;                /* bytes: > 0, a multiple of logical_block_size, at most GEOMETRY_MAX_SIZE */
        uint32_t logical_block_size;  /* 512 … 4096, a power of two */
        uint32_t physical_block_size; /* logical … 256 MiB, a power of two (Linux 7.2 has that limit) */
        uint32_t recovery;            /* Recovery, resolved: never RECOVERY_DEFAULT */
        uint8_t read_only;
        uint8_t rotational;
        uint8_t can_discard;
        uint8_t can_write_zeroes;
        uint8_t in_memory;            /* the hook has data in UBLK::Memory, which ends with its unit */
        uint8_t can_resize;
        uint8_t takes_size;           /* the hook has an option `size`: a later worker is told the size by it */
        uint8_t buffers;              /* reads or writes are given a UBLK::Buffer: no part of the shape, but of how it is served */
} Geometry;

#define GEOMETRY_MAX_SIZE (UINT64_C(0x7ffffffffffffe00)) /* 2^63 − 512: loff_t of the block layer */

/* 0, or -EINVAL with *ret_message (owned by the caller) naming the field, its value and its limits. */
int geometry_check(const Geometry *g, char **ret_message);

struct ublk_params;
/* max_io_size in bytes, page-aligned. */
void geometry_to_params(const Geometry *g, uint32_t max_io_size, struct ublk_params *ret);
/* Whether a kernel device with these parameters is the disk that g describes; -ESTALE with *ret_message if not. */
int geometry_match_params(const Geometry *g, const struct ublk_params *p, char **ret_message);
