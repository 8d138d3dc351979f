/* SPDX-License-Identifier: MIT */
#pragma once

/* One device on the bus: its object at /org/ublk/device/N, and the signals of its unit that keep it true. */

#include "dbus/operation.h"
#include "dbus/worker-query.h"

#define DEVICE_INTERFACE "org.ublk.Device"
#define DEVICE_PATH_PREFIX "/org/ublk/device"

struct DeviceBus {
        ManagerBus *mb;       /* borrowed */
        Device *device;       /* borrowed; its userdata is this */
        Operation *operation; /* the one that works on it, or NULL */
        sd_bus_slot *watch;   /* PropertiesChanged of its unit */
        sd_bus_slot *fetch;
        Hello *hello;
        WorkerQuery *stuck;   /* questions that its worker is being asked, or NULL */
        WorkerQuery *statistics;
        bool resize_resumed;  /* what an earlier manager has begun was seen to */
        bool awaited;         /* the manager's start waits for its first news */
};

/* Watches the device's unit and asks for its state, but says nothing of it to clients yet. */
int device_bus_new(ManagerBus *mb, Device *d);
DeviceBus *device_bus_free(DeviceBus *db);

static inline DeviceBus *device_bus_get(const Device *d) {
        return d->userdata;
}

/* Registers the vtable for all devices, and the enumerator of those that are announced. */
int device_bus_register(ManagerBus *mb);

int device_bus_path(const Device *d, char **ret);
/* Shows it to clients, once: InterfacesAdded. */
void device_bus_announce(DeviceBus *db);
/* InterfacesRemoved; then forgets and frees the device and db. */
void device_bus_remove(DeviceBus *db);
/* Derives the state anew, and tells what changed. May forget a stopped device whose file has gone, and undo a creation that an
 * earlier manager left half done: db may be gone after it. */
void device_bus_update(DeviceBus *db);
/* Its configuration has other arguments now. Then as device_bus_update, but that an operation is at work on it. */
void device_bus_update_arguments(DeviceBus *db);
void device_bus_persistent_changed(DeviceBus *db);
/* What its worker said, and what of that is new. */
void device_bus_take_hello(DeviceBus *db, uint32_t pid, const WorkerReply *reply);
/* All is known of it that the manager's start waits for. */
void device_bus_first_news(DeviceBus *db);
/* Takes a unit's properties, from GetAll or PropertiesChanged, and updates. */
int device_bus_take_properties(DeviceBus *db, sd_bus_message *m);
