/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What PID 1 is about to do with a unit, asked by `ublk-ruby-control stop` over systemd's private socket: at shutdown
 * there is no system bus any more. The one thing of dbus/ that control is built with.
 */

#include "service/util.h"

/* "stop", "restart", …, or "none" if the unit has no job. Blocks for a few seconds at most. Owned by the caller. */
int unit_job_type(const char *unit, char **ret);
