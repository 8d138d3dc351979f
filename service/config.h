/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A device as its file describes it: N.conf under PATH_DEVICES_TRANSIENT or PATH_DEVICES_PERSISTENT, written
 * by the manager (or by hand), read by manager, control and worker. Format: ublk-ruby-device.conf(5).
 *
 *     [Device]
 *     Name=disk0
 *     Hook=memory
 *     Queues=1
 *     [Arguments]
 *     size=t:1073741824
 *     path=s:/srv/disk.img
 *
 * An argument is a D-Bus basic type, a colon, and the value as text. Bytes below 0x20, 0x7f and the backslash
 * are written \xNN. Reading is strict: an unknown key, a second one, or a value out of its limits is an error
 * that says the line. Root and the workers can read it.
 */

#include "service/util.h"

#include <stdarg.h>

#define CONFIG_MAX_FILE (64 * 1024)
#define CONFIG_MAX_ARGUMENTS 64
#define CONFIG_MAX_VALUE 4096

#define CONFIG_DEFAULT_DEPTH 128
#define CONFIG_DEFAULT_MAX_IO_SIZE 524288
#define CONFIG_DEFAULT_HOOK_TIMEOUT_USEC (30 * USEC_PER_SEC)
#define CONFIG_MIN_HOOK_TIMEOUT_USEC (100 * USEC_PER_MSEC) /* how long Ruby may take to change threads */
#define CONFIG_DEFAULT_START_TIMEOUT_USEC (20 * USEC_PER_SEC)
#define CONFIG_MAX_TIMEOUT_USEC (24 * 3600 * USEC_PER_SEC)

/* RECOVERY_DEFAULT: what the hook's class declares. */
typedef enum Recovery {
        RECOVERY_DEFAULT,
        RECOVERY_NONE,
        RECOVERY_FAIL,
        RECOVERY_FAIL_IO,
        RECOVERY_REISSUE,
        _RECOVERY_MAX,
        _RECOVERY_INVALID = -EINVAL,
} Recovery;

/* "none", "fail", "fail-io", "reissue"; RECOVERY_DEFAULT is "default". from_string gives _RECOVERY_INVALID for others. */
const char *recovery_to_string(Recovery recovery);
Recovery recovery_from_string(const char *s);

/* One argument of the hook. type is one of D-Bus' basic types "ybnqiuxtds". */
typedef struct Argument {
        char *name;
        char type;
        char *value; /* as text; booleans are "true" and "false" */
} Argument;

typedef struct DeviceConfig {
        uint32_t id;
        bool persistent;       /* where the file lies; not a key in it */
        char *name;
        char *hook;            /* its name, without directory and ".rb" */
        char *class_name;      /* NULL: the rule of ublk-hook(7) */
        uint32_t queues;
        uint32_t depth;
        uint32_t max_io_size;  /* bytes */
        bool read_only;
        bool mlock;
        bool partscan;
        Recovery recovery;
        bool fail_on_failure;  /* on-failure=error */
        char *data_path;       /* "auto", "string", … */
        uint64_t hook_timeout_usec; /* 0: no limit */
        uint64_t start_timeout_usec;
        uint64_t created_usec; /* CLOCK_REALTIME; also tells this device from an earlier one of the same id */
        bool creating;         /* CreateDevice has not answered yet: what a manager that finds it so has to finish or undo */
        bool resizing;         /* hook and kernel may have different sizes for the moment, and the hook's counts: resize.h */
        bool network;          /* what its hook needs of its unit, as a worker found out: see needs.h */
        bool jit;
        char *secrets;         /* the arguments that are secrets, with spaces between them; NULL: none */
        Argument *arguments;
        size_t n_arguments;
} DeviceConfig;

/* For tests: every path of paths.h, of /sys and of /proc that the core opens lies below root. NULL or "" is the real root.
 * Borrowed: must stay valid. */
void config_set_root(const char *root);
/* root + printf(format), owned by the caller. */
int config_path(char **ret, const char *format, ...) _printf_(2, 3);
int config_vpath(char **ret, const char *format, va_list ap) _printf_(2, 0);

DeviceConfig *device_config_new(uint32_t id);
DeviceConfig *device_config_free(DeviceConfig *c);
static inline void device_config_freep(DeviceConfig **c) {
        device_config_free(*c);
}

/* Copies its strings. -EEXIST for a second one, -E2BIG past CONFIG_MAX_ARGUMENTS or CONFIG_MAX_VALUE, -EINVAL for a bad name or
 * type, -ERANGE for a value that is none of its type. */
int device_config_add_argument(DeviceConfig *c, const char *name, char type, const char *value);

/* The same, in place of one that is there. */
int device_config_set_argument(DeviceConfig *c, const char *name, char type, const char *value);

/* NULL if it is not given. */
const Argument *device_config_find_argument(const DeviceConfig *c, const char *name);

/* Sets one [Device] key of the file from its text: the same limits wherever it comes from. -ENOENT for an unknown
 * key, -EINVAL or -ERANGE for a bad value; *ret_limits, if wanted, says what is allowed (static string). */
int device_config_set(DeviceConfig *c, const char *key, const char *value, const char **ret_limits);

/* Parses text; on error -EBADMSG and *ret_message (owned by the caller) says line and cause. */
int device_config_parse(uint32_t id, const char *text, DeviceConfig **ret, char **ret_message);
/* -E2BIG past CONFIG_MAX_FILE: nobody could read that again. */
int device_config_serialize(const DeviceConfig *c, char **ret);

/* Persistent file first, then the transient one. -ENOENT if there is none, -EBADMSG with *ret_message. */
int device_config_load(uint32_t id, DeviceConfig **ret, char **ret_message);
int device_config_save(const DeviceConfig *c);
/* Saves it among the others, persistent or not, and then removes it from where it was: whatever dies in between, there is one
 * file that counts. On an error all is as it was. */
int device_config_move(DeviceConfig *c, bool persistent);
/* The same of what is no device, in a file of its own. */
int device_config_load_from(const char *path, uint32_t id, DeviceConfig **ret, char **ret_message);
int device_config_save_to(const DeviceConfig *c, const char *path);
/* Removes the file, wherever it lies; no error if there is none. */
int device_config_remove(uint32_t id);
/* The ids that have a file, ascending; *ret is owned by the caller. */
int device_config_list(uint32_t **ret, size_t *ret_n);

/* The value of ublksrv_flags in the kernel: says that a ublk device is ours, and that it is this very one. */
uint64_t device_config_kernel_tag(const DeviceConfig *c);
bool kernel_tag_is_ours(uint64_t tag);
