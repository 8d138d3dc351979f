/* SPDX-License-Identifier: MIT */

/*
 * A batch of requests, each answered by a method of the target. The whole batch runs in one protected call;
 * whatever ends that call early fails the request it was at, and the batch goes on behind it. Payload goes
 * straight between the request and the bytes of a Ruby String, or of the task's UBLK::Buffer (buffer.c).
 */

#include "hooks/binding.h"

#include <ruby/thread.h>

typedef struct Copy {
        const Request *request;
        void *buffer;
        int result;
        bool done;
} Copy;

static void *copy_push(void *argument) {
        Copy *c = argument;

        c->result = c->request->transport->push(c->request, c->buffer, 0, (uint32_t) c->request->length);
        c->done = true;
        return NULL;
}

static void *copy_pull(void *argument) {
        Copy *c = argument;

        c->result = c->request->transport->pull(c->request, c->buffer, 0, (uint32_t) c->request->length);
        c->done = true;
        return NULL;
}

/* Never raises: with RB_NOGVL_INTR_FAIL Ruby skips the function when an interrupt is pending, and looks at
 * none after it. */
static int copy_run(const Request *request, void *buffer, void *(*fn)(void *argument)) {
        Copy c = { .request = request, .buffer = buffer };

        if (request->length >= UNLOCKED_COPY_MIN)
                (void) rb_nogvl(fn, &c, NULL, NULL, RB_NOGVL_INTR_FAIL);
        if (!c.done)
                (void) fn(&c);
        return c.result;
}

static VALUE call_method(const Hook *hook, ID method, int n, const VALUE *arguments) {
        VALUE answer = rb_funcallv(hook->target, method, n, arguments);

        hook_check_forked();
        return answer;
}

static void report(const Hook *hook, Request *request, const Failure *failure) {
        if (hook->settings.report)
                hook->settings.report(hook->settings.userdata, request, failure);
}

static bool is_negative(VALUE answer) {
        return FIXNUM_P(answer) ? FIX2LONG(answer) < 0 : RB_TYPE_P(answer, T_BIGNUM) && !rb_big_sign(answer);
}

/* A negative Integer: the cheap way of refusing a request. One beyond 64 bits is no errno either. */
static int refuse(const Hook *hook, Request *request, VALUE answer) {
        int64_t number = FIXNUM_P(answer) ? FIX2LONG(answer) : INT64_MIN;
        int error = request_error(number);
        Failure failure = FAILURE_NULL;

        (void) failure_set(&failure, FAILURE_HOOK, -error, "%s returned %lld; the client gets: %s",
                           operation_to_string(request->op), (long long) number, strerror(-error));
        failure.is_answer = true;
        request->result = error;
        report(hook, request, &failure);
        failure_done(&failure);
        return error;
}

/* A String, since rb_obj_classname points into one that the message's own allocations may move. */
static VALUE class_name(VALUE answer) {
        return rb_class_name(rb_obj_class(answer));
}

static __attribute__((noreturn)) void raise_wrong_read(const Hook *hook, const Request *request, VALUE answer) {
        if (RB_TYPE_P(answer, T_STRING))
                rb_raise(hook->contract_error, "read must return a String of %llu bytes, and returned one of %ld",
                         (unsigned long long) request->length, RSTRING_LEN(answer));
        rb_raise(hook->contract_error, "read must return a String of %llu bytes, and returned an object of class %" PRIsVALUE,
                 (unsigned long long) request->length, class_name(answer));
}

static int serve_read(Hook *hook, Request *request) {
        VALUE arguments[] = { ULL2NUM(request->offset), ULL2NUM(request->length) };
        VALUE answer = call_method(hook, rb_intern("read"), ELEMENTSOF(arguments), arguments);
        int r;

        if (is_negative(answer))
                return refuse(hook, request, answer);
        if (!RB_TYPE_P(answer, T_STRING) || (uint64_t) RSTRING_LEN(answer) != request->length)
                raise_wrong_read(hook, request, answer);

        if (!OBJ_FROZEN(answer)) /* or it is one that the hook gives out again and again */
                hook->payload += request->length;
        /* While others run they may change their String: hold on to the bytes, which costs no copy. */
        if (request->length >= UNLOCKED_COPY_MIN)
                answer = rb_str_new_frozen(answer);
        r = copy_run(request, RSTRING_PTR(answer), copy_push);
        RB_GC_GUARD(answer);
        return r < 0 ? r : (int) request->length;
}

