/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The requests at which workers of this device had to be ended (stuck.h), in a file of the unit's RuntimeDirectory, which lasts
 * from one worker to the next. With recovery `reissue` such a request is given to the next worker, too, which is right if
 * what was in its way has passed: then the next worker answers it, and it is forgotten. If it has not, it would end one worker
 * after the other for ever: so one that has ended two is not given to the hook a third time. Its client gets ETIMEDOUT, as
 * at hook-timeout, and it is forgotten as well.
 */

#include "service/calls.h"
#include "service/config.h"
#include "service/failure.h"

#define CULPRITS_MAX 16
/* So many workers may a request end. */
#define CULPRIT_DEATHS 2

typedef struct Culprits Culprits;

/* Reads the file, if there is one, and it is of this device. config is borrowed; *ret is of malloc, and a worker's for good. */
int culprits_new(const DeviceConfig *config, Culprits **ret);

/* Any thread: the process is about to be ended at this call. */
void culprits_note(Culprits *c, const CallView *call);
/* The hook has let go of all it had: nobody is to blame. */
void culprits_forget(Culprits *c);

/* Whether the worker before this one was ended at a request. Once. */
bool culprits_take_news(Culprits *c, CallView *ret);

/* A server that answers those itself that may not reach the hook, and has server (borrowed) do all else; server itself if
 * nobody is to blame for anything. report is called for each that it refuses. */
const Server *culprits_guard(Culprits *c, const Server *server, void (*report)(void *userdata, const Request *request, const Failure *f),
                             void *userdata);
