/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ublk-ruby-worker --examine N, run by ublk-ruby-check@N.service: would the hook of device N, as it is on the disk now, take
 * the device's arguments? It is loaded, in a process of its own, and nothing is built of it: that would touch what the device
 * in use works on. The answer, one line of JSON, goes to what was standard output: {"error":0}, or an errno and
 * {"failure":{…}} (failure.h), as of ublk-ruby-control.
 *
 * --examine hook-K: what is a hook, and what would it make of these arguments, given as the file K.conf of PATH_PROPOSALS? It
 * is also built, as it has no device yet, but in a place from which nothing stays. The answer has "schema" as soon as the
 * script could be loaded, and "geometry" if a disk was built; neither that it was given too little for that, nor that it needs
 * more than this unit has, is an error.
 */

#include "service/util.h"

/* what: of which device, or "hook-K". An exit status: 0 if there is an answer, 2 for what is neither. */
int examine_main(const char *what);
