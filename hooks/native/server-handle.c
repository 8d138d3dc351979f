/* SPDX-License-Identifier: MIT */

/*
 * UBLK::Native::Server: the serving side of one device. It opens and maps /dev/ublkcN, and each Ruby thread that
 * calls `run` serves one queue with the loop of service/queue.c and the binding of hooks/serve.c. Used with the
 * interpreter held, which is what protects it, but for the loop's waits.
 */

#include "hooks/native/native.h"

#include "service/log.h"
#include "service/queue.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

/* Failures of the target go to standard error, this many in that time. */
#define REPORT_BURST 10
#define REPORT_INTERVAL_USEC (5 * USEC_PER_SEC)

typedef struct ServerHandle {
        bool open;
        pid_t owner;
        uint32_t n_queues;
        uint32_t depth;
        uint32_t id;
        uint32_t max_io_size;
        QueueDevice device;
        Queue **queues;   /* NULL where it was not run yet */
        pid_t *tasks;     /* that ran them */
        int wake_fd;
        uint32_t n_running;
        uint64_t report_interval;
        uint32_t n_reported;
        uint32_t n_suppressed;
        char *last_error; /* or NULL */
} ServerHandle;

/* Whatever the process holds of the device. */
static void server_close(ServerHandle *s) {
        for (uint32_t i = 0; s->queues && i < s->n_queues; i++)
                (void) queue_free(s->queues[i]);
        free(s->queues);
        s->queues = NULL;
        if (s->open)
                queue_device_done(&s->device);
        s->open = false;
        s->wake_fd = safe_close(s->wake_fd);
}

/* A forked child has neither the mappings nor the descriptors, and their numbers may be others' by now. */
static void handle_free(void *p) {
        ServerHandle *s = p;

        if (s->owner == getpid())
                server_close(s);
        free(s->tasks);
        free(s->last_error);
        xfree(s);
}

