/* SPDX-License-Identifier: MIT */
#include "service/memory-file.h"

#include <fcntl.h>
#include <sys/mman.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* Linux 6.3; the headers of Debian 12 are older */
#endif

#define SEALS (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

int memory_file_create(const char *name, uint64_t size, int *ret_fd) {
        _cleanup_close_ int fd = -EBADF;
        char label[MEMORY_NAME_MAX + sizeof("ublk-")];

        (void) snprintf(label, sizeof(label), "ublk-%s", name);
        fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
        if (fd < 0 && errno == EINVAL)
                fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0 || ftruncate(fd, (off_t) size) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

bool memory_file_is_one(int fd) {
        int seals = fcntl(fd, F_GET_SEALS);

        return seals >= 0 && (seals & SEALS) == SEALS;
}
