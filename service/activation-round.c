/* SPDX-License-Identifier: MIT */
#include "service/activation.h"
#include "service/child.h"
#include "service/queue.h"

#include <fcntl.h>
#include <sys/eventfd.h>

/*
 * Up to Linux 6.14 a device remembers which process mapped it and what was fetched until the next
 * START_USER_RECOVERY, and that command is refused (EINVAL) unless some queue was fetched whole, and crashes
 * the kernel if some but not all were. So a worker that dies between its mmap and its last fetch leaves a
 * device that no later one can map: lost until the machine restarts. The way out is to finish the round in
 * its stead, from a process that ends at once: fetching takes no mapping, and no request comes before
 * END_USER_RECOVERY there. From 6.15 the driver forgets everything when the node is closed, and this must not
 * be done: requests are delivered earlier. Can go when no kernel before 6.15 is served.
 */

#define ROUND_TIMEOUT_USEC (5 * USEC_PER_SEC)

typedef struct Round {
        uint32_t id;
        uint32_t queues;
        uint32_t depth;
} Round;

bool activation_rounds_last(Activation *a) {
        uint64_t features;

        /* Zero copy became real in the release that changed this; before it GET_FEATURES leaves the bit out.
         */
        return control_get_features(a->control, &features) >= 0 && !(features & UBLK_F_SUPPORT_ZERO_COPY);
}

/* Tags that the former worker has fetched are refused one by one, which is as well. */
static int fetch_all(const void *argument) {
        const Round *round = argument;
        QueueDevice device = { .id = round->id, .n_queues = round->queues, .depth = round->depth };
        int wake_fd = eventfd(0, EFD_CLOEXEC), r = 0;
        char path[32];

        (void) snprintf(path, sizeof(path), "/dev/ublkc%u", round->id);
        device.fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
        if (device.fd < 0)
                return -errno;
        device.descriptors = calloc(round->queues, sizeof(void *));
        if (!device.descriptors || wake_fd < 0)
                return -ENOMEM;
        for (uint32_t i = 0; i < round->queues && r >= 0; i++) {
                Queue *q;

                r = queue_new(&device, (uint16_t) i, wake_fd, &q);
                if (r >= 0)
                        r = queue_fetch(q);
        }
        return r; /* and the process ends, with all that it holds */
}

int activation_finish_round(Activation *a) {
        Round round = { .id = a->id, .queues = a->config->queues, .depth = a->config->depth };

        uint64_t now = now_usec(), left = a->deadline_usec > now ? a->deadline_usec - now : 0;

        return child_call(fetch_all, &round,
                          a->deadline_usec > 0 && left < ROUND_TIMEOUT_USEC ? left : ROUND_TIMEOUT_USEC);
}
