/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who may change anything. Root may; of others polkit is asked, whose rules see the caller, the action and the details name,
 * hook and verb. Without polkit it is root alone. Nothing here waits: a call whose answer is not known yet is put aside and
 * handed to its handler once more when it is, so that what it names is looked up and checked anew. A caller that leaves the bus
 * meanwhile takes its question with it.
 */

#include <stdbool.h>
#include <sys/types.h>
#include <systemd/sd-bus.h>

typedef struct ManagerBus ManagerBus;
typedef struct Authorisation Authorisation;

typedef enum Action {
        ACTION_CREATE_DEVICE, /* from a hook by name, with arguments that name no file */
        ACTION_MANAGE_DEVICE, /* whatever changes or ends a device that is there */
        ACTION_RUN_ANY_HOOK,  /* to create with a hook by path, files, addresses and secrets, too */
        ACTION_LOOK,          /* anybody may: only who calls is found out, for what has a limit for each user */
        _ACTION_MAX,
} Action;

/* What a handler has to do with the answer. */
enum {
        AUTHORISE_LATER,   /* return 1: it is called again */
        AUTHORISE_GRANTED, /* go on */
        AUTHORISE_ROOT,    /* the same; the caller may do anything */
};

/* How many questions of one user polkit may have at a time. */
#define AUTHORISE_MAX_PER_USER 16

/*
 * For a method's handler, after it has read and checked all of its arguments and before it changes anything. name: of the
 * device; hook: NULL if that does not matter. One of the above, or a negative errno with e filled: AccessDenied,
 * InteractiveAuthorizationRequired, LimitsExceeded. ret_uid may be NULL; who calls, if he may.
 */
int authorise(ManagerBus *mb, sd_bus_message *m, Action action, const char *name, const char *hook, uid_t *ret_uid, sd_bus_error *e);

/* For a property's setter, which can't be put aside: 0 for root, AccessDenied for all others. Waits for the bus. */
int authorise_root(ManagerBus *mb, sd_bus_message *m, sd_bus_error *e);

/* e: NULL if it is granted. Called once, from the event loop, unless it is freed before. */
typedef void (*AuthorisationHandler)(void *userdata, const sd_bus_error *e);
/* The same for a call that is being worked on already. */
int authorisation_new(ManagerBus *mb, sd_bus_message *m, Action action, const char *name, const char *hook,
                      AuthorisationHandler handler, void *userdata, Authorisation **ret);
Authorisation *authorisation_free(Authorisation *a);

/* The service ends: the calls that wait are refused. */
void authorise_cancel_all(ManagerBus *mb);
