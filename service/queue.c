/* SPDX-License-Identifier: MIT */
#include "service/queue.h"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#define NODE_TIMEOUT_USEC (5 * USEC_PER_SEC)

/* user_data of the one completion that is not a tag. */
#define USER_DATA_WAKE UINT64_MAX

/* A counter with one writer and any number of readers: no locked instruction on the hot path. */
typedef _Atomic uint64_t Counter;

static inline void counter_add(Counter *c, uint64_t n) {
        atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}
static inline uint64_t counter_get(const Counter *c) {
        return atomic_load_explicit(c, memory_order_relaxed);
}

/* Where the serving task is. */
enum {
        PLACE_NOWHERE, /* it does not serve, yet or any more */
        PLACE_HERE,    /* in this file */
        PLACE_KERNEL,  /* waiting for requests */
        PLACE_TURN,    /* without requests, but not before the interpreter lets it go on */
        PLACE_SERVER,  /* has given requests to the hook */
};

struct Queue {
        const QueueDevice *device; /* borrowed */
        const struct ublk_io_desc *descriptors;
        struct io_uring ring;
        bool has_ring;
        uint16_t index;
        int wake_fd;               /* borrowed */
        Request *requests;         /* one per tag */
        Request **batch;           /* those of one round */
        size_t n_batch;
        uint32_t n_aborted;        /* tags that came back with -ENODEV */
        bool woken;
        int wait_result;
        QueueProfile *profile;     /* borrowed; NULL: nobody wants to know */
        uint64_t lap_nsec;         /* when the stage before this one ended */
        _Atomic int place;         /* for those who look from outside; one writer */
        Counter n_rounds;
        Counter n_requests, n_completed, n_failed, read_bytes, written_bytes, hook_nsec;
        Counter errors[COUNTERS_ERRNOS];
        Counter latencies[COUNTERS_OPERATIONS][COUNTERS_BUCKETS];
};

static inline void place_set(Queue *q, int place) {
        atomic_store_explicit(&q->place, place, memory_order_relaxed);
}

/* All the time since the last lap was the stage's. */
static inline void lap(Queue *q, Stage stage) {
        uint64_t now;

        if (__builtin_expect(!q->profile, 1))
                return;
        now = profile_now();
        profile_add(&q->profile->nsec[stage], now - q->lap_nsec);
        q->lap_nsec = now;
}

/* What a child that a hook forks must not keep: a reference to ublkcN, in whatever form, blocks recovery for ever
 * (Linux 6.1 … 7.3: START_USER_RECOVERY gives EBUSY). The mappings are marked MADV_DONTFORK; these are the descriptors.
 * An exec'd child loses them by O_CLOEXEC. A node and a ring for each queue: 16 KiB, which only a child looks through. */
#define INHERITABLE_MAX (UBLK_MAX_QUEUES + 1)
static _Atomic int inheritable[INHERITABLE_MAX];

static void close_in_child(void) {
        for (size_t i = 0; i < INHERITABLE_MAX; i++)
                if (inheritable[i] > 0) {
                        (void) close(inheritable[i]);
                        inheritable[i] = 0; /* a child of the child may have that number for something else */
                }
}

static void register_handler(void) {
        (void) pthread_atfork(NULL, NULL, close_in_child);
}

static int inheritable_add(int fd) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        (void) pthread_once(&once, register_handler);
        for (size_t i = 0; i < INHERITABLE_MAX; i++) {
                int nothing = 0;
                if (atomic_compare_exchange_strong(&inheritable[i], &nothing, fd))
                        return 0;
        }
        return -EMFILE;
}

static void inheritable_remove(int fd) {
        for (size_t i = 0; i < INHERITABLE_MAX; i++) {
                int wanted = fd;
                if (fd > 0 && atomic_compare_exchange_strong(&inheritable[i], &wanted, 0))
                        return;
        }
}

