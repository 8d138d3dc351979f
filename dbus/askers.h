/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Calls that wait for one and the same answer, which is got but once: they cost no more than their place here, of which each user
 * has so many.
 */

#include <stddef.h>
#include <sys/types.h>
#include <systemd/sd-bus.h>

#define ASKERS_MAX_PER_USER 64

typedef struct Asker {
        sd_bus_message *message; /* owned */
        uid_t uid;
} Asker;

typedef struct Askers {
        Asker *all;
        size_t n;
} Askers;

/* 1, as a bus handler does; or a negative errno, with e filled: LimitsExceeded. */
int askers_add(Askers *a, sd_bus_message *m, uid_t uid, sd_bus_error *e);
/* Answers nobody. */
void askers_done(Askers *a);
