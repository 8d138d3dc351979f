/* SPDX-License-Identifier: MIT */
#pragma once

/* The parts of holders.h that walk through /sys and /proc. */

#include "service/holders.h"

/* Drops a second one of the same kind, name and process, and whatever is past a sane number of them. */
int holders_add(Holders *h, HolderKind kind, const char *what, pid_t pid, const char *comm);

int holders_add_stacked(Holders *h, const Disk *d); /* /sys: holders of the disk and its partitions, loop, nvmet */
/* Every process but this one: open files, and what needs none: mappings, files registered with an io_uring. Not seen: a
 * descriptor that is under way in a socket. */
int holders_add_openers(Holders *h, const Disk *d);
int holders_add_foreign_mounts(Holders *h, const Disk *d); /* in every mount namespace */

/* Calls f for each process until it gives non-zero, which becomes the result. */
int for_each_process(int (*f)(pid_t pid, void *userdata), void *userdata);
/* One of udev's, by its control group: a name can be anybody's. */
bool process_is_udev(pid_t pid);
/* At least "?". */
void process_name(pid_t pid, char ret[static 16]);

/* The processes that have a node open, as text, also after it was removed. "/dev/ublkcN" open keeps a
 * recovery from starting, "/dev/ublkbN" a deleted device from going. 1 if there is one that can be seen, else
 * 0. */
int node_openers_describe(const char *node, char **ret);
