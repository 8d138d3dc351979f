/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * ublk-ruby-worker --examine N, run by ublk-ruby-check@N.service: would the hook of device N, as it is on the disk now, take
 * the device's arguments? It is loaded, in a process of its own, and nothing is built of it: that would touch what the device
 * in use works on. The answer, one line of JSON, goes to what was standard output: {"error":0}, or an errno and
 * {"failure":{…}} (failure.h), as of ublk-ruby-control.
 */

#include "service/util.h"

/* An exit status: 0 if there is an answer. */
int examine_main(uint32_t id);