static const rb_data_type_t handle_type = {
        .wrap_struct_name = "UBLK::Native::Server",
        .function = { .dfree = handle_free },
        .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE handle_allocate(VALUE klass) {
        ServerHandle *s;
        VALUE self = TypedData_Make_Struct(klass, ServerHandle, &handle_type, s);

        s->owner = getpid();
        s->wake_fd = -EBADF;
        s->device = QUEUE_DEVICE_NULL;
        return self;
}

static ServerHandle *handle_peek(VALUE self) {
        ServerHandle *s;

        TypedData_Get_Struct(self, ServerHandle, &handle_type, s);
        native_check_owner(s->owner, "server");
        return s;
}

static ServerHandle *handle_get(VALUE self) {
        ServerHandle *s = handle_peek(self);

        if (!s->open)
                rb_raise(rb_eIOError, "released server");
        return s;
}

typedef struct Open {
        ServerHandle *server;
        int result;
} Open;

static void open_device(void *argument) {
        Open *o = argument;
        ServerHandle *s = o->server;

        o->result = queue_device_open(&s->device, s->id, s->n_queues, s->depth);
        s->open = o->result >= 0;
}

static VALUE server_initialize(VALUE self, VALUE id, VALUE queues, VALUE depth, VALUE max_io_size) {
        ServerHandle *s = handle_peek(self);
        Open o = { .server = s };
        uint32_t n = NUM2UINT(queues), tags = NUM2UINT(depth);

        if (s->queues)
                rb_raise(rb_eRuntimeError, "already open");
        if (n < 1 || n > UBLK_MAX_QUEUES || tags < 1 || tags > UBLK_MAX_QUEUE_DEPTH)
                rb_raise(rb_eArgError, "queues and depth are from 1 to %d", UBLK_MAX_QUEUE_DEPTH);
        s->id = NUM2UINT(id);
        s->n_queues = n;
        s->depth = tags;
        s->max_io_size = NUM2UINT(max_io_size);
        s->queues = calloc(n, sizeof(Queue *));
        s->tasks = calloc(n, sizeof(pid_t));
        s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (!s->queues || !s->tasks || s->wake_fd < 0)
                rb_syserr_fail(s->wake_fd < 0 ? errno : ENOMEM, "server");
        native_unlocked(open_device, &o);
        RB_GC_GUARD(self);
        if (o.result < 0) {
                VALUE node = rb_sprintf("/dev/ublkc%u", s->id);

                rb_syserr_fail_str(-o.result, node);
        }
        return self;
}

static bool take_turn(ServerHandle *s) {
        uint64_t now = now_usec();

        if (now - s->report_interval >= REPORT_INTERVAL_USEC) {
                s->report_interval = now;
                s->n_reported = 0;
        }
        if (s->n_reported >= REPORT_BURST) {
                s->n_suppressed++;
                return false;
        }
        s->n_reported++;
        return true;
}

/* What the target failed. Silent under `ruby -W0`. */
static void report(void *userdata, const Request *request, const Failure *failure) {
        const char *op = operation_to_string(request->op);
        _cleanup_free_ char *text = NULL;
        ServerHandle *s = userdata;
        char *line;

        if (failure_describe(failure, &line) < 0)
                return;
        free(s->last_error);
        s->last_error = line;
        if (NIL_P(ruby_verbose) || !take_turn(s) || failure_describe_fully(failure, &text) < 0)
                return;
        if (s->n_suppressed > 0)
                log_warning("ublkb%u: %u more errors of the target were not shown", s->id, s->n_suppressed);
        s->n_suppressed = 0;
        log_warning("ublkb%u: %s of %llu bytes at %llu failed (errno %i): %s", s->id, op ? op : "a request",
                    (unsigned long long) request->length, (unsigned long long) request->offset, failure->error, text);
}

typedef struct Run {
        ServerHandle *server;
        uint16_t index;
        VALUE target;
        VALUE ready;
        Hook *hook;
} Run;

static bool fact(VALUE facts, const char *name) {
        return RTEST(rb_hash_fetch(facts, native_symbol(name)));
}

static VALUE run_body(VALUE argument) {
        Run *run = (Run *) argument;
        ServerHandle *s = run->server;
        VALUE facts = rb_funcall(rb_path2class("UBLK::Native"), rb_intern("facts"), 1, run->target);
        Attachment attachment = {
                .geometry = {
                        .read_only = fact(facts, "read_only"),
                        .can_discard = fact(facts, "can_discard"),
                        .can_write_zeroes = fact(facts, "can_write_zeroes"),
                },
                .takes_unmap = fact(facts, "takes_unmap"),
                .reads_into = fact(facts, "reads_into"),
                .writes_from = fact(facts, "writes_from"),
                .report = report,
                .userdata = s,
        };
        int r;

        run->hook = hook_attach(run->target, &attachment);
        r = queue_new(&s->device, run->index, s->wake_fd, &s->queues[run->index]);
        if (r >= 0)
                r = hook_reserve(run->hook, s->max_io_size);
        if (r >= 0)
                r = queue_fetch(s->queues[run->index]);
        if (r < 0)
                rb_syserr_fail(-r, "fetch");
        (void) rb_funcall(run->ready, rb_intern("push"), 1, UINT2NUM(run->index));
        r = queue_serve(s->queues[run->index], hook_server(run->hook));
        if (r < 0)
                rb_syserr_fail(-r, "serve");
        return native_symbol(r == QUEUE_STOPPED ? "stopped" : "woken");
}

/* The thread may be used again, for something else. */
static VALUE run_end(VALUE argument) {
        Run *run = (Run *) argument;

        if (run->hook)
                hook_detach(run->hook);
        hook_set_serving(false);
        (void) prctl(PR_SET_IO_FLUSHER, 0, 0, 0, 0);
        run->server->n_running--;
        return Qnil;
}

/*
 * Serves a queue on this thread until the device is stopped (:stopped) or `close` is called (:woken). ready gets
 * the queue's number by `push` once every tag is fetched: from then on requests come. What other threads raise
 * here ends it, at the latest after the batch of requests at work.
 */
static VALUE server_run(VALUE self, VALUE queue, VALUE target, VALUE ready) {
        ServerHandle *s = handle_get(self);
        uint32_t index = NUM2UINT(queue);
        Run run = { .server = s, .index = (uint16_t) index, .target = target, .ready = ready };
        VALUE end;

        if (index >= s->n_queues)
                rb_raise(rb_eArgError, "queue is %u, and the device has %u", index, s->n_queues);
        if (s->tasks[index] != 0)
                rb_raise(rb_eRuntimeError, "queue %u was run already", index);
        s->tasks[index] = (pid_t) syscall(SYS_gettid);
        s->n_running++;
        /* Memory that the target allocates is not reclaimed by writing to this very disk. Needs
         * CAP_SYS_RESOURCE, and does without. */
        (void) prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
        hook_set_serving(true);
        end = rb_ensure(run_body, (VALUE) &run, run_end, (VALUE) &run);
        RB_GC_GUARD(self);
        return end;
}

/* Ends every run once it has answered what it has in hand. */
static VALUE server_wake(VALUE self) {
        ServerHandle *s = handle_peek(self);

        if (s->wake_fd >= 0)
                (void) eventfd_write(s->wake_fd, 1);
        return Qnil;
}

/* Lets go of the device. Idempotent. */
static VALUE server_release(VALUE self) {
        ServerHandle *s = handle_peek(self);

        if (s->n_running > 0)
                rb_raise(rb_eRuntimeError, "%u queues are still served", s->n_running);
        server_close(s);
        return Qnil;
}

/* The native ids of the threads that served. */
static VALUE server_tasks(VALUE self) {
        ServerHandle *s = handle_peek(self);
        VALUE list = rb_ary_new();

        for (uint32_t i = 0; s->tasks && i < s->n_queues; i++)
                if (s->tasks[i] != 0)
                        rb_ary_push(list, INT2NUM(s->tasks[i]));
        return list;
}

static VALUE server_statistics(VALUE self) {
        ServerHandle *s = handle_peek(self);
        VALUE result = rb_hash_new();
        Statistics sum = { 0 };

        for (uint32_t i = 0; s->queues && i < s->n_queues; i++)
                if (s->queues[i])
                        queue_add_statistics(s->queues[i], &sum);
        rb_hash_aset(result, native_symbol("requests"), ULL2NUM(sum.requests));
        rb_hash_aset(result, native_symbol("completed"), ULL2NUM(sum.completed));
        rb_hash_aset(result, native_symbol("failed"), ULL2NUM(sum.failed));
        rb_hash_aset(result, native_symbol("read_bytes"), ULL2NUM(sum.read_bytes));
        rb_hash_aset(result, native_symbol("written_bytes"), ULL2NUM(sum.written_bytes));
        rb_hash_aset(result, native_symbol("in_flight"), UINT2NUM(sum.in_flight));
        return result;
}

/* What the target did wrong last; nil if nothing. */
static VALUE server_last_error(VALUE self) {
        ServerHandle *s = handle_peek(self);

        return s->last_error ? rb_utf8_str_new_cstr(s->last_error) : Qnil;
}

void native_server_define(VALUE native) {
        VALUE klass = rb_define_class_under(native, "Server", rb_cObject);

        rb_define_alloc_func(klass, handle_allocate);
        rb_undef_method(klass, "initialize_copy");
        rb_define_method(klass, "initialize", server_initialize, 4);
        rb_define_method(klass, "run", server_run, 3);
        rb_define_method(klass, "close", server_wake, 0);
        rb_define_method(klass, "release", server_release, 0);
        rb_define_method(klass, "tasks", server_tasks, 0);
        rb_define_method(klass, "statistics", server_statistics, 0);
        rb_define_method(klass, "last_error", server_last_error, 0);
}
