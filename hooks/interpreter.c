/* SPDX-License-Identifier: MIT */

/*
 * Starts Ruby in this process and takes it down again. Whatever has to be set before the interpreter exists
 * is set here: the allocator, the collector's limits, the locale, an environment that can't inject code.
 */

#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <time.h>

#include <ruby/version.h>

#include "hooks/binding.h"

/* at_exit blocks and threads of a hook get this long. Ruby 3.3 and 3.4 can hang in their teardown for ever. */
#define CLEANUP_LIMIT_SEC 5

bool hook_is_forked = false;

static void mark_forked(void) {
        hook_is_forked = true;
        hook_signals_forget();
}

/* All three of the first or none: the trim threshold alone freezes the mmap threshold at 128 KiB, and then
 * every large String is an mmap. With glibc's defaults a sweep gives the heap's top back to the kernel, and
 * each new payload faults it in again: ten times the cost of a 4 KiB String. */
static void allocator_tune(void) {
        (void) mallopt(M_TRIM_THRESHOLD, 1 << 30);
        (void) mallopt(M_TOP_PAD, 16 << 20);
        if (mallopt(M_MMAP_THRESHOLD, 64 << 20) == 0)
                (void) mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the limit of some glibc */
        (void) mallopt(M_ARENA_MAX, 2); /* every arena is 64 MiB of address space that mlockall counts */
}

/* Payload is garbage at once: collect it while it is still in the CPU's cache, and never take its bytes for a
 * reason to mark the old objects. What the administrator set stays. */
static void collector_tune(void) {
        (void) setenv("RUBY_GC_MALLOC_LIMIT", "8388608", /* overwrite= */ 0);
        (void) setenv("RUBY_GC_MALLOC_LIMIT_MAX", "16777216", /* overwrite= */ 0);
        (void) setenv("RUBY_GC_OLDMALLOC_LIMIT", "1073741824", /* overwrite= */ 0);
        (void) setenv("RUBY_GC_OLDMALLOC_LIMIT_MAX", "1073741824", /* overwrite= */ 0);
}

static bool variable_injects_code(const char *assignment) {
        static const char *const prefixes[] = { "RUBYOPT=", "RUBYLIB=", "GEM_", "BUNDLE_", "BUNDLER_" };

        for (size_t i = 0; i < ELEMENTSOF(prefixes); i++)
                if (strncmp(assignment, prefixes[i], strlen(prefixes[i])) == 0)
                        return true;
        return false;
}

static int environment_clean(void) {
        for (char **e = environ; e && *e;) {
                if (!variable_injects_code(*e)) {
                        e++;
                        continue;
                }

                _cleanup_free_ char *name = strndup(*e, strcspn(*e, "="));
                if (!name)
                        return -ENOMEM;
                (void) unsetenv(name);
                e = environ; /* unsetenv moves it */
        }
        return 0;
}

/* Ruby writes over these words when a hook sets $0 or the process title: they must be writable and in one
 * block. RubyGems takes four fifths of a start, and comes when a hook needs it: lib/ublk/gems.rb. */
static int words_make(char ***ret) {
        static char block[512];
        static char *words[8];
        static const char *const texts[] = {
                "ublk-ruby",
#if RUBY_API_VERSION_CODE >= 30200
                "--disable=gems,did_you_mean,error_highlight,rubyopt,syntax_suggest",
#else
                "--disable=gems,did_you_mean,error_highlight,rubyopt",
#endif
                "-EUTF-8", /* a unit has no locale */
                "-e",
                "",
        };
        char *p = block;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                words[i] = p;
                p = stpcpy(p, texts[i]) + 1;
        }
        *ret = words;
        return ELEMENTSOF(texts);
}

static int ruby_start(void) {
        char **words;
        int n, status = 0;
        void *node;

        if (ruby_setup() != 0)
                return -ELIBBAD;

        n = words_make(&words);
        node = ruby_options(n, words);
        if (!ruby_executable_node(node, &status))
                return -ELIBBAD;
        return 0;
}

typedef struct CleanupLimit {
        sem_t done;
        int status;
} CleanupLimit;