/* What a write and both buffer forms must return. */
static int judge_number(const Hook *hook, Request *request, const char *method, VALUE answer) {
        if (is_negative(answer))
                return refuse(hook, request, answer);
        if (!FIXNUM_P(answer))
                rb_raise(hook->contract_error, "%s must return the number of bytes, %llu, and returned an object of class %" PRIsVALUE, method,
                         (unsigned long long) request->length, class_name(answer));
        if ((uint64_t) FIX2LONG(answer) != request->length)
                rb_raise(hook->contract_error, "%s must return the number of bytes, all %llu of them, and returned %ld", method,
                         (unsigned long long) request->length, FIX2LONG(answer));
        return (int) request->length;
}

/* What an earlier request left in the memory is not of any meaning; for --check it is nothing that a disk would hold twice. */
static void spoil(uint8_t *bytes, size_t n) {
        static uint8_t pattern = 0x5a;

        pattern ^= 0xff;
        memset(bytes, pattern, n);
}

static VALUE call_with_buffer(const Hook *hook, const Request *request, BufferSpace *space, ID method, bool writable) {
        VALUE arguments[] = { buffer_hand_out(space, (size_t) request->length, writable), ULL2NUM(request->offset) }, answer;

        answer = call_method(hook, method, ELEMENTSOF(arguments), arguments);
        buffer_take_back(space); /* if it was ended by an exception: batch_fail_request */
        return answer;
}

static int serve_read_into(Hook *hook, Request *request, BufferSpace **ret_space) {
        VALUE answer;
        int r;

        r = buffer_space(hook, (size_t) request->length, ret_space);
        if (r < 0)
                return r;
        if (hook->settings.fresh_buffers)
                spoil(buffer_bytes(*ret_space), (size_t) request->length);
        answer = call_with_buffer(hook, request, *ret_space, rb_intern("read_into"), /* writable= */ true);
        r = judge_number(hook, request, "read_into", answer);
        if (r < 0)
                return r;
        r = copy_run(request, buffer_bytes(*ret_space), copy_push);
        return r < 0 ? r : (int) request->length;
}

static int serve_write_from(Hook *hook, Request *request, BufferSpace **ret_space) {
        int r;

        r = buffer_space(hook, (size_t) request->length, ret_space);
        if (r < 0)
                return r;
        r = copy_run(request, buffer_bytes(*ret_space), copy_pull);
        if (r < 0)
                return r;
        return judge_number(hook, request, "write_from",
                            call_with_buffer(hook, request, *ret_space, rb_intern("write_from"), /* writable= */ false));
}

static int serve_write(Hook *hook, Request *request) {
        VALUE data, arguments[2], answer;
        int r;

        data = rb_str_new(NULL, (long) request->length); /* binary, and the hook's to keep */
        r = copy_run(request, RSTRING_PTR(data), copy_pull);
        if (r < 0)
                return r;
        hook->payload += request->length;

        arguments[0] = ULL2NUM(request->offset);
        arguments[1] = data;
        answer = call_method(hook, rb_intern("write"), ELEMENTSOF(arguments), arguments);
        RB_GC_GUARD(data);
        return judge_number(hook, request, "write", answer);
}

/* flush, discard and write_zeroes: anything but a negative Integer says that it is done. */
static int finish(const Hook *hook, Request *request, VALUE answer) {
        hook_check_forked();
        return is_negative(answer) ? refuse(hook, request, answer) : 0;
}

static int serve_flush(Hook *hook, Request *request) {
        return finish(hook, request, rb_funcallv(hook->target, rb_intern("flush"), 0, NULL));
}

static int serve_discard(Hook *hook, Request *request) {
        VALUE arguments[] = { ULL2NUM(request->offset), ULL2NUM(request->length) };

        return finish(hook, request, rb_funcallv(hook->target, rb_intern("discard"), ELEMENTSOF(arguments), arguments));
}

static int serve_write_zeroes(Hook *hook, Request *request) {
        VALUE arguments[] = { ULL2NUM(request->offset), ULL2NUM(request->length), hook->unmap[!request->no_unmap] };
        ID method = rb_intern("write_zeroes");

        if (hook->takes_unmap)
                return finish(hook, request, rb_funcallv_kw(hook->target, method, 3, arguments, RB_PASS_KEYWORDS));
        return finish(hook, request, rb_funcallv(hook->target, method, 2, arguments));
}

