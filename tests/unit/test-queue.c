/* SPDX-License-Identifier: MIT */

/*
 * The loop of a queue, over a ring that isn't one: the functions of liburing that enter the kernel are made up here, so
 * that each thing a kernel may answer can be had.
 */

#include "service/queue.h"

#include <fcntl.h>
#include <glib.h>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define DEPTH 4
#define ENTRIES 8 /* a power of two above DEPTH + 1 */
#define WAKE UINT64_MAX

/* The kernel's side. */
typedef struct Ring {
        unsigned head, tail, flags; /* of submissions */
        unsigned cq_head, cq_tail;
        unsigned array[ENTRIES];
        struct io_uring_sqe sqes[ENTRIES];
        struct io_uring_cqe cqes[2 * ENTRIES];
        unsigned n_taken[3];        /* submissions: FETCH, COMMIT_AND_FETCH, others */
        int32_t results[DEPTH];     /* of the commits, by tag */
        const int *answers;         /* of the next submissions: a negative errno, or how many are taken at most; ends with 0 */
        int exited;
} Ring;

static Ring kernel;
static Queue *queue;
static void *descriptors;
static QueueDevice device = { .fd = -1, .n_queues = 1, .depth = DEPTH, .descriptors = &descriptors };
static struct ublk_io_desc io[DEPTH];
static void (*on_wait)(void); /* brings completions about */
static void (*on_news)(void); /* likewise, where the task only looks */
static unsigned n_waits, n_served, n_entered, n_tidied;
static uint64_t last_round;

static int next_fd; /* of a ring that has none at all, where the limit of a process would be in the way */

int io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *p) {
        g_assert_cmpuint(entries, ==, DEPTH + 1);
        g_assert_cmpuint(p->cq_entries, >=, DEPTH + 1);
        *ring = (struct io_uring) {
                .sq = { .khead = &kernel.head, .ktail = &kernel.tail, .kflags = &kernel.flags, .array = kernel.array,
                        .sqes = kernel.sqes, .ring_mask = ENTRIES - 1, .ring_entries = ENTRIES },
                .cq = { .khead = &kernel.cq_head, .ktail = &kernel.cq_tail, .kflags = &kernel.flags, .cqes = kernel.cqes,
                        .ring_mask = 2 * ENTRIES - 1, .ring_entries = 2 * ENTRIES },
                .ring_fd = next_fd > 0 ? next_fd++ : eventfd(0, EFD_CLOEXEC),
        };
        return 0;
}

int io_uring_ring_dontfork(struct io_uring *ring) {
        (void) ring;
        return 0;
}

void io_uring_queue_exit(struct io_uring *ring) {
        kernel.exited++;
        close(ring->ring_fd);
}

static void take(const struct io_uring_sqe *sqe) {
        const struct ublk_io_cmd *command = (const struct ublk_io_cmd *) sqe->cmd;

        if (sqe->opcode != IORING_OP_URING_CMD) {
                kernel.n_taken[2]++;
                return;
        }
        g_assert_cmpuint(command->tag, <, DEPTH);
        g_assert_cmpuint(command->q_id, ==, 0);
        g_assert_cmpuint(sqe->user_data, ==, command->tag);
        kernel.n_taken[sqe->cmd_op == UBLK_U_IO_COMMIT_AND_FETCH_REQ]++;
        if (sqe->cmd_op == UBLK_U_IO_COMMIT_AND_FETCH_REQ)
                kernel.results[command->tag] = command->result;
}

static int submit(struct io_uring *ring) {
        int limit = INT32_MAX, n = 0;

        n_entered++;
        if (kernel.answers && *kernel.answers != 0)
                limit = *kernel.answers++;
        if (limit < 0)
                return limit;
        for (; kernel.head != ring->sq.sqe_tail && n < limit; n++)
                take(&kernel.sqes[kernel.head++ & (ENTRIES - 1)]);
        return n;
}

int io_uring_submit(struct io_uring *ring) {
        uint64_t seen = 0;

        /* This is the one place outside of kernel and hook: a task that stays here has come to grief. */
        (void) queue_is_sound(queue, &seen);
        if (seen > 0)
                g_assert_false(queue_is_sound(queue, &seen));
        return submit(ring);
}

