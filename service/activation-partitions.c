/* SPDX-License-Identifier: MIT */
#include "service/activation.h"
#include "service/child.h"
#include "service/log.h"

#define PARTX "/usr/bin/partx"
#define SCAN_USEC (10 * USEC_PER_SEC)

/* In a recovery, too: the run that made the disk may have died before this. Those that are known stay as they are.
 *
 * A disk without a partition table is no error, but partx(8) has one exit status for everything that is wrong. */
static int run_partx(const void *node) {
        (void) execl(PARTX, "partx", "--update", (const char *) node, (char *) NULL);
        return -errno;
}

void activation_scan_partitions(Activation *a) {
        uint64_t now = now_usec(), deadline = activation_deadline(a, SCAN_USEC);
        char node[32];
        int r;

        (void) snprintf(node, sizeof(node), "/dev/ublkb%u", a->id);
        r = deadline > now ? child_call(run_partx, node, deadline - now) : -ETIMEDOUT;
        if (r == -ENOENT)
                log_warning("%s is missing, so partitions of %s are not looked for.", PARTX, node);
        else if (r == -ETIMEDOUT)
                log_warning("Partitions of %s could not be read in time; partx --update %s looks for them again.", node, node);
}
