/* SPDX-License-Identifier: MIT */

/*
 * The hook's own code on its way between files, the worker's Code, and Ruby: lib/ublk/code.rb decides which files are the
 * hook's, this hands over what is in them.
 */

#include "hooks/binding.h"

/* Where it is reported. There is one hook in a process. */
static struct {
        void (*loaded)(void *userdata, const char *path, const char *real_path, const void *source, size_t size);
        void *userdata;
} listener;

static VALUE file_to_array(const CodeFile *f) {
        return rb_ary_new_from_args(3, rb_utf8_str_new_cstr(f->path), rb_utf8_str_new_cstr(f->real_path),
                                    rb_utf8_str_new(f->source, (long) f->size));
}

VALUE capture_begin(const HookSettings *settings) {
        const Code *c = settings->code;
        VALUE list;

        listener.loaded = settings->loaded;
        listener.userdata = settings->userdata;
        if (!c)
                return Qnil;
        list = rb_ary_new();
        for (size_t i = 0; i < c->n_files; i++)
                rb_ary_push(list, file_to_array(&c->files[i]));
        return list;
}

/* UBLK::Code.loaded(path, real path, source). What a child of the hook loads is its own affair. */
static VALUE code_loaded(VALUE self, VALUE path, VALUE real_path, VALUE source) {
        const char *p = StringValueCStr(path), *real = StringValueCStr(real_path);

        (void) self;
        StringValue(source);
        if (listener.loaded && !hook_is_forked)
                listener.loaded(listener.userdata, p, real, RSTRING_PTR(source), (size_t) RSTRING_LEN(source));
        RB_GC_GUARD(path);
        RB_GC_GUARD(real_path);
        RB_GC_GUARD(source);
        return Qnil;
}

void capture_define(void) {
        VALUE code = rb_define_module_under(rb_define_module("UBLK"), "Code");

        rb_define_module_function(code, "loaded", code_loaded, 3);
}
