/* SPDX-License-Identifier: MIT */
#include "service/check/disk.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <sys/stat.h>

#define THREADS_TURN_USEC (200 * USEC_PER_MSEC)

static int put_fault(CheckDisk *d, const char *id, const char *before, const char *message) {
        d->fault = json_pack("{s:s, s:o}", "id", id, "message", json_sprintf("%s%s%s", before, d->context, message ? message : ""));
        return -1;
}

static void wait_a_moment(void *argument) {
        (void) argument;
        (void) usleep(THREADS_TURN_USEC);
}

int check_fault(CheckDisk *d, const char *id, const char *format, ...) {
        _cleanup_free_ char *message = NULL;
        va_list ap;
        int n;

        if (d->fault)
                return -1;
        va_start(ap, format);
        n = vasprintf(&message, format, ap);
        va_end(ap);
        if (n < 0)
                message = NULL;
        /* Whatever came of it, this is where it came from. It may be a thread that had no turn yet. */
        if (d->geometry.buffers && d->server && d->n_stale_calls == hook_stale_calls())
                d->server->unlocked(d->server->userdata, wait_a_moment, NULL);
        if (d->n_stale_calls != hook_stale_calls()) {
                d->n_stale_calls = hook_stale_calls();
                return put_fault(d, "buffer-kept", "a UBLK::Buffer was used after the request that it was of; seen by this: ", message);
        }
        return put_fault(d, id, "", message);
}

static _printf_(2, 0) void set_note(CheckDisk *d, const char *format, va_list ap) {
        free(d->note);
        if (vasprintf(&d->note, format, ap) < 0)
                d->note = NULL;
}

int check_note(CheckDisk *d, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        set_note(d, format, ap);
        va_end(ap);
        return 0;
}

int check_skip(CheckDisk *d, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        set_note(d, format, ap);
        va_end(ap);
        return 1;
}

void check_context(CheckDisk *d, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(d->context, sizeof(d->context), format, ap);
        va_end(ap);
}

/* The hook failed this request. From the thread that serves it. */
static void on_report(void *userdata, const Request *request, const Failure *failure) {
        SimulatedRequest *r = simulated_request_of(request);

        (void) userdata;
        (void) failure_set(&r->failure, failure->kind, failure->error, "%s", failure->message ? failure->message : "");
        (void) failure_set_origin(&r->failure, failure->class_name, failure->file, failure->line);
}

/* In a file beside the state: there the next process finds it, as the next worker does what systemd has kept. */
static int on_memory(void *userdata, const char *name, uint64_t size, int *ret_fd, Failure *ret_failure) {
        CheckDisk *d = userdata;
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -EBADF;
        struct stat st;
        bool found;
        int r;

        d->shared->in_memory = true;
        r = xasprintf(&path, "%s/.%s.memory-%s", d->state, d->device, name);
        if (r < 0)
                return r;
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        found = st.st_size > 0;
        if (found && (uint64_t) st.st_size != size)
                return failure_set(ret_failure, FAILURE_HOOK, ESTALE, "the memory \"%s\" has %llu bytes, and the hook now asks for %llu", name,
                                   (unsigned long long) st.st_size, (unsigned long long) size);
        if (!found && ftruncate(fd, (off_t) size) < 0)
                return failure_set(ret_failure, FAILURE_HOOK, errno, "the memory \"%s\" of %llu bytes can't be had in %s: %s", name,
                                   (unsigned long long) size, d->state, strerror(errno));
        *ret_fd = TAKE_FD(fd);
        return found;
}

int disk_state_directory(const CheckDisk *d, const char *device, char **ret) {
        return xasprintf(ret, "%s/%s", d->state, device);
}

int disk_load(CheckDisk *d, const Argument *arguments, Failure *ret_failure) {
        const CheckOptions *o = d->options;
        _cleanup_free_ char *state = NULL;
        HookSettings settings = {
                .name = o->hook,
                .path = o->path,
                .class_name = o->class_name,
                .device = arguments == d->other_arguments ? "check-other" : "check", /* what is kept by name is kept apart */
                .arguments = arguments,
                .n_arguments = o->n_arguments,
                .recovery = o->recovery,
                .read_only = o->read_only,
                .fresh_buffers = o->rounds == 0,
                .data_path = o->data_path,
                .memory = on_memory,
                .report = on_report,
                .userdata = d,
        };
        int r;

        d->device = settings.device;
        r = disk_state_directory(d, settings.device, &state);
        if (r < 0)
                return r;
        settings.state_directory = state;
        d->shared->loading = true;
        d->shared->since_usec = now_usec();
        r = hook_load(d->hook, &settings, &d->geometry, ret_failure);
        d->shared->since_usec = 0;
        d->shared->loading = false;
        if (r < 0)
                return r;
        d->server = hook_server(d->hook);
        d->block = d->geometry.logical_block_size;
        return 0;
}

