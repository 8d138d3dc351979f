/* SPDX-License-Identifier: MIT */
#include "service/worker-socket.h"

#include "service/config.h"
#include "service/paths.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

int worker_socket_open(uint32_t id, struct sockaddr_un *ret_address) {
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *path = NULL;
        struct stat st;
        int r;

        r = config_path(&path, PATH_WORKER_SOCKET, id);
        if (r < 0)
                return r;
        fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISSOCK(st.st_mode))
                return S_ISLNK(st.st_mode) ? -ELOOP : -ENOTSOCK;
        *ret_address = (struct sockaddr_un) { .sun_family = AF_UNIX };
        (void) snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "/proc/self/fd/%i", fd);
        return TAKE_FD(fd);
}
