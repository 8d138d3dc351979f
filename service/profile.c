/* SPDX-License-Identifier: MIT */
#include "service/profile.h"

#include "service/config.h"
#include "service/paths.h"

#include <fcntl.h>
#include <sys/mman.h>

int profile_open(uint32_t device, uint32_t n_queues, Profile **ret) {
        const char *wish = getenv("UBLK_RUBY_PROFILE");
        size_t size = sizeof(Profile) + n_queues * sizeof(QueueProfile);
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;
        void *p;
        int r;

        *ret = NULL;
        if (!wish || strcmp(wish, "1") != 0)
                return 0;
        r = config_path(&path, PATH_WORKER_PROFILE, device);
        if (r < 0)
                return r;
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 || ftruncate(fd, (off_t) size) < 0)
                return -errno;
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        if (p == MAP_FAILED)
                return -errno;
        *ret = p;
        return 0;
}
