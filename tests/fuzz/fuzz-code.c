/* SPDX-License-Identifier: MIT */

/* A hook's code as the worker before left it in the unit's descriptor store, where a hook can put things, too. */

#include "fuzz.h"
#include "service/code.h"

#include <fcntl.h>
#include <sys/mman.h>

static int sealed_file(const uint8_t *data, size_t size) {
        int fd = memfd_create("fuzz-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        must(fd >= 0 && write_all(fd, data, size) >= 0);
        must(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) >= 0);
        return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_close_ int fd = sealed_file(data, size), again = -EBADF;
        _cleanup_free_ uint8_t *copy = malloc(size + 1);
        Code c = CODE_NULL;

        if (code_from_fd(fd, &c) < 0)
                return 0;
        must(c.n_files > 0 && c.n_files <= CODE_MAX_FILES && c.size == size);
        /* It is written as it was read. */
        must(code_to_fd(&c, &again) == 0);
        must(copy && pread(again, copy, size + 1, 0) == (ssize_t) size && memcmp(copy, data, size) == 0);
        code_done(&c);
        return 0;
}
