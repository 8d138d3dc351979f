/* SPDX-License-Identifier: MIT */
#pragma once

/* One device on the bus: its object at /org/ublk/device/N, and the signals of its unit that keep it true. */

#include "dbus/operation.h"

#define DEVICE_INTERFACE "org.ublk.Device"
#define DEVICE_PATH_PREFIX "/org/ublk/device"

typedef struct DeviceBus {
        ManagerBus *mb;       /* borrowed */
        Device *device;       /* borrowed; its userdata is this */
        Operation *operation; /* the one that works on it, or NULL */
        sd_bus_slot *watch;   /* PropertiesChanged of its unit */
        sd_bus_slot *fetch;
        Hello *hello;
        bool awaited;         /* the manager's start waits for its first news */
} DeviceBus;

/* Watches the device's unit and asks for its state, but says nothing of it to clients yet. */
int device_bus_new(ManagerBus *mb, Device *d);
DeviceBus *device_bus_free(DeviceBus *db);

static inline DeviceBus *device_bus_get(const Device *d) {
        return d->userdata;
}

/* Registers the vtable for all devices, and the enumerator of those that are announced. */
int device_bus_register(ManagerBus *mb);

int device_bus_path(const Device *d, char **ret);
/* InterfacesAdded; also for a known device whose constant properties have become known. */
void device_bus_announce(DeviceBus *db);
/* InterfacesRemoved; then forgets and frees the device and db. */
void device_bus_remove(DeviceBus *db);
/* Derives the state anew, and tells what changed. May forget a stopped device whose file has gone. */
void device_bus_update(DeviceBus *db);
/* Takes a unit's properties, from GetAll or PropertiesChanged, and updates. */
int device_bus_take_properties(DeviceBus *db, sd_bus_message *m);
