/* SPDX-License-Identifier: MIT */
#pragma once

/* What the verbs of ublkctl share: the connection, calls whose errors come with a remedy, and the ways to print. */

#include "service/util.h"

#include <jansson.h>
#include <systemd/sd-bus.h>

/* Exit statuses, as --help has them. */
enum {
        CTL_OK = 0,
        CTL_FAILED = 1,
        CTL_USAGE = 2,
        CTL_TROUBLE = 3, /* list, status: a device has failed, or is held; stuck: there are such requests */
};

typedef enum JsonMode {
        JSON_OFF,
        JSON_SHORT,
        JSON_PRETTY,
        _JSON_MODE_MAX,
        _JSON_MODE_INVALID = -EINVAL,
} JsonMode;

JsonMode json_mode_from_string(const char *s);

#define CTL_MAX_FORWARDED 16

typedef struct Ctl {
        sd_bus *bus; /* owned; NULL until ctl_connect */
        JsonMode json;
        bool legend;
        bool colour;
        bool keep_state; /* delete */
        char *trial_time; /* of reload: microseconds as they were given, or NULL; borrowed */
        char *forwarded[CTL_MAX_FORWARDED]; /* options that check hands on, as they were given; owned */
        size_t n_forwarded;
        bool wait;           /* of delete, status */
        bool follow;         /* of logs */
        const char *lines;   /* of logs, or NULL; borrowed */
        const char *remove; /* of strays: the id to be removed, or NULL; borrowed */
        bool force;
        bool dry_run; /* of create */
        const char *count, *interval; /* of top, as they were given, or NULL; borrowed */
} Ctl;

int ctl_connect(Ctl *c);
void ctl_done(Ctl *c);

/* A verb runs with its own name first in argv; the result is an exit status. */
typedef int (*CtlVerb)(Ctl *c, int argc, char **argv);

typedef struct Verb {
        const char *name;
        int min_arguments, max_arguments; /* beside its own name */
        CtlVerb run;
        const char *usage; /* its words are what completion goes by: DEVICE, HOOK, NAME=VALUE; with "..." the last repeats */
        bool alone; /* does without the service */
} Verb;

int ctl_create(Ctl *c, int argc, char **argv);
int ctl_delete(Ctl *c, int argc, char **argv);
int ctl_restart(Ctl *c, int argc, char **argv);
int ctl_reload(Ctl *c, int argc, char **argv);
int ctl_list(Ctl *c, int argc, char **argv);
int ctl_status(Ctl *c, int argc, char **argv);
int ctl_persist(Ctl *c, int argc, char **argv);
int ctl_set(Ctl *c, int argc, char **argv);
int ctl_resize(Ctl *c, int argc, char **argv);
int ctl_stats(Ctl *c, int argc, char **argv);
int ctl_top(Ctl *c, int argc, char **argv);
int ctl_stuck(Ctl *c, int argc, char **argv);
int ctl_logs(Ctl *c, int argc, char **argv);
int ctl_monitor(Ctl *c, int argc, char **argv);
int ctl_probe(Ctl *c, int argc, char **argv);
int ctl_strays(Ctl *c, int argc, char **argv);
/* Without the bus: they become ublk-ruby-worker, as the caller. */
int ctl_check(Ctl *c, int argc, char **argv);
int ctl_describe(Ctl *c, int argc, char **argv);

struct option;

/* For shells: candidates for the last of the words. */
int ctl_complete(Ctl *c, const Verb *verbs, size_t n, const struct option *options, int argc, char **argv);

/* Sends m (taken) to the service and waits; a failure has been printed, as failure of what. */
int ctl_call(Ctl *c, sd_bus_message *m, uint64_t timeout_usec, const char *what, sd_bus_message **ret);
/* The same, but 1 and nothing printed where it can be expected to succeed later: somebody uses the device, or another call does. */
int ctl_try(Ctl *c, sd_bus_message *m, uint64_t timeout_usec, const char *what);
/* How long --wait lets pass between two looks. */
#define CTL_WAIT_USEC (500 * USEC_PER_MSEC)
/* A call of org.ublk.Manager to be filled; NULL has been reported. */
sd_bus_message *ctl_new_call(Ctl *c, const char *method);
/* All properties of an interface of org.ublk as an object; NULL has been reported, as failure of what. */
json_t *ctl_get_all(Ctl *c, const char *path, const char *interface, const char *what);

/* The object of a device; a failure has been reported. */
int ctl_get_device(Ctl *c, const char *designation, char **ret_path);
/* ListDevices as an array of objects: id, name, node, hook, state, size, path; NULL has been reported, as failure of what. */
json_t *ctl_list_devices(Ctl *c, const char *what);

/* The message's next complete value. */
int json_from_message(sd_bus_message *m, json_t **ret);
/*
 * Others' text, such as a hook's message or a process's name, as a terminal may have it: each character that the terminal would act
 * on, and each byte that is no part of one, is written out, as in "\x1b". keep_lines: but for newlines. Owned by the caller; NULL: out of
 * memory. JSON has escapes of its own.
 */
char *ctl_visible(const char *text, bool keep_lines);
/* The same of all strings that are in j, without lines. */
void ctl_make_visible(json_t *j);
/* Takes j. */
void ctl_print_json(const Ctl *c, json_t *j);

/* "1.5G"; 0 is "-". */
void format_size(uint64_t size, char ret[static 16]);
/* A state with its colour before and after; "" without colour. */
const char *ctl_colour_of_state(const Ctl *c, const char *state);
const char *ctl_colour_off(const Ctl *c);
/* A device in this state wants looking at. */
bool state_is_trouble(const char *state);
