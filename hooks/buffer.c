/* SPDX-License-Identifier: MIT */

/*
 * UBLK::Buffer: what a hook's read_into and write_from are given, a handle of a request's bytes. lib/ublk/buffer.rb says what each
 * method means, and stands in for it in a plain interpreter.
 *
 * Each serving task has one handle and one piece of memory, and uses both for request after request: none makes an object or
 * allocates. Between two requests the handle has no memory, and every call raises. A call that lets the interpreter go while it
 * works on the bytes holds on to them: if its request ends meanwhile, the next one gets other memory.
 */

#include "hooks/binding.h"

#include <ruby/io.h>

/* Counted with the interpreter held. */
typedef struct Area {
        uint8_t *bytes;
        size_t size;
        unsigned n_users;
} Area;

typedef struct Buffer {
        Area *area;          /* NULL: its request has been answered */
        size_t size;         /* of the request: the first bytes of the area */
        uint64_t generation; /* tells one request from the next */
        bool writable;       /* it is to be filled: a read's */
} Buffer;

/* Of a serving task and a hook. */
struct BufferSpace {
        BufferSpace *next;
        const Hook *hook;
        Area *area;
        VALUE handle; /* registered with the collector; Qnil until the first request */
        Buffer *buffer;
};

static _Thread_local BufferSpace *spaces;

static uint64_t n_stale_calls;

uint64_t hook_stale_calls(void) {
        return n_stale_calls;
}

static void area_unref(Area *a) {
        if (--a->n_users > 0)
                return;
        free(a->bytes);
        free(a);
}

/* All zero, and so in memory from the start; locked, where the process locks what it has. NULL also for more than any String
 * has: to whole pages it could not be rounded up. */
static Area *area_new(size_t size) {
        size_t page = (size_t) sysconf(_SC_PAGESIZE);
        Area *a = size > SSIZE_MAX ? NULL : malloc(sizeof(*a));

        if (!a)
                return NULL;
        size = (size / page + 1) * page;
        *a = (Area) { aligned_alloc(page, size), size, 1 };
        if (!a->bytes) {
                free(a);
                return NULL;
        }
        memset(a->bytes, 0, size);
        return a;
}

static void buffer_free(void *p) {
        Buffer *b = p;

        if (b->area)
                area_unref(b->area);
        xfree(b);
}

static size_t buffer_memory_size(const void *p) {
        (void) p;
        return sizeof(Buffer); /* the bytes are the task's */
}

