/* SPDX-License-Identifier: MIT */

/*
 * From a script and arguments to a target with a geometry. The work is Ruby code, UBLK::Runtime.load; this
 * hands it the settings, takes the answer apart, and keeps in C whatever happens on the way.
 */

#include <sys/stat.h>

#include "hooks/binding.h"

typedef struct Load {
        Hook *hook;
        const HookSettings *settings;
        Geometry geometry;
        VALUE target; /* on the stack, where the collector sees it */
        bool takes_unmap;
        bool reads_into;
        bool writes_from;
} Load;

/* The environment serves tests and running from a build tree; a process with raised privileges has none. */
static const char *library_directory(void) {
        const char *path = secure_getenv("UBLK_RUBY_LIBDIR");

        return path && path[0] == '/' ? path : HOOK_LIBRARY_DIRECTORY;
}

static VALUE frozen_keyword(const char *name, VALUE value) {
        VALUE keywords = rb_hash_new();

        rb_hash_aset(keywords, ID2SYM(rb_intern(name)), value);
        return rb_obj_freeze(keywords);
}

void hook_prepare(Hook *hook, const char *runtime) {
        VALUE library = rb_const_get(rb_cObject, rb_intern("UBLK"));

        hook->contract_error = rb_const_get(library, rb_intern("ContractError"));
        hook->unmap[0] = frozen_keyword("unmap", Qfalse);
        hook->unmap[1] = frozen_keyword("unmap", Qtrue);
        hook->minor_collection = rb_hash_new();
        rb_hash_aset(hook->minor_collection, ID2SYM(rb_intern("full_mark")), Qfalse);
        rb_hash_aset(hook->minor_collection, ID2SYM(rb_intern("immediate_sweep")), Qtrue);
        rb_obj_freeze(hook->minor_collection);
        hook->runtime = rb_const_get(library, rb_intern(runtime));
}

void hook_prepare_runtime(Hook *hook) {
        if (!NIL_P(hook->runtime))
                return;
        (void) rb_ary_unshift(rb_gv_get("$LOAD_PATH"), rb_utf8_str_new_cstr(library_directory()));
        sys_define();
        memory_define();
        buffer_define();
        capture_define();
        (void) rb_require("ublk/runtime");
        hook_prepare(hook, "Runtime");
}

static VALUE text(const char *s) {
        return s ? rb_utf8_str_new_cstr(s) : Qnil;
}

/* [[name, D-Bus type, value as text], …] */
static VALUE arguments_to_array(const HookSettings *settings) {
        VALUE list = rb_ary_new();

        for (size_t i = 0; i < settings->n_arguments; i++) {
                const Argument *a = &settings->arguments[i];

                rb_ary_push(list, rb_ary_new_from_args(3, text(a->name), rb_str_new(&a->type, 1), text(a->value)));
        }
        return list;
}

/* nil where nothing limits the hook. */
static VALUE grants_to_hash(const Grants *grants) {
        VALUE hash;

        if (!grants)
                return Qnil;
        hash = rb_hash_new();
        rb_hash_aset(hash, ID2SYM(rb_intern("network")), grants->network ? Qtrue : Qfalse);
        rb_hash_aset(hash, ID2SYM(rb_intern("jit")), grants->jit ? Qtrue : Qfalse);
        rb_hash_aset(hash, ID2SYM(rb_intern("credentials")), text(grants->credentials));
        rb_hash_aset(hash, ID2SYM(rb_intern("secrets")), rb_str_split(text(grants->secrets ? grants->secrets : ""), " "));
        return hash;
}

static VALUE settings_to_keywords(const HookSettings *settings) {
        const struct {
                const char *name;
                VALUE value;
        } entries[] = {
                { "name", text(settings->name) },
                { "path", text(settings->path) },
                { "class_name", text(settings->class_name) },
                { "device", text(settings->device) },
                { "arguments", arguments_to_array(settings) },
                { "recovery", text(recovery_to_string(settings->recovery)) },
                { "read_only", settings->read_only ? Qtrue : Qfalse },
                { "grants", grants_to_hash(settings->grants) },
                { "state", text(settings->state_directory) },
                { "state_owner", ULL2NUM(settings->state_owner) },
                { "capture", settings->loaded ? Qtrue : Qfalse },
                { "code", capture_begin(settings) },
                { "data_path", text(settings->data_path) },
        };
        VALUE keywords = rb_hash_new();

        for (size_t i = 0; i < ELEMENTSOF(entries); i++)
                rb_hash_aset(keywords, ID2SYM(rb_intern(entries[i].name)), entries[i].value);
        return keywords;
}

