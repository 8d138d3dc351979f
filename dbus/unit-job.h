/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What PID 1 knows of a unit, asked, and changed, by `ublk-ruby-control stop` and `release` over systemd's private socket: at shutdown
 * there is no system bus any more. The one thing of dbus/ that control is built with.
 */

#include "service/util.h"

/* "stop", "restart", …, or "none" if the unit has no job. Owned by the caller. Each of two calls takes at most timeout_usec, more than 0. */
int unit_job_type(const char *unit, uint64_t timeout_usec, char **ret);

/* 1 if the machine is going down, else 0. */
int system_is_going_down(uint64_t timeout_usec);

/* 1 if PID 1 is unmounting something, or taking swap out of use, right now; else 0. */
int system_is_unmounting(uint64_t timeout_usec);

/* Queues a restart in the place of whatever job there is, and does not wait for it. */
int unit_restart(const char *unit, uint64_t timeout_usec);

/* What its main process said last by STATUS=. Owned by the caller. */
int unit_status_text(const char *unit, uint64_t timeout_usec, char **ret);
