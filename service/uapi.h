/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The ublk driver's interface with user space, stated here because Debian 12's <linux/ublk_cmd.h> predates
 * USER_COPY. Only what this project uses. Every size, offset and opcode is asserted below against the
 * numbers that Linux 6.5 … 7.3 have (include/uapi/linux/ublk_cmd.h); a kernel interface never changes them.
 */

#include <assert.h>
#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define UBLK_CONTROL_NODE "/dev/ublk-control"

/* Limits of the driver. */
#define UBLK_MAX_QUEUE_DEPTH 4096
#define UBLK_MAX_QUEUES 4096
#define UBLK_MAX_ID ((1U << 20) - 1)
/* The address space of USER_COPY has 25 bits for the offset in a request: nothing larger can be copied. */
#define UBLK_MAX_IO_SIZE (32U << 20)

/* Device flags; the comment is the first mainline release in which the bit does something. */
enum {
        UBLK_F_SUPPORT_ZERO_COPY     = 1 << 0,  /* 6.15 */
        UBLK_F_URING_CMD_COMP_IN_TASK = 1 << 1, /* 6.0 */
        UBLK_F_NEED_GET_DATA         = 1 << 2,  /* 6.0 */
        UBLK_F_USER_RECOVERY         = 1 << 3,  /* 6.1 */
        UBLK_F_USER_RECOVERY_REISSUE = 1 << 4,  /* 6.1 */
        UBLK_F_UNPRIVILEGED_DEV      = 1 << 5,  /* 6.3 */
        UBLK_F_CMD_IOCTL_ENCODE      = 1 << 6,  /* 6.4 */
        UBLK_F_USER_COPY             = 1 << 7,  /* 6.5 */
        UBLK_F_ZONED                 = 1 << 8,  /* 6.6 */
        UBLK_F_USER_RECOVERY_FAIL_IO = 1 << 9,  /* 6.13 */
        UBLK_F_UPDATE_SIZE           = 1 << 10, /* 6.16 */
        UBLK_F_AUTO_BUF_REG          = 1 << 11, /* 6.16 */
        UBLK_F_QUIESCE               = 1 << 12, /* 6.16 */
        UBLK_F_PER_IO_DAEMON         = 1 << 13, /* 6.16 */
        UBLK_F_BUF_REG_OFF_DAEMON    = 1 << 14, /* 6.17 */
        UBLK_F_BATCH_IO              = 1 << 15, /* 7.0 */
        UBLK_F_INTEGRITY             = 1 << 16, /* 7.0 */
        UBLK_F_SAFE_STOP_DEV         = 1 << 17, /* 7.0 */
        UBLK_F_NO_AUTO_PART_SCAN     = 1 << 18, /* 7.0 */
        UBLK_F_SHMEM_ZC              = 1 << 19, /* 7.1 */
        UBLK_F_IO_DESC_SIZE          = 1 << 20, /* 7.3 */
};
#define UBLK_N_FEATURES 21

enum {
        UBLK_S_DEV_DEAD     = 0,
        UBLK_S_DEV_LIVE     = 1,
        UBLK_S_DEV_QUIESCED = 2,
        UBLK_S_DEV_FAIL_IO  = 3,
};

/* The payload of a control command, in the second half of a 128-byte SQE. */
struct ublk_ctrl_cmd {
        __u32 dev_id;
        __u16 queue_id; /* 0xffff where no queue is meant */
        __u16 len;
        __u64 addr;
        __u64 data[1];
        __u16 dev_path_len;
        __u16 pad;
        __u32 reserved;
};

struct ublk_dev_info {
        __u16 nr_hw_queues;
        __u16 queue_depth;
        __u16 state;
        __u16 pad0;
        __u32 max_io_buf_bytes;
        __u32 dev_id;
        __s32 ublksrv_pid;
        __u32 pad1;
        __u64 flags;
        __u64 ublksrv_flags; /* ours to use: opaque to the driver, kept as long as the device */
        __u32 owner_uid;
        __u32 owner_gid;
        __u64 reserved1;
        __u64 reserved2;
};

