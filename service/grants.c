/* SPDX-License-Identifier: MIT */
#include "service/grants.h"

#include <sys/mman.h>
#include <sys/socket.h>

/* RestrictAddressFamilies=. That PrivateNetwork= leaves nothing to be reached can't be told from a host without a network. */
static bool may_open_socket(int family) {
        _cleanup_close_ int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        return fd >= 0;
}

/* MemoryDenyWriteExecute=. */
static bool may_map_executable(void) {
        size_t size = (size_t) sysconf(_SC_PAGESIZE);
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED)
                return false;
        (void) munmap(p, size);
        return true;
}

void grants_measure(const DeviceConfig *c, Grants *ret) {
        *ret = (Grants) {
                .credentials = getenv("CREDENTIALS_DIRECTORY"),
                .secrets = c->secrets,
                .network = may_open_socket(AF_INET) || may_open_socket(AF_INET6),
                .jit = may_map_executable(),
        };
}
