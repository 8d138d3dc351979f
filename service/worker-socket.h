/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The way to a worker's socket for root. The directory belongs to the workers' user, and connect(2) follows symbolic links: to any
 * socket of root's, that is, since that is who we are. So the entry itself is opened, and what it was found to be is what is connected
 * to; the directories above it belong to root.
 */

#include <stdint.h>
#include <sys/un.h>

/* A descriptor of the entry, to be kept open until connect(2) to *ret_address is done; or a negative errno: -ELOOP for a link. */
int worker_socket_open(uint32_t id, struct sockaddr_un *ret_address);
