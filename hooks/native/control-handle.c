/* SPDX-License-Identifier: MIT */

/*
 * UBLK::Native::Control: service/control.h for Ruby. One command at a time, waited for without the interpreter,
 * since the threads that serve have to go on while one waits for them. An error raises the Errno with the
 * command's name.
 */

#include "hooks/native/native.h"

#include "service/activation.h"

#include <pthread.h>
#include <sys/eventfd.h>

/* What the kernel does in START_DEV: it waits for the fetches, which are done, and reads partition tables. */
#define START_USEC (30 * USEC_PER_SEC)

typedef struct ControlHandle {
        Control *control; /* NULL: closed */
        pid_t owner;
        int cancel_fd;    /* eventfd; readable for good once the device's start was given up */
        pthread_mutex_t lock;
} ControlHandle;

/* Opcodes of command_run. */
typedef enum Verb {
        VERB_FEATURES,
        VERB_ADD,
        VERB_SET_PARAMS,
        VERB_GET_PARAMS,
        VERB_INFO,
        VERB_START,
        VERB_END_RECOVERY,
        VERB_STOP,
        VERB_DELETE,
        VERB_START_RECOVERY,
        VERB_ROUNDS_LAST,
        VERB_FINISH_ROUND,
        VERB_CLOSE,
} Verb;

static const char *const verb_names[] = {
        [VERB_FEATURES] = "get features",
        [VERB_ADD] = "add device",
        [VERB_SET_PARAMS] = "set parameters",
        [VERB_GET_PARAMS] = "get parameters",
        [VERB_INFO] = "get device info",
        [VERB_START] = "start device",
        [VERB_END_RECOVERY] = "end recovery",
        [VERB_STOP] = "stop device",
        [VERB_DELETE] = "delete device",
        [VERB_START_RECOVERY] = "start recovery",
        [VERB_ROUNDS_LAST] = "get features",
        [VERB_FINISH_ROUND] = "finish recovery",
        [VERB_CLOSE] = "close",
};

typedef struct Job {
        ControlHandle *handle;
        Verb verb;
        uint32_t id;
        pid_t pid;
        uint64_t features;
        struct ublk_dev_info info;
        struct ublk_params params;
        int result;
} Job;

static int job_round(Job *j) {
        DeviceConfig config = { .queues = j->info.nr_hw_queues, .depth = j->info.queue_depth };
        Activation a = { .id = j->id, .config = &config, .control = j->handle->control };

        return j->verb == VERB_ROUNDS_LAST ? activation_rounds_last(&a) : activation_finish_round(&a);
}

static int job_perform(Job *j) {
        Control *c = j->handle->control;

        switch (j->verb) {
        case VERB_FEATURES:
                return control_get_features(c, &j->features);
        case VERB_ADD:
                return control_add(c, &j->info);
        case VERB_SET_PARAMS:
                return control_set_params(c, j->id, &j->params);
        case VERB_GET_PARAMS:
                return control_get_params(c, j->id, &j->params);
        case VERB_INFO:
                return control_get_info(c, j->id, &j->info);
        case VERB_START:
                return control_start(c, j->id, j->pid, j->handle->cancel_fd, START_USEC);
        case VERB_END_RECOVERY:
                return control_end_recovery(c, j->id, j->pid, j->handle->cancel_fd, START_USEC);
        case VERB_STOP:
                return control_stop(c, j->id, CONTROL_TIMEOUT_USEC);
        case VERB_DELETE:
                return control_delete(c, j->id);
        case VERB_START_RECOVERY:
                return control_start_recovery(c, j->id);
        case VERB_ROUNDS_LAST:
        case VERB_FINISH_ROUND:
                return job_round(j);
        case VERB_CLOSE:
                j->handle->control = control_free(c);
                return 0;
        }
        return -EOPNOTSUPP;
}

/* The lock is only ever held without the interpreter, so a trap handler can't meet its own thread's. */
static void job_run(void *argument) {
        Job *j = argument;

        pthread_mutex_lock(&j->handle->lock);
        j->result = j->handle->control ? job_perform(j) : -EBADF;
        pthread_mutex_unlock(&j->handle->lock);
}

static void handle_free(void *p) {
        ControlHandle *h = p;

        (void) control_free(h->control); /* in a child too: its copies of the descriptors */
        (void) safe_close(h->cancel_fd);
        xfree(h);
}

