/* SPDX-License-Identifier: MIT */
#include "service/control.h"

#include "service/config.h"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>

/* Every command runs in a thread of the ring's io-wq pool, which is at most as large as the ring. With a
 * small ring one waiting START_DEV starves the command that would end it (6.12 and 7.3). */
#define RING_ENTRIES 128
/* How long a cancelled command may take to come back. One that waits for a mutex of the driver does not. */
#define CANCEL_TIMEOUT_USEC (2 * USEC_PER_SEC)

struct Control {
        struct io_uring ring;
        int fd;
        bool stuck; /* a command never came back: the kernel may still write to its buffer */
        uint64_t deadline_usec; /* of the whole run, 0 if there is none */
};

/* On the heap, as the kernel reads and writes it until the command has come back, be it after we gave it up.
 */
typedef struct Command {
        uint32_t operation;
        struct ublk_ctrl_cmd payload;
        union {
                struct ublk_dev_info info;
                struct ublk_params params;
                uint64_t features;
        } buffer;
        int result;
        bool in_flight;
} Command;

static void command_freep(Command **m) {
        if (*m && !(*m)->in_flight)
                free(*m);
}

static Command *command_new(uint32_t operation, uint32_t id) {
        Command *m = calloc(1, sizeof(*m));

        if (!m)
                return NULL;
        m->operation = operation;
        m->payload.dev_id = id;
        m->payload.queue_id = UINT16_MAX;
        return m;
}

static void command_use_buffer(Command *m, size_t size) {
        m->payload.addr = (uintptr_t) &m->buffer;
        m->payload.len = (uint16_t) size;
}

int control_new(Control **ret) {
        struct io_uring_params p = { .flags = IORING_SETUP_SQE128 };
        Control *c = malloc(sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        *c = (Control) { .fd = open(UBLK_CONTROL_NODE, O_RDWR | O_CLOEXEC) };
        if (c->fd < 0) {
                r = -errno;
                free(c);
                return r;
        }
        r = io_uring_queue_init_params(RING_ENTRIES, &c->ring, &p);
        if (r < 0) {
                safe_close(c->fd);
                free(c);
                return r;
        }
        *ret = c;
        return 0;
}

Control *control_free(Control *c) {
        if (!c)
                return NULL;
        io_uring_queue_exit(&c->ring);
        safe_close(c->fd);
        free(c);
        return NULL;
}

void control_set_deadline(Control *c, uint64_t deadline_usec) {
        c->deadline_usec = deadline_usec;
}

static int submit(Control *c) {
        int r;

        do
                r = io_uring_submit(&c->ring);
        while (r == -EINTR);
        return r < 0 ? r : 0;
}

static int command_submit(Control *c, Command *m) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&c->ring);
        int r;

        if (!sqe)
                return -EBUSY;
        memset(sqe, 0, 2 * sizeof(*sqe));
        sqe->opcode = IORING_OP_URING_CMD;
        sqe->fd = c->fd;
        sqe->cmd_op = m->operation;
        memcpy(sqe->cmd, &m->payload, sizeof(m->payload));
        io_uring_sqe_set_data(sqe, m);
        m->in_flight = true;
        r = submit(c);
        if (r < 0)
                c->stuck = true; /* it stays in the ring, and the next submission would take it along */
        return r;
}

static void reap(Control *c) {
        struct io_uring_cqe *cqe;

        while (io_uring_peek_cqe(&c->ring, &cqe) == 0) {
                Command *m = io_uring_cqe_get_data(cqe);

                if (m) { /* else the answer to a cancellation, which says nothing that the command won't */
                        m->result = cqe->res;
                        m->in_flight = false;
                }
                io_uring_cqe_seen(&c->ring, cqe);
        }
}

/* 0 when the command has come back, -ETIMEDOUT, or -EOWNERDEAD once watch_fd is readable. */
static int command_wait(Control *c, const Command *m, int watch_fd, uint64_t deadline) {
        for (;;) {
                struct pollfd p[] = {
                        { .fd = c->ring.ring_fd, .events = POLLIN },
                        { .fd = watch_fd, .events = POLLIN }, /* negative: ignored */
                };
                uint64_t now = now_usec(), left = deadline > now ? deadline - now : 0;
                struct timespec ts = {
                        .tv_sec = (time_t) (left / USEC_PER_SEC),
                        .tv_nsec = (long) (left % USEC_PER_SEC * NSEC_PER_USEC),
                };
                int n;

                reap(c);
                if (!m->in_flight)
                        return 0;
                n = ppoll(p, ELEMENTSOF(p), &ts, NULL);
                if (n < 0 && errno != EINTR) /* 7.3 interrupts it for the ring's own work, without a signal */
                        return -errno;
                if (n == 0)
                        return -ETIMEDOUT;
                if (n > 0 && p[1].revents && !p[0].revents)
                        return -EOWNERDEAD;
        }
}

