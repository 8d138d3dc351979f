/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One device as the manager sees it: its configuration, what systemd says of its unit, what the kernel's sysfs
 * says of its disk, and the State that follows from these. Nothing in it is kept anywhere else: all of it can be
 * read again at any time. Knows no bus; who announces a change is told which properties changed.
 */

#include "service/config.h"
#include "service/failure.h"
#include "service/protocol.h"

typedef enum DeviceState {
        DEVICE_STARTING,   /* on its way to being live for the first time since it was created or started */
        DEVICE_LIVE,       /* its worker serves */
        DEVICE_RECOVERING, /* the disk is there, its worker is on its way back; I/O waits */
        DEVICE_HELD,       /* the unit is down, the kernel device is quiesced; I/O waits until a start */
        DEVICE_STOPPED,    /* configured, no kernel device */
        DEVICE_FAILED,     /* systemd has given up on the unit */
        DEVICE_STOPPING,
        _DEVICE_STATE_MAX,
} DeviceState;

const char *device_state_to_string(DeviceState state);

/* Of org.freedesktop.systemd1.Unit and .Service. The strings are owned, NULL reads as "". */
typedef struct UnitState {
        char *active_state;
        char *sub_state;
        char *result;
        char *status_text;
        int status_errno;
        int exit_code;    /* of the main process: CLD_EXITED, …; 0 while it runs */
        int exit_status;
        uint32_t main_pid;
        uint32_t n_restarts;
        uint32_t job;     /* id of what systemd is about to do with it, 0: nothing */
        char *invocation; /* id of the last start, in hexadecimal: $INVOCATION_ID of its processes */
} UnitState;

void unit_state_done(UnitState *u);

/* Of /sys; zeroes where the disk is not there. */
typedef struct KernelState {
        bool has_char; /* ublkcN: the driver knows the id */
        bool has_disk; /* ublkbN: it went live once and was not deleted */
        bool read_only;
        uint32_t block_size;
        uint64_t size; /* bytes */
} KernelState;

void kernel_state_read(uint32_t id, KernelState *ret);

/* The whole rule, free of side effects. marker is one of MARKER_*. */
DeviceState device_state_derive(const UnitState *u, const KernelState *k, int marker);

/* Properties that may change, as device_refresh reports them. */
enum {
        DEVICE_CHANGED_STATE = 1 << 0, /* and StateChangeTimestamp */
        DEVICE_CHANGED_SIZE = 1 << 1,
        DEVICE_CHANGED_WORKER_PID = 1 << 2,
        DEVICE_CHANGED_RESTARTS = 1 << 3,
        DEVICE_CHANGED_LAST_ERROR = 1 << 4,
        DEVICE_CHANGED_BLOCK_SIZE = 1 << 5,
        DEVICE_CHANGED_READ_ONLY = 1 << 6,
        DEVICE_CHANGED_RECOVERY = 1 << 7,
        DEVICE_CHANGED_DATA_PATH = 1 << 8,
        DEVICE_CHANGED_ARGUMENTS = 1 << 9, /* these are said by who changes them, never by device_refresh */
        DEVICE_CHANGED_PERSISTENT = 1 << 10,
};

typedef struct Device {
        DeviceConfig *config;   /* owned */
        UnitState unit;         /* as last heard */
        KernelState kernel;     /* as last read */
        DeviceState state;
        uint64_t state_usec;    /* CLOCK_REALTIME of the last change of state */
        uint32_t worker_pid;    /* 0: none */
        uint32_t restarts;
        Failure failure;        /* the last one reported, message NULL if none */
        char *last_error;       /* described for a person, "" if none */
        bool buffers;           /* that worker's hook is given buffers */
        Recovery recovery;      /* as a worker said it last; RECOVERY_DEFAULT: none was heard yet */
        uint32_t hello_pid;     /* the worker that said it, 0: none */
        CodeState code;         /* that worker said this of its code, then */
        uint32_t block_size;    /* the last known one, 0 before the device first was live */
        bool read_only;         /* likewise */
        bool announced;         /* clients have been, or may be, told of it */
        void *userdata;         /* of whoever shows it to clients; borrowed */
} Device;

/* Takes the configuration. NULL without memory; then the configuration is still the caller's. */
Device *device_new(DeviceConfig *config);
Device *device_free(Device *d);
static inline void device_freep(Device **d) {
        device_free(*d);
}

/* After unit was updated: reads sysfs and the marker again, derives everything else. Returns DEVICE_CHANGED_*. */
unsigned device_refresh(Device *d);

/* Before a start, so that what comes of it is not taken for what came of an earlier one. */
void device_forget_failure(Device *d);

/* What the worker with this pid said of itself (manager-hello.h, which checks it). Returns DEVICE_CHANGED_*. */
unsigned device_take_hello(Device *d, uint32_t pid, const WorkerReply *hello);
/* Whether it was the present worker that said it: a device that was stopped may be another one when it starts again. */
bool device_has_hello(const Device *d);

/* Owned by the caller. */
int device_unit(const Device *d, char **ret);
int device_node(const Device *d, char **ret);

/* Resolved as far as known: "default" only before a worker of a class that declares it was heard. For a person to read: who
 * decides by it has to ask device_has_hello as well. */
const char *device_recovery(const Device *d);
/* The road that the bytes take, as a worker said it last; "auto", or the one that was asked for, if none was heard yet. */
const char *device_data_path(const Device *d);