/* The node appears, and changes its owner, a moment after the command that caused it. */
static int open_node(const char *path, int *ret) {
        uint64_t deadline = now_usec() + NODE_TIMEOUT_USEC;

        for (;;) {
                /* O_NONBLOCK lets io_uring reads and writes on it run inline (io_file_get_flags(), Linux 6.12). */
                int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
                if (fd >= 0) {
                        *ret = fd;
                        return 0;
                }
                if ((errno != ENOENT && errno != EACCES && errno != EBUSY && errno != EINTR) || now_usec() >= deadline)
                        return -errno;
                (void) usleep(2000);
        }
}

static int map_descriptors(QueueDevice *d, uint16_t queue) {
        size_t page = (size_t) sysconf(_SC_PAGESIZE), size = ublk_descriptors_size(d->depth, page);
        void *p;

        p = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_POPULATE, d->fd, (off_t) ublk_descriptors_offset(queue, page));
        if (p == MAP_FAILED)
                return -errno;
        if (madvise(p, size, MADV_DONTFORK) < 0) {
                int r = -errno;
                (void) munmap(p, size);
                return r;
        }
        d->descriptors[queue] = p;
        return 0;
}

int queue_device_open(QueueDevice *d, uint32_t id, uint32_t n_queues, uint32_t depth) {
        _cleanup_free_ char *path = NULL;
        int r;

        *d = (QueueDevice) { .fd = -EBADF, .id = id, .n_queues = n_queues, .depth = depth };
        r = xasprintf(&path, "/dev/ublkc%u", id);
        if (r < 0)
                return r;
        d->descriptors = calloc(n_queues, sizeof(void *));
        if (!d->descriptors)
                return -ENOMEM;
        r = open_node(path, &d->fd);
        if (r >= 0)
                r = inheritable_add(d->fd);
        for (uint32_t i = 0; r >= 0 && i < n_queues; i++)
                r = map_descriptors(d, (uint16_t) i);
        if (r < 0)
                queue_device_done(d);
        return r;
}

void queue_device_done(QueueDevice *d) {
        size_t size = ublk_descriptors_size(d->depth, (size_t) sysconf(_SC_PAGESIZE));

        for (uint32_t i = 0; d->descriptors && i < d->n_queues; i++)
                if (d->descriptors[i])
                        (void) munmap(d->descriptors[i], size);
        free(d->descriptors);
        inheritable_remove(d->fd);
        safe_close(d->fd);
        *d = QUEUE_DEVICE_NULL;
}

static uint64_t position(const Request *request, uint32_t offset) {
        return ublk_user_copy_position(request->queue, request->tag, offset);
}

