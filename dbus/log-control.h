/* SPDX-License-Identifier: MIT */
#pragma once

/* org.freedesktop.LogControl1, org.freedesktop.LogControl1(5): how much the service logs, to be changed while it runs. Asked by
 * `systemctl service-log-level`. */

typedef struct ManagerBus ManagerBus;

int log_control_register(ManagerBus *mb);
