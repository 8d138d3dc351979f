/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a unit answers that the manager had started for a question, ublk-ruby-control@ or ublk-ruby-check@: one object in JSON,
 * {"error":0,…} or {"error":ERRNO,"failure":{…}} (failure.h). A hook may have had a hand in what the second one says, so this
 * takes nothing for granted.
 */

#include <jansson.h>
#include <systemd/sd-bus.h>

/* -EBADMSG for what is no such object. */
int answer_parse(const char *text, json_t **ret);
/* 0 if it has no complaint; else a negative errno, with e filled. */
int answer_check(const json_t *answer, const char *unit, sd_bus_error *e);
/* The report of CheckHook, a{sv}: what is in "schema" and "geometry"; and the error, if it is set. -EBADMSG for what is nested too
 * deep. What D-Bus has no like of is left out. */
int answer_append_report(sd_bus_message *m, const json_t *answer, const sd_bus_error *error);
