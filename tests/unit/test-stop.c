/* SPDX-License-Identifier: MIT */

/* What `stop` decides: to delete the device, or to have it handed over. */

#include "service/claim.h"
#include "service/marker.h"
#include "service/stop.h"

#include "tests/unit/test-stop-kernel.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <glib.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define ASKED_TO_HAND_OVER 75
#define DEVICE_GONE 76

static bool no_processes; /* are to be had by `stop` */
static bool stopping;

pid_t fork(void) {
        pid_t (*real)(void) = (pid_t (*)(void)) dlsym(RTLD_NEXT, "fork");

        if (!no_processes || !stopping)
                return real();
        errno = EAGAIN;
        return -1;
}

static int claim_result;   /* of the disk */
static int claim_fd = -1;  /* what was given for it, once */
static bool kept_at_stop;  /* it was still open when the kernel was told to stop the disk */

int disk_claim(uint32_t id, int *ret_fd) {
        g_assert_cmpint(id, ==, TEST_ID);
        if (claim_result < 0)
                return claim_result;
        claim_fd = *ret_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        g_assert_cmpint(claim_fd, >=, 0);
        return 0;
}

static bool claim_is_kept(void) {
        return claim_fd >= 0 && fcntl(claim_fd, F_GETFD) >= 0;
}

static pid_t worker;
static const char *const *jobs; /* what PID 1 answers, one after the other; NULL is an error */
static unsigned n_queries;
static void (*on_query)(unsigned query); /* what others do meanwhile */

static int answer_job(const char *unit, uint64_t timeout_usec, char **ret) {
        const char *job = jobs[n_queries++];

        g_assert_cmpstr(unit, ==, "ublk-ruby-device@3.service");
        g_assert_cmpuint(timeout_usec, <=, 10 * USEC_PER_SEC);
        if (on_query)
                on_query(n_queries);
        return job ? xstrdup(job, ret) : -ECONNREFUSED;
}

static int memory_answer;  /* of the worker */
static int restart_answer; /* of PID 1 */

static int answer_memory(uint32_t id, pid_t pid, uint64_t timeout_usec) {
        g_assert_cmpuint(id, ==, TEST_ID);
        g_assert_cmpint(pid, ==, worker);
        g_assert_cmpuint(timeout_usec, <=, USEC_PER_SEC);
        return memory_answer;
}

static int answer_restart(const char *unit, uint64_t timeout_usec) {
        g_assert_cmpstr(unit, ==, "ublk-ruby-device@3.service");
        g_assert_cmpuint(timeout_usec, <=, USEC_PER_SEC);
        g_strlcat(kernel.calls, "restart ", sizeof(kernel.calls));
        return restart_answer;
}

static bool going_down, knows_it;      /* the machine; `stop` */
static unsigned n_looks;               /* since then, that systemd had to wait for */
static void (*on_look)(unsigned look); /* what becomes of the users meanwhile */

static int answer_going_down(uint64_t timeout_usec) {
        g_assert_cmpuint(timeout_usec, <=, 10 * USEC_PER_SEC);
        n_looks = 0;
        knows_it = going_down;
        return going_down;
}

static int unmounting; /* so many looks more */

static int answer_unmounting(uint64_t timeout_usec) {
        g_assert_cmpuint(timeout_usec, <=, 10 * USEC_PER_SEC);
        return unmounting > 0 ? unmounting-- : unmounting;
}

static void note_more_time(uint64_t usec) {
        g_assert_cmpuint(usec, >=, 16 * USEC_PER_SEC); /* what the unit has for a stop */
        n_looks++;
        if (on_look && knows_it)
                on_look(n_looks);
}

static const StopCalls calls_of_test = { .job_type = answer_job, .restart = answer_restart, .going_down = answer_going_down, .unmounting = answer_unmounting,
                                         .in_memory = answer_memory, .more_time = note_more_time };

static void on_signal(int signo) {
        _exit(signo == SIGUSR2 ? ASKED_TO_HAND_OVER : DEVICE_GONE);
}

static void worker_begin(void) {
        sigset_t set, old;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGUSR2);
        (void) sigaddset(&set, SIGUSR1);
        (void) sigprocmask(SIG_BLOCK, &set, &old);
        worker = fork();
        if (worker == 0) {
                (void) signal(SIGUSR2, on_signal);
                (void) signal(SIGUSR1, on_signal);
                (void) sigprocmask(SIG_SETMASK, &old, NULL);
                for (;;)
                        pause();
        }
        (void) sigprocmask(SIG_SETMASK, &old, NULL);
}