/* Only what runtime.rb has checked is a new size. */
static int serve_resize(Hook *hook, Request *request) {
        VALUE answer;

        if (request->transport || !hook->geometry.can_resize)
                return -EOPNOTSUPP;
        answer = rb_funcall(hook->runtime, rb_intern("resize"), 2, hook->target, ULL2NUM(request->length));
        hook_check_forked();
        if (is_negative(answer))
                return refuse(hook, request, answer);
        request->length = NUM2ULL(answer);
        return 0;
}

/* What the device never advertised is refused here: nothing of the hook failed, so nothing is reported. */
static int serve_request(Hook *hook, Request *request, BufferSpace **ret_space) {
        const Geometry *g = &hook->geometry;

        switch (request->op) {
        case OPERATION_READ:
                return hook->reads_into ? serve_read_into(hook, request, ret_space) : serve_read(hook, request);
        case OPERATION_WRITE:
                if (g->read_only)
                        return -EROFS;
                return hook->writes_from ? serve_write_from(hook, request, ret_space) : serve_write(hook, request);
        case OPERATION_FLUSH:
                return serve_flush(hook, request);
        case OPERATION_DISCARD:
                return g->read_only ? -EROFS : g->can_discard ? serve_discard(hook, request) : -EOPNOTSUPP;
        case OPERATION_WRITE_ZEROES:
                return g->read_only ? -EROFS : g->can_write_zeroes ? serve_write_zeroes(hook, request) : -EOPNOTSUPP;
        case OPERATION_RESIZE:
                return g->read_only ? -EROFS : serve_resize(hook, request);
        }
        return -EOPNOTSUPP;
}

typedef struct Batch {
        Hook *hook;
        HookCall *call; /* of this task */
        Request *const *requests;
        size_t n;
        size_t next; /* the one at work */
        BufferSpace *space; /* that it was given, or an earlier one; NULL if none was */
} Batch;

/* Whatever its end was. */
static inline void end_request(const Batch *b) {
        if (__builtin_expect(atomic_load_explicit(&b->call->interrupt, memory_order_relaxed) != CALL_LEFT_ALONE, 0))
                hook_settle_interrupt(b->hook, b->call);
}

static VALUE batch_run(VALUE argument) {
        Batch *b = (Batch *) argument;

        for (; b->next < b->n; b->next++) {
                Request *request = b->requests[b->next];

                call_begin(b->call, request);
                request->result = serve_request(b->hook, request, &b->space);
                end_request(b);
        }
        return Qnil;
}

/* That serves it, whatever form it has. NULL for what is no operation. */
static const char *method_of(const Hook *hook, const Request *request) {
        if (request->op == OPERATION_READ && hook->reads_into)
                return "read_into";
        if (request->op == OPERATION_WRITE && hook->writes_from)
                return "write_from";
        return operation_to_string(request->op);
}

/* The request at work ends with what was raised; the batch can go on behind it. */
static void batch_fail_request(Batch *b) {
        Request *request = b->requests[b->next++];
        const char *method = method_of(b->hook, request);
        Failure failure = FAILURE_NULL;

        if (b->space)
                buffer_take_back(b->space);
        hook_describe_failure(b->hook, method ? rb_intern(method) : 0, &failure);
        request->result = request_error(-(int64_t) failure.error);
        failure.error = -request->result;
        report(b->hook, request, &failure);
        failure_done(&failure);
        end_request(b);
}

void hook_serve(void *userdata, Request *const *requests, size_t n) {
        Batch b = { .hook = userdata, .call = hook_call(userdata), .requests = requests, .n = n };

        while (b.next < n) {
                int state = 0;

                (void) rb_protect(batch_run, (VALUE) &b, &state);
                hook_check_forked();
                if (state != 0)
                        batch_fail_request(&b);
        }
        call_end(b.call);
        hook_count_collections(b.hook);
        if (b.hook->profile)
                hook_count_objects(b.hook);
        /* A fork that went round libc: `syscall(57)`, or a library of its own. */
        if (!*(volatile bool *) b.hook->is_ours)
                _exit(HOOK_FORKED_STATUS);
}

int hook_reserve(Hook *hook, uint32_t max_size) {
        BufferSpace *space;

        return hook->reads_into || hook->writes_from ? buffer_space(hook, max_size, &space) : 0;
}

const Server *hook_server(Hook *hook) {
        return &hook->server;
}
