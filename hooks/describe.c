/* SPDX-License-Identifier: MIT */

/*
 * Questions to the Ruby side that no request asks: what the script says of itself, and whatever
 * `ublk-ruby-worker --check` wants of UBLK::Check. Answers are plain data and become JSON.
 */

#include <jansson.h>

#include "hooks/binding.h"

#define MAX_DEPTH 16

typedef struct Question {
        Hook *hook;
        const char *method;
        const char *const *arguments;
        json_t *answer;
} Question;

static json_t *json_from_value(VALUE value, unsigned depth);

static json_t *json_from_array(VALUE array, unsigned depth) {
        json_t *list = json_array();

        for (long i = 0; i < RARRAY_LEN(array); i++)
                (void) json_array_append_new(list, json_from_value(rb_ary_entry(array, i), depth));
        return list;
}

static json_t *json_from_hash(VALUE hash, unsigned depth) {
        VALUE keys = rb_funcall(hash, rb_intern("keys"), 0);
        json_t *object = json_object();

        for (long i = 0; i < RARRAY_LEN(keys); i++) {
                VALUE key = rb_ary_entry(keys, i), name = rb_obj_as_string(key);

                (void) json_object_set_new(object, StringValueCStr(name), json_from_value(rb_hash_aref(hash, key), depth));
        }
        RB_GC_GUARD(keys);
        return object;
}

/* What is no data is null; numbers have at most 63 bits and strings are UTF-8: check.rb sees to that. */
static json_t *json_from_value(VALUE value, unsigned depth) {
        if (depth >= MAX_DEPTH || NIL_P(value))
                return json_null();
        switch (rb_type(value)) {
        case T_TRUE:
                return json_true();
        case T_FALSE:
                return json_false();
        case T_FIXNUM:
                return json_integer(FIX2LONG(value));
        case T_BIGNUM:
                return json_integer((json_int_t) NUM2LL(value));
        case T_FLOAT:
                return json_real(RFLOAT_VALUE(value));
        case T_STRING:
                return json_stringn(RSTRING_PTR(value), (size_t) RSTRING_LEN(value));
        case T_SYMBOL:
                return json_from_value(rb_sym2str(value), depth + 1);
        case T_ARRAY:
                return json_from_array(value, depth + 1);
        case T_HASH:
                return json_from_hash(value, depth + 1);
        default:
                return json_null();
        }
}

static VALUE ask(VALUE argument) {
        Question *q = (Question *) argument;
        VALUE words = rb_ary_new(), answer;

        hook_prepare_runtime(q->hook);
        (void) rb_require("ublk/check");
        rb_ary_push(words, q->hook->target);
        for (const char *const *a = q->arguments; *a; a++)
                rb_ary_push(words, rb_utf8_str_new_cstr(*a));
        answer = rb_apply(rb_path2class("UBLK::Check"), rb_intern(q->method), words);
        q->answer = json_from_value(answer, 0);
        RB_GC_GUARD(words);
        return Qnil;
}

int hook_check(Hook *hook, const char *method, const char *const *arguments, json_t **ret, Failure *ret_failure) {
        Question q = { hook, method, arguments, NULL };
        int state = 0;

        (void) rb_protect(ask, (VALUE) &q, &state);
        hook_check_forked();
        hook_signals_restore();
        if (state != 0) {
                json_decref(q.answer);
                hook_describe_failure(hook, /* method= */ 0, ret_failure);
                return -ret_failure->error;
        }
        if (ret)
                *ret = q.answer;
        else
                json_decref(q.answer);
        return 0;
}

int hook_describe(Hook *hook, const HookSettings *settings, json_t **ret, Failure *ret_failure) {
        const char *arguments[] = { settings->path, settings->state_directory ? settings->state_directory : "",
                                    settings->class_name, NULL };

        return hook_check(hook, "describe", arguments, ret, ret_failure);
}
