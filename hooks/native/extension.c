/* SPDX-License-Identifier: MIT */

/*
 * UBLK::Native: whether this host can serve, the layout and the numbers of the kernel's interface, memory
 * locking. The two handles are in control-handle.c and server-handle.c.
 */

#include "hooks/native/native.h"

#include "service/features.h"
#include "service/probe.h"

#include <linux/capability.h>
#include <ruby/thread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

typedef struct Call {
        void (*fn)(void *argument);
        void *argument;
        bool done;
} Call;

static void *call_run(void *argument) {
        Call *c = argument;

        c->fn(c->argument);
        c->done = true;
        return NULL;
}

void native_unlocked(void (*fn)(void *argument), void *argument) {
        Call c = { .fn = fn, .argument = argument };

        for (;;) {
                (void) rb_nogvl(call_run, &c, NULL, NULL, RB_NOGVL_INTR_FAIL);
                if (c.done)
                        return;
                rb_thread_check_ints();
        }
}

void native_check_owner(pid_t owner, const char *what) {
        if (owner != getpid())
                rb_raise(rb_eRuntimeError, "this %s belongs to process %d, which forked: make a new one", what,
                         (int) owner);
}

typedef struct Support {
        Failure failure;
        int result;
} Support;

static void support_check(void *argument) {
        _cleanup_(control_freep) Control *c = NULL;
        Support *s = argument;
        uint64_t bits = 0;

        s->result = probe_open_control(&c, &s->failure);
        if (s->result >= 0)
                s->result = control_get_features(c, &bits);
        if (s->result >= 0 && (bits & FEATURES_NEEDED) == FEATURES_NEEDED)
                return;
        if (s->result >= 0 || !s->failure.message) {
                Probe p;

                probe_run(&p);
                s->result = failure_set(&s->failure, FAILURE_KERNEL, EOPNOTSUPP, "%s",
                                        *p.reason ? p.reason : "The ublk driver lacks USER_COPY.");
        }
}

/* nil, or why this host can't serve: cause and remedy. */
static VALUE native_unsupported_reason(VALUE self) {
        Support s = { .failure = FAILURE_NULL };
        VALUE reason = Qnil;

        (void) self;
        native_unlocked(support_check, &s);
        if (s.result < 0)
                reason = rb_utf8_str_new_cstr(s.failure.message ? s.failure.message : strerror(-s.result));
        failure_done(&s.failure);
        return reason;
}

static VALUE native_supported(VALUE self) {
        return NIL_P(native_unsupported_reason(self)) ? Qtrue : Qfalse;
}

/* Bytes. params: what a device is given, without the device numbers that only ever come back. */
static VALUE native_layout(VALUE self) {
        const struct {
                const char *name;
                size_t size;
        } entries[] = {
                { "ctrl_cmd", sizeof(struct ublk_ctrl_cmd) },
                { "dev_info", sizeof(struct ublk_dev_info) },
                { "params", (offsetof(struct ublk_params, devt) + 7) / 8 * 8 },
                { "io_desc", sizeof(struct ublk_io_desc) },
                { "start_sector", offsetof(struct ublk_io_desc, start_sector) },
        };
        VALUE layout = rb_hash_new();

        (void) self;
        for (size_t i = 0; i < ELEMENTSOF(entries); i++)
                rb_hash_aset(layout, native_symbol(entries[i].name), SIZET2NUM(entries[i].size));
        return layout;
}

static bool has_capability(unsigned capability) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[2] = { 0 };

        return syscall(SYS_capget, &header, data) == 0 &&
               (data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability));
}

/* As it is touched: Ruby 3.3 reserves half a GiB. With a finite limit every later allocation would fail. */
static VALUE native_lock_memory(VALUE self) {
        struct rlimit limit;

        (void) self;
        if (!has_capability(CAP_IPC_LOCK) &&
            (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur != RLIM_INFINITY))
                rb_syserr_fail(EPERM, "memory can't be locked: it takes CAP_IPC_LOCK or an unlimited "
                                      "RLIMIT_MEMLOCK; `mlock: false` does without");
        if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0)
                rb_sys_fail("mlockall");
        return Qtrue;
}

static void define_constants(VALUE native) {
        const struct {
                const char *name;
                uint64_t value;
        } constants[] = {
                { "F_USER_RECOVERY", UBLK_F_USER_RECOVERY },
                { "F_USER_RECOVERY_REISSUE", UBLK_F_USER_RECOVERY_REISSUE },
                { "F_USER_RECOVERY_FAIL_IO", UBLK_F_USER_RECOVERY_FAIL_IO },
                { "F_CMD_IOCTL_ENCODE", UBLK_F_CMD_IOCTL_ENCODE },
                { "F_USER_COPY", UBLK_F_USER_COPY },
                { "MAX_QUEUE_DEPTH", UBLK_MAX_QUEUE_DEPTH },
                { "IO_BUF_OFFSET", UBLK_USER_COPY_BASE },
                { "IO_OP_READ", UBLK_IO_OP_READ },
                { "IO_OP_WRITE", UBLK_IO_OP_WRITE },
                { "IO_OP_FLUSH", UBLK_IO_OP_FLUSH },
                { "IO_OP_DISCARD", UBLK_IO_OP_DISCARD },
                { "IO_OP_WRITE_ZEROES", UBLK_IO_OP_WRITE_ZEROES },
        };

        for (size_t i = 0; i < ELEMENTSOF(constants); i++)
                rb_define_const(native, constants[i].name, ULL2NUM(constants[i].value));
}

RUBY_FUNC_EXPORTED void Init_ublk(void);

void Init_ublk(void) {
        VALUE native = rb_define_module_under(rb_define_module("UBLK"), "Native");

        hook_watch_forks();
        sys_define();
        memory_define();
        buffer_define();
        define_constants(native);
        rb_define_singleton_method(native, "supported?", native_supported, 0);
        rb_define_singleton_method(native, "unsupported_reason", native_unsupported_reason, 0);
        rb_define_singleton_method(native, "layout", native_layout, 0);
        rb_define_singleton_method(native, "lock_memory!", native_lock_memory, 0);
        native_control_define(native);
        native_server_define(native);
}