/* Requests that are there, but are only had by entering the kernel. */
int io_uring_submit_and_get_events(struct io_uring *ring) {
        int r = io_uring_submit(ring);

        kernel.flags &= ~IORING_SQ_TASKRUN;
        if (on_news)
                on_news();
        return r;
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned wait_nr) {
        uint64_t seen = 0;

        g_assert_cmpuint(wait_nr, ==, 1);
        n_waits++;
        (void) submit(ring);
        for (int i = 0; i < 3; i++)
                g_assert_true(queue_is_sound(queue, &seen));
        g_assert_false(queue_awaits_turn(queue, &seen));
        if (on_wait)
                on_wait();
        else
                g_assert_not_reached();
        return n_waits % 2 == 0 ? -EINTR : 1; /* Linux 7.3, without a signal */
}

static void complete(uint64_t data, int result) {
        struct io_uring_cqe *cqe = &kernel.cqes[kernel.cq_tail++ & (2 * ENTRIES - 1)];

        cqe->user_data = data;
        cqe->res = result;
}

static bool awaits_turn(void) {
        uint64_t round = 0;

        return queue_awaits_turn(queue, &round);
}

static void serve(void *userdata, Request *const *requests, size_t n) {
        uint64_t seen = 0;

        (void) userdata;
        n_served += (unsigned) n;
        g_assert_false(awaits_turn());
        for (int i = 0; i < 3; i++)
                g_assert_true(queue_is_sound(queue, &seen)); /* however long it takes */
        for (size_t i = 0; i < n; i++) {
                g_assert_true(requests[i]->op != OPERATION_FLUSH || requests[i]->offset == 0);
                requests[i]->result = requests[i]->op == OPERATION_FLUSH ? -EIO : (int) requests[i]->length;
        }
}

static void unlocked(void *userdata, void (*fn)(void *), void *argument) {
        uint64_t before, after;

        (void) userdata;
        g_assert_true(queue_awaits_turn(queue, &before));
        fn(argument);
        g_assert_true(queue_awaits_turn(queue, &after)); /* until the interpreter is had again */
        g_assert_cmpuint(before, ==, after);
        g_assert_cmpuint(before, !=, last_round);
        last_round = after;
}

static void tidy(void *userdata) {
        (void) userdata;
        g_assert_true(awaits_turn());
        n_tidied++;
}

static void move_and_abort(void);

static const Server server = { .serve = serve, .unlocked = unlocked, .tidy = tidy };

static void begin(const int *answers, int expected) {
        kernel = (Ring) { .answers = answers };
        memset(io, 0, sizeof(io));
        n_waits = n_served = n_entered = n_tidied = 0;
        last_round = 0;
        on_wait = on_news = NULL;
        descriptors = io;
        g_assert_cmpint(queue_new(&device, 0, 77, &queue), ==, 0);
        g_assert_cmpint(queue_fetch(queue), ==, expected);
}

static void end(void) {
        queue = queue_free(queue);
        g_assert_cmpint(kernel.exited, ==, 1);
}

static void test_fetch(void) {
        static const int rough[] = { -EINTR, 2, -EINTR, 1, 1, 0 }, failing[] = { 2, -ENOMEM, 0 };

        begin(NULL, 0);
        g_assert_cmpuint(kernel.n_taken[0], ==, DEPTH);
        g_assert_cmpuint(kernel.n_taken[2], ==, 1);
        end();
        begin(rough, 0);
        g_assert_cmpuint(kernel.n_taken[0], ==, DEPTH);
        g_assert_cmpuint(kernel.n_taken[2], ==, 1);
        end();
        begin(failing, -ENOMEM);
        end();
}

static void request(uint16_t tag, uint32_t op, uint64_t sector, uint32_t sectors) {
        io[tag] = (struct ublk_io_desc) { .op_flags = op, .start_sector = sector, .nr_sectors = sectors };
        complete(tag, 0);
}

static void abort_all(void) {
        for (uint64_t tag = 0; tag < DEPTH; tag++)
                complete(tag, -ENODEV);
}

