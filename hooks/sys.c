/* SPDX-License-Identifier: MIT */

/*
 * UBLK::Sys: the two system calls that a disk needs and Ruby has no method for. lib/ublk/sys.rb says what
 * each method means, and stands in for them in a plain interpreter.
 */

#include <fcntl.h>
#include <linux/falloc.h>
#include <ruby/io.h>
#include <ruby/thread.h>

#include "hooks/binding.h"

typedef struct Fallocate {
        int fd;
        int mode;
        off_t offset;
        off_t length;
        int error;
} Fallocate;

static void *fallocate_call(void *argument) {
        Fallocate *f = argument;

        f->error = fallocate(f->fd, f->mode, f->offset, f->length) < 0 ? errno : 0;
        return NULL;
}

/* May raise between two tries: a signal must be able to end it. */
static VALUE fallocate_run(VALUE io, int mode, VALUE offset, VALUE length) {
        Fallocate f = {
                .fd = NUM2INT(rb_funcall(io, rb_intern("fileno"), 0)),
                .mode = mode | FALLOC_FL_KEEP_SIZE,
                .offset = NUM2OFFT(offset),
                .length = NUM2OFFT(length),
        };

        do {
                (void) rb_thread_call_without_gvl(fallocate_call, &f, RUBY_UBF_IO, NULL);
        } while (f.error == EINTR);
        RB_GC_GUARD(io);
        if (f.error != 0)
                rb_syserr_fail(f.error, mode == FALLOC_FL_PUNCH_HOLE ? "fallocate (punch hole)" : "fallocate (zero range)");
        return INT2FIX(0);
}

static VALUE sys_punch_hole(VALUE self, VALUE io, VALUE offset, VALUE length) {
        (void) self;
        return fallocate_run(io, FALLOC_FL_PUNCH_HOLE, offset, length);
}

static VALUE sys_zero_range(VALUE self, VALUE io, VALUE offset, VALUE length) {
        (void) self;
        return fallocate_run(io, FALLOC_FL_ZERO_RANGE, offset, length);
}

void sys_define(void) {
        VALUE sys = rb_define_module_under(rb_define_module("UBLK"), "Sys");

        rb_define_module_function(sys, "punch_hole", sys_punch_hole, 3);
        rb_define_module_function(sys, "zero_range", sys_zero_range, 3);
}
