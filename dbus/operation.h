/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A slow call on its way: owns the caller's message until it is answered, and runs one asynchronous step after the other
 * (a job of systemd, a verb of ublk-ruby-control, a look at the unit). A step names the function that goes on after
 * it. What the calls do stands in create.c, delete.c, restart.c, strays.c and probe.c.
 *
 * A caller that goes away changes nothing: the operation runs to its end, and its answer is dropped by the bus.
 */

#include "dbus/askers.h"
#include "dbus/authorise.h"
#include "dbus/systemd.h"
#include "service/manager-hello.h"

#include <jansson.h>

/* Of root; of all others together; and of each of these, so that none of them keeps the others out. */
#define OPERATIONS_MAX 64
#define OPERATIONS_MAX_PER_USER 16
/* How many ids a creation tries that is free to choose one. */
#define CREATE_TRIES 4

typedef struct ManagerBus ManagerBus;
typedef struct Operation Operation;

/* r < 0: the step failed, op->step_error says why. Ends in a tail call: another step, or the operation's end, after which op
 * may be gone. */
typedef void (*OperationNext)(Operation *op, int r);

struct Operation {
        ManagerBus *mb;           /* borrowed */
        Operation *next;          /* in mb->operations */
        sd_bus_message *message;  /* owned; NULL: nobody asked, as at start */
        uid_t uid;                /* whose call it is */
        Device *device;           /* borrowed; no other operation has it. NULL: none yet */
        DeviceConfig *config;     /* owned; of the device to be, or with the arguments to be */
        uint32_t lost[CREATE_TRIES]; /* create: ids that were free until they were to be used */
        size_t n_lost;
        bool may_any_hook;        /* create, restart, reload: the caller may have a secret read for the device */
        bool any_id;              /* create: the caller asked for none */
        bool creates;             /* CreateDevice */
        bool undoing;             /* create: it has failed, or was cancelled */
        sd_bus_message *canceller; /* create: DeleteDevice, answered when all is undone; owned, NULL: nobody */
        bool file_remains;        /* create: the device's file could not be removed */
        sd_bus_error error;       /* what the caller will be told */
        bool awaits_probe;
        OperationNext needs_then; /* what is done once the unit has what the hook needs */
        bool needs_met;           /* the unit was given what its hook needs, which can help only once */
        bool was_down;            /* delete: the unit was down before it was stopped */
        bool keep_state;          /* delete: what its hook kept is for the next device of its name */
        void (*begin)(Operation *op); /* restart, reload: see calls.h */
        bool was_persistent;      /* SetPersistent: before it */
        uint64_t size;            /* resize: the disk's, in bytes */
        uint64_t trial_usec;      /* reload: how long the new code is on trial, … */
        char *trial_needs;        /* … what it needs of the unit that the old one did not, … */
        char *before_trial;       /* … and the invocation of the worker that is not on trial; owned */
        uint64_t deadline_usec;   /* reload: CLOCK_MONOTONIC, … */
        bool (*awaited)(const Operation *op);
        OperationNext after;      /* … of what is waited for, and what is done then */
        bool lists;               /* ListStrays … */
        Askers list_askers;       /* … and those who came while control was at work on it */
        bool is_removal;          /* RemoveStray … */
        uint32_t stray;           /* … of this id */
        bool force;               /* RemoveStray: somebody may use it */
        bool stopped;             /* RemoveStray: its unit was stopped */

        /* Of the step that runs, or was the last to run. */
        OperationNext then;
        sd_bus_error step_error;
        sd_bus_slot *slot;
        SystemdJob *job;
        Hello *hello;
        Authorisation *authorisation;
        sd_event_source *timer;
        bool (*enough)(const Operation *op);
        char *job_result;         /* "done", … */
        char *proposal_path;      /* CheckHook: owned */
        char *asked_unit;         /* of ublk-ruby-control@ or ublk-ruby-check@ */
        char *answer_path;        /* where its answer is going to be */
        json_t *answer;           /* what it wrote */
};