/* Inlined twice, so that the direction costs nothing. */
static inline __attribute__((always_inline)) int copy(const Request *request, char *p, uint32_t offset, uint32_t length,
                                                      bool push) {
        const Queue *q = request->source;
        int fd = q->device->fd;

        while (length > 0) {
                off_t at = (off_t) position(request, offset);
                ssize_t n = push ? pwrite(fd, p, length, at) : pread(fd, p, length, at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                p += n;
                offset += (uint32_t) n;
                length -= (uint32_t) n;
        }
        return 0;
}

static int pull(const Request *request, void *buffer, uint32_t offset, uint32_t length) {
        return copy(request, buffer, offset, length, /* push= */ false);
}

static int push(const Request *request, const void *buffer, uint32_t offset, uint32_t length) {
        return copy(request, (char *) buffer, offset, length, /* push= */ true);
}

static const Transport user_copy = { .pull = pull, .push = push };

static int timed_pull(const Request *request, void *buffer, uint32_t offset, uint32_t length) {
        int r;

        lap(request->source, STAGE_HOOK);
        r = pull(request, buffer, offset, length);
        lap(request->source, STAGE_COPY_IN);
        return r;
}

static int timed_push(const Request *request, const void *buffer, uint32_t offset, uint32_t length) {
        int r;

        lap(request->source, STAGE_HOOK);
        r = push(request, buffer, offset, length);
        lap(request->source, STAGE_COPY_OUT);
        return r;
}

static const Transport timed_copy = { .pull = timed_pull, .push = timed_push };

int queue_new(const QueueDevice *device, uint16_t index, int wake_fd, Queue **ret) {
        Queue *q = calloc(1, sizeof(Queue));

        if (!q)
                return -ENOMEM;
        q->device = device;
        q->descriptors = device->descriptors[index];
        q->index = index;
        q->wake_fd = wake_fd;
        q->requests = calloc(device->depth, sizeof(Request));
        q->batch = calloc(device->depth, sizeof(Request *));
        if (!q->requests || !q->batch) {
                queue_free(q);
                return -ENOMEM;
        }
        for (uint32_t tag = 0; tag < device->depth; tag++)
                q->requests[tag] = (Request) { .transport = &user_copy, .source = q, .queue = index, .tag = (uint16_t) tag };
        *ret = q;
        return 0;
}

Queue *queue_free(Queue *q) {
        if (!q)
                return NULL;
        if (q->has_ring) {
                inheritable_remove(q->ring.ring_fd);
                io_uring_queue_exit(&q->ring);
        }
        free(q->requests);
        free(q->batch);
        free(q);
        return NULL;
}

void queue_profile(Queue *q, QueueProfile *p) {
        q->profile = p;
        for (uint32_t tag = 0; tag < q->device->depth; tag++)
                q->requests[tag].transport = &timed_copy;
}

static int make_ring(Queue *q) {
        /* A completion per tag and one for the wake-up can be outstanding: none ever overflows. */
        struct io_uring_params p = {
                .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN |
                         IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE,
                .cq_entries = q->device->depth + 8,
        };
        int r;

        r = io_uring_queue_init_params(q->device->depth + 1, &q->ring, &p);
        if (r < 0)
                return r;
        q->has_ring = true;
        r = io_uring_ring_dontfork(&q->ring);
        if (r < 0)
                return r;
        return inheritable_add(q->ring.ring_fd);
}

/* There is an entry for each tag and for the wake-up, so there always is a free one. */
static void push_command(Queue *q, uint16_t tag, uint32_t operation, int32_t result) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);
        struct ublk_io_cmd *command;

        assert(sqe);
        io_uring_prep_rw(IORING_OP_URING_CMD, sqe, q->device->fd, NULL, 0, 0);
        sqe->cmd_op = operation;
        command = (struct ublk_io_cmd *) sqe->cmd;
        *command = (struct ublk_io_cmd) { .q_id = q->index, .tag = tag, .result = result };
        io_uring_sqe_set_data64(sqe, tag);
}

/* All that is in the ring, however many calls the kernel needs. */
static int submit_all(Queue *q) {
        while (io_uring_sq_ready(&q->ring) > 0) {
                int r = io_uring_submit(&q->ring);

                if (r < 0 && r != -EINTR)
                        return r;
                if (r == 0)
                        return -EIO;
        }
        return 0;
}

static void watch_wake(Queue *q) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&q->ring);

        assert(sqe);
        io_uring_prep_poll_add(sqe, q->wake_fd, POLLIN);
        io_uring_sqe_set_data64(sqe, USER_DATA_WAKE);
}

int queue_fetch(Queue *q) {
        int r;

        r = make_ring(q);
        if (r < 0)
                return r;
        for (uint32_t tag = 0; tag < q->device->depth; tag++)
                push_command(q, (uint16_t) tag, UBLK_U_IO_FETCH_REQ, 0);
        watch_wake(q);
        return submit_all(q);
}

