/* SPDX-License-Identifier: MIT */

/*
 * UBLK::Sys: the system calls that a disk needs and Ruby has no method for. lib/ublk/sys.rb says what
 * each method means, and stands in for them in a plain interpreter.
 */

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <ruby/io.h>
#include <ruby/thread.h>
#include <sys/vfs.h>

#include "hooks/binding.h"
#include "service/exit-status.h"
#include "service/state.h"

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

/* To preadv2(2) -1 is wherever the file is. */
static off_t to_position(VALUE offset, const char *call) {
        off_t position = NUM2OFFT(offset);

        if (position < 0)
                rb_syserr_fail(EINVAL, call);
        return position;
}

static VALUE sys_pread(VALUE self, VALUE io, VALUE length, VALUE offset) {
        Transfer t = { .write = false };
        long size = NUM2LONG(length), done = 0;
        off_t position = to_position(offset, "pread");
        VALUE data;

        (void) self;
        if (size < 0)
                rb_raise(rb_eArgError, "length must not be negative, and is %ld", size);
        io = rb_io_get_io(io);
        data = rb_str_new(NULL, size);
        while (done < size) {
                transfer_aim(&t, io);
                t.bytes = (uint8_t *) RSTRING_PTR(data) + done;
                t.length = (size_t) (size - done);
                t.position = position + done;
                if (!transfer_at_once(&t)) {
                        rb_str_locktmp(data); /* other threads find it in ObjectSpace */
                        transfer_unlocked(&t);
                        rb_str_unlocktmp(data);
                }
                if (!transfer_check(&t))
                        continue;
                if (t.n == 0)
                        break;
                done += t.n;
        }
        rb_str_set_len(data, done);
        RB_GC_GUARD(io);
        return data;
}

static VALUE sys_pwrite(VALUE self, VALUE io, VALUE data, VALUE offset) {
        Transfer t = { .write = true };
        off_t position = to_position(offset, "pwrite");
        long done = 0;

        (void) self;
        io = rb_io_get_io(io);
        StringValue(data);
        while (done < RSTRING_LEN(data)) {
                transfer_aim(&t, io);
                t.bytes = (uint8_t *) RSTRING_PTR(data) + done;
                t.length = (size_t) (RSTRING_LEN(data) - done);
                t.position = position + done;
                if (!transfer_at_once(&t)) {
                        data = rb_str_new_frozen(data); /* of the same bytes, which others can't change meanwhile */
                        t.bytes = (uint8_t *) RSTRING_PTR(data) + done;
                        transfer_unlocked(&t);
                }
                if (transfer_check(&t))
                        done += t.n;
        }
        RB_GC_GUARD(io);
        RB_GC_GUARD(data);
        return LONG2NUM(done);
}

/* The kernel's boot id is out of sight where ProcSubset=pid hides /proc/sys. But /run is a tmpfs made at boot, and each
 * of these has a random id (since Linux 5.14). */
static VALUE sys_boot_id(VALUE self) {
        struct statfs s;
        uint64_t id;

        (void) self;
        static_assert(sizeof(s.f_fsid) == sizeof(id), "f_fsid has 64 bits");
        if (statfs("/run", &s) < 0 || s.f_type != TMPFS_MAGIC)
                return Qnil;
        memcpy(&id, &s.f_fsid, sizeof(id));
        return id == 0 ? Qnil : rb_sprintf("run-%016llx", (unsigned long long) id);
}

/* See state_directory.rb. */
static VALUE sys_claim_state(VALUE self, VALUE path, VALUE owner) {
        int r;

        (void) self;
        r = state_claim(StringValueCStr(path), NUM2ULL(owner));
        if (r < 0)
                rb_syserr_fail(-r, StringValueCStr(path));
        return path;
}

/* Whether a handler had to be put back: see guard.rb. */
static VALUE sys_restore_signals(VALUE self) {
        (void) self;
        return hook_signals_restore() ? Qtrue : Qfalse;
}

static VALUE sys_reserved_statuses(VALUE self) {
        VALUE list = rb_ary_new();

        (void) self;
        for (size_t i = 0; i < ELEMENTSOF(exit_statuses_reserved); i++)
                rb_ary_push(list, INT2FIX(exit_statuses_reserved[i]));
        return list;
}

void sys_define(void) {
        VALUE sys = rb_define_module_under(rb_define_module("UBLK"), "Sys");

        rb_define_module_function(sys, "punch_hole", sys_punch_hole, 3);
        rb_define_module_function(sys, "zero_range", sys_zero_range, 3);
        rb_define_module_function(sys, "pread", sys_pread, 3);
        rb_define_module_function(sys, "pwrite", sys_pwrite, 3);
        rb_define_module_function(sys, "boot_id", sys_boot_id, 0);
        rb_define_module_function(sys, "claim_state", sys_claim_state, 2);
        rb_define_module_function(sys, "restore_signals", sys_restore_signals, 0);
        rb_define_module_function(sys, "reserved_statuses", sys_reserved_statuses, 0);
}
