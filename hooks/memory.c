/* SPDX-License-Identifier: MIT */

/*
 * UBLK::Memory: bytes in a file that lies in memory. In a worker systemd has a descriptor of it and hands it to the next
 * worker (hook.h, HookSettings.memory); in a plain program it ends with the process. lib/ublk/memory.rb says what each
 * method means, and stands in for it in a plain interpreter.
 *
 * Written through a mapping, since pages are locked where they are mapped. Read with pread, since a mapping gives memory to
 * every hole that is looked at.
 */

#include "hooks/binding.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <ruby/thread.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* From here on a copy takes longer than giving the interpreter away and getting it back. */
#define UNLOCKED_COPY_MIN (64 * 1024)
/* Zeroing takes a system call, and frees pages. */
#define UNLOCKED_ZERO_MIN (1024 * 1024)

typedef struct Memory {
        int fd;
        uint8_t *map;
        uint64_t size;
        char name[MEMORY_NAME_MAX + 1];
} Memory;

/* What Memory.new does depends on who asks, and when: there is one hook in a process. */
static struct {
        const HookSettings *settings; /* while a script is loaded, NULL otherwise */
        bool managed;                 /* the last one that was loaded had settings->memory */
        char names[MEMORIES_MAX][MEMORY_NAME_MAX + 1];
        size_t n_names;               /* that were asked for in this load */
} loading;

void memory_loading(const HookSettings *settings) {
        loading.settings = settings;
        if (!settings)
                return;
        loading.managed = settings->memory != NULL;
        loading.n_names = 0;
}

bool memory_was_asked_for(void) {
        return loading.n_names > 0;
}

static void memory_free(void *p) {
        Memory *m = p;

        if (m->map)
                (void) munmap(m->map, m->size);
        safe_close(m->fd);
        xfree(m);
}

static size_t memory_size(const void *p) {
        (void) p;
        return sizeof(Memory); /* what is in it is not the collector's */
}