static void take_request(Queue *q, uint16_t tag) {
        const struct ublk_io_desc *d = &q->descriptors[tag];
        Request *request = &q->requests[tag];

        request->op = d->op_flags & UBLK_IO_OP_MASK;
        request->no_unmap = d->op_flags & UBLK_IO_F_NOUNMAP;
        /* A flush has no place; the kernel's request has -1 there (6.12). */
        request->offset = request->op == UBLK_IO_OP_FLUSH ? 0 : d->start_sector << 9;
        request->length = (uint64_t) d->nr_sectors << 9;
        request->result = -EIO;
        q->batch[q->n_batch++] = request;
}

/* Takes all completions that are there. */
static int reap(Queue *q) {
        struct io_uring_cqe *cqe;
        unsigned head, n = 0;
        int r = 0;

        q->n_batch = 0;
        io_uring_for_each_cqe(&q->ring, head, cqe) {
                n++;
                if (cqe->user_data == USER_DATA_WAKE)
                        q->woken = true;
                else if (cqe->res == 0)
                        take_request(q, (uint16_t) cqe->user_data);
                else if (cqe->res == -ENODEV)
                        q->n_aborted++;
                else
                        r = cqe->res < 0 ? cqe->res : -EPROTO;
        }
        io_uring_cq_advance(&q->ring, n);
        counter_add(&q->n_requests, q->n_batch);
        return r;
}

static void count_error(Queue *q, int32_t result) {
        uint32_t error = 0u - (uint32_t) result;

        counter_add(&q->n_failed, 1);
        counter_add(&q->errors[error < COUNTERS_ERRNOS ? error : 0], 1);
}

static size_t bucket_of(uint64_t nsec) {
        uint64_t usec = nsec / NSEC_PER_USEC;
        size_t bucket = usec == 0 ? 0 : 64 - (size_t) __builtin_clzll(usec);

        return bucket < COUNTERS_BUCKETS ? bucket : COUNTERS_BUCKETS - 1;
}

/* The requests of a batch are taken together and answered together, so that two looks at the clock are enough for all. */
static void serve_batch(Queue *q, const Server *server) {
        uint64_t begun = profile_now(), taken;
        size_t bucket;

        place_set(q, PLACE_SERVER);
        server->serve(server->userdata, q->batch, q->n_batch);
        place_set(q, PLACE_HERE);
        taken = profile_now() - begun;
        bucket = bucket_of(taken);
        counter_add(&q->hook_nsec, taken);
        for (size_t i = 0; i < q->n_batch; i++)
                if (q->batch[i]->op < COUNTERS_OPERATIONS)
                        counter_add(&q->latencies[q->batch[i]->op][bucket], 1);
        if (q->profile) {
                profile_add(&q->profile->requests, q->n_batch);
                profile_add(&q->profile->batches, 1);
        }
}

static void commit(Queue *q) {
        for (size_t i = 0; i < q->n_batch; i++) {
                const Request *request = q->batch[i];

                if (request->result < 0)
                        count_error(q, request->result);
                else if (request->op == OPERATION_READ)
                        counter_add(&q->read_bytes, request->length);
                else if (request->op == OPERATION_WRITE)
                        counter_add(&q->written_bytes, request->length);
                push_command(q, request->tag, UBLK_U_IO_COMMIT_AND_FETCH_REQ, request->result);
        }
        counter_add(&q->n_completed, q->n_batch);
}

static void wait_for_requests(void *argument) {
        Queue *q = argument;

        place_set(q, PLACE_KERNEL);
        q->wait_result = io_uring_submit_and_wait(&q->ring, 1);
        place_set(q, PLACE_TURN); /* the interpreter may be busy */
}

/* Whether the kernel has requests for us, which come once this task enters it (DEFER_TASKRUN). A look at shared memory. */
static bool has_news(const Queue *q) {
        return IO_URING_READ_ONCE(*q->ring.sq.kflags) & IORING_SQ_TASKRUN || io_uring_cq_ready(&q->ring) > 0;
}