static const rb_data_type_t buffer_type = {
        .wrap_struct_name = "UBLK::Buffer",
        .function = { .dfree = buffer_free, .dsize = buffer_memory_size },
        .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE buffer_class; /* kept by its constant */

static VALUE library_class(const char *name) {
        return rb_const_get(rb_define_module("UBLK"), rb_intern(name));
}

static void disown(Buffer *b) {
        if (b->area)
                area_unref(b->area);
        b->area = NULL;
}

static void hand_out(Buffer *b, Area *area, size_t size, bool writable) {
        area->n_users++;
        *b = (Buffer) { .area = area, .size = size, .generation = b->generation + 1, .writable = writable };
}

int buffer_space(const Hook *hook, size_t size, BufferSpace **ret) {
        BufferSpace *s = spaces;

        while (s && s->hook != hook)
                s = s->next;
        if (!s) {
                s = malloc(sizeof(*s));
                if (!s)
                        return -ENOMEM;
                *s = (BufferSpace) { .next = spaces, .hook = hook, .handle = Qnil };
                rb_gc_register_address(&s->handle);
                spaces = s;
        }
        /* Too small, or some call still works on the bytes of an earlier request. */
        if (s->area && (s->area->size < size || s->area->n_users > 1)) {
                area_unref(s->area);
                s->area = NULL;
        }
        if (!s->area)
                s->area = area_new(size);
        if (!s->area)
                return -ENOMEM;
        *ret = s;
        return 0;
}

void buffer_space_done(const Hook *hook) {
        for (BufferSpace **at = &spaces; *at; at = &(*at)->next) {
                BufferSpace *s = *at;

                if (s->hook != hook)
                        continue;
                buffer_take_back(s);
                rb_gc_unregister_address(&s->handle);
                if (s->area)
                        area_unref(s->area);
                *at = s->next;
                free(s);
                return;
        }
}

uint8_t *buffer_bytes(const BufferSpace *s) {
        return s->area->bytes;
}

VALUE buffer_hand_out(BufferSpace *s, size_t size, bool writable) {
        if (NIL_P(s->handle) || s->hook->settings.fresh_buffers)
                s->handle = TypedData_Make_Struct(buffer_class, Buffer, &buffer_type, s->buffer);
        hand_out(s->buffer, s->area, size, writable);
        return s->handle;
}

void buffer_take_back(BufferSpace *s) {
        if (!NIL_P(s->handle))
                disown(s->buffer);
}

static __attribute__((noreturn)) void raise_stale(void) {
        n_stale_calls++;
        rb_raise(library_class("BufferError"), "this buffer's request has been answered: what is to outlast it has to be copied, with get");
}

static Buffer *get(VALUE self) {
        Buffer *b = rb_check_typeddata(self, &buffer_type);

        if (!b->area)
                raise_stale();
        return b;
}

static Buffer *get_writable(VALUE self) {
        Buffer *b = get(self);

        if (!b->writable)
                rb_raise(library_class("BufferError"), "the bytes of a write are the client's: they can't be changed");
        return b;
}

/* Calls nothing that could change a buffer, unless it raises. */
static uint64_t to_number(VALUE value, const char *what) {
        if (FIXNUM_P(value) && FIX2LONG(value) >= 0)
                return (uint64_t) FIX2LONG(value);
        if (!RB_INTEGER_TYPE_P(value))
                rb_raise(rb_eTypeError, "%s must be an Integer of bytes, not %" PRIsVALUE, what, rb_obj_class(value));
        if (FIXNUM_P(value) || !rb_big_sign(value))
                rb_raise(rb_eRangeError, "%s must not be negative, and is %" PRIsVALUE, what, value);
        if (rb_absint_size(value, NULL) > sizeof(uint64_t))
                rb_raise(rb_eRangeError, "%s must be below 2^64, and is %" PRIsVALUE, what, value);
        return rb_big2ull(value);
}

/* A part of something that has so many bytes. */
static void check_part(uint64_t offset, uint64_t length, uint64_t size, const char *of) {
        if (offset > size || length > size - offset)
                rb_raise(rb_eRangeError, "%llu bytes at %llu are outside of the %s, which has %llu", (unsigned long long) length,
                         (unsigned long long) offset, of, (unsigned long long) size);
}

typedef struct Part {
        size_t offset;
        size_t length;
} Part;

/* The last two arguments of a method, both optional: offset and length in the buffer; without a length up to its end. */
static Part to_part(const Buffer *b, int argc, const VALUE *argv, int first) {
        uint64_t offset = argc > first ? to_number(argv[first], "offset") : 0, length;

        if (argc > first + 1)
                length = to_number(argv[first + 1], "length");
        else if (offset <= b->size)
                length = b->size - offset;
        else
                length = 0;
        check_part(offset, length, b->size, "buffer");
        return (Part) { offset, length };
}

static uint8_t *at(const Buffer *b, Part part) {
        return b->area->bytes + part.offset;
}

static VALUE buffer_size(VALUE self) {
        return SIZET2NUM(get(self)->size);
}

static VALUE buffer_get(int argc, VALUE *argv, VALUE self) {
        const Buffer *b = get(self);
        VALUE data;
        Part part;

        rb_check_arity(argc, 0, 2);
        part = to_part(b, argc, argv, 0);
        data = rb_str_new((const char *) at(b, part), (long) part.length);
        RB_GC_GUARD(self);
        return data;
}

static VALUE buffer_set(int argc, VALUE *argv, VALUE self) {
        const Buffer *b;
        uint64_t offset;
        size_t length;
        VALUE data;

        rb_check_arity(argc, 1, 2);
        data = argv[0];
        StringValue(data);
        b = get_writable(self);
        offset = argc > 1 ? to_number(argv[1], "offset") : 0;
        length = (size_t) RSTRING_LEN(data);
        check_part(offset, length, b->size, "buffer");
        memcpy(b->area->bytes + offset, RSTRING_PTR(data), length);
        RB_GC_GUARD(data);
        RB_GC_GUARD(self);
        return SIZET2NUM(length);
}

static VALUE buffer_fill(int argc, VALUE *argv, VALUE self) {
        const Buffer *b = get_writable(self);
        Part part;
        long byte = 0;

        rb_check_arity(argc, 0, 3);
        if (argc > 0 && !RB_INTEGER_TYPE_P(argv[0]))
                rb_raise(rb_eTypeError, "byte must be an Integer from 0 to 255, not %" PRIsVALUE, rb_obj_class(argv[0]));
        if (argc > 0)
                byte = FIXNUM_P(argv[0]) ? FIX2LONG(argv[0]) : -1;
        if (byte < 0 || byte > 255)
                rb_raise(rb_eRangeError, "byte must be from 0 to 255, and is %" PRIsVALUE, argv[0]);
        part = to_part(b, argc, argv, 1);
        memset(at(b, part), (int) byte, part.length);
        RB_GC_GUARD(self);
        return SIZET2NUM(part.length);
}

static VALUE buffer_is_zero(int argc, VALUE *argv, VALUE self) {
        const Buffer *b = get(self);
        const uint8_t *p;
        bool zero;
        Part part;

        rb_check_arity(argc, 0, 2);
        part = to_part(b, argc, argv, 0);
        p = at(b, part);
        zero = part.length == 0 || (p[0] == 0 && memcmp(p, p + 1, part.length - 1) == 0);
        RB_GC_GUARD(self);
        return zero ? Qtrue : Qfalse;
}

/* With a UBLK::Memory on the other side. The bytes are held on to while the interpreter is let go. */
static void move_memory(const Buffer *b, Part part, VALUE memory, uint64_t offset, bool out_of_memory) {
        Area *area = b->area;
        int r;

        memory_check(memory, offset, part.length);
        area->n_users++;
        r = memory_move(memory, offset, at(b, part), part.length, out_of_memory);
        area_unref(area);
        if (r < 0)
                rb_syserr_fail(-r, "UBLK::Memory");
}

static VALUE buffer_copy_from(int argc, VALUE *argv, VALUE self) {
        const Buffer *b;
        uint64_t offset;
        VALUE source;
        Part part;

        rb_check_arity(argc, 1, 4);
        source = argv[0];
        if (!memory_is(source))
                StringValue(source);
        b = get_writable(self);
        offset = argc > 1 ? to_number(argv[1], "source_offset") : 0;
        part = to_part(b, argc, argv, 2);
        if (memory_is(source))
                move_memory(b, part, source, offset, /* out_of_memory= */ true);
        else {
                check_part(offset, part.length, (uint64_t) RSTRING_LEN(source), "source");
                memcpy(at(b, part), RSTRING_PTR(source) + offset, part.length);
        }
        RB_GC_GUARD(source);
        RB_GC_GUARD(self);
        return SIZET2NUM(part.length);
}

static VALUE buffer_copy_to(int argc, VALUE *argv, VALUE self) {
        const Buffer *b;
        uint64_t offset;
        VALUE target;
        Part part;

        rb_check_arity(argc, 1, 4);
        target = argv[0];
        if (!memory_is(target))
                StringValue(target);
        b = get(self);
        offset = argc > 1 ? to_number(argv[1], "target_offset") : 0;
        part = to_part(b, argc, argv, 2);
        if (memory_is(target))
                move_memory(b, part, target, offset, /* out_of_memory= */ false);
        else {
                check_part(offset, part.length, (uint64_t) RSTRING_LEN(target), "target");
                rb_str_modify(target);
                memcpy(RSTRING_PTR(target) + offset, at(b, part), part.length);
        }
        RB_GC_GUARD(target);
        RB_GC_GUARD(self);
        return SIZET2NUM(part.length);
}

/* A file's bytes, from or to a part of the buffer: until all is done, or the file's end. */
static VALUE transfer(int argc, VALUE *argv, VALUE self, bool write) {
        VALUE io;
        Buffer *b;
        Transfer t = { .write = write };
        uint64_t generation, position;
        size_t done = 0;
        Part part;

        rb_check_arity(argc, 2, 4);
        io = rb_io_get_io(argv[0]);
        b = write ? get(self) : get_writable(self);
        position = to_number(argv[1], "position");
        part = to_part(b, argc, argv, 2);
        if (position > INT64_MAX - part.length)
                rb_raise(rb_eRangeError, "%zu bytes at %llu are beyond what a file can have", part.length, (unsigned long long) position);
        generation = b->generation;

        while (done < part.length) {
                Area *area = b->area;

                /* Whatever ran meanwhile may have ended the request, or closed the file. */
                if (!area || b->generation != generation)
                        raise_stale();
                transfer_aim(&t, io);
                t.bytes = at(b, part) + done;
                t.length = part.length - done;
                t.position = (off_t) (position + done);
                if (!transfer_at_once(&t)) {
                        area->n_users++;
                        transfer_unlocked(&t);
                        area_unref(area);
                }
                if (!transfer_check(&t))
                        continue;
                if (t.n == 0)
                        break;
                done += (size_t) t.n;
        }
        RB_GC_GUARD(io);
        RB_GC_GUARD(self);
        return SIZET2NUM(done);
}

static VALUE buffer_pread(int argc, VALUE *argv, VALUE self) {
        return transfer(argc, argv, self, /* write= */ false);
}

static VALUE buffer_pwrite(int argc, VALUE *argv, VALUE self) {
        return transfer(argc, argv, self, /* write= */ true);
}

/* The one method that never raises: error messages use it. */
static VALUE buffer_inspect(VALUE self) {
        const Buffer *b = rb_check_typeddata(self, &buffer_type);

        return b->area ? rb_sprintf("#<UBLK::Buffer %zu bytes>", b->size) : rb_str_new_lit("#<UBLK::Buffer of an answered request>");
}

/* A buffer that is no request's, for the length of a block. */
typedef struct Loan {
        Buffer *buffer;
        VALUE handle;
} Loan;

/* The bytes that were filled in, if the block says that it were all of them; else what it says. */
static VALUE loan_read(VALUE argument) {
        const Loan *l = (const Loan *) argument;
        VALUE answer = rb_yield(l->handle);
        const Buffer *b = l->buffer;

        if (FIXNUM_P(answer) && FIX2LONG(answer) >= 0 && (size_t) FIX2LONG(answer) == b->size)
                return rb_str_new((const char *) b->area->bytes, (long) b->size);
        return answer;
}

static VALUE loan_write(VALUE argument) {
        return rb_yield(((const Loan *) argument)->handle);
}

static VALUE loan_end(VALUE argument) {
        disown(((const Loan *) argument)->buffer);
        return Qnil;
}

static VALUE lend(size_t size, const void *bytes, VALUE (*fn)(VALUE argument)) {
        Loan l;
        Area *area;
        VALUE answer;

        l.handle = TypedData_Make_Struct(buffer_class, Buffer, &buffer_type, l.buffer);
        area = area_new(size);
        if (!area)
                rb_memerror();
        if (bytes)
                memcpy(area->bytes, bytes, size);
        hand_out(l.buffer, area, size, /* writable= */ !bytes);
        area_unref(area); /* the buffer's alone, and gone with it */
        answer = rb_ensure(fn, (VALUE) &l, loan_end, (VALUE) &l);
        RB_GC_GUARD(l.handle);
        return answer;
}

static VALUE buffer_for_read(VALUE klass, VALUE length) {
        uint64_t size = to_number(length, "length");

        (void) klass;
        if (size > SSIZE_MAX)
                rb_raise(rb_eRangeError, "length must be below 2^%zu, and is %" PRIsVALUE, sizeof(ssize_t) * 8 - 1, length);
        return lend(size, NULL, loan_read);
}

static VALUE buffer_for_write(VALUE klass, VALUE data) {
        VALUE answer;

        (void) klass;
        StringValue(data);
        answer = lend((size_t) RSTRING_LEN(data), RSTRING_PTR(data), loan_write);
        RB_GC_GUARD(data);
        return answer;
}

void buffer_define(void) {
        buffer_class = rb_define_class_under(rb_define_module("UBLK"), "Buffer", rb_cObject);
        rb_gc_register_mark_object(buffer_class);
        rb_undef_alloc_func(buffer_class); /* new, dup, clone, Marshal.load, and those of subclasses */
        rb_undef_method(rb_singleton_class(buffer_class), "new");
        rb_undef_method(buffer_class, "freeze"); /* it will be handed out again */
        rb_define_singleton_method(buffer_class, "for_read", buffer_for_read, 1);
        rb_define_singleton_method(buffer_class, "for_write", buffer_for_write, 1);
        rb_define_method(buffer_class, "size", buffer_size, 0);
        rb_define_method(buffer_class, "get", buffer_get, -1);
        rb_define_method(buffer_class, "set", buffer_set, -1);
        rb_define_method(buffer_class, "fill", buffer_fill, -1);
        rb_define_method(buffer_class, "zero?", buffer_is_zero, -1);
        rb_define_method(buffer_class, "copy_from", buffer_copy_from, -1);
        rb_define_method(buffer_class, "copy_to", buffer_copy_to, -1);
        rb_define_method(buffer_class, "pread", buffer_pread, -1);
        rb_define_method(buffer_class, "pwrite", buffer_pwrite, -1);
        rb_define_method(buffer_class, "inspect", buffer_inspect, 0);
}
