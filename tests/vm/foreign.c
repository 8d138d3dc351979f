/* SPDX-License-Identifier: MIT */

/* A stand-in for another program that uses ublk: adds or deletes a kernel device that bears no mark of ours. */

#include "service/control.h"

int main(int argc, char *argv[]) {
        struct ublk_dev_info info = {
                .nr_hw_queues = 1,
                .queue_depth = 16,
                .max_io_buf_bytes = 65536,
                .flags = UBLK_F_USER_COPY | UBLK_F_CMD_IOCTL_ENCODE,
        };
        _cleanup_(control_freep) Control *control = NULL;
        int r;

        if (argc != 3 || parse_u32(argv[2], UBLK_MAX_ID, &info.dev_id) < 0) {
                fprintf(stderr, "usage: %s add|delete ID\n", argv[0]);
                return 2;
        }
        r = control_new(&control);
        if (r >= 0)
                r = streq(argv[1], "add") ? control_add(control, &info) : control_delete(control, info.dev_id);
        if (r < 0)
                fprintf(stderr, "%s %s: %s\n", argv[1], argv[2], strerror(-r));
        return r < 0;
}