/* Nobody waits for an answer meanwhile; but the next requests do. */
static void tidy(Queue *q, const Server *server) {
        place_set(q, PLACE_TURN);
        server->tidy(server->userdata);
        place_set(q, PLACE_HERE);
        lap(q, STAGE_TIDY);
}

/* Sends the answers and waits for requests, in one system call. If there are some it does not block, and the interpreter is let
 * go only when there is nothing to do. */
static int submit_and_wait(Queue *q, const Server *server) {
        bool untidy = server->wants_tidy && server->wants_tidy(server->userdata);
        int r;

        if (untidy || has_news(q)) {
                r = io_uring_submit_and_get_events(&q->ring);
                lap(q, STAGE_ENTER);
                if (r < 0 && r != -EINTR)
                        return r;
                if (untidy)
                        tidy(q, server);
                if (io_uring_cq_ready(&q->ring) > 0)
                        return 0;
        }
        place_set(q, PLACE_TURN);
        server->unlocked(server->userdata, wait_for_requests, q);
        lap(q, STAGE_WAIT);
        place_set(q, PLACE_HERE);
        return q->wait_result < 0 && q->wait_result != -EINTR ? q->wait_result : 0;
}

static int loop(Queue *q, const Server *server) {
        int r;

        for (;;) {
                counter_add(&q->n_rounds, 1);
                r = submit_and_wait(q, server);
                if (r < 0)
                        return r;
                r = reap(q);
                lap(q, STAGE_FETCH);
                if (q->n_batch > 0)
                        serve_batch(q, server);
                lap(q, STAGE_HOOK);
                commit(q);
                lap(q, STAGE_COMMIT);
                if (r < 0)
                        return r;
                /* Idle and quiesced would look the same. No device of ours is made with UBLK_F_QUIESCE, see
                 * activation-device.c. */
                if (q->n_aborted == q->device->depth)
                        return QUEUE_STOPPED;
                if (q->woken) {
                        r = submit_all(q); /* an answer that is lost is a request that is done again */
                        return r < 0 ? r : QUEUE_WOKEN;
                }
        }
}

int queue_serve(Queue *q, const Server *server) {
        int r;

        if (q->woken) { /* it goes on */
                q->woken = false;
                watch_wake(q);
        }
        place_set(q, PLACE_HERE);
        q->lap_nsec = profile_now();
        r = loop(q, server);
        place_set(q, PLACE_NOWHERE);
        return r;
}

bool queue_is_sound(const Queue *q, uint64_t *round) {
        uint64_t before = *round;

        *round = counter_get(&q->n_rounds);
        return *round != before || atomic_load_explicit(&q->place, memory_order_relaxed) != PLACE_HERE;
}

bool queue_awaits_turn(const Queue *q, uint64_t *ret_round) {
        *ret_round = counter_get(&q->n_rounds);
        return atomic_load_explicit(&q->place, memory_order_relaxed) == PLACE_TURN;
}

void queue_add_statistics(const Queue *q, Statistics *s) {
        uint64_t completed = counter_get(&q->n_completed), requests = counter_get(&q->n_requests);

        s->requests += requests;
        s->completed += completed;
        s->failed += counter_get(&q->n_failed);
        s->read_bytes += counter_get(&q->read_bytes);
        s->written_bytes += counter_get(&q->written_bytes);
        s->in_flight += requests > completed ? (uint32_t) (requests - completed) : 0;
}

void queue_add_counters(const Queue *q, Counters *c) {
        queue_add_statistics(q, &c->sum);
        c->hook_nsec += counter_get(&q->hook_nsec);
        for (size_t i = 0; i < COUNTERS_ERRNOS; i++)
                c->errors[i] += counter_get(&q->errors[i]);
        for (size_t op = 0; op < COUNTERS_OPERATIONS; op++)
                for (size_t i = 0; i < COUNTERS_BUCKETS; i++)
                        c->latencies[op][i] += counter_get(&q->latencies[op][i]);
}
