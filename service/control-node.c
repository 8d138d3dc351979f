/* SPDX-License-Identifier: MIT */
#include "service/control-node.h"

#include "service/config.h"

#include <fcntl.h>
#include <sys/stat.h>

int control_node_take(int fd) {
        char path[64];

        /* By its descriptor: fchmod(2) refuses O_PATH, and fchmodat2(2) is younger than the kernels we serve. */
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (fchownat(fd, "", 0, 0, AT_EMPTY_PATH) < 0 || chmod(path, 0600) < 0)
                return -errno;
        return 0;
}

int control_node_reset(uint32_t id) {
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *path = NULL;
        struct stat st;
        int r;

        r = config_path(&path, "/dev/ublkc%u", id);
        if (r < 0)
                return r;
        fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISCHR(st.st_mode))
                return -ENXIO;
        if (st.st_uid == 0 && st.st_gid == 0 && (st.st_mode & 07777) == 0600)
                return 0;
        return control_node_take(fd);
}