static void work_and_abort(void) {
        switch (n_waits) {
        case 1:
                request(0, UBLK_IO_OP_READ, 8, 16);
                request(3, UBLK_IO_OP_FLUSH, UINT64_MAX, 0);
                break;
        case 2: /* nothing is there after all */
                break;
        case 3:
                request(1, UBLK_IO_OP_WRITE, 0, 1);
                complete(0, -ENODEV);
                break;
        default:
                complete(1, -ENODEV);
                complete(2, -ENODEV);
                complete(3, -ENODEV);
        }
}

static void test_serve(void) {
        Statistics s = { 0 };

        begin(NULL, 0);
        on_wait = work_and_abort;
        g_assert_cmpint(queue_serve(queue, &server), ==, QUEUE_STOPPED);
        g_assert_cmpuint(n_served, ==, 3);
        g_assert_cmpuint(kernel.n_taken[1], ==, 3);
        g_assert_cmpint(kernel.results[0], ==, 8192);
        g_assert_cmpint(kernel.results[1], ==, 512);
        g_assert_cmpint(kernel.results[3], ==, -EIO);
        queue_add_statistics(queue, &s);
        g_assert_cmpuint(s.requests, ==, 3);
        g_assert_cmpuint(s.completed, ==, 3);
        g_assert_cmpuint(s.failed, ==, 1);
        g_assert_cmpuint(s.read_bytes, ==, 8192);
        g_assert_cmpuint(s.written_bytes, ==, 512);
        g_assert_cmpuint(s.in_flight, ==, 0);
        end();
}

/* Two requests by each wait, and behind the first of these another two that only a flag tells of. */
static void bring_two(void) {
        if (n_served >= 8) {
                abort_all();
                return;
        }
        request(0, UBLK_IO_OP_READ, 8, 16);
        request(1, UBLK_IO_OP_READ, 8, 16);
        if (n_served == 0)
                kernel.flags |= IORING_SQ_TASKRUN;
}

static void bring_two_more(void) {
        if (n_served == 2) {
                request(2, UBLK_IO_OP_READ, 8, 16);
                request(3, UBLK_IO_OP_READ, 8, 16);
        }
}

/* One call for the answers of a batch and the next one, with the interpreter let go only where there was nothing. */
static void test_system_calls(void) {
        unsigned before;

        begin(NULL, 0);
        on_wait = bring_two;
        on_news = bring_two_more;
        before = n_entered;
        g_assert_cmpint(queue_serve(queue, &server), ==, QUEUE_STOPPED);
        g_assert_cmpuint(n_served, ==, 8);
        g_assert_cmpuint(kernel.n_taken[1], ==, 8);
        g_assert_cmpuint(n_entered - before, ==, 5);
        g_assert_cmpuint(n_waits, ==, 4);
        g_assert_cmpuint(n_tidied, ==, 0);
        end();
}

static bool wants_tidy(void *userdata) {
        return n_served == *(const unsigned *) userdata;
}

static void answers_are_sent(void *userdata) {
        tidy(userdata);
        g_assert_cmpuint(kernel.n_taken[1], ==, n_served);
}

/* Nobody waits for an answer while garbage is collected; but it does not wait until there are no requests, as after the first two. */
static void test_tidy(void) {
        for (unsigned when = 2; when <= 4; when += 2) {
                const Server collecting = { &when, .serve = serve, .unlocked = unlocked, .tidy = answers_are_sent, .wants_tidy = wants_tidy };

                begin(NULL, 0);
                on_wait = bring_two;
                on_news = bring_two_more;
                g_assert_cmpint(queue_serve(queue, &collecting), ==, QUEUE_STOPPED);
                g_assert_cmpuint(n_served, ==, 8);
                g_assert_cmpuint(n_tidied, ==, 1);
                end();
        }
}

static unsigned pause_usec;

static void serve_slowly(void *userdata, Request *const *requests, size_t n) {
        g_usleep(pause_usec);
        serve(userdata, requests, n);
        for (size_t i = 0; i < n; i++)
                if (requests[i]->op == OPERATION_DISCARD)
                        requests[i]->result = -4095;
}

