/* SPDX-License-Identifier: MIT */

/* Turns a mode on, and proves that it is. */

#include "test-hook.h"

#include <jansson.h>
#ifdef HAVE_VALGRIND
#include <valgrind/memcheck.h>
#endif

typedef enum Mode {
        MODE_NONE,
        MODE_STRESS,
        MODE_COMPACT,
        MODE_VALGRIND,
        _MODE_MAX,
} Mode;

static Mode mode;
static bool started;

/* Any script can add to UBLK::Check, and hook_check calls what is there. */
#define PRELUDE "require 'ublk/check'\n" \
        "class << UBLK::Check\n" \
        "  def rig_collect(_target, on, moves)\n" \
        "    GC.auto_compact = on == 'on' if moves == 'moves'\n" \
        "    GC.stress = on == 'on'\n" \
        "  end\n" \
        "  def rig_move_all(_target) = (GC.verify_compaction_references(toward: :empty); nil)\n" \
        "  def rig_collector(_target)\n" \
        "    { stress: GC.stress, compact: GC.auto_compact, moved: GC.stat(:total_moved_objects) }\n" \
        "  end\n" \
        "end\n" \
        "class Prelude < UBLK::Target\n" \
        "  def initialize = super(size: 512)\n" \
        "  def read(offset, length) = nil\n" \
        "  def read_only? = true\n" \
        "end\n"

bool mode_is_on(void) {
        return mode != MODE_NONE;
}

bool mode_collects(void) {
        return mode == MODE_STRESS || mode == MODE_COMPACT;
}

bool mode_is_valgrind(void) {
        return mode == MODE_VALGRIND;
}

static bool on_valgrind(void) {
#ifdef HAVE_VALGRIND
        return RUNNING_ON_VALGRIND;
#else
        return false;
#endif
}

void mode_init(void) {
        static const char *const names[] = { "", "stress", "compact", "valgrind" };
        const char *wanted = g_getenv("UBLK_TEST_MODE") ?: "";

        while (mode < _MODE_MAX && !g_str_equal(names[mode], wanted))
                mode++;
        if (mode == _MODE_MAX)
                g_error("UBLK_TEST_MODE is stress, compact or valgrind, and not \"%s\"", wanted);
        if (mode == MODE_VALGRIND && !on_valgrind())
                g_error("UBLK_TEST_MODE is valgrind, and this does not run under it: meson test --setup valgrind does that");
}

static json_t *ask(const char *method, const char *const *arguments) {
        Failure failure = FAILURE_NULL;
        json_t *answer = NULL;

        if (hook_check(rig.hook, method, arguments, &answer, &failure) < 0)
                g_error("UBLK::Check.%s: %s: %s", method, failure.class_name, failure.message);
        return answer;
}

static void collect(const char *on) {
        json_decref(ask("rig_collect", WORDS(on, mode == MODE_COMPACT ? "moves" : "stays")));
}

/* What the binding has in hand while it loads is on its stack, and not moved. */
static bool loads_in_mode(void) {
        const char *path = g_test_get_path();

        return mode == MODE_STRESS && (g_str_has_prefix(path, "/hook/load/") || g_str_has_prefix(path, "/hook/arguments/"));
}

void mode_pause(void) {
        if (started && !loads_in_mode())
                collect("off");
}

/* Ruby checks itself what it has moved, and ends the process where an object refers to what is no longer there. */
void mode_resume(void) {
        if (started && mode == MODE_COMPACT)
                json_decref(ask("rig_move_all", WORDS(NULL)));
        if (started && !loads_in_mode())
                collect("on");
}

void mode_start(void) {
        if (!mode_collects())
                return;
        if (rig_load("prelude", PRELUDE, NULL) < 0)
                g_error("the prelude: %s", rig.failure.message);
        started = true;
        collect("on");
}

static json_int_t moved(json_t *facts) {
        return json_integer_value(json_object_get(facts, "moved"));
}

/* The only object that such a request needs is the binding's: an offset that no Fixnum holds. Each leaves gaps between
 * objects, so that there is something to move. */
static void test_collecting(void) {
        json_t *before, *after;

        g_assert_cmpint(rig_load("collects", "class Collects < UBLK::Target\n"
                                             "  def initialize = (super(size: (1 << 63) - 512); @kept = Array.new(1 << 14) { Object.new })\n"
                                             "  def read(offset, length) = nil\n  def write(offset, data) = nil\n"
                                             "  def discard(offset, length)\n"
                                             "    odd = false\n    @kept.select! { odd = !odd }\n"
                                             "    @last == (@last = GC.count) ? -5 : 0\n  end\nend\n", NULL), ==, 0);
        before = ask("rig_collector", WORDS(NULL));
        for (unsigned i = 0; i < 10; i++)
                g_assert_cmpint(rig_request(OPERATION_DISCARD, UINT64_C(1) << 62, 512, NULL), ==, 0);
        after = ask("rig_collector", WORDS(NULL));
        g_assert_true(json_is_true(json_object_get(after, "stress")));
        if (mode == MODE_COMPACT) {
                g_assert_true(json_is_true(json_object_get(after, "compact")));
                g_assert_cmpint(moved(after), >, moved(before));
        }
        json_decref(before);
        json_decref(after);
}

/* Of valgrind's tools memcheck knows that freed memory is nobody's. */
static void test_memcheck(void) {
#ifdef HAVE_VALGRIND
        enum { NOBODYS = 3 };
        uint8_t bits;
        char *byte = g_malloc(1);

        g_assert_true(RUNNING_ON_VALGRIND);
        g_free(byte);
        g_assert_cmpuint(VALGRIND_GET_VBITS(byte, &bits, 1), ==, NOBODYS);
#endif
}

void add_mode_tests(void) {
        if (mode_collects())
                g_test_add_func("/hook/mode/collects", test_collecting);
        if (mode == MODE_VALGRIND)
                g_test_add_func("/hook/mode/memcheck", test_memcheck);
}
