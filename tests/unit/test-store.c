/* SPDX-License-Identifier: MIT */

/* The descriptor store and the code in it, with a thread in systemd's place. The next worker is a child process. */

#include "service/kept-code.h"

#include "service/log.h"
#include "tests/unit/test-notify.h"

#include <fcntl.h>
#include <glib.h>
#include <sys/mman.h>
#include <systemd/sd-daemon.h>

static void (*job)(Store *s);

static void be_worker(void) {
        Store s;

        g_assert_cmpint(store_open(&s), ==, 0);
        g_assert_null(g_getenv("LISTEN_FDS")); /* the hook's children have no part in it */
        job(&s);
        _exit(0); /* as a worker does, which frees none of this */
}

/* A worker that is started with what systemd keeps. */
static void next_worker(void (*run)(Store *s)) {
        job = run;
        notify_run(be_worker);
}

/* What has been said since the last call. */
static void assert_log(const char *wanted) {
        g_assert_cmpstr(notify_log(), ==, wanted);
}

static int memfd(void) {
        return memfd_create("test", MFD_CLOEXEC);
}

static void first(Store *s) {
        int fd = memfd();

        g_assert_cmpuint(s->n_entries, ==, 0);
        g_assert_cmpint(store_find(s, "a"), ==, -ENOENT);
        g_assert_cmpint(store_add(s, "a", fd), ==, 0);
        g_assert_cmpint(store_find(s, "a"), ==, fd);
        g_assert_cmpint(store_add(s, "a", memfd()), ==, -EEXIST);
        for (const char **bad = (const char *[]) { "", "a:b", "a b", "a\nFDSTOREREMOVE=1", "caf\xc3\xa9", NULL }; *bad; bad++)
                g_assert_cmpint(store_add(s, *bad, memfd()), ==, -EINVAL);
        g_assert_cmpint(store_add(s, "b", memfd()), ==, 0);
        store_remove(s, "nothing");
}

static void second(Store *s) {
        g_assert_cmpuint(s->n_entries, ==, 2);
        g_assert_cmpint(fcntl(store_find(s, "b"), F_GETFD) & FD_CLOEXEC, !=, 0);
        store_remove(s, s->entries[0].name);
        g_assert_cmpint(store_find(s, "a"), ==, -ENOENT);
        g_assert_cmpint(store_find(s, "b"), >=, 0);
}

static void third(Store *s) {
        g_assert_cmpuint(s->n_entries, ==, 1);
        store_clear(s);
        g_assert_cmpuint(s->n_entries, ==, 0);
}

static void test_store(void) {
        next_worker(first);
        assert_log("+a +b ");
        next_worker(second);
        assert_log("-a ");
        next_worker(third);
        assert_log("-b ");
}

static void no_systemd(Store *s) {
        (void) unsetenv("NOTIFY_SOCKET");
        g_assert_cmpint(store_add(s, "a", memfd()), ==, -ENOTCONN);
        g_assert_cmpint(store_find(s, "a"), <, 0);
        store_clear(s);
}

static void test_without_systemd(void) {
        next_worker(no_systemd);
        assert_log("");
}

static void add(KeptCode *k, const char *path, const char *source) {
        kept_code_add(k, path, path, source, strlen(source));
}

static void assert_code(const KeptCode *k, size_t n, const char *last) {
        const Code *c = kept_code_found(k);

        g_assert_nonnull(c);
        g_assert_cmpuint(c->n_files, ==, n);
        g_assert_cmpstr(c->files[n - 1].source, ==, last);
}

static void code_first(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        g_assert_null(kept_code_found(&k));
        add(&k, "/disk.rb", "1");
        g_assert_cmpint(kept_code_keep(&k), ==, 0);
        g_assert_cmpint(kept_code_keep(&k), ==, 0);
}

static void code_found(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        assert_code(&k, 1, "1");
        g_assert_cmpint(kept_code_keep(&k), ==, 0); /* as it is */
        add(&k, "/later.rb", "2");
}

static void code_on_trial(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, true);
        g_assert_null(kept_code_found(&k));
        add(&k, "/disk.rb", "one");
}

static void code_after_a_trial_that_failed(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        assert_code(&k, 2, "2");
}

static void code_trial_that_ends_well(Store *s) {
        KeptCode k;

        code_on_trial(s);
        kept_code_open(&k, s, true);
        add(&k, "/disk.rb", "one");
        g_assert_cmpint(kept_code_keep(&k), ==, 0);
}

