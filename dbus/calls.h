/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The slow calls: each begins an Operation and returns what a bus handler returns: 1, or a negative errno with e filled
 * and nothing changed. The arguments have been validated; these functions authorise, then act.
 */

#include "dbus/operation.h"

/* Takes config where it succeeds. */
int create_begin(ManagerBus *mb, sd_bus_message *m, DeviceConfig *config, sd_bus_error *e);
int delete_begin(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e);
int restart_begin(ManagerBus *mb, sd_bus_message *m, Device *d, sd_bus_error *e);

/* Asks `ublk-ruby-control probe`, if it is not being asked already. */
int probe_begin(ManagerBus *mb);
/* As a step: goes on once the probe that runs, or a new one, has answered. */
void operation_await_probe(Operation *op, OperationNext then);