static int command_cancel(Control *c, Command *m) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&c->ring);
        int r;

        if (!sqe)
                return -EBUSY;
        memset(sqe, 0, 2 * sizeof(*sqe));
        io_uring_prep_cancel(sqe, m, 0);
        io_uring_sqe_set_data(sqe, NULL);
        r = submit(c);
        if (r < 0)
                return r;
        return command_wait(c, m, -EBADF, now_usec() + CANCEL_TIMEOUT_USEC);
}

/* One round: the command's own result, or -ETIMEDOUT or -EOWNERDEAD if it had to be cancelled. */
static int command_once(Control *c, Command *m, int watch_fd, uint64_t deadline) {
        int r, why;

        r = command_submit(c, m);
        if (r < 0)
                return r;
        why = command_wait(c, m, watch_fd, deadline);
        if (why == 0)
                return m->result;
        r = command_cancel(c, m);
        if (r < 0)
                c->stuck = true;
        /* It may have ended by itself in the meantime. With a dead worker that counts for nothing. */
        if (r == 0 && why == -ETIMEDOUT && m->result != -EINTR && m->result != -ECANCELED)
                return m->result;
        return why;
}

static int command_run(Control *c, Command *m, int watch_fd, uint64_t timeout_usec) {
        uint64_t deadline = now_usec() + timeout_usec;
        int r;

        if (c->deadline_usec > 0 && c->deadline_usec < deadline)
                deadline = c->deadline_usec;
        if (c->stuck || now_usec() >= deadline)
                return -ETIMEDOUT;
        do
                /* -EINTR without a cancellation of ours: some work for the ring interrupted the wait, nothing
                 * was done. */
                r = command_once(c, m, watch_fd, deadline);
        while (r == -EINTR && now_usec() < deadline);
        return r == -EINTR ? -ETIMEDOUT : r;
}

/* A command that carries nothing but one number. */
static int simple_command(Control *c, uint32_t operation, uint32_t id, uint64_t data, int watch_fd,
                          uint64_t timeout_usec) {
        _cleanup_(command_freep) Command *m = command_new(operation, id);

        if (!m)
                return -ENOMEM;
        m->payload.data[0] = data;
        return command_run(c, m, watch_fd, timeout_usec);
}

int control_get_features(Control *c, uint64_t *ret) {
        _cleanup_(command_freep) Command *m = command_new(UBLK_U_CMD_GET_FEATURES, UINT32_MAX);
        int r;

        if (!m)
                return -ENOMEM;
        command_use_buffer(m, sizeof(m->buffer.features));
        r = command_run(c, m, -EBADF, CONTROL_TIMEOUT_USEC);
        if (r >= 0)
                *ret = m->buffer.features;
        return r;
}

int control_get_info(Control *c, uint32_t id, struct ublk_dev_info *ret) {
        _cleanup_(command_freep) Command *m = command_new(UBLK_U_CMD_GET_DEV_INFO, id);
        int r;

        if (!m)
                return -ENOMEM;
        command_use_buffer(m, sizeof(m->buffer.info));
        r = command_run(c, m, -EBADF, CONTROL_TIMEOUT_USEC);
        if (r >= 0)
                *ret = m->buffer.info;
        return r;
}

int control_get_params(Control *c, uint32_t id, struct ublk_params *ret) {
        _cleanup_(command_freep) Command *m = command_new(UBLK_U_CMD_GET_PARAMS, id);
        int r;

        if (!m)
                return -ENOMEM;
        m->buffer.params.len = sizeof(m->buffer.params);
        command_use_buffer(m, sizeof(m->buffer.params));
        r = command_run(c, m, -EBADF, CONTROL_TIMEOUT_USEC);
        if (r >= 0)
                *ret = m->buffer.params;
        return r;
}

