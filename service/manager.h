/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the service knows, without the bus: the devices, the hook directories, and whether this kernel can serve.
 * All of it is read from files and from systemd; nothing is lost when the manager ends.
 */

#include "service/device.h"
#include "service/hookdir.h"

/* The answer of `ublk-ruby-control probe`. */
typedef struct Support {
        bool supported;
        char *reason;    /* owned; cause and remedy, "" when supported */
        char **features; /* owned, NULL-terminated */
} Support;

typedef struct Manager {
        Device **devices; /* owned, ascending by id */
        size_t n_devices;
        HookDirectories hooks;
        Support support;
        char kernel[66];  /* utsname.release */
} Manager;

/* hook_environment: UBLK_RUBY_HOOK_PATH counts (hookdir.h), for tests. */
int manager_new(bool hook_environment, Manager **ret);
Manager *manager_free(Manager *m);
static inline void manager_freep(Manager **m) {
        manager_free(*m);
}

/* Adds a device for each file that has none yet. A file that can't be read is logged and left alone. */
int manager_load(Manager *m);
/* The same for one id. 0: nothing new; 1: added, *ret is borrowed. */
int manager_load_one(Manager *m, uint32_t id, Device **ret);

/* Takes the device. -EEXIST: the id is known. */
int manager_add(Manager *m, Device *d);
/* Forgets and frees it; touches no file. */
void manager_remove(Manager *m, Device *d);

Device *manager_get(const Manager *m, uint32_t id);
/* By name, id, or node; names win. */
Device *manager_find(const Manager *m, const char *designation);
/* Those that clients may see. */
uint32_t manager_count(const Manager *m);

/* Whether an id is used by a device, a file (a corrupt one too), or the driver on behalf of anyone. */
bool manager_id_is_used(const Manager *m, uint32_t id);
/* The lowest id that is neither used nor in busy (ascending or not). -ENOSPC. */
int manager_choose_id(const Manager *m, const uint32_t *busy, size_t n_busy, uint32_t *ret);

/* Takes over what probe wrote (probe.h's JSON). -EBADMSG. */
int manager_take_probe(Manager *m, const char *json);
/* When probe itself could not be run: unsupported, for this reason. */
int manager_set_unsupported(Manager *m, const char *reason);
