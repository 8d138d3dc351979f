/* SPDX-License-Identifier: MIT */
#pragma once

/* The service on the bus: the object /org/ublk, the name org.ublk, and what ties the manager to systemd. */

#include "dbus/authorise.h"
#include "dbus/operation.h"
#include "service/manager.h"

#define MANAGER_NAME "org.ublk"
#define MANAGER_PATH "/org/ublk"
#define MANAGER_INTERFACE "org.ublk.Manager"

struct ManagerBus {
        Manager *manager;      /* borrowed */
        sd_event *event;       /* borrowed */
        sd_bus *bus;           /* owned */
        Systemd *systemd;      /* owned */
        uid_t trusted_uid;     /* whoever may do anything: 0 but in tests */
        Operation *operations; /* owned */
        uint32_t n_proposals;   /* that CheckHook has written so far */
        Operation *probe;      /* the one in operations that probes, or NULL */
        Authorisation *authorisations; /* owned: calls of which it is not known yet whether they may be made */
        sd_bus_slot *leavers;  /* names that leave the bus, while there are any of those */
        sd_bus_slot *listing;
        sd_event_source *start_timer;
        size_t n_awaited;      /* answers without which the name is not asked for yet */
        bool ready;
        bool draining;         /* the service is about to end: nothing new is begun */
        sd_event_source *drain_timer;
        uint64_t probed_usec;  /* CLOCK_MONOTONIC of the last verdict on this kernel */
        sd_event_source *probe_timer;
};

/* Connects to the system bus, reads all there is from files and systemd, then takes the name and says READY=1. A bus that goes
 * away ends the event loop with an error. */
int manager_bus_new(Manager *m, sd_event *event, uid_t trusted_uid, ManagerBus **ret);
ManagerBus *manager_bus_free(ManagerBus *mb);
static inline void manager_bus_freep(ManagerBus **mb) {
        manager_bus_free(*mb);
}

/* Ends the event loop as soon as what is half done is finished or undone, but not later than 20 s from now. Asked a second
 * time it ends it at once: the next manager finishes or undoes the rest. */
void manager_bus_drain(ManagerBus *mb);
/* For operation.c. */
void manager_bus_operation_ended(ManagerBus *mb);

/* One of n_awaited has come. */
void manager_bus_arrived(ManagerBus *mb);
void manager_bus_count_changed(ManagerBus *mb);
void manager_bus_support_changed(ManagerBus *mb);
/* Adds devices whose files appeared since. */
void manager_bus_load(ManagerBus *mb);
