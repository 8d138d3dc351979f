/* SPDX-License-Identifier: MIT */
#include "service/activation.h"
#include "service/control-node.h"
#include "service/log.h"

#include <fcntl.h>
#include <sys/stat.h>

#define NODE_USEC (3 * USEC_PER_SEC)
#define UDEV_USEC (5 * USEC_PER_SEC)
#define UDEV_CONTROL "/run/udev/control"
#define MAX_UDEV_FILE (64U << 10)
#define MAX_NUMBER 64U

static bool is_node(const Activation *a, int fd) {
        struct stat st;

        return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == a->node_number;
}

/* devtmpfs makes the node before ADD_DEV returns, but a /dev of another make may not. */
static int open_node(Activation *a) {
        uint64_t deadline = activation_deadline(a, NODE_USEC), delay = USEC_PER_MSEC;
        char path[32];
        int r;

        (void) snprintf(path, sizeof(path), "/dev/ublkc%u", a->id);
        for (;;) {
                _cleanup_close_ int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

                if (fd >= 0 && is_node(a, fd))
                        return TAKE_FD(fd);
                if (now_usec() >= deadline)
                        return fd < 0 ? -errno : -ENXIO;
                r = activation_pause(a, &delay);
                if (r < 0)
                        return r;
        }
}

int activation_lend_node(Activation *a, Failure *f) {
        a->node_fd = open_node(a);
        if (a->node_fd < 0)
                return failure_set(f, FAILURE_WORKER, -a->node_fd, "/dev/ublkc%u can't be found: %s", a->id,
                                   strerror(-a->node_fd));
        if (fchownat(a->node_fd, "", a->worker.uid, (gid_t) -1, AT_EMPTY_PATH) < 0)
                return failure_set(f, FAILURE_WORKER, errno, "/dev/ublkc%u can't be given to the worker: %s",
                                   a->id, strerror(errno));
        return 0;
}

int activation_take_node_back(Activation *a, Failure *f) {
        _cleanup_close_ int fd = TAKE_FD(a->node_fd);
        int r;

        r = control_node_take(fd);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r,
                                   "/dev/ublkc%u can't be taken back from the worker: %s", a->id, strerror(-r));
        return 0;
}

/* The line I: of a device's file in udev's database, which comes after its links: when it was first seen,
 * CLOCK_MONOTONIC. A file of an earlier disk with this number has an older one. */
static bool udev_knows(const char *path, uint64_t since_usec) {
        _cleanup_free_ char *text = NULL;
        uint64_t seen = 0;
        char *state, *line;

        if (read_file(path, MAX_UDEV_FILE, &text, NULL) < 0)
                return false;
        for (state = text; (line = strsep(&state, "\n"));)
                if (strncmp(line, "I:", 2) == 0 && parse_u64(line + 2, UINT64_MAX, &seen) >= 0)
                        return seen >= since_usec;
        return false;
}

/* udev's file of a block device, by its number. -ENODEV if there is no such device. */
static int udev_file(const char *name, char **ret) {
        _cleanup_free_ char *text = NULL;
        char path[512];
        int r;

        (void) snprintf(path, sizeof(path), "/sys/class/block/%s/dev", name);
        r = read_file(path, MAX_NUMBER, &text, NULL);
        if (r < 0)
                return -ENODEV;
        text[strcspn(text, "\n")] = 0;
        return xasprintf(ret, "/run/udev/data/b%s", text);
}

/* No netlink monitor: a unit with PrivateNetwork= hears none. */
static void wait_for_udev(Activation *a, const char *name, uint64_t since_usec, uint64_t deadline) {
        _cleanup_free_ char *path = NULL;

        if (udev_file(name, &path) < 0)
                return;
        while (!udev_knows(path, since_usec)) {
                uint64_t delay = 10 * USEC_PER_MSEC;

                if (now_usec() >= deadline) {
                        log_warning("udev has not come round to /dev/%s in time; going on.", name);
                        return;
                }
                if (activation_pause(a, &delay) < 0)
                        return; /* a crash of a live device: its unit deals with it */
        }
}

void activation_wait_for_udev(Activation *a, uint64_t since_usec) {
        uint64_t deadline = activation_deadline(a, UDEV_USEC);
        _cleanup_closedir_ DIR *dir = NULL;
        char disk[32], path[64];

        if (access(UDEV_CONTROL, F_OK) < 0)
                return;
        (void) snprintf(disk, sizeof(disk), "ublkb%u", a->id);
        wait_for_udev(a, disk, since_usec, deadline);
        (void) snprintf(path, sizeof(path), "/sys/class/block/%s", disk);
        dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));)
                if (strncmp(e->d_name, disk, strlen(disk)) == 0)
                        wait_for_udev(a, e->d_name, since_usec, deadline);
}
