/* SPDX-License-Identifier: MIT */
#pragma once

/* Messages that never leave the process. */

#include "fuzz.h"

#include <systemd/sd-bus.h>

/* Of method a.b.C. A message belongs to a bus, of which this has one. */
sd_bus_message *bus_call(void);
/* From now on it can be read. */
void bus_seal(sd_bus_message *m);
/* e is set, and can be sent. */
void bus_check_error(const sd_bus_error *e);