static void failures_and_abort(void) {
        switch (n_waits) {
        case 1:
                request(0, UBLK_IO_OP_READ, 8, 16);
                request(1, UBLK_IO_OP_READ, 8, 16);
                request(2, UBLK_IO_OP_DISCARD, 8, 16);
                request(3, UBLK_IO_OP_FLUSH, UINT64_MAX, 0);
                break;
        case 2:
                request(3, UBLK_IO_OP_MASK, 0, 8); /* whatever that is */
                break;
        default:
                abort_all();
        }
}

static uint64_t sum_from(const uint64_t counts[static COUNTERS_BUCKETS], size_t first) {
        uint64_t sum = 0;

        for (size_t i = first; i < COUNTERS_BUCKETS; i++)
                sum += counts[i];
        return sum;
}

/* However slow the machine is, a request can't take less than it was made to. */
static void test_counters(void) {
        const Server slow = { .serve = serve_slowly, .unlocked = unlocked, .tidy = tidy };
        Counters c = { 0 };

        begin(NULL, 0);
        on_wait = failures_and_abort;
        pause_usec = 5000;
        g_assert_cmpint(queue_serve(queue, &slow), ==, QUEUE_STOPPED);
        queue_add_counters(queue, &c);
        queue_add_counters(queue, &c); /* a second queue like this */
        g_assert_cmpuint(c.sum.requests, ==, 10);
        g_assert_cmpuint(c.sum.failed, ==, 4);
        g_assert_cmpuint(c.errors[EIO], ==, 2);
        g_assert_cmpuint(c.errors[0], ==, 2);
        g_assert_cmpuint(c.errors[ENOSPC], ==, 0);
        /* 4096 to 8191 µs is number 13. */
        g_assert_cmpuint(sum_from(c.latencies[OPERATION_READ], 0), ==, 4);
        g_assert_cmpuint(sum_from(c.latencies[OPERATION_READ], 13), ==, 4);
        g_assert_cmpuint(sum_from(c.latencies[OPERATION_FLUSH], 13), ==, 2);
        g_assert_cmpuint(sum_from(c.latencies[OPERATION_DISCARD], 13), ==, 2);
        g_assert_cmpuint(sum_from(c.latencies[OPERATION_WRITE], 0), ==, 0);
        g_assert_cmpuint(c.hook_nsec, >=, 2 * 2 * 5000 * NSEC_PER_USEC);
        end();
}

static void at_once(void *userdata, Request *const *requests, size_t n) {
        (void) userdata;
        for (size_t i = 0; i < n; i++)
                requests[i]->result = 0;
}

/* As long as nothing takes 2 ms for nothing, which may happen once on a busy machine, but not each time. */
static void test_short_latency(void) {
        const Server fast = { .serve = at_once, .unlocked = unlocked, .tidy = tidy };
        uint64_t below = 0;

        for (int i = 0; i < 20 && below == 0; i++) {
                Counters c = { 0 };

                begin(NULL, 0);
                on_wait = move_and_abort;
                g_assert_cmpint(queue_serve(queue, &fast), ==, QUEUE_STOPPED);
                queue_add_counters(queue, &c);
                g_assert_cmpuint(sum_from(c.latencies[OPERATION_READ], 0), ==, 1);
                below = sum_from(c.latencies[OPERATION_READ], 0) - sum_from(c.latencies[OPERATION_READ], 12);
                end();
        }
        g_assert_cmpuint(below, ==, 1);
}

/* Moves some bytes both ways, which the device refuses. */
static void serve_and_move(void *userdata, Request *const *requests, size_t n) {
        char bytes[512] = "";

        g_usleep(pause_usec);
        serve(userdata, requests, n);
        for (size_t i = 0; i < n; i++) {
                if (requests[i]->op == OPERATION_READ)
                        g_assert_cmpint(requests[i]->transport->push(requests[i], bytes, 0, sizeof(bytes)), ==, -EBADF);
                if (requests[i]->op == OPERATION_WRITE)
                        g_assert_cmpint(requests[i]->transport->pull(requests[i], bytes, 0, sizeof(bytes)), ==, -EBADF);
        }
}

static void pause_and_bring(void) {
        g_usleep(2 * pause_usec);
        work_and_abort();
}

