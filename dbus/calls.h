/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The slow calls: each begins an Operation and returns what a bus handler returns: 1, or a negative errno with e filled
 * and nothing changed. The arguments have been validated; these functions authorise, then act. Where the first has to wait, they
 * return 1 as well, and the handler is called again.
 */

#include "dbus/operation.h"

/* Takes config where it returns 1. 0: the handler is called again. */
int create_begin(ManagerBus *mb, sd_bus_message *m, DeviceConfig *config, sd_bus_error *e);
/* DeleteDevice of what is being created: undoes it, and then answers; whoever asked for it is told that it was cancelled. d has not
 * been announced. */
int create_cancel(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e);
/* The same before there is as much as an id. 0 if there is none of that name. */
int create_cancel_early(ManagerBus *mb, sd_bus_message *m, const char *name, sd_bus_error *e);
/* config is borrowed: what a device would have. */
int check_hook_begin(ManagerBus *mb, sd_bus_message *m, DeviceConfig *config, sd_bus_error *e);
/* What it takes to have a device made so. */
Action create_action(const DeviceConfig *c);
int delete_begin(ManagerBus *mb, sd_bus_message *m, Device *d, bool keep_state, sd_bus_error *e);
int persist_begin(ManagerBus *mb, sd_bus_message *m, Device *d, bool persistent, sd_bus_error *e);
int restart_begin(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e);
/* These read what they are given from m. */
int reconfigure_begin(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e);
int reload_begin(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e);

int resize_begin(ManagerBus *mb, sd_bus_message *m, Device *d, uint64_t bytes, sd_bus_error *e);

/* Goes on with begin once it is known that no data ends with the worker; otherwise ends the operation with an error. */
void restart_when_safe(Operation *op, void (*begin)(Operation *op));
/* A trial of new code that an earlier manager has begun is seen to its end. */
void reload_resume(ManagerBus *mb, Device *d);

/* A resize that an earlier manager has begun. */
void resize_resume(ManagerBus *mb, Device *d);

int strays_list_begin(ManagerBus *mb, sd_bus_message *m, sd_bus_error *e);
int strays_remove_begin(ManagerBus *mb, sd_bus_message *m, uint32_t id, bool force, sd_bus_error *e);

/* What an earlier manager left half created (DeviceConfig.creating): shows it if it is live by now, undoes it if it has come to
 * nothing, else leaves it for the next change. d may be gone after it. */
void create_resume(ManagerBus *mb, Device *d);

/* Asks `ublk-ruby-control probe`, if it is not being asked already. */
int probe_begin(ManagerBus *mb);
/* Somebody has read the verdict: if that is that this kernel can't serve, it is looked at again, at most every two seconds. */
void probe_note_read(ManagerBus *mb);
/* As a step: goes on once the probe that runs, or a new one, has answered. */
void operation_await_probe(Operation *op, OperationNext then);