uint64_t disk_random(CheckDisk *d) {
        uint64_t x = (d->random += UINT64_C(0x9e3779b97f4a7c15)); /* splitmix64 */

        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        return x ^ (x >> 31);
}

uint64_t disk_random_below(CheckDisk *d, uint64_t limit) {
        return disk_random(d) % limit;
}

static void add_window(CheckDisk *d, uint64_t offset, uint64_t length) {
        uint64_t at = 0;

        for (size_t i = 0; i < d->n_windows; i++) {
                const CheckWindow *w = &d->windows[i];

                if (offset < w->offset + w->length && w->offset < offset + length)
                        return;
                at += w->length;
        }
        d->windows[d->n_windows++] = (CheckWindow) { offset, length, at };
}

/* The disk's start and its end, where 32 bits end, and somewhere. */
void disk_choose_windows(CheckDisk *d) {
        uint64_t size = d->geometry.size, boundary = UINT64_C(1) << 32;
        uint64_t window = d->options->gc_stress ? CHECK_WINDOW_STRESSED : CHECK_WINDOW_SIZE;

        d->n_windows = 0;
        d->max_io = d->options->max_io_size;
        if (d->max_io > window)
                d->max_io = (uint32_t) window;
        if (d->max_io > size)
                d->max_io = (uint32_t) size;
        if (size <= CHECK_WINDOWS * window) {
                add_window(d, 0, size);
                return;
        }
        add_window(d, 0, window);
        add_window(d, size - window, window);
        if (size >= boundary + window)
                add_window(d, boundary - window / 2, window);
        add_window(d, disk_random_below(d, (size - window) / d->block) * d->block, window);
}

const CheckWindow *disk_window(const CheckDisk *d, uint64_t offset, uint64_t length) {
        for (size_t i = 0; i < d->n_windows; i++) {
                const CheckWindow *w = &d->windows[i];

                if (offset >= w->offset && offset - w->offset + length <= w->length)
                        return w;
        }
        return NULL;
}

static uint64_t arena_index(const CheckDisk *d, uint64_t offset) {
        const CheckWindow *w = disk_window(d, offset, 1);

        return w ? w->at + (offset - w->offset) : 0;
}

uint8_t *disk_expected(const CheckDisk *d, uint64_t offset) {
        return d->shared->expected + arena_index(d, offset);
}

uint8_t *disk_state(const CheckDisk *d, uint64_t offset) {
        return d->shared->state + arena_index(d, offset) / CHECK_BLOCK_MIN;
}

void disk_random_range(CheckDisk *d, uint32_t max, uint64_t *ret_offset, uint32_t *ret_length) {
        const CheckWindow *w = &d->windows[disk_random_below(d, d->n_windows)];
        uint64_t blocks = w->length / d->block, first = disk_random_below(d, blocks);
        uint64_t n = 1 + disk_random_below(d, max / d->block);

        *ret_offset = w->offset + first * d->block;
        *ret_length = (uint32_t) ((n < blocks - first ? n : blocks - first) * d->block);
}

static uint8_t *take_payload(CheckDisk *d, uint32_t length) {
        uint8_t *p = d->payload + d->payload_used;

        if (d->payload_used + length > CHECK_PAYLOAD_SIZE)
                abort();
        d->payload_used += length;
        return p;
}

static SimulatedRequest *add(CheckDisk *d, uint8_t op, uint64_t offset, uint64_t length, void *payload) {
        SimulatedRequest *r = &d->requests[d->n_requests];

        if (d->n_requests >= SIMULATED_MAX_BATCH)
                abort();
        d->n_requests++;
        simulated_request_init(r, op, offset, length, payload);
        return r;
}

void disk_add_read(CheckDisk *d, uint64_t offset, uint32_t length) {
        (void) add(d, OPERATION_READ, offset, length, take_payload(d, length));
}

void disk_add_write(CheckDisk *d, uint64_t offset, uint32_t length) {
        uint8_t *payload = take_payload(d, length);

        for (uint32_t i = 0; i < length; i += sizeof(uint64_t)) {
                uint64_t x = disk_random(d);

                if (d->text)
                        x = (x & UINT64_C(0x3f3f3f3f3f3f3f3f)) + UINT64_C(0x3030303030303030); /* 0 to o */
                memcpy(payload + i, &x, sizeof(x));
        }
        (void) add(d, OPERATION_WRITE, offset, length, payload);
}

void disk_add_write_of(CheckDisk *d, uint64_t offset, uint32_t length, const void *data) {
        uint8_t *payload = take_payload(d, length);

        memcpy(payload, data, length);
        (void) add(d, OPERATION_WRITE, offset, length, payload);
}

void disk_add_flush(CheckDisk *d) {
        (void) add(d, OPERATION_FLUSH, 0, 0, NULL);
}

void disk_add_zero(CheckDisk *d, uint8_t op, uint64_t offset, uint32_t length, bool no_unmap) {
        add(d, op, offset, length, NULL)->request.no_unmap = no_unmap;
}