static const rb_data_type_t handle_type = {
        .wrap_struct_name = "UBLK::Native::Control",
        .function = { .dfree = handle_free },
        .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE handle_allocate(VALUE klass) {
        ControlHandle *h;
        VALUE self = TypedData_Make_Struct(klass, ControlHandle, &handle_type, h);

        h->owner = getpid();
        h->cancel_fd = -EBADF;
        (void) pthread_mutex_init(&h->lock, NULL);
        return self;
}

static ControlHandle *handle_get(VALUE self) {
        ControlHandle *h;

        TypedData_Get_Struct(self, ControlHandle, &handle_type, h);
        native_check_owner(h->owner, "control handle");
        if (!h->control)
                rb_raise(rb_eIOError, "closed control handle");
        return h;
}

/* May raise. */
static void job_do(VALUE self, Job *j, Verb verb) {
        j->handle = handle_get(self);
        j->verb = verb;
        j->pid = getpid();
        native_unlocked(job_run, j);
        RB_GC_GUARD(self);
        if (j->result == -EOWNERDEAD)
                j->result = -ECANCELED;
        if (j->result < 0)
                rb_syserr_fail(-j->result, verb_names[verb]);
}

static VALUE control_initialize(VALUE self) {
        ControlHandle *h;
        int r;

        TypedData_Get_Struct(self, ControlHandle, &handle_type, h);
        if (h->control)
                rb_raise(rb_eRuntimeError, "already open");
        h->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = h->cancel_fd < 0 ? -errno : control_new(&h->control);
        if (r < 0)
                rb_syserr_fail(-r, UBLK_CONTROL_NODE);
        return self;
}

/* Idempotent. */
static VALUE control_close(VALUE self) {
        ControlHandle *h;

        TypedData_Get_Struct(self, ControlHandle, &handle_type, h);
        native_check_owner(h->owner, "control handle");
        if (h->control) {
                Job j = { 0 };

                job_do(self, &j, VERB_CLOSE);
        }
        h->cancel_fd = safe_close(h->cancel_fd);
        return Qnil;
}

static VALUE control_is_closed(VALUE self) {
        ControlHandle *h;

        TypedData_Get_Struct(self, ControlHandle, &handle_type, h);
        return h->control ? Qfalse : Qtrue;
}

/* Ends a start or end_recovery that waits, and refuses later ones. */
static VALUE control_cancel(VALUE self) {
        (void) eventfd_write(handle_get(self)->cancel_fd, 1);
        return Qnil;
}

static VALUE control_features(VALUE self) {
        Job j = { 0 };

        job_do(self, &j, VERB_FEATURES);
        return ULL2NUM(j.features);
}

/* id, queues, depth, state, max_io_bytes, pid, flags, owner_uid, owner_gid, tag: DeviceInfo.from_native. */
static VALUE info_to_array(const struct ublk_dev_info *i) {
        return rb_ary_new_from_args(10, UINT2NUM(i->dev_id), UINT2NUM(i->nr_hw_queues), UINT2NUM(i->queue_depth),
                                    UINT2NUM(i->state), UINT2NUM(i->max_io_buf_bytes), INT2NUM(i->ublksrv_pid),
                                    ULL2NUM(i->flags), UINT2NUM(i->owner_uid), UINT2NUM(i->owner_gid),
                                    ULL2NUM(i->ublksrv_flags));
}

/* id: nil for one that the kernel chooses. */
static VALUE control_add_device(VALUE self, VALUE id, VALUE queues, VALUE depth, VALUE max_io, VALUE flags, VALUE tag) {
        Job j = {
                .info = {
                        .dev_id = NIL_P(id) ? UINT32_MAX : NUM2UINT(id),
                        .nr_hw_queues = NUM2USHORT(queues),
                        .queue_depth = NUM2USHORT(depth),
                        .max_io_buf_bytes = NUM2UINT(max_io),
                        .flags = NUM2ULL(flags),
                        .ublksrv_flags = NUM2ULL(tag),
                },
        };

        job_do(self, &j, VERB_ADD);
        return info_to_array(&j.info);
}

static VALUE control_info(VALUE self, VALUE id) {
        Job j = { .id = NUM2UINT(id) };

        job_do(self, &j, VERB_INFO);
        return info_to_array(&j.info);
}

/* params: size, logical and physical block size, max_io_bytes, read_only, rotational, discard, write_zeroes. */
static VALUE control_set_parameters(VALUE self, VALUE id, VALUE params) {
        Job j = { .id = NUM2UINT(id) };
        Geometry g;

        Check_Type(params, T_ARRAY);
        g = (Geometry) {
                .size = NUM2ULL(rb_ary_entry(params, 0)),
                .logical_block_size = NUM2UINT(rb_ary_entry(params, 1)),
                .physical_block_size = NUM2UINT(rb_ary_entry(params, 2)),
                .read_only = RTEST(rb_ary_entry(params, 4)),
                .rotational = RTEST(rb_ary_entry(params, 5)),
                .can_discard = RTEST(rb_ary_entry(params, 6)),
                .can_write_zeroes = RTEST(rb_ary_entry(params, 7)),
        };
        geometry_to_params(&g, NUM2UINT(rb_ary_entry(params, 3)), &j.params);
        job_do(self, &j, VERB_SET_PARAMS);
        return Qnil;
}

/* The same from the kernel. */
static VALUE control_get_parameters(VALUE self, VALUE id) {
        Job j = { .id = NUM2UINT(id) };
        const struct ublk_param_basic *b = &j.params.basic;
        bool discard;

        job_do(self, &j, VERB_GET_PARAMS);
        discard = j.params.types & UBLK_PARAM_TYPE_DISCARD;
        return rb_ary_new_from_args(8, ULL2NUM(b->dev_sectors << 9), UINT2NUM(1U << (b->logical_bs_shift & 31)),
                                    UINT2NUM(1U << (b->physical_bs_shift & 31)), UINT2NUM(b->max_sectors << 9),
                                    b->attrs & UBLK_ATTR_READ_ONLY ? Qtrue : Qfalse,
                                    b->attrs & UBLK_ATTR_ROTATIONAL ? Qtrue : Qfalse,
                                    discard && j.params.discard.max_discard_sectors > 0 ? Qtrue : Qfalse,
                                    discard && j.params.discard.max_write_zeroes_sectors > 0 ? Qtrue : Qfalse);
}

static VALUE simple(VALUE self, VALUE id, Verb verb) {
        Job j = { .id = NUM2UINT(id) };

        job_do(self, &j, verb);
        return Qnil;
}

/* Waits until every queue is fetched and the kernel has read the partition table: never on a task that serves. */
static VALUE control_start_device(VALUE self, VALUE id) {
        return simple(self, id, VERB_START);
}

static VALUE control_end_device_recovery(VALUE self, VALUE id) {
        return simple(self, id, VERB_END_RECOVERY);
}

static VALUE control_stop_device(VALUE self, VALUE id) {
        return simple(self, id, VERB_STOP);
}

static VALUE control_delete_device(VALUE self, VALUE id) {
        return simple(self, id, VERB_DELETE);
}

static VALUE control_start_device_recovery(VALUE self, VALUE id) {
        return simple(self, id, VERB_START_RECOVERY);
}

/* Whether a recovery that a server left half done has to be finished first: service/activation-round.c. */
static VALUE control_rounds_last(VALUE self) {
        Job j = { 0 };

        job_do(self, &j, VERB_ROUNDS_LAST);
        return j.result > 0 ? Qtrue : Qfalse;
}

static VALUE control_finish_round(VALUE self, VALUE id, VALUE queues, VALUE depth) {
        Job j = {
                .id = NUM2UINT(id),
                .info = { .nr_hw_queues = NUM2USHORT(queues), .queue_depth = NUM2USHORT(depth) },
        };

        job_do(self, &j, VERB_FINISH_ROUND);
        return Qnil;
}

/* The ids of every ublk device on this host, ascending. */
static VALUE control_ids(VALUE self) {
        uint32_t *ids = NULL;
        size_t n = 0;
        VALUE list;
        int r;

        (void) self;
        r = control_list_ids(&ids, &n);
        if (r < 0)
                rb_syserr_fail(-r, "/sys/class/ublk-char");
        list = rb_ary_new();
        for (size_t i = 0; i < n; i++)
                rb_ary_push(list, UINT2NUM(ids[i]));
        free(ids);
        return list;
}

void native_control_define(VALUE native) {
        VALUE klass = rb_define_class_under(native, "Control", rb_cObject);

        rb_define_alloc_func(klass, handle_allocate);
        rb_undef_method(klass, "initialize_copy");
        rb_define_method(klass, "initialize", control_initialize, 0);
        rb_define_method(klass, "close", control_close, 0);
        rb_define_method(klass, "closed?", control_is_closed, 0);
        rb_define_method(klass, "cancel", control_cancel, 0);
        rb_define_method(klass, "features", control_features, 0);
        rb_define_method(klass, "add", control_add_device, 6);
        rb_define_method(klass, "info", control_info, 1);
        rb_define_method(klass, "set_params", control_set_parameters, 2);
        rb_define_method(klass, "get_params", control_get_parameters, 1);
        rb_define_method(klass, "start", control_start_device, 1);
        rb_define_method(klass, "end_recovery", control_end_device_recovery, 1);
        rb_define_method(klass, "stop", control_stop_device, 1);
        rb_define_method(klass, "delete", control_delete_device, 1);
        rb_define_method(klass, "start_recovery", control_start_device_recovery, 1);
        rb_define_method(klass, "rounds_last?", control_rounds_last, 0);
        rb_define_method(klass, "finish_round", control_finish_round, 3);
        rb_define_method(klass, "ids", control_ids, 0);
}
