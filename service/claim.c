/* SPDX-License-Identifier: MIT */
#include "service/claim.h"

#include "service/config.h"

#include <fcntl.h>

int disk_claim(uint32_t id, int *ret_fd) {
        _cleanup_free_ char *path = NULL;
        int r, fd;

        r = config_path(&path, "/dev/ublkb%u", id);
        if (r < 0)
                return r;
        /* Read-only, so that udev does not take the close for the end of a change. */
        do
                fd = open(path, O_RDONLY | O_EXCL | O_CLOEXEC | O_NOCTTY);
        while (fd < 0 && errno == EINTR); /* 7.3: after io_uring commands without any signal */
        if (fd < 0)
                return -errno;
        *ret_fd = fd;
        return 0;
}