void disk_serve(CheckDisk *d) {
        CheckShared *s = d->shared;

        s->op = d->requests[0].request.op;
        s->offset = d->requests[0].request.offset;
        s->length = d->requests[0].request.length;
        s->since_usec = now_usec();
        simulated_serve(d->server, d->requests, d->n_requests);
        s->since_usec = 0;
}

/* A hook may also swallow what that raises. */
static int check_stale(CheckDisk *d) {
        const Request *q = &d->requests[0].request;

        if (d->n_stale_calls == hook_stale_calls())
                return 0;
        return check_fault(d, "buffer-kept", "%s of %" PRIu64 " bytes at %" PRIu64 ", or what ran meanwhile", operation_to_string(q->op),
                           q->length, q->offset);
}

void disk_clear(CheckDisk *d) {
        for (size_t i = 0; i < d->n_requests; i++)
                simulated_request_done(&d->requests[i]);
        d->n_requests = 0;
        d->payload_used = 0;
}

static void change(CheckDisk *d, uint64_t offset, uint64_t length, const uint8_t *data) {
        uint64_t i = arena_index(d, offset);

        memcpy(d->shared->previous + i, d->shared->expected + i, length);
        if (data && !d->sink)
                memcpy(d->shared->expected + i, data, length);
        else
                memset(d->shared->expected + i, 0, length);
}

void disk_apply(CheckDisk *d, const SimulatedRequest *r) {
        const Request *q = &r->request;

        if (q->op == OPERATION_WRITE)
                change(d, q->offset, q->length, r->payload);
        else if (q->op == OPERATION_DISCARD || q->op == OPERATION_WRITE_ZEROES)
                change(d, q->offset, q->length, NULL);
}

static bool is_answered(const SimulatedRequest *r) {
        const Request *q = &r->request;

        return q->op == OPERATION_READ || q->op == OPERATION_WRITE ? q->result == (int64_t) q->length : q->result >= 0;
}

static int judge(CheckDisk *d, const SimulatedRequest *r) {
        /* Advertised, but refused for this range: the kernel does without. */
        if (r->request.result == -EOPNOTSUPP && (r->request.op == OPERATION_DISCARD ||
                                                 r->request.op == OPERATION_WRITE_ZEROES))
                return 0;
        if (!is_answered(r))
                return disk_diagnose_failure(d, r);
        disk_apply(d, r);
        if (r->request.op == OPERATION_READ && memcmp(r->payload, disk_expected(d, r->request.offset),
                                                      r->request.length) != 0)
                return disk_diagnose_data(d, r);
        return 0;
}

int disk_run(CheckDisk *d) {
        int r;

        disk_serve(d);
        r = check_stale(d);
        for (size_t i = 0; i < d->n_requests && r == 0; i++)
                r = judge(d, &d->requests[i]);
        disk_clear(d);
        return r;
}

int disk_read(CheckDisk *d, uint64_t offset, uint32_t length) {
        disk_add_read(d, offset, length);
        return disk_run(d);
}

int disk_write(CheckDisk *d, uint64_t offset, uint32_t length) {
        disk_add_write(d, offset, length);
        return disk_run(d);
}

int disk_flush(CheckDisk *d) {
        disk_add_flush(d);
        return disk_run(d);
}

int disk_verify(CheckDisk *d, uint64_t offset, uint64_t length, uint32_t step) {
        for (uint64_t at = 0; at < length; at += step) {
                uint64_t n = length - at < step ? length - at : step;

                if (disk_read(d, offset + at, (uint32_t) n) < 0)
                        return -1;
        }
        return 0;
}

int disk_verify_all(CheckDisk *d) {
        for (size_t i = 0; i < d->n_windows; i++)
                if (disk_verify(d, d->windows[i].offset, d->windows[i].length, d->max_io) < 0)
                        return -1;
        return 0;
}

/* In pieces that cross nothing, so that what is wrong with larger ones is seen against these. */
static int learn_window(CheckDisk *d, const CheckWindow *w) {
        uint64_t n;
        int status = 0;

        for (uint64_t at = 0; at < w->length && status == 0; at += n) {
                n = 4096 - (w->offset + at) % 4096;
                if (n > w->length - at)
                        n = w->length - at;
                disk_add_read(d, w->offset + at, (uint32_t) n);
                disk_serve(d);
                if (is_answered(&d->requests[0]))
                        memcpy(d->shared->expected + w->at + at, d->requests[0].payload, n);
                else
                        status = disk_diagnose_failure(d, &d->requests[0]);
                disk_clear(d);
        }
        memcpy(d->shared->previous + w->at, d->shared->expected + w->at, w->length);
        memcpy(d->shared->baseline + w->at, d->shared->expected + w->at, w->length);
        return status;
}

int disk_learn(CheckDisk *d) {
        for (size_t i = 0; i < d->n_windows; i++)
                if (learn_window(d, &d->windows[i]) < 0)
                        return -1;
        return 0;
}