/* Each stage gets its time, and all of them together no more than there was. */
static void test_profile(void) {
        const Server moving = { .serve = serve_and_move, .unlocked = unlocked, .tidy = tidy };
        QueueProfile p = { 0 };
        uint64_t begun, sum = 0;

        begin(NULL, 0);
        queue_profile(queue, &p);
        on_wait = pause_and_bring;
        pause_usec = 5000;
        begun = profile_now();
        g_assert_cmpint(queue_serve(queue, &moving), ==, QUEUE_STOPPED);
        begun = profile_now() - begun;
        g_assert_cmpuint(p.requests, ==, 3);
        g_assert_cmpuint(p.batches, ==, 2);
        g_assert_cmpuint(p.nsec[STAGE_WAIT], >=, 4 * 2 * 5000 * NSEC_PER_USEC);
        g_assert_cmpuint(p.nsec[STAGE_HOOK], >=, 2 * 5000 * NSEC_PER_USEC);
        g_assert_cmpuint(p.nsec[STAGE_COPY_IN], >, 0);
        g_assert_cmpuint(p.nsec[STAGE_COPY_OUT], >, 0);
        g_assert_cmpuint(p.nsec[STAGE_FETCH], >, 0);
        g_assert_cmpuint(p.nsec[STAGE_COMMIT], >, 0);
        g_assert_cmpuint(p.nsec[STAGE_ENTER], ==, 0); /* nothing was there without waiting */
        for (Stage i = 0; i < _STAGE_MAX; i++)
                sum += p.nsec[i];
        g_assert_cmpuint(sum, <=, begun);
        end();

        p = (QueueProfile) { 0 };
        begin(NULL, 0);
        queue_profile(queue, &p);
        on_wait = bring_two;
        on_news = bring_two_more;
        g_assert_cmpint(queue_serve(queue, &server), ==, QUEUE_STOPPED);
        g_assert_cmpuint(p.requests, ==, 8);
        g_assert_cmpuint(p.nsec[STAGE_ENTER], >, 0);
        end();
}

static void test_stopped(void) {
        begin(NULL, 0);
        on_wait = abort_all;
        g_assert_cmpint(queue_serve(queue, &server), ==, QUEUE_STOPPED);
        g_assert_cmpuint(n_served, ==, 0);
        end();
}

static const int rough_end[] = { -EINTR, 1, -EINTR, 1, 0 };

/* The batch that comes with the wake-up is answered, whatever it takes. */
static void wake(void) {
        request(0, UBLK_IO_OP_WRITE, 0, 8);
        request(1, UBLK_IO_OP_WRITE, 8, 8);
        complete(WAKE, POLLIN);
        kernel.answers = rough_end;
}

static void test_woken(void) {
        begin(NULL, 0);
        on_wait = wake;
        g_assert_cmpint(queue_serve(queue, &server), ==, QUEUE_WOKEN);
        g_assert_cmpuint(kernel.n_taken[1], ==, 2);
        g_assert_cmpint(kernel.results[0], ==, 4096);
        g_assert_cmpint(kernel.results[1], ==, 4096);
        end();
}

static void wake_then_abort(void) {
        if (n_waits <= 2) {
                request(0, UBLK_IO_OP_WRITE, 0, 8);
                complete(WAKE, POLLIN);
        } else
                abort_all();
}

/* For something beside requests, after which it goes on, and can be woken again. */
static void test_woken_again(void) {
        begin(NULL, 0);
        on_wait = wake_then_abort;
        g_assert_cmpint(queue_serve(queue, &server), ==, QUEUE_WOKEN);
        g_assert_cmpuint(kernel.n_taken[2], ==, 1);
        g_assert_cmpint(queue_serve(queue, &server), ==, QUEUE_WOKEN);
        g_assert_cmpuint(kernel.n_taken[2], ==, 2);
        g_assert_cmpint(queue_serve(queue, &server), ==, QUEUE_STOPPED);
        g_assert_cmpuint(kernel.n_taken[2], ==, 3);
        g_assert_cmpuint(n_served, ==, 2);
        end();
}