static uint8_t flag(VALUE facts, const char *name) {
        return RTEST(rb_hash_fetch(facts, ID2SYM(rb_intern(name)))) ? 1 : 0;
}

/* The numbers are Integers of 64 bits, the 32-bit ones saturated: runtime.rb sees to that, geometry_check to
 * the rest. */
static void geometry_from_facts(VALUE facts, const HookSettings *settings, Geometry *ret) {
        VALUE recovery = rb_hash_fetch(facts, ID2SYM(rb_intern("recovery")));

        *ret = (Geometry) {
                .size = NUM2ULL(rb_hash_fetch(facts, ID2SYM(rb_intern("size")))),
                .logical_block_size = NUM2UINT(rb_hash_fetch(facts, ID2SYM(rb_intern("logical_block_size")))),
                .physical_block_size = NUM2UINT(rb_hash_fetch(facts, ID2SYM(rb_intern("physical_block_size")))),
                .recovery = (uint32_t) recovery_from_string(StringValueCStr(recovery)),
                .read_only = settings->read_only || flag(facts, "read_only"),
                .rotational = flag(facts, "rotational"),
                .can_discard = flag(facts, "can_discard"),
                .can_write_zeroes = flag(facts, "can_write_zeroes"),
                .in_memory = memory_was_asked_for(),
                .can_resize = flag(facts, "can_resize"),
                .takes_size = flag(facts, "takes_size"),
                .buffers = flag(facts, "reads_into") || flag(facts, "writes_from"),
        };
        RB_GC_GUARD(recovery);
}

static VALUE call_runtime(const Load *l, const char *method) {
        VALUE keywords;

        hook_prepare_runtime(l->hook);
        keywords = settings_to_keywords(l->settings);
        return rb_funcallv_kw(l->hook->runtime, rb_intern(method), 1, &keywords, RB_PASS_KEYWORDS);
}

static VALUE examine_run(VALUE argument) {
        return call_runtime((Load *) argument, "examine");
}

static VALUE load_run(VALUE argument) {
        Load *l = (Load *) argument;
        VALUE facts = call_runtime(l, "load");

        geometry_from_facts(facts, l->settings, &l->geometry);
        l->takes_unmap = flag(facts, "takes_unmap");
        l->reads_into = flag(facts, "reads_into");
        l->writes_from = flag(facts, "writes_from");
        l->target = rb_hash_fetch(facts, ID2SYM(rb_intern("target")));
        RB_GC_GUARD(facts);
        return Qnil;
}

static int check_geometry(const Load *l, Failure *ret_failure) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = geometry_check(&l->geometry, &message);
        if (r >= 0)
                return 0;
        r = failure_set(ret_failure, FAILURE_HOOK, -r, "%s", message ? message : strerror(-r));
        (void) failure_set_origin(ret_failure, NULL, l->settings->path, 0);
        return r;
}

static int run(VALUE (*fn)(VALUE argument), Load *l, Failure *ret_failure) {
        int state = 0;

        memory_loading(l->settings);
        (void) rb_protect(fn, (VALUE) l, &state);
        memory_loading(NULL);
        hook_check_forked();
        hook_signals_restore();
        if (state == 0)
                return 0;
        hook_describe_failure(l->hook, /* method= */ 0, ret_failure);
        return -ret_failure->error;
}

int hook_examine(Hook *hook, const HookSettings *settings, Failure *ret_failure) {
        Load l = { .hook = hook, .settings = settings, .target = Qnil };

        return run(examine_run, &l, ret_failure);
}

int hook_load(Hook *hook, const HookSettings *settings, Geometry *ret, Failure *ret_failure) {
        Load l = { .hook = hook, .settings = settings, .target = Qnil };
        int r;

        r = run(load_run, &l, ret_failure);
        if (r < 0)
                return r;
        r = check_geometry(&l, ret_failure);
        if (r < 0)
                return r;

        hook->settings = *settings;
        hook->geometry = l.geometry;
        hook->target = l.target;
        hook->takes_unmap = l.takes_unmap;
        hook->reads_into = l.reads_into;
        hook->writes_from = l.writes_from;
        *ret = l.geometry;
        return 0;
}
