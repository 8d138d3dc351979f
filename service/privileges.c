/* SPDX-License-Identifier: MIT */
#include "service/privileges.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

int privileges_set_io_flusher(void) {
        return prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int privileges_lock_memory(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
                return -errno;
        if (limit.rlim_cur != RLIM_INFINITY)
                return -EPERM;
        return mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0 ? -errno : 0;
}

/* The headers of Debian 12 are older than all of this. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif
#define RULESET_VERSION (1U << 0)          /* LANDLOCK_CREATE_RULESET_VERSION */
#define SCOPE_ABSTRACT_SOCKETS (1ULL << 0) /* LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET */
#define SCOPE_SIGNALS (1ULL << 1)          /* LANDLOCK_SCOPE_SIGNAL */
#define ABI_WITH_SCOPES 6

/* struct landlock_ruleset_attr of that ABI. */
typedef struct Ruleset {
        uint64_t handled_access_fs;
        uint64_t handled_access_net;
        uint64_t scoped;
} Ruleset;

bool privileges_can_isolate(void) {
        return syscall(SYS_landlock_create_ruleset, NULL, (size_t) 0, RULESET_VERSION) >= ABI_WITH_SCOPES;
}

int privileges_isolate(void) {
        Ruleset ruleset = { .scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS };
        _cleanup_close_ int fd = -EBADF;

        if (!privileges_can_isolate())
                return -EOPNOTSUPP;
        fd = (int) syscall(SYS_landlock_create_ruleset, &ruleset, sizeof(ruleset), 0U);
        if (fd < 0)
                return -errno;
        return syscall(SYS_landlock_restrict_self, fd, 0U) < 0 ? -errno : 0;
}

int privileges_drop(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct none[2] = { 0 };

        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return -errno;
        if (syscall(SYS_capset, &header, none) < 0)
                return -errno;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        /* Not dumpable: no other process of this user may trace it or read its /proc files. */
        return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}
