/* SPDX-License-Identifier: MIT */
#include "service/child.h"

#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int child_call(int (*f)(const void *argument), const void *argument, uint64_t timeout_usec) {
        uint64_t deadline = now_usec() + timeout_usec;
        _cleanup_close_ int fd = -EBADF;
        siginfo_t si = { 0 };
        pid_t pid;
        int r;

        pid = fork();
        if (pid < 0)
                return -ECHILD;
        if (pid == 0) {
                /* A stuck child must hold neither the control ring nor the worker's socket. */
                (void) syscall(SYS_close_range, 3U, ~0U, 0U);
                r = f(argument);
                _exit(r < 0 && r > -256 && r != -ECHILD ? -r : r < 0 ? EIO : 0);
        }
        fd = pidfd_open(pid, 0);
        r = fd < 0 ? -errno : poll_until(fd, POLLIN, deadline);
        if (r <= 0) {
                (void) kill(pid, SIGKILL);
                return r < 0 ? -ECHILD : -ETIMEDOUT;
        }
        do
                r = waitid(P_PID, (id_t) pid, &si, WEXITED);
        while (r < 0 && errno == EINTR);
        return r == 0 && si.si_code == CLD_EXITED ? -si.si_status : -ECHILD;
}
