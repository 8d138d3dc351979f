/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * State that a hook keeps beside its data, such as a bitmap: PATH_STATE/NAME, for the device of that name. It lasts as long
 * as the device is configured: over crashes, stops and, of a persistent device, reboots. Beside it lies .NAME.owner, one
 * line that says which device it belongs to (CreatedUSec=) and whether that one made the directory or found it there:
 *
 *     1700000000000000 made
 *
 * so that a device never gets what an earlier one of its name left behind without having been deleted, as a transient one
 * does when the machine loses power. A directory without such a file was kept on purpose: the next device of that name
 * takes it over.
 *
 * All of PATH_STATE belongs to the user of the workers, whose hooks may put anything there. What is deleted is renamed to
 * .deleted-… first, and then taken apart by that user.
 */

#include "service/util.h"

int state_path(const char *name, char **ret);

/* Whether anything is there that has to be settled when the device of that name goes. True as well if that can't be told. */
bool state_exists(const char *name);

/* As the worker: the directory is there and belongs to this device. path: as of state_path, or for tests any other. -ENOTDIR:
 * something else is there. */
int state_claim(const char *path, uint64_t owner);

/* What becomes of it. */
typedef enum StateEnd {
        STATE_DELETED, /* its device is */
        STATE_KEPT,    /* its device is deleted, but the next one of that name is to find it */
        STATE_UNDONE,  /* its device was never finished: it goes, unless it had been there before */
} StateEnd;

typedef struct StateRemoval {
        const char *path;
        uint64_t owner;
        StateEnd end;
        uint64_t deadline_usec;
} StateRemoval;

/* For child_call (child.h): argument is a StateRemoval. As root it becomes the owner of PATH_STATE, and stays that. Also goes on
 * with what earlier ones did not finish: -ETIMEDOUT if that took too long, and the rest is for the next one; the name is free
 * by then. */
int state_remove(const void *argument);
