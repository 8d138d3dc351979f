/* SPDX-License-Identifier: MIT */

/*
 * Bytes between memory and a place in a file. Others get the interpreter while that waits. What does not wait keeps it: with 4 KiB
 * out of the page cache, giving it away and getting it back takes as long as the system call.
 */

#include "hooks/binding.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <ruby/io.h>
#include <ruby/thread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

/* Of the bytes of an open file. */
typedef enum Whereabouts {
        WHEREABOUTS_UNKNOWN, /* a call may wait for them */
        WHEREABOUTS_CACHE,   /* the kernel tells when it would have to wait for what is read */
        WHEREABOUTS_MEMORY,  /* there is nothing to wait for, but what was swapped out */
} Whereabouts;

static bool in_memory(int fd) {
        struct statfs s;

        if (fstatfs(fd, &s) < 0)
                return false;
        return s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC;
}

/* RWF_NOWAIT is refused where the file system does not know it. With O_DIRECT it would wait for the disk. */
static bool tells_of_waits(int fd) {
        uint8_t byte;
        struct iovec vector = { &byte, 1 };

        if (fcntl(fd, F_GETFL) & O_DIRECT)
                return false;
        return preadv2(fd, &vector, 1, 0, RWF_NOWAIT) >= 0 || errno == EAGAIN;
}

static Whereabouts find_out(int fd) {
        struct stat s;

        if (fstat(fd, &s) < 0 || !(S_ISREG(s.st_mode) || S_ISBLK(s.st_mode)))
                return WHEREABOUTS_UNKNOWN;
        if (S_ISREG(s.st_mode) && in_memory(fd))
                return WHEREABOUTS_MEMORY;
        return tells_of_waits(fd) ? WHEREABOUTS_CACHE : WHEREABOUTS_UNKNOWN;
}

/* Found out once, and kept with the IO, under a name that Ruby code can't say. If that is opened anew, as another file, others wait
 * when they need not, or the other way round. */
static Whereabouts whereabouts(VALUE io, int fd) {
        ID name = rb_intern("ublk_whereabouts");
        VALUE known = rb_attr_get(io, name);
        Whereabouts w;

        if (FIXNUM_P(known))
                return (Whereabouts) FIX2INT(known);
        w = find_out(fd);
        (void) rb_ivar_set(io, name, INT2FIX((int) w));
        return w;
}

void transfer_aim(Transfer *t, VALUE io) {
        rb_io_t *file;

        RB_IO_POINTER(io, file); /* raises if it is closed, or frozen */
        t->fd = rb_io_descriptor(io);
        t->whereabouts = (int) whereabouts(io, t->fd);
}

static void *transfer_call(void *argument) {
        Transfer *t = argument;

        t->n = t->write ? pwrite(t->fd, t->bytes, t->length, t->position) : pread(t->fd, t->bytes, t->length, t->position);
        t->error = t->n < 0 ? errno : 0;
        return NULL;
}

bool transfer_at_once(Transfer *t) {
        struct iovec vector = { t->bytes, t->length };

        if (t->length >= UNLOCKED_COPY_MIN)
                return false;
        if (t->whereabouts == WHEREABOUTS_MEMORY) {
                (void) transfer_call(t);
                return true;
        }
        if (t->whereabouts != WHEREABOUTS_CACHE || t->write)
                return false;
        t->n = preadv2(t->fd, &vector, 1, t->position, RWF_NOWAIT);
        t->error = 0;
        return t->n >= 0;
}

void transfer_unlocked(Transfer *t) {
        t->error = EINTR; /* if it is not called, since an interrupt is pending */
        (void) rb_nogvl(transfer_call, t, RUBY_UBF_IO, NULL, RB_NOGVL_INTR_FAIL);
}

bool transfer_check(const Transfer *t) {
        if (t->error == EINTR) {
                rb_thread_check_ints();
                return false;
        }
        if (t->error != 0)
                rb_syserr_fail(t->error, t->write ? "pwrite" : "pread");
        if (t->n == 0 && t->write)
                rb_syserr_fail(EIO, "pwrite wrote nothing");
        return true;
}
