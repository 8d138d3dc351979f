/* SPDX-License-Identifier: MIT */
#pragma once

/* A ublk driver that isn't there, with one device, and a root with its files: for the tests of stop and release. */

#include "service/config.h"
#include "service/uapi.h"

typedef struct Kernel {
        int open_error;            /* of the control device */
        bool exists;
        struct ublk_dev_info info; /* state, flags, ublksrv_flags */
        unsigned live_polls;       /* so often the device is still told to be live */
        uint64_t features;
        int stop_result;           /* of STOP_DEV */
        int try_stop_results[4];   /* of TRY_STOP_DEV, one after the other; the last one stays */
        size_t n_try_stops;
        void (*on_stop)(void);     /* called once the device is stopped */
        char calls[128];           /* "stop try-stop delete " */
} Kernel;

extern Kernel kernel;

#define TEST_ID 3

void kernel_begin(void); /* a fresh root, no device */
void kernel_end(void);
/* Writes TEST_ID's configuration ("none", "reissue", …) and gives it the device, live. */
DeviceConfig *kernel_configure(const char *recovery, uint64_t created_usec, bool persistent);
void kernel_put(const char *path, const char *text);
char *kernel_path(const char *path);
void kernel_mount(void); /* somebody mounts the disk */
void kernel_unmount(void);
void kernel_stack(void); /* a device of dm lies on it, … */
void kernel_mount_stacked(void); /* … which is mounted */
