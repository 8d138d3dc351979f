/* SPDX-License-Identifier: MIT */
#pragma once

/* Where everything lies at run time. What a path is for stands in ../units and in the manual pages. */

#define PATH_RUN "/run/ublk-ruby"
#define PATH_DEVICES_TRANSIENT PATH_RUN "/devices"
#define PATH_DEVICES_PERSISTENT "/etc/ublk-ruby/devices"
/* One udev environment file per kernel device that is ours, ublkbN.env; see service/marker.h. */
#define PATH_MARKERS PATH_RUN "/nodes"
/* The worker's own RuntimeDirectory is PATH_RUN/N, its socket lies in it. */
#define PATH_WORKER_SOCKET PATH_RUN "/%u/worker.sock"
/* What it has cost: see service/profile.h. */
#define PATH_WORKER_PROFILE PATH_RUN "/%u/profile"
/* What it leaves to the next worker: see service/culprits.h. */
#define PATH_WORKER_CULPRITS PATH_RUN "/%u/culprits"
/* What it says of its own end: see service/last-word.h. */
#define PATH_WORKER_LAST_WORD PATH_RUN "/%u/last-word"
/* The answer of ublk-ruby-control@INSTANCE.service, in the RuntimeDirectory of all of them; the manager takes it away. */
#define PATH_CONTROL_RESULT "/run/ublk-ruby-control/%s.json"
/* The same of ublk-ruby-check@INSTANCE.service, whose standard output it is: systemd makes it, as root. */
#define PATH_CHECK_RESULT "/run/ublk-ruby-check/%s.json"

/* What a hook is looked at with that belongs to no device: as a device's file; see service/examine.h. */
#define PATH_PROPOSALS PATH_RUN "/proposals"
/* Their instances of UNIT_CHECK. */
#define PROPOSAL_PREFIX "hook-"

/* What hooks keep, by the device's name; see service/state.h. */
#define PATH_STATE "/var/lib/ublk-ruby"

#define UNIT_DEVICE "ublk-ruby-device@%u.service"
#define UNIT_CONTROL "ublk-ruby-control@%s.service"
#define UNIT_CHECK "ublk-ruby-check@%s.service"
#define WORKER_USER "ublk-ruby"