static void fail(void) {
        request(2, UBLK_IO_OP_READ, 0, 1);
        complete(0, -EINVAL);
}

static void test_failed(void) {
        begin(NULL, 0);
        on_wait = fail;
        g_assert_cmpint(queue_serve(queue, &server), ==, -EINVAL);
        g_assert_cmpuint(n_served, ==, 1);
        end();
}

/* A queue that does not serve yet is sound. */
static void test_sound(void) {
        uint64_t seen = 0;

        begin(NULL, 0);
        for (int i = 0; i < 3; i++)
                g_assert_true(queue_is_sound(queue, &seen));
        end();
}

static void move_and_abort(void) {
        if (n_waits == 1)
                request(1, UBLK_IO_OP_READ, 0, 8);
        else
                abort_all();
}

static void move_payload(void *userdata, Request *const *requests, size_t n) {
        const Request *r = requests[0];
        char in[64], out[64];

        (void) userdata;
        g_assert_cmpuint(n, ==, 1);
        memset(out, 'x', sizeof(out));
        g_assert_cmpint(r->transport->push(r, out, 4096 - 64, 64), ==, 0);
        g_assert_cmpint(r->transport->pull(r, in, 4096 - 64, 64), ==, 0);
        g_assert_cmpmem(in, 64, out, 64);
        /* Short of what was asked for. */
        g_assert_cmpint(r->transport->pull(r, in, 4096 - 32, 64), ==, -EIO);
        g_assert_cmpint(r->transport->push(r, in, 0, 0), ==, 0);
        requests[0]->result = (int) r->length;
}

static void test_payload(void) {
        const Server moving = { .serve = move_payload, .unlocked = unlocked, .tidy = tidy };
        char c;

        device.fd = memfd_create("ublkc", MFD_CLOEXEC);
        begin(NULL, 0);
        on_wait = move_and_abort;
        g_assert_cmpint(queue_serve(queue, &moving), ==, QUEUE_STOPPED);
        g_assert_cmpint(pread(device.fd, &c, 1, (off_t) ublk_user_copy_position(0, 1, 4096 - 64)), ==, 1);
        g_assert_cmpint(c, ==, 'x');
        end();
        device.fd = safe_close(device.fd);
}

/* What a child keeps of a ring blocks recovery for ever. */
static void test_fork(void) {
        int status, fd = dup(STDERR_FILENO);
        pid_t pid;

        close(fd); /* the number that the ring gets */
        begin(NULL, 0);
        pid = fork();
        if (pid == 0)
                _exit(fcntl(fd, F_GETFD) >= 0);
        g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
        g_assert_cmpint(status, ==, 0);
        g_assert_cmpint(fcntl(fd, F_GETFD), >=, 0);
        end();
        g_assert_cmpint(fcntl(fd, F_GETFD), <, 0);
}

/* As many rings as a device can have queues, and its node besides. */
static void test_many(void) {
        static Queue *queues[UBLK_MAX_QUEUES + 1];

        next_fd = 1 << 20;
        for (size_t i = 0; i < ELEMENTSOF(queues); i++) {
                begin(NULL, 0);
                queues[i] = queue;
        }
        for (size_t i = 0; i < ELEMENTSOF(queues); i++)
                queue_free(queues[i]);
        queue = NULL;
        next_fd = 0;
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/queue/fetch", test_fetch);
        g_test_add_func("/queue/serve", test_serve);
        g_test_add_func("/queue/system-calls", test_system_calls);
        g_test_add_func("/queue/tidy", test_tidy);
        g_test_add_func("/queue/counters", test_counters);
        g_test_add_func("/queue/profile", test_profile);
        g_test_add_func("/queue/short-latency", test_short_latency);
        g_test_add_func("/queue/stopped", test_stopped);
        g_test_add_func("/queue/woken", test_woken);
        g_test_add_func("/queue/woken-again", test_woken_again);
        g_test_add_func("/queue/failed", test_failed);
        g_test_add_func("/queue/sound", test_sound);
        g_test_add_func("/queue/payload", test_payload);
        g_test_add_func("/queue/fork", test_fork);
        g_test_add_func("/queue/many", test_many);
        return g_test_run();
}