int control_add(Control *c, struct ublk_dev_info *info) {
        _cleanup_(command_freep) Command *m = command_new(UBLK_U_CMD_ADD_DEV, info->dev_id);
        int r;

        if (!m)
                return -ENOMEM;
        m->buffer.info = *info;
        command_use_buffer(m, sizeof(m->buffer.info));
        r = command_run(c, m, -EBADF, CONTROL_TIMEOUT_USEC);
        if (r >= 0)
                *info = m->buffer.info;
        return r;
}

int control_set_params(Control *c, uint32_t id, const struct ublk_params *p) {
        _cleanup_(command_freep) Command *m = command_new(UBLK_U_CMD_SET_PARAMS, id);

        if (!m)
                return -ENOMEM;
        m->buffer.params = *p;
        m->buffer.params.len = sizeof(*p);
        m->buffer.params.types &= ~(uint32_t) UBLK_PARAM_TYPE_DEVT;
        command_use_buffer(m, sizeof(m->buffer.params));
        return command_run(c, m, -EBADF, CONTROL_TIMEOUT_USEC);
}

int control_stop(Control *c, uint32_t id, uint64_t timeout_usec) {
        return simple_command(c, UBLK_U_CMD_STOP_DEV, id, 0, -EBADF, timeout_usec);
}

int control_try_stop(Control *c, uint32_t id, uint64_t timeout_usec) {
        return simple_command(c, UBLK_U_CMD_TRY_STOP_DEV, id, 0, -EBADF, timeout_usec);
}

int control_update_size(Control *c, uint32_t id, uint64_t bytes) {
        return simple_command(c, UBLK_U_CMD_UPDATE_SIZE, id, bytes >> 9, -EBADF, CONTROL_TIMEOUT_USEC);
}

int control_delete(Control *c, uint32_t id) {
        int r;

        r = simple_command(c, UBLK_U_CMD_DEL_DEV_ASYNC, id, 0, -EBADF, CONTROL_TIMEOUT_USEC);
        if (r != -EOPNOTSUPP)
                return r;
        /* Linux 6.5 … 6.8 only know the command that waits for the last user. Interrupted there it has
         * deleted all the same. */
        r = simple_command(c, UBLK_U_CMD_DEL_DEV, id, 0, -EBADF, CONTROL_TIMEOUT_USEC);
        return r == -ETIMEDOUT ? 0 : r;
}

int control_start_recovery(Control *c, uint32_t id) {
        return simple_command(c, UBLK_U_CMD_START_USER_RECOVERY, id, 0, -EBADF, CONTROL_TIMEOUT_USEC);
}

int control_start(Control *c, uint32_t id, pid_t pid, int watch_fd, uint64_t timeout_usec) {
        return simple_command(c, UBLK_U_CMD_START_DEV, id, (uint64_t) pid, watch_fd, timeout_usec);
}

int control_end_recovery(Control *c, uint32_t id, pid_t pid, int watch_fd, uint64_t timeout_usec) {
        return simple_command(c, UBLK_U_CMD_END_USER_RECOVERY, id, (uint64_t) pid, watch_fd, timeout_usec);
}

static int compare_ids(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

        return x < y ? -1 : x > y;
}

int control_list_ids(uint32_t **ret, size_t *ret_n) {
        _cleanup_free_ char *path = NULL;
        _cleanup_free_ uint32_t *ids = NULL;
        _cleanup_closedir_ DIR *d = NULL;
        size_t n = 0;
        int r;

        r = config_path(&path, "/sys/class/ublk-char");
        if (r < 0)
                return r;
        d = opendir(path);
        if (!d && errno != ENOENT)
                return -errno;
        for (struct dirent *e; d && (e = readdir(d));) {
                uint32_t id, *grown;

                if (strncmp(e->d_name, "ublkc", 5) != 0 || parse_u32(e->d_name + 5, UBLK_MAX_ID, &id) < 0)
                        continue;
                grown = reallocarray(ids, n + 1, sizeof(*ids));
                if (!grown)
                        return -ENOMEM;
                ids = grown;
                ids[n++] = id;
        }
        if (n > 0)
                qsort(ids, n, sizeof(*ids), compare_ids);
        *ret = TAKE_PTR(ids);
        *ret_n = n;
        return 0;
}