static void end_worker(void) {
        kept_at_stop = claim_is_kept();
        (void) kill(worker, SIGUSR1);
}

static int worker_status(void) {
        int status;

        g_assert_cmpint(waitpid(worker, &status, 0), ==, worker);
        g_assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

/* What is written to the log meanwhile. */
static char *logged_stop(void) {
        int fd = memfd_create("log", MFD_CLOEXEC), saved = dup(STDERR_FILENO);
        Failure f = FAILURE_NULL;
        char *text = NULL;
        off_t size;

        g_assert_cmpint(dup2(fd, STDERR_FILENO), >=, 0);
        n_queries = 0;
        knows_it = false;
        stopping = true;
        g_assert_cmpint(stop_device(TEST_ID, worker, &calls_of_test, &f), ==, 0);
        stopping = false;
        g_assert_cmpint(dup2(saved, STDERR_FILENO), >=, 0);
        size = lseek(fd, 0, SEEK_END);
        text = g_malloc0((gsize) size + 1);
        g_assert_cmpint(pread(fd, text, (size_t) size, 0), ==, size);
        close(fd);
        close(saved);
        return text;
}

static char last_log[4096];

static void assert_stop(const char *const *answers, const char *recovery, const char *calls, int status) {
        DeviceConfig *config = kernel_configure(recovery, 5, false);
        char *text;

        worker_begin();
        jobs = answers;
        claim_fd = -1;
        kept_at_stop = false;
        kernel.on_stop = end_worker;
        g_assert_cmpint(marker_write(config, false), ==, 0);
        text = logged_stop();
        (void) g_strlcpy(last_log, text, sizeof(last_log));
        g_assert_cmpstr(kernel.calls, ==, calls);
        g_assert_cmpint(worker_status(), ==, status);
        g_assert_false(claim_is_kept());
        g_assert_cmpint(marker_read(config), ==, status == DEVICE_GONE ? MARKER_NONE : MARKER_LIVE);
        device_config_free(config);
        g_free(text);
}

static const char *const stop[] = { "stop", "stop" };

static void test_deleted(void) {
        kernel_begin();
        assert_stop(stop, "reissue", "stop delete ", DEVICE_GONE);
        g_assert_cmpuint(n_queries, ==, 2);
        kernel_end();
}

/* Linux 7.0: udev may have it open for a moment. */
static void test_deleted_if_closed(void) {
        kernel_begin();
        kernel.features = UBLK_F_SAFE_STOP_DEV;
        kernel.try_stop_results[0] = kernel.try_stop_results[1] = -EBUSY;
        assert_stop(stop, "reissue", "try-stop try-stop try-stop delete ", DEVICE_GONE);
        kernel_end();
        kernel_begin();
        kernel.features = UBLK_F_SAFE_STOP_DEV;
        kernel.try_stop_results[0] = -ENODEV;
        assert_stop(stop, "reissue", "try-stop ", ASKED_TO_HAND_OVER);
        kernel_end();
}

static void test_kept(void) {
        static const char *const restart[] = { "restart" }, *const none[] = { "none" }, *const error[] = { NULL };
        static const char *const replaced[] = { "stop", "restart" };

        kernel_begin();
        assert_stop(restart, "reissue", "", ASKED_TO_HAND_OVER);
        kernel_end();
        kernel_begin();
        assert_stop(none, "reissue", "", ASKED_TO_HAND_OVER);
        kernel_end();
        kernel_begin();
        assert_stop(error, "reissue", "", ASKED_TO_HAND_OVER);
        kernel_end();
        kernel_begin();
        assert_stop(replaced, "reissue", "", ASKED_TO_HAND_OVER);
        kernel_end();
        kernel_begin();
        kernel_mount();
        assert_stop(stop, "reissue", "", ASKED_TO_HAND_OVER);
        kernel_end();
        kernel_begin();
        kernel.stop_result = -ETIMEDOUT;
        assert_stop(stop, "reissue", "stop ", ASKED_TO_HAND_OVER);
        kernel_end();
        kernel_begin();
        kernel.open_error = -ENOENT;
        assert_stop(stop, "reissue", "", ASKED_TO_HAND_OVER);
        kernel_end();
}

static void test_not_ours(void) {
        DeviceConfig *config;
        char *text;

        for (int i = 0; i < 2; i++) {
                kernel_begin();
                worker_begin();
                jobs = stop;
                config = kernel_configure("reissue", 5, false);
                /* Another program's, or ours of another configuration. */
                kernel.info.ublksrv_flags = i == 0 ? 0 : kernel.info.ublksrv_flags ^ 1;
                text = logged_stop();
                g_assert_cmpstr(kernel.calls, ==, "");
                g_assert_cmpint(worker_status(), ==, ASKED_TO_HAND_OVER);
                device_config_free(config);
                g_free(text);
                kernel_end();
        }
}

static void assert_logged(const char *recovery, const char *wanted, const char *unwanted) {
        DeviceConfig *config;
        char *text;

        kernel_begin();
        memory_answer = 0;
        worker_begin();
        jobs = stop;
        config = kernel_configure(recovery, 5, false);
        kernel_mount();
        text = logged_stop();
        g_assert_cmpint(worker_status(), ==, ASKED_TO_HAND_OVER);
        g_assert_nonnull(strstr(text, "mounted at /mnt"));
        g_assert_nonnull(strstr(text, wanted));
        g_assert_null(strstr(text, unwanted));
        device_config_free(config);
        g_free(text);
        kernel_end();
}

static void test_truth(void) {
        assert_logged("reissue", "is kept and waits", "lost");
        assert_logged("none", "its data is lost", "kept");
}

/* With its unit down, data in UBLK::Memory is gone: so a stop that does not delete becomes a restart. */
static void test_memory(void) {
        static const char *const replaced[] = { "stop", "restart" }, *const restart[] = { "restart" };

        for (memory_answer = 1; memory_answer >= -1; memory_answer -= 2) { /* a worker that gives no answer may have such data */
                kernel_begin();
                assert_stop(stop, "reissue", "stop delete ", DEVICE_GONE);
                kernel_end();
                kernel_begin();
                kernel_mount();
                assert_stop(stop, "reissue", "restart ", ASKED_TO_HAND_OVER);
                kernel_end();
                kernel_begin();
                kernel.stop_result = -ETIMEDOUT;
                assert_stop(stop, "reissue", "stop restart ", ASKED_TO_HAND_OVER);
                kernel_end();
                kernel_begin();
                kernel.open_error = -ENOENT;
                assert_stop(stop, "reissue", "restart ", ASKED_TO_HAND_OVER);
                kernel_end();
                /* A restart it is already. */
                kernel_begin();
                kernel_mount();
                assert_stop(restart, "reissue", "", ASKED_TO_HAND_OVER);
                kernel_end();
                kernel_begin();
                assert_stop(replaced, "reissue", "", ASKED_TO_HAND_OVER);
                kernel_end();
                /* Its data goes in any case. */
                kernel_begin();
                kernel_mount();
                assert_stop(stop, "none", "", ASKED_TO_HAND_OVER);
                kernel_end();
        }
        memory_answer = 0;
}

/* What is said of it; and PID 1 refuses, since the machine goes down. */
static void test_memory_log(void) {
        DeviceConfig *config;
        char *text;

        for (int refused = 0; refused < 2; refused++) {
                kernel_begin();
                worker_begin();
                jobs = stop;
                memory_answer = 1;
                restart_answer = refused ? -EDEADLK : 0;
                config = kernel_configure("reissue", 5, false);
                kernel_mount();
                text = logged_stop();
                g_assert_cmpint(worker_status(), ==, ASKED_TO_HAND_OVER);
                g_assert_nonnull(strstr(text, "mounted at /mnt"));
                g_assert_nonnull(strstr(text, refused ? "is lost as its unit is stopped" : "is not stopped but restarted: it is in use"));
                device_config_free(config);
                g_free(text);
                kernel_end();
        }
        memory_answer = restart_answer = 0;
}

/* The machine goes down: what is mounted from the disk has time to be unmounted, while the worker serves. */
static void unmount_later(unsigned look) {
        g_assert_cmpstr(kernel.calls, ==, "");
        g_assert_cmpint(kill(worker, 0), ==, 0);
        if (look == 4)
                kernel_unmount();
}

static void test_going_down(void) {
        kernel_begin();
        going_down = true;
        on_look = unmount_later;
        kernel_mount();
        assert_stop(stop, "reissue", "stop delete ", DEVICE_GONE);
        g_assert_cmpuint(n_looks, >=, 4);
        /* The kernel would refuse to stop what is still open, by LVM for example. */
        kernel_end();
        kernel_begin();
        kernel.features = UBLK_F_SAFE_STOP_DEV;
        kernel_stack();
        kernel_mount_stacked();
        unmounting = 3; /* the mount is gone by then, and what it has to write is not */
        assert_stop(stop, "reissue", "stop delete ", DEVICE_GONE);
        g_assert_cmpint(unmounting, ==, 0);
        g_assert_cmpuint(n_looks, >, 7);
        kernel_end();
        on_look = NULL;
        going_down = false;
        /* At any other time whatever is stacked on it keeps it. */
        kernel_begin();
        kernel_stack();
        assert_stop(stop, "reissue", "", ASKED_TO_HAND_OVER);
        kernel_end();
}

/* While systemd is asked again. */
static void map_disk(unsigned query) {
        if (query != 2)
                return;
        g_assert_true(claim_is_kept());
        kernel_put("/sys/block/ublkb3/dev", "259:1\n");
        kernel_put("/proc/44/comm", "dd\n");
        kernel_put("/proc/44/maps", "7f0e5c000000-7f0e5c021000 rw-s 00000000 00:05 731   /dev/ublkb3\n");
}

/* From the look at who uses the disk until it is stopped nobody can begin to; but a kernel that looks by itself would take that
 * for a user. */
static void test_others_kept_out(void) {
        kernel_begin();
        assert_stop(stop, "reissue", "stop delete ", DEVICE_GONE);
        g_assert_true(kept_at_stop);
        kernel_end();
        kernel_begin();
        kernel.features = UBLK_F_SAFE_STOP_DEV;
        assert_stop(stop, "reissue", "try-stop delete ", DEVICE_GONE);
        g_assert_cmpint(claim_fd, ==, -1);
        kernel_end();
        kernel_begin();
        claim_result = -EBUSY; /* a mount was faster */
        assert_stop(stop, "reissue", "", ASKED_TO_HAND_OVER);
        g_assert_cmpuint(n_queries, ==, 1);
        kernel_end();
        kernel_begin();
        claim_result = -ENXIO; /* no disk, only its device */
        assert_stop(stop, "reissue", "stop delete ", DEVICE_GONE);
        kernel_end();
        claim_result = 0;
}

/* Who just opens the disk can't be kept from that, so that there is a last look. */
static void test_opened_at_last(void) {
        kernel_begin();
        on_query = map_disk;
        assert_stop(stop, "reissue", "", ASKED_TO_HAND_OVER);
        g_assert_nonnull(strstr(last_log, "open in dd (pid 44)"));
        g_assert_cmpuint(n_queries, ==, 2);
        on_query = NULL;
        kernel_end();
}

/* What nobody could sync is not thrown away; but when the machine goes down, `stop` syncs it itself. */
static void test_not_synced(void) {
        no_processes = true;
        kernel_begin();
        kernel_put("/dev/ublkb3", "");
        assert_stop(stop, "reissue", "", ASKED_TO_HAND_OVER);
        g_assert_nonnull(strstr(last_log, "could not be synced: the process"));
        kernel_end();
        going_down = true;
        kernel_begin();
        kernel_put("/dev/ublkb3", "");
        assert_stop(stop, "reissue", "stop delete ", DEVICE_GONE);
        g_assert_null(strstr(last_log, "could not be synced"));
        kernel_end();
        going_down = no_processes = false;
}

static void test_no_worker(void) {
        Failure f = FAILURE_NULL;
        DeviceConfig *config;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        n_queries = 0;
        g_assert_cmpint(stop_device(TEST_ID, 0, &calls_of_test, &f), ==, 0);
        g_assert_cmpint(stop_device(TEST_ID, INT32_MAX, &calls_of_test, &f), ==, 0);
        g_assert_cmpuint(n_queries, ==, 0);
        g_assert_cmpstr(kernel.calls, ==, "");
        device_config_free(config);
        kernel_end();
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/stop/deleted", test_deleted);
        g_test_add_func("/stop/deleted-if-closed", test_deleted_if_closed);
        g_test_add_func("/stop/kept", test_kept);
        g_test_add_func("/stop/not-ours", test_not_ours);
        g_test_add_func("/stop/truth", test_truth);
        g_test_add_func("/stop/memory", test_memory);
        g_test_add_func("/stop/memory-log", test_memory_log);
        g_test_add_func("/stop/going-down", test_going_down);
        g_test_add_func("/stop/others-kept-out", test_others_kept_out);
        g_test_add_func("/stop/opened-at-last", test_opened_at_last);
        g_test_add_func("/stop/not-synced", test_not_synced);
        g_test_add_func("/stop/no-worker", test_no_worker);
        return g_test_run();
}
