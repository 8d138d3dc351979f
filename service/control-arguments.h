/* SPDX-License-Identifier: MIT */
#pragma once

/* What ublk-ruby-control was asked for: as a person or a unit's Exec line writes it, or as the instance of
 * ublk-ruby-control@VERB[-N[-BYTES]].service. */

#include "service/release.h"

typedef enum ControlVerb {
        CONTROL_PROBE,
        CONTROL_LIST,
        CONTROL_ACTIVATE,
        CONTROL_STOP,
        CONTROL_RELEASE,
        CONTROL_HOLDERS,
        CONTROL_REMOVE,
        CONTROL_RESIZE,
        CONTROL_SWEEP,
        CONTROL_PURGE,
        _CONTROL_VERB_MAX,
        _CONTROL_VERB_INVALID = -EINVAL,
} ControlVerb;

typedef struct ControlArguments {
        ControlVerb verb;
        uint32_t id;   /* 0 for verbs without a device */
        uint32_t pid;  /* activate only */
        RemoveState state; /* remove only */
        uint64_t bytes; /* resize only; 0 for none */
        bool json;
        bool instance; /* the answer goes to $RUNTIME_DIRECTORY/VERB[-ID].json */
        bool help;
        bool version;
} ControlArguments;

const char *control_verb_to_string(ControlVerb verb);
ControlVerb control_verb_from_string(const char *s);

/* argv without the program's name. -EINVAL with *ret_message (owned by the caller). */
int control_arguments_parse(int argc, char **argv, ControlArguments *ret, char **ret_message);

/* The device that an instance of ublk-ruby-control@.service is about. -ENODEV: its verb is about none; -EINVAL: it is no instance. */
int control_instance_to_id(const char *instance, uint32_t *ret_id);
