/* SPDX-License-Identifier: MIT */
#include "service/features.h"

const Feature features[UBLK_N_FEATURES] = {
        { UBLK_F_SUPPORT_ZERO_COPY, "zero-copy", "6.15", "a request's pages can be registered as a buffer of the ring" },
        { UBLK_F_URING_CMD_COMP_IN_TASK, "complete-in-task", "6.0", "requests are delivered by task work" },
        { UBLK_F_NEED_GET_DATA, "need-get-data", "6.0", "a write's data is asked for in a second step" },
        { UBLK_F_USER_RECOVERY, "user-recovery", "6.1", "a device outlives its worker" },
        { UBLK_F_USER_RECOVERY_REISSUE, "user-recovery-reissue", "6.1", "requests in flight go to the next worker" },
        { UBLK_F_UNPRIVILEGED_DEV, "unprivileged-device", "6.3", "devices added without CAP_SYS_ADMIN" },
        { UBLK_F_CMD_IOCTL_ENCODE, "ioctl-encode", "6.4", "commands are numbered as ioctls" },
        { UBLK_F_USER_COPY, "user-copy", "6.5", "data moves by pread and pwrite: needed by this service" },
        { UBLK_F_ZONED, "zoned", "6.6", "zoned block devices" },
        { UBLK_F_USER_RECOVERY_FAIL_IO, "user-recovery-fail-io", "6.13", "I/O fails, not waits, while there is no worker" },
        { UBLK_F_UPDATE_SIZE, "update-size", "6.16", "a live device can change its size" },
        { UBLK_F_AUTO_BUF_REG, "auto-buffer-registration", "6.16", "requests come with their buffer registered" },
        { UBLK_F_QUIESCE, "quiesce", "6.16", "a live device can be taken from its worker" },
        { UBLK_F_PER_IO_DAEMON, "per-io-daemon", "6.16", "several tasks can share one queue" },
        { UBLK_F_BUF_REG_OFF_DAEMON, "buffer-registration-any-task", "6.17", "any task may register a request's buffer" },
        { UBLK_F_BATCH_IO, "batch-io", "7.0", "requests are fetched and committed in batches" },
        { UBLK_F_INTEGRITY, "integrity", "7.0", "integrity metadata" },
        { UBLK_F_SAFE_STOP_DEV, "safe-stop", "7.0", "a device in use refuses to be stopped" },
        { UBLK_F_NO_AUTO_PART_SCAN, "no-partition-scan", "7.0", "the kernel's scan for partitions can be turned off" },
        { UBLK_F_SHMEM_ZC, "shared-memory-zero-copy", "7.1", "client and worker share pages" },
        { UBLK_F_IO_DESC_SIZE, "descriptor-size", "7.3", "request descriptors of a chosen size" },
};

const Feature *feature_find(uint64_t bit) {
        for (size_t i = 0; i < ELEMENTSOF(features); i++)
                if (features[i].bit == bit)
                        return &features[i];
        return NULL;
}