static void *cleanup_watch(void *userdata) {
        CleanupLimit *limit = userdata;
        struct timespec until;

        (void) clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += CLEANUP_LIMIT_SEC;
        while (sem_timedwait(&limit->done, &until) < 0)
                if (errno != EINTR)
                        _exit(limit->status);
        return NULL;
}

/* Runs the hook's at_exit blocks. Past the limit the process ends as body wanted it to. */
static void ruby_stop_limited(int status) {
        CleanupLimit limit = { .status = status >= 0 && status <= 255 ? status : EXIT_FAILURE };
        pthread_t thread;
        bool watched;

        (void) sem_init(&limit.done, /* pshared= */ 0, 0);
        watched = pthread_create(&thread, NULL, cleanup_watch, &limit) == 0;
        rb_set_errinfo(Qnil);
        (void) ruby_cleanup(0);
        if (watched) {
                (void) sem_post(&limit.done);
                (void) pthread_join(thread, NULL);
        }
        (void) sem_destroy(&limit.done);
}

/* The kernel wipes it in whatever is forked, in whatever way (Linux 4.14): to look costs no system call. */
static bool *fork_mark_new(void) {
        bool *mark = mmap(NULL, sizeof(bool), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (mark == MAP_FAILED)
                return NULL;
        if (madvise(mark, sizeof(bool), MADV_WIPEONFORK) < 0) {
                (void) munmap(mark, sizeof(bool));
                return NULL;
        }
        *mark = true;
        return mark;
}

Hook *hook_init(Hook *hook) {
        bool *mark = fork_mark_new();

        if (!mark)
                return NULL;
        *hook = (Hook) {
                .server = { .userdata = hook, .serve = hook_serve, .unlocked = hook_unlocked, .tidy = hook_tidy,
                            .wants_tidy = hook_wants_tidy },
                .target = Qnil,
                .runtime = Qnil,
                .contract_error = Qnil,
                .minor_collection = Qnil,
                .unmap = { Qnil, Qnil },
                .threads = Qnil,
                .garbage = HOOK_GARBAGE_MIN,
                .is_ours = mark,
        };
        rb_gc_register_address(&hook->target);
        rb_gc_register_address(&hook->runtime);
        rb_gc_register_address(&hook->contract_error);
        rb_gc_register_address(&hook->minor_collection);
        rb_gc_register_address(&hook->unmap[0]);
        rb_gc_register_address(&hook->unmap[1]);
        rb_gc_register_address(&hook->threads);
        return hook;
}

void hook_done(Hook *hook) {
        rb_gc_unregister_address(&hook->target);
        rb_gc_unregister_address(&hook->runtime);
        rb_gc_unregister_address(&hook->contract_error);
        rb_gc_unregister_address(&hook->minor_collection);
        rb_gc_unregister_address(&hook->unmap[0]);
        rb_gc_unregister_address(&hook->unmap[1]);
        rb_gc_unregister_address(&hook->threads);
        (void) munmap(hook->is_ours, sizeof(bool));
}

/* A frame of its own below the one whose address Ruby has as the end of the stack. */
static __attribute__((noinline)) int run_below(int (*body)(Hook *hook, void *userdata), void *userdata) {
        static Hook hook; /* the collector keeps its address */
        int r;

        r = ruby_start();
        if (r < 0)
                return r;
        r = hook_init(&hook) ? body(&hook, userdata) : -ENOMEM;
        hook_check_forked();
        hook.ending = true;
        ruby_stop_limited(r);
        return r;
}

int hook_run(int (*body)(Hook *hook, void *userdata), void *userdata) {
        VALUE stack_end = Qnil;
        int r;

        (void) setlocale(LC_CTYPE, ""); /* libruby leaves that to ruby's main() */
        allocator_tune();
        collector_tune();
        r = environment_clean();
        if (r < 0)
                return r;
        r = pthread_atfork(NULL, NULL, mark_forked);
        if (r != 0)
                return -r;
        hook_signals_save();

        ruby_init_stack(&stack_end);
        r = run_below(body, userdata);
        RB_GC_GUARD(stack_end);
        return r;
}
