/* SPDX-License-Identifier: MIT */

/*
 * From what ended a protected call (an exception, an exit, a throw, a jump out of a dead frame, a killed
 * thread) to errno and text. The judgement is Ruby code, UBLK::Runtime.describe, itself run protected: an
 * exception may have any message method.
 */

#include "hooks/binding.h"
#include "service/log.h"

typedef struct Description {
        Hook *hook;
        VALUE error;
        ID method;
        Failure *ret;
} Description;

/* errinfo may be no object at all (a killed thread leaves a number), or one of the VM's own that crashes
 * whoever asks for its class (`return` from a proc whose method is gone, Ruby 3.3 and 3.4). */
static bool is_exception(VALUE error) {
        return !RB_SPECIAL_CONST_P(error) && RB_BUILTIN_TYPE(error) != T_IMEMO &&
               RTEST(rb_obj_is_kind_of(error, rb_eException));
}

static const char *text_or_null(VALUE text) {
        return NIL_P(text) ? NULL : StringValueCStr(text);
}

/* [kind, errno, class, message, file, line, backtrace, needs, answer]: see runtime.rb. */
static VALUE describe(VALUE argument) {
        Description *d = (Description *) argument;
        VALUE parts, line;
        FailureKind kind;

        parts = rb_funcall(d->hook->runtime, rb_intern("describe"), 2, d->error, d->method ? ID2SYM(d->method) : Qnil);
        kind = failure_kind_from_string(text_or_null(rb_ary_entry(parts, 0)));
        line = rb_ary_entry(parts, 5);

        (void) failure_set(d->ret, kind < 0 ? FAILURE_HOOK : kind, NUM2INT(rb_ary_entry(parts, 1)), "%s",
                           text_or_null(rb_ary_entry(parts, 3)));
        (void) failure_set_origin(d->ret, text_or_null(rb_ary_entry(parts, 2)), text_or_null(rb_ary_entry(parts, 4)),
                                  NIL_P(line) ? 0 : NUM2UINT(line));
        (void) failure_set_backtrace(d->ret, text_or_null(rb_ary_entry(parts, 6)));
        (void) failure_set_needs(d->ret, text_or_null(rb_ary_entry(parts, 7)));
        d->ret->is_answer = RTEST(rb_ary_entry(parts, 8));
        RB_GC_GUARD(parts);
        return Qnil;
}

static void describe_jump(VALUE error, Failure *ret) {
        if (FIXNUM_P(error)) {
                (void) failure_set(ret, FAILURE_HOOK, EIO,
                                   "The hook killed the thread that serves the device; it lives on.");
                return;
        }
        (void) failure_set(ret, FAILURE_HOOK, EIO,
                           "The hook jumped out of its method: a return or break in a block whose method has ended, "
                           "or in eval.");
        (void) failure_set_origin(ret, "LocalJumpError", NULL, 0);
}

/* Our own library did not load. */
static void describe_plainly(VALUE error, Failure *ret) {
        VALUE message;
        int failed = 0;

        message = rb_protect(rb_obj_as_string, error, &failed);
        hook_check_forked();
        if (failed)
                rb_set_errinfo(Qnil);
        (void) failure_set(ret, FAILURE_WORKER, EIO, "%.*s", failed ? 0 : (int) RSTRING_LEN(message),
                           failed ? "" : RSTRING_PTR(message));
        (void) failure_set_origin(ret, rb_obj_classname(error), NULL, 0);
        RB_GC_GUARD(message);
}

/* The library failed at it, for want of memory for instance. Its message may have a secret in it. */
static void describe_by_class(VALUE error, Failure *ret) {
        (void) failure_set(ret, FAILURE_HOOK, EIO, "(its message can't be had)");
        (void) failure_set_origin(ret, rb_obj_classname(error), NULL, 0);
}

void hook_describe_failure(Hook *hook, ID method, Failure *ret) {
        VALUE error = rb_errinfo();
        Description d = { hook, error, method, ret };
        int failed = 0;

        rb_set_errinfo(Qnil);
        if (!is_exception(error)) {
                describe_jump(error, ret);
                return;
        }
        if (NIL_P(hook->runtime)) {
                describe_plainly(error, ret);
                return;
        }

        (void) rb_protect(describe, (VALUE) &d, &failed);
        hook_check_forked();
        if (failed) {
                rb_set_errinfo(Qnil);
                describe_by_class(error, ret);
        }
        RB_GC_GUARD(error);
}

void hook_ignore_failure(Hook *hook, const char *where) {
        Failure failure = FAILURE_NULL;
        _cleanup_free_ char *text = NULL;

        hook_describe_failure(hook, /* method= */ 0, &failure);
        if (failure_describe_fully(&failure, &text) >= 0)
                log_warning("Ignoring what reached the hook's thread %s: %s", where, text);
        failure_done(&failure);
}