enum {
        UBLK_ATTR_READ_ONLY      = 1 << 0,
        UBLK_ATTR_ROTATIONAL     = 1 << 1,
        UBLK_ATTR_VOLATILE_CACHE = 1 << 2,
        UBLK_ATTR_FUA            = 1 << 3,
};

struct ublk_param_basic {
        __u32 attrs;
        __u8 logical_bs_shift;
        __u8 physical_bs_shift;
        __u8 io_opt_shift;
        __u8 io_min_shift;
        __u32 max_sectors;
        __u32 chunk_sectors;
        __u64 dev_sectors;
        __u64 virt_boundary_mask;
};

struct ublk_param_discard {
        __u32 discard_alignment;
        __u32 discard_granularity;
        __u32 max_discard_sectors;
        __u32 max_write_zeroes_sectors;
        __u16 max_discard_segments;
        __u16 reserved0;
};

struct ublk_param_devt {
        __u32 char_major;
        __u32 char_minor;
        __u32 disk_major;
        __u32 disk_minor;
};

enum {
        UBLK_PARAM_TYPE_BASIC   = 1 << 0,
        UBLK_PARAM_TYPE_DISCARD = 1 << 1,
        UBLK_PARAM_TYPE_DEVT    = 1 << 2, /* only ever read: SET_PARAMS refuses it */
};

struct ublk_params {
        __u32 len;
        __u32 types;
        struct ublk_param_basic basic;
        struct ublk_param_discard discard;
        struct ublk_param_devt devt;
};

/* One request, in the mapped descriptor area of its queue, index = tag. */
struct ublk_io_desc {
        __u32 op_flags; /* operation in the low byte, UBLK_IO_F_* above it */
        __u32 nr_sectors;
        __u64 start_sector;
        __u64 addr;
};

enum {
        UBLK_IO_OP_READ         = 0,
        UBLK_IO_OP_WRITE        = 1,
        UBLK_IO_OP_FLUSH        = 2,
        UBLK_IO_OP_DISCARD      = 3,
        UBLK_IO_OP_WRITE_ZEROES = 5,
};
#define UBLK_IO_OP_MASK 0xffU
#define UBLK_IO_F_FUA (1U << 13)
#define UBLK_IO_F_NOUNMAP (1U << 15)

/* The payload of an I/O command; fits a plain 64-byte SQE. addr stays 0 with USER_COPY. */
struct ublk_io_cmd {
        __u16 q_id;
        __u16 tag;
        __s32 result;
        __u64 addr;
};

#define UBLK_U_CMD_GET_DEV_INFO _IOR('u', 0x02, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_ADD_DEV _IOWR('u', 0x04, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_DEL_DEV _IOWR('u', 0x05, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_START_DEV _IOWR('u', 0x06, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_STOP_DEV _IOWR('u', 0x07, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_SET_PARAMS _IOWR('u', 0x08, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_GET_PARAMS _IOR('u', 0x09, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_START_USER_RECOVERY _IOWR('u', 0x10, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_END_USER_RECOVERY _IOWR('u', 0x11, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_GET_FEATURES _IOR('u', 0x13, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_DEL_DEV_ASYNC _IOR('u', 0x14, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_UPDATE_SIZE _IOWR('u', 0x15, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_TRY_STOP_DEV _IOWR('u', 0x17, struct ublk_ctrl_cmd)
#define UBLK_U_CMD_GET_QUEUE_AFFINITY _IOR('u', 0x01, struct ublk_ctrl_cmd)

#define UBLK_U_IO_FETCH_REQ _IOWR('u', 0x20, struct ublk_io_cmd)
#define UBLK_U_IO_COMMIT_AND_FETCH_REQ _IOWR('u', 0x21, struct ublk_io_cmd)

/* Where the payload of a request lies in the file /dev/ublkcN, for pread(2) and pwrite(2): Linux 6.5. */
#define UBLK_USER_COPY_BASE UINT64_C(0x80000000)
#define UBLK_TAG_SHIFT 25
#define UBLK_QUEUE_SHIFT (UBLK_TAG_SHIFT + 16)

static inline uint64_t ublk_user_copy_position(uint16_t queue, uint16_t tag, uint32_t offset) {
        return UBLK_USER_COPY_BASE + ((uint64_t) queue << UBLK_QUEUE_SHIFT) + ((uint64_t) tag << UBLK_TAG_SHIFT) + offset;
}

