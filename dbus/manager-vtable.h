/* SPDX-License-Identifier: MIT */
#pragma once

/* org.ublk.Manager: its properties and methods. Each handler parses, validates, authorises, acts and replies, in this order. */

#include "dbus/manager-bus.h"

int manager_vtable_register(ManagerBus *mb);
