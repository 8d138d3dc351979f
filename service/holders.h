/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who uses a disk: mounts, swap, stacked devices, and processes that have it open. The last kind matters
 * because a plain opener (dd, qemu) leaves O_EXCL unimpressed; before Linux 7.0 the kernel can't be asked to
 * stop only an unused device. A look from outside, so it can be outrun: nothing but the kernel's own
 * TRY_STOP_DEV can't.
 */

#include "service/util.h"

#include <jansson.h>

typedef enum HolderKind {
        HOLDER_MOUNT,
        HOLDER_SWAP,
        HOLDER_DEVICE, /* dm, md, loop …; or something in the kernel that has no name */
        HOLDER_PROCESS,
        _HOLDER_MAX,
} HolderKind;

const char *holder_kind_to_string(HolderKind kind); /* "mount", "swap", "holder", "process" */

typedef struct Holder {
        HolderKind kind;
        char *what; /* mount point, node, device name */
        pid_t pid;  /* 0 unless a process */
        char *comm; /* NULL unless a process */
} Holder;

typedef struct Holders {
        Holder *items;
        size_t n;
} Holders;

#define HOLDERS_NULL ((Holders) { 0 })
void holders_done(Holders *h);

/* Never blocks for long, whatever state the disk is in. No holder is 0 with ret->n = 0, as is no such disk.
 * deadline_usec: CLOCK_MONOTONIC, 0 for none but its own few seconds. */
int holders_find(uint32_t id, uint64_t deadline_usec, Holders *ret);
/* The same, but gives processes about a second to go, and leaves out udev's, which open every disk for a
 * moment, and hang in it if its worker dies just then: they have no use for it. */
int holders_find_lasting(uint32_t id, uint64_t deadline_usec, Holders *ret);
/* The same, for who has the disk exclusively himself (claim.h): he is not found, and nobody else can have it so. */
int holders_find_beside_claim(uint32_t id, uint64_t deadline_usec, Holders *ret);

/* Mounts and swap on the disk and on what is stacked on it, however high: dm (LUKS, LVM), md, loop. One that is just being
 * unmounted shows no more. */
int holders_find_file_systems(uint32_t id, Holders *ret);

/* "mounted at /mnt, open in dd (pid 34)"; at most a handful is named. */
int holders_describe(const Holders *h, char **ret);
/* [{"kind":…,"what":…,"pid":…,"comm":…}]; NULL without memory. */
json_t *holders_to_json(const Holders *h);

/* The disk and its partitions, as /sys shows them. */
#define DISK_MAX_NUMBERS 257
typedef struct Disk {
        uint32_t id;
        dev_t numbers[DISK_MAX_NUMBERS];
        size_t n_numbers;
} Disk;

/* -ENODEV if there is no such disk. */
int disk_read(uint32_t id, Disk *ret);
/* Adds the numbers of what is stacked on it, as far as there is room for them. */
void disk_add_stacked(Disk *d);
/* "ublkb3", "ublkb3p1", also with /dev/ before it. */
bool disk_has_name(const Disk *d, const char *name);
bool disk_has_number(const Disk *d, dev_t number);
/* A node of it by whatever path. Nothing outside /dev is looked at: stat(2) may hang. */
bool disk_has_path(const Disk *d, const char *path);

/* From the text of /proc/PID/mountinfo and of /proc/swaps. */
int holders_add_mounts(Holders *h, const Disk *d, const char *mountinfo);
int holders_add_swaps(Holders *h, const Disk *d, const char *swaps);