/* The descriptor area of a queue: read-only, and as far from the next as if every queue were 4096 deep. */
static inline size_t ublk_descriptors_size(uint32_t depth, size_t page) {
        return (depth * sizeof(struct ublk_io_desc) + page - 1) / page * page;
}
static inline size_t ublk_descriptors_offset(uint16_t queue, size_t page) {
        return queue * ublk_descriptors_size(UBLK_MAX_QUEUE_DEPTH, page);
}

static_assert(sizeof(struct ublk_ctrl_cmd) == 32, "ublk_ctrl_cmd");
static_assert(offsetof(struct ublk_ctrl_cmd, addr) == 8, "ublk_ctrl_cmd.addr");
static_assert(offsetof(struct ublk_ctrl_cmd, data) == 16, "ublk_ctrl_cmd.data");
static_assert(sizeof(struct ublk_dev_info) == 64, "ublk_dev_info");
static_assert(offsetof(struct ublk_dev_info, max_io_buf_bytes) == 8, "ublk_dev_info.max_io_buf_bytes");
static_assert(offsetof(struct ublk_dev_info, flags) == 24, "ublk_dev_info.flags");
static_assert(offsetof(struct ublk_dev_info, ublksrv_flags) == 32, "ublk_dev_info.ublksrv_flags");
static_assert(sizeof(struct ublk_param_basic) == 32, "ublk_param_basic");
static_assert(offsetof(struct ublk_param_basic, dev_sectors) == 16, "ublk_param_basic.dev_sectors");
static_assert(sizeof(struct ublk_param_discard) == 20, "ublk_param_discard");
static_assert(sizeof(struct ublk_param_devt) == 16, "ublk_param_devt");
static_assert(offsetof(struct ublk_params, basic) == 8, "ublk_params.basic");
static_assert(offsetof(struct ublk_params, discard) == 40, "ublk_params.discard");
static_assert(offsetof(struct ublk_params, devt) == 60, "ublk_params.devt");
static_assert(sizeof(struct ublk_io_desc) == 24, "ublk_io_desc");
static_assert(offsetof(struct ublk_io_desc, start_sector) == 8, "ublk_io_desc.start_sector");
static_assert(sizeof(struct ublk_io_cmd) == 16, "ublk_io_cmd");
static_assert(UBLK_U_CMD_ADD_DEV == 0xc0207504, "ADD_DEV");
static_assert(UBLK_U_CMD_DEL_DEV == 0xc0207505, "DEL_DEV");
static_assert(UBLK_U_CMD_START_DEV == 0xc0207506, "START_DEV");
static_assert(UBLK_U_CMD_STOP_DEV == 0xc0207507, "STOP_DEV");
static_assert(UBLK_U_CMD_SET_PARAMS == 0xc0207508, "SET_PARAMS");
static_assert(UBLK_U_CMD_GET_PARAMS == 0x80207509, "GET_PARAMS");
static_assert(UBLK_U_CMD_GET_QUEUE_AFFINITY == 0x80207501, "GET_QUEUE_AFFINITY");
static_assert(UBLK_U_CMD_GET_DEV_INFO == 0x80207502, "GET_DEV_INFO");
static_assert(UBLK_U_CMD_START_USER_RECOVERY == 0xc0207510, "START_USER_RECOVERY");
static_assert(UBLK_U_CMD_END_USER_RECOVERY == 0xc0207511, "END_USER_RECOVERY");
static_assert(UBLK_U_CMD_GET_FEATURES == 0x80207513, "GET_FEATURES");
static_assert(UBLK_U_CMD_DEL_DEV_ASYNC == 0x80207514, "DEL_DEV_ASYNC");
static_assert(UBLK_U_CMD_UPDATE_SIZE == 0xc0207515, "UPDATE_SIZE");
static_assert(UBLK_U_CMD_TRY_STOP_DEV == 0xc0207517, "TRY_STOP_DEV");
static_assert(UBLK_U_IO_FETCH_REQ == 0xc0107520, "FETCH_REQ");
static_assert(UBLK_U_IO_COMMIT_AND_FETCH_REQ == 0xc0107521, "COMMIT_AND_FETCH_REQ");