/* -EBUSY, -E2BIG, -ECANCELED with e filled: OperationInProgress, LimitsExceeded, Cancelled. message and device may be NULL; uid:
 * whose message that is. */
int operation_new(ManagerBus *mb, sd_bus_message *message, uid_t uid, Device *device, Operation **ret, sd_bus_error *e);
Operation *operation_free(Operation *op);

/* Steps. method: StartUnit, StopUnit, RestartUnit of the device's unit; then look at job_result. */
void operation_run_job(Operation *op, const char *method, const char *mode, OperationNext then);
/* The same of the unit of a device with this id, which need not be known. */
void operation_run_job_of(Operation *op, uint32_t id, const char *method, const char *mode, OperationNext then);
/* ublk-ruby-control@INSTANCE.service; then look at answer. An error that it answers with is the step's error. */
void operation_run_control(Operation *op, const char *instance, OperationNext then);
/* The same for "VERB-N" of the device. */
void operation_run_device_control(Operation *op, const char *verb, OperationNext then);
/* "remove-N-WORD"; word: "state" if what the device's hook kept goes with it, "keep" if that is for the next one. */
void operation_run_remove(Operation *op, const char *word, OperationNext then);
/* ublk-ruby-check@N.service: whether the hook on the disk is one for this device. If not, that is the step's error. */
void operation_run_check(Operation *op, OperationNext then);
/* ublk-ruby-check@INSTANCE.service likewise. */
void operation_run_check_of(Operation *op, const char *instance, OperationNext then);
/* "remove" has left the kernel device alone, since it belongs to another program. */
bool operation_answer_is_foreign(const Operation *op);
/* Whether the caller may, which for this step must not have left. If not, its error is the step's. */
void operation_authorise(Operation *op, Action action, OperationNext then);
/* Brings the device's unit state up to date. */
void operation_fetch(Operation *op, OperationNext then);
/* HELLO to the present worker; then device_has_hello(), unless the step failed. */
void operation_ask_worker(Operation *op, OperationNext then);
/* KEEP_CODE likewise. */
void operation_keep_code(Operation *op, OperationNext then);
/* Until enough says so, which is asked now and with all news of the device: r is 0. Or for so long: -ETIMEDOUT. */
void operation_wait(Operation *op, uint64_t usec, bool (*enough)(const Operation *op), OperationNext then);
/* For device-bus.c: there are news. op may be gone after it. */
void operation_take_news(Operation *op);
/* EnableUnitFiles or DisableUnitFiles of the device's unit. */
void operation_enable(Operation *op, bool enable, OperationNext then);
/* systemd reads all units anew, those that ublk-ruby-generator makes included. */
void operation_reload(Operation *op, OperationNext then);
/* Whether the unit did not start for want of what its hook needs, and may do so once it has that. */
bool operation_lacks_needs(const Operation *op);
/* Gives it that. The unit is then to be started again. */
void operation_meet_needs(Operation *op, OperationNext then);
/* As a step: whether the caller may have the unit given all of these. If not, its error is the step's. */
void operation_authorise_needs(Operation *op, const char *needs, OperationNext then);
/* The same in steps, for needs that are not yet known to stay; with spaces between them. If it can't be done, the operation's error
 * is set. */
int operation_check_needs(Operation *op, const char *needs);
void operation_say_needs(const Operation *op, const char *needs);
int operation_note_needs(Operation *op, const char *needs);
/* Whether systemd can still load what comes from files, before anything is stopped for it. If not, the operation's error is
 * set. */
int operation_check_secrets(Operation *op);

/* The first error that is set is the one that the caller is told. */
void operation_set_error(Operation *op, const char *name, const char *format, ...) _printf_(3, 4);
void operation_keep_step_error(Operation *op);
/* Why the device's unit did not start: what its worker reported, else what systemd knows. */
void operation_set_unit_error(Operation *op);

/* Ends: answers and frees. */
void operation_return(Operation *op, const char *types, ...);
void operation_fail(Operation *op);