static const rb_data_type_t memory_type = {
        .wrap_struct_name = "UBLK::Memory",
        .function = { .dfree = memory_free, .dsize = memory_size },
        .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE memory_allocate(VALUE klass) {
        Memory *m;
        VALUE self = TypedData_Make_Struct(klass, Memory, &memory_type, m);

        m->fd = -EBADF;
        return self;
}

static Memory *get(VALUE self) {
        Memory *m = rb_check_typeddata(self, &memory_type);

        if (!m->map)
                rb_raise(rb_eArgError, "uninitialized UBLK::Memory");
        return m;
}

static VALUE library_class(const char *name) {
        return rb_const_get(rb_define_module("UBLK"), rb_intern(name));
}

/* Not one beyond 64 bits either. */
static uint64_t to_number(VALUE value, const char *what) {
        if (!RB_INTEGER_TYPE_P(value))
                rb_raise(rb_eTypeError, "%s must be an Integer of bytes, not %" PRIsVALUE, what, rb_obj_class(value));
        if (RTEST(rb_funcall(value, rb_intern("negative?"), 0)) || NUM2SIZET(rb_funcall(value, rb_intern("bit_length"), 0)) > 64)
                rb_raise(rb_eIndexError, "%s %" PRIsVALUE " is outside of the memory", what, value);
        return NUM2ULL(value);
}

static inline uint64_t to_offset(VALUE value) {
        return FIXNUM_P(value) && FIX2LONG(value) >= 0 ? (uint64_t) FIX2LONG(value) : to_number(value, "offset");
}

static inline uint64_t to_length(VALUE value) {
        return FIXNUM_P(value) && FIX2LONG(value) >= 0 ? (uint64_t) FIX2LONG(value) : to_number(value, "length");
}

static void check_range(const Memory *m, uint64_t offset, uint64_t length) {
        if (offset <= m->size && length <= m->size - offset)
                return;
        rb_raise(rb_eIndexError, "%llu bytes at %llu are outside of the memory \"%s\", which has %llu", (unsigned long long) length,
                 (unsigned long long) offset, m->name, (unsigned long long) m->size);
}

static void take_name(Memory *m, VALUE value) {
        const char *s;
        size_t n;

        value = RB_SYMBOL_P(value) ? rb_sym2str(value) : value;
        s = StringValueCStr(value);
        n = strlen(s);
        if (n == 0 || n > MEMORY_NAME_MAX || strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") != n)
                rb_raise(rb_eArgError, "name must be 1 to %d of a-z, 0-9, _ and -, not %" PRIsVALUE, MEMORY_NAME_MAX, rb_inspect(value));
        memcpy(m->name, s, n + 1);
        RB_GC_GUARD(value);
}

static void take_size(Memory *m, VALUE value) {
        if (!RB_INTEGER_TYPE_P(value))
                rb_raise(rb_eTypeError, "size must be an Integer of bytes, not %" PRIsVALUE, rb_obj_class(value));
        if (!RTEST(rb_funcall(value, rb_intern("positive?"), 0)) || NUM2SIZET(rb_funcall(value, rb_intern("bit_length"), 0)) > 62)
                rb_raise(rb_eArgError, "size must be above 0 and below 2^62, not %" PRIsVALUE, value);
        m->size = NUM2ULL(value);
}

static void note_name(const Memory *m) {
        for (size_t i = 0; i < loading.n_names; i++)
                if (streq(loading.names[i], m->name))
                        rb_raise(rb_eArgError, "there are two memories \"%s\": give each a name of its own, name: \"...\"", m->name);
        if (loading.n_names == MEMORIES_MAX)
                rb_raise(rb_eArgError, "a hook has at most %d memories", MEMORIES_MAX);
        memcpy(loading.names[loading.n_names++], m->name, sizeof(m->name));
}

/* Of a former worker: the pages are there, but in no mapping, and so not locked. Holes stay holes. */
static void *bring_in(void *argument) {
        Memory *m = argument;
        off_t at = 0, end = 0;

        while ((at = lseek(m->fd, end, SEEK_DATA)) >= 0) {
                end = lseek(m->fd, at, SEEK_HOLE);
                if (end < 0 || madvise(m->map + at, (size_t) (end - at), MADV_POPULATE_WRITE) < 0)
                        break;
        }
        return NULL;
}

static int take_descriptor(Memory *m, Failure *f) {
        const HookSettings *s = loading.settings;

        return s && s->memory ? s->memory(s->userdata, m->name, m->size, &m->fd, f) : memory_file_create(m->name, m->size, &m->fd);
}

/* Of a failure with a message it is that, in full sentences. */
static void raise_failure(const Memory *m, int r, Failure *f) {
        VALUE message = f->message ? rb_utf8_str_new_cstr(f->message) : Qnil;

        failure_done(f);
        if (NIL_P(message))
                rb_syserr_fail(-r, m->name);
        rb_exc_raise(rb_exc_new_str(library_class("MemoryError"), message));
}

static void open_memory(Memory *m) {
        Failure f = FAILURE_NULL;
        void *map;
        int r;

        r = take_descriptor(m, &f);
        if (r < 0)
                raise_failure(m, r, &f);
        map = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
        if (map == MAP_FAILED)
                rb_syserr_fail(errno, "UBLK::Memory: so much can't be mapped");
        m->map = map;
        if (r > 0 && loading.settings && loading.settings->mlock)
                (void) rb_nogvl(bring_in, m, NULL, NULL, 0);
}

static VALUE memory_initialize(int argc, VALUE *argv, VALUE self) {
        Memory *m = rb_check_typeddata(self, &memory_type);
        VALUE size, options, name = Qundef;
        ID keywords[] = { rb_intern("name") };

        (rb_scan_args)(argc, argv, "1:", &size, &options); /* the function: the macro has an array of variable length */
        if (!NIL_P(options))
                (void) rb_get_kwargs(options, keywords, 0, 1, &name);
        if (m->map)
                rb_raise(rb_eArgError, "already initialized");
        take_size(m, size);
        take_name(m, name == Qundef ? rb_str_new_lit("data") : name);
        if (loading.managed && !loading.settings)
                rb_raise(library_class("MemoryError"), "UBLK::Memory.new is for initialize: what is asked for later can't be told from what "
                                                       "was lost");
        if (loading.settings)
                note_name(m);
        open_memory(m);
        return self;
}

typedef struct Copy {
        const Memory *memory;
        uint64_t offset;
        size_t length;
        uint8_t *buffer;
        int error;
        bool done;
} Copy;

static void *copy_out(void *argument) {
        Copy *c = argument;
        size_t got = 0;

        c->done = true;
        while (got < c->length) {
                ssize_t n = pread(c->memory->fd, c->buffer + got, c->length - got, (off_t) (c->offset + got));

                if (n == 0 || (n < 0 && errno != EINTR)) {
                        c->error = n < 0 ? errno : EIO;
                        break;
                }
                got += n > 0 ? (size_t) n : 0;
        }
        return NULL;
}

static void *copy_in(void *argument) {
        Copy *c = argument;

        c->done = true;
        memcpy(c->memory->map + c->offset, c->buffer, c->length);
        return NULL;
}

/* Ruby skips the function when an interrupt is pending, and looks at none after it: what was done counts. */
static int perform(Copy *c, void *(*fn)(void *argument), size_t unlocked_min) {
        if (c->length >= unlocked_min)
                (void) rb_nogvl(fn, c, NULL, NULL, RB_NOGVL_INTR_FAIL);
        if (!c->done)
                (void) fn(c);
        return -c->error;
}

static void run(Copy *c, void *(*fn)(void *argument), size_t unlocked_min) {
        int r = perform(c, fn, unlocked_min);

        if (r < 0)
                rb_syserr_fail(-r, c->memory->name);
}

static VALUE memory_read(VALUE self, VALUE offset, VALUE length) {
        const Memory *m = get(self);
        Copy c = { .memory = m, .offset = to_offset(offset), .length = to_length(length) };
        VALUE data;

        check_range(m, c.offset, c.length);
        data = rb_str_new(NULL, (long) c.length);
        c.buffer = (uint8_t *) RSTRING_PTR(data);
        run(&c, copy_out, UNLOCKED_COPY_MIN);
        RB_GC_GUARD(self);
        RB_GC_GUARD(data);
        return data;
}

static VALUE memory_write(VALUE self, VALUE offset, VALUE data) {
        const Memory *m = get(self);
        Copy c = { .memory = m, .offset = to_offset(offset) };

        StringValue(data);
        /* While others run they may change their String: hold on to the bytes, which costs no copy. */
        if (RSTRING_LEN(data) >= UNLOCKED_COPY_MIN)
                data = rb_str_new_frozen(data);
        c.length = (size_t) RSTRING_LEN(data);
        check_range(m, c.offset, c.length);
        c.buffer = (uint8_t *) RSTRING_PTR(data);
        run(&c, copy_in, UNLOCKED_COPY_MIN);
        RB_GC_GUARD(self);
        RB_GC_GUARD(data);
        return SIZET2NUM(c.length);
}

bool memory_is(VALUE object) {
        return rb_typeddata_is_kind_of(object, &memory_type);
}

void memory_check(VALUE self, uint64_t offset, size_t length) {
        check_range(get(self), offset, length);
}

int memory_move(VALUE self, uint64_t offset, void *bytes, size_t length, bool out) {
        Copy c = { .memory = get(self), .offset = offset, .length = length, .buffer = bytes };
        int r = perform(&c, out ? copy_out : copy_in, UNLOCKED_COPY_MIN);

        RB_GC_GUARD(self);
        return r;
}

static void *punch(void *argument) {
        Copy *c = argument;
        int r;

        c->done = true;
        do
                r = fallocate(c->memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) c->offset, (off_t) c->length);
        while (r < 0 && errno == EINTR);
        if (r < 0) /* not in memory, as under --check, and on a file system that has no holes */
                memset(c->memory->map + c->offset, 0, c->length);
        return NULL;
}

static VALUE memory_zero(VALUE self, VALUE offset, VALUE length) {
        const Memory *m = get(self);
        Copy c = { .memory = m, .offset = to_offset(offset), .length = to_length(length) };

        check_range(m, c.offset, c.length);
        if (c.length > 0)
                run(&c, punch, UNLOCKED_ZERO_MIN);
        RB_GC_GUARD(self);
        return INT2FIX(0);
}

static VALUE memory_get_size(VALUE self) {
        return ULL2NUM(get(self)->size);
}

static VALUE memory_get_name(VALUE self) {
        return rb_utf8_str_new_cstr(get(self)->name);
}

static VALUE memory_inspect(VALUE self) {
        const Memory *m = get(self);

        return rb_sprintf("#<UBLK::Memory \"%s\" %llu>", m->name, (unsigned long long) m->size);
}

void memory_define(void) {
        VALUE memory = rb_define_class_under(rb_define_module("UBLK"), "Memory", rb_cObject);

        rb_define_alloc_func(memory, memory_allocate);
        rb_define_method(memory, "initialize", memory_initialize, -1);
        rb_undef_method(memory, "initialize_copy");
        rb_define_method(memory, "read", memory_read, 2);
        rb_define_method(memory, "write", memory_write, 2);
        rb_define_method(memory, "zero", memory_zero, 2);
        rb_define_method(memory, "size", memory_get_size, 0);
        rb_define_method(memory, "name", memory_get_name, 0);
        rb_define_method(memory, "inspect", memory_inspect, 0);
        rb_define_const(memory, "COUNT_MAX", INT2FIX(MEMORIES_MAX));
        rb_define_const(memory, "NAME_MAX", INT2FIX(MEMORY_NAME_MAX));
}
