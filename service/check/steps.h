/* SPDX-License-Identifier: MIT */
#pragma once

/* The checks, one function each; check-plan.c puts them in order. */

#include "service/check/stage.h"

/* check-basic.c */
int check_geometry(CheckDisk *d);
int check_boundary_reads(CheckDisk *d);
int check_single_blocks(CheckDisk *d);
int check_long_writes(CheckDisk *d);
int check_across(CheckDisk *d);
int check_encodings(CheckDisk *d);

/* check-order.c */
int check_batches(CheckDisk *d);
int check_overlaps(CheckDisk *d);
int check_flush(CheckDisk *d);
int check_random(CheckDisk *d);

/* check-zero.c */
int check_discard(CheckDisk *d);
int check_write_zeroes(CheckDisk *d);

/* check-resize.c */
int check_resize(CheckDisk *d);

/* check-crash.c */
int check_crash(CheckDisk *d);
int check_recover(CheckDisk *d);

/* check-reload.c */
int check_reload(CheckDisk *d);
int check_two_targets(CheckDisk *d);

/* check-threads.c */
int check_threads(CheckDisk *d);

/* check-errors.c */
int check_durable(CheckDisk *d);
int check_read_errors(CheckDisk *d);
int check_write_errors(CheckDisk *d);
int check_flush_errors(CheckDisk *d);

/* check-time.c */
int check_time(CheckDisk *d);
