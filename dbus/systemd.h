/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The client of org.freedesktop.systemd1: starts jobs and tells when they are done, reads units' properties, hears of units
 * that appear. Knows nothing of devices. Everything is asynchronous; nothing here waits.
 */

#include "service/device.h"

#include <systemd/sd-bus.h>

#define SYSTEMD_NAME "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define SYSTEMD_MANAGER "org.freedesktop.systemd1.Manager"

typedef struct Systemd Systemd;
typedef struct SystemdJob SystemdJob;

/* A unit was loaded, or one of its jobs ended. */
typedef void (*SystemdUnitHandler)(void *userdata, const char *unit);

/* Subscribes to systemd's signals. The handlers may be NULL. */
int systemd_new(sd_bus *bus, SystemdUnitHandler on_new, SystemdUnitHandler on_job_removed, void *userdata, Systemd **ret);
Systemd *systemd_free(Systemd *s);

/* Called once. result: "done", "failed", "timeout", "canceled", "dependency", "skipped", …, or NULL with error where systemd
 * refused the job. The job may be freed in it. */
typedef void (*SystemdJobHandler)(void *userdata, const char *result, const sd_bus_error *error);

/* method: StartUnit, StopUnit or RestartUnit; mode: "replace" or "fail". */
int systemd_job_new(Systemd *s, const char *method, const char *unit, const char *mode,
                    SystemdJobHandler handler, void *userdata, SystemdJob **ret);
/* Forgets it (systemd goes on); the handler is not called. */
SystemdJob *systemd_job_free(SystemdJob *j);

/* GetAll of a unit, answered to handler as a message for systemd_read_properties. */
int systemd_get_unit(Systemd *s, sd_bus_slot **ret, const char *unit, sd_bus_message_handler_t handler, void *userdata);
/* PropertiesChanged of a unit. */
int systemd_watch_unit(Systemd *s, sd_bus_slot **ret, const char *unit, sd_bus_message_handler_t handler, void *userdata);
/* Reads an a{sv} at the message's position into *u; what it does not name stays. */
int systemd_read_properties(sd_bus_message *m, UnitState *u);

/* ListUnitsByPatterns; each is one of the reply's array elements, see systemd_read_listed. */
int systemd_list_units(Systemd *s, sd_bus_slot **ret, const char *pattern, sd_bus_message_handler_t handler, void *userdata);
/* The next unit of such a reply, entered as an array: 1, or 0 at its end. The strings are borrowed of the message. in_use: it
 * is not inactive, or has a job. */
int systemd_read_listed(sd_bus_message *m, const char **ret_unit, bool *ret_in_use);

/* The answer comes once systemd has read all units anew, generators included. */
int systemd_reload(Systemd *s, sd_bus_slot **ret, sd_bus_message_handler_t handler, void *userdata);

/* Asks and ignores the answer. */
void systemd_reset_failed(Systemd *s, const char *unit);
/* handler may be NULL. */
int systemd_enable(Systemd *s, sd_bus_slot **ret, const char *unit, bool enable, sd_bus_message_handler_t handler,
                   void *userdata);