static void code_new(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        assert_code(&k, 1, "one");
}

static void test_code(void) {
        next_worker(code_first);
        assert_log("+code-1 ");
        next_worker(code_found);
        assert_log("+code-2 -code-1 ");
        next_worker(code_on_trial);
        assert_log("");
        next_worker(code_after_a_trial_that_failed);
        next_worker(code_trial_that_ends_well);
        assert_log("+code-3 -code-2 ");
        next_worker(code_new);
        next_worker(third);
        assert_log("-code-3 ");
}

static void clear(Store *s) {
        store_clear(s);
}

/* systemd takes it, but does not say so in time. */
static void code_trial_that_is_not_kept(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, true);
        add(&k, "/disk.rb", "two");
        g_assert_cmpint(sd_notify(0, "X_LATE=1"), >, 0);
        g_assert_cmpint(kept_code_keep(&k), ==, -ETIMEDOUT);
        add(&k, "/later.rb", "two");
}

static void test_late_systemd(void) {
        next_worker(code_first);
        assert_log("+code-1 ");
        next_worker(code_trial_that_is_not_kept);
        assert_log("+code-2 -code-2 ");
        next_worker(code_found);
        next_worker(clear);
        (void) notify_log();
}

/* Killed between the two messages. */
static void code_two_versions(Store *s) {
        _cleanup_close_ int fd = -EBADF;
        Code c = CODE_NULL;

        code_first(s);
        g_assert_cmpint(code_add(&c, "/disk.rb", "/disk.rb", "2", 1), ==, 0);
        g_assert_cmpint(code_to_fd(&c, &fd), ==, 0);
        g_assert_cmpint(store_add(s, "code-2", TAKE_FD(fd)), ==, 0);
        g_assert_cmpint(store_add(s, "code-x", memfd()), ==, 0); /* somebody else's */
}

static void code_latest(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        assert_code(&k, 1, "2");
}

static void test_two_versions(void) {
        next_worker(code_two_versions);
        assert_log("+code-1 +code-2 +code-x ");
        next_worker(code_latest);
        assert_log("-code-1 ");
        next_worker(clear);
        assert_log("-code-2 -code-x ");
}

static void code_too_long(Store *s) {
        g_autofree char *big = g_malloc0(CODE_MAX_SIZE);
        KeptCode k;

        code_first(s);
        kept_code_open(&k, s, false);
        kept_code_add(&k, "/big.rb", "/big.rb", big, CODE_MAX_SIZE);
        add(&k, "/small.rb", "");
        g_assert_cmpint(kept_code_keep(&k), ==, -E2BIG);
        add(&k, "/more.rb", "");
}

static void code_none(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        g_assert_null(kept_code_found(&k));
}

static void test_too_long(void) {
        next_worker(code_too_long);
        assert_log("+code-1 -code-1 ");
        next_worker(code_none);
}

static void code_damaged(Store *s) {
        g_assert_cmpint(store_add(s, "code-7", memfd()), ==, 0);
}

static void code_unreadable(Store *s) {
        KeptCode k;

        kept_code_open(&k, s, false);
        g_assert_null(kept_code_found(&k));
        add(&k, "/disk.rb", "1");
        g_assert_cmpint(kept_code_keep(&k), ==, 0);
}

static void test_damaged(void) {
        next_worker(code_damaged);
        next_worker(code_unreadable);
        assert_log("+code-7 +code-8 -code-7 ");
        next_worker(code_found);
        next_worker(clear);
        assert_log("+code-9 -code-8 -code-9 ");
}

int main(int argc, char *argv[]) {
        int r;

        g_test_init(&argc, &argv, NULL);
        log_set_max_level(LOG_CRIT);
        notify_start();
        g_test_add_func("/store/entries", test_store);
        g_test_add_func("/store/without-systemd", test_without_systemd);
        g_test_add_func("/store/code", test_code);
        g_test_add_func("/store/late-systemd", test_late_systemd);
        g_test_add_func("/store/code-in-two-versions", test_two_versions);
        g_test_add_func("/store/code-that-is-too-long", test_too_long);
        g_test_add_func("/store/code-that-is-damaged", test_damaged);
        r = g_test_run();
        notify_stop();
        return r;
}
