/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A private bus with a mock of systemd and a real ublk-rubyd on it, below a directory of its own, for one test. The bus'
 * policy is the system's default with our org.ublk.conf; the user who runs the test takes root's place.
 */

#include "service/util.h"

#include <glib.h>
#include <systemd/sd-bus.h>

typedef struct Fixture {
        char *root;
        GPid daemon, systemd, polkit, manager;
        sd_bus *bus;
        sd_bus_error error; /* of the last call */
        char *text;         /* fixture_get_string's last */
} Fixture;

void fixture_set_up(Fixture *f, gconstpointer data);
void fixture_tear_down(Fixture *f, gconstpointer data);
/* g_test_add with both of the above. */
#define fixture_add(path, function) g_test_add(path, Fixture, NULL, fixture_set_up, function, fixture_tear_down)

/* trusted_uid: who may change anything. Returns once the name is on the bus. */
void fixture_start_manager(Fixture *f, uid_t trusted_uid);
void fixture_stop_manager(Fixture *f);
/* mock-polkit.c, of which there is none otherwise. */
void fixture_start_polkit(Fixture *f);
void fixture_release_polkit(Fixture *f, bool yes);
/* Sends a signal; SIGKILL is waited for, and then there is no manager. */
void fixture_kill_manager(Fixture *f, int signal);

/* Files below the root, with their directories. */
void fixture_write(Fixture *f, const char *path, const char *text);
bool fixture_has(Fixture *f, const char *path);
void fixture_unlink(Fixture *f, const char *path);
/* Waits up to 5 s for it to be there, or gone. */
void fixture_wait_file(Fixture *f, const char *path, bool there);
/* Owned by the caller; NULL if there is none. */
char *fixture_read(Fixture *f, const char *path);

/* A method of org.ublk.Manager, or of org.ublk.Device where path is one. Replaces f->error; *ret may be NULL. */
int fixture_call(Fixture *f, const char *path, const char *method, sd_bus_message **ret, const char *types, ...);
/* The same of the manager without waiting: *result is filled in by fixture_end, "ok" or the error's name; owned by the caller. */
void fixture_begin(Fixture *f, char **result, const char *method, const char *types, ...);
const char *fixture_end(Fixture *f, char **result);
/* CreateDevice with one option; type 0: none. The path is owned by the caller, NULL on an error. */
char *fixture_create(Fixture *f, const char *name, const char *hook);
int fixture_create_option(Fixture *f, const char *name, const char *hook, const char *key, const char *type, ...);
void fixture_assert_error(Fixture *f, int r, const char *name, const char *part);

/* Properties of a device, or of the manager for path NULL. */
const char *fixture_get_string(Fixture *f, const char *path, const char *property);
uint64_t fixture_get_number(Fixture *f, const char *path, const char *property, char type);
/* Waits up to 5 s for it. */
void fixture_wait_state(Fixture *f, const char *path, const char *state);
/* From now on appends "Property;" for each that PropertiesChanged names, as the connection is processed. */
void fixture_log_changes(Fixture *f, const char *path, GString *log);
unsigned fixture_count_changes(const GString *log, const char *property);

/* org.ublk.Mock of mock-systemd.c. */
void fixture_set_unit(Fixture *f, const char *unit, const char *active, const char *sub, const char *result, const char *status);
/* The jobs asked for since the last call; owned by the caller. */
char *fixture_calls(Fixture *f);
bool fixture_is_enabled(Fixture *f, const char *unit);
