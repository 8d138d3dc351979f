/* SPDX-License-Identifier: MIT */

/* What a dead worker leaves: what is deleted, what is remembered, and how long the next one waits. */

#include "service/activation-attempts.h"
#include "service/control-node.h"
#include "service/exit-status.h"
#include "service/give-up.h"
#include "service/last-word.h"
#include "service/marker.h"
#include "service/release.h"
#include "service/state.h"
#include "service/trial.h"

#include "tests/unit/test-stop-kernel.h"

#include <glib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define KILLED (-1)
#define HANDED_OVER 75
#define STOPPED 76
#define WRONG 78

static void release(int exit_status) {
        Failure f = FAILURE_NULL;

        /* As systemd has it where nothing but the worker's end is to blame. */
        g_assert_cmpint(release_device(TEST_ID, &(WorkerEnd) { exit_status, exit_status != HANDED_OVER && exit_status != STOPPED, NULL }, &f), ==, 0);
        failure_done(&f);
}

typedef struct Case {
        const char *recovery;
        int state;       /* of the device, -1: gone */
        int exit_status;
        int marker;      /* afterwards */
        const char *calls;
} Case;

static void test_markers(void) {
        static const Case cases[] = {
                { "none", -1, KILLED, MARKER_LOST, "" },
                { "none", -1, STOPPED, MARKER_NONE, "" },
                { "none", UBLK_S_DEV_DEAD, KILLED, MARKER_LOST, "delete " },
                { "none", UBLK_S_DEV_DEAD, STOPPED, MARKER_NONE, "delete " },
                { "reissue", -1, KILLED, MARKER_LIVE, "" },
                { "reissue", UBLK_S_DEV_DEAD, KILLED, MARKER_NONE, "delete " },
                { "reissue", UBLK_S_DEV_QUIESCED, KILLED, MARKER_LIVE, "" },
                { "reissue", UBLK_S_DEV_QUIESCED, HANDED_OVER, MARKER_LIVE, "" },
                { "fail", UBLK_S_DEV_LIVE, KILLED, MARKER_LIVE, "" },
                { "fail-io", UBLK_S_DEV_FAIL_IO, KILLED, MARKER_LIVE, "" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const Case *c = &cases[i];
                DeviceConfig *config;

                kernel_begin();
                config = kernel_configure(c->recovery, 5, false);
                g_assert_cmpint(marker_write(config, false), ==, 0);
                kernel.exists = c->state >= 0;
                kernel.info.state = (uint16_t) c->state;
                release(c->exit_status);
                g_assert_cmpstr(kernel.calls, ==, c->calls);
                g_assert_cmpint(marker_read(config), ==, c->marker);
                device_config_free(config);
                kernel_end();
        }
}

/* Linux 6.12 ends a device some time after its worker. */
static void test_settles(void) {
        DeviceConfig *config;

        kernel_begin();
        config = kernel_configure("none", 5, false);
        g_assert_cmpint(marker_write(config, false), ==, 0);
        kernel.info.state = UBLK_S_DEV_DEAD;
        kernel.live_polls = 3;
        release(KILLED);
        g_assert_cmpstr(kernel.calls, ==, "delete ");
        g_assert_cmpint(marker_read(config), ==, MARKER_LOST);
        device_config_free(config);
        kernel_end();
}

static void test_never_live(void) {
        DeviceConfig *config;

        kernel_begin();
        config = kernel_configure("none", 5, false);
        kernel.info.state = UBLK_S_DEV_DEAD;
        release(WRONG);
        g_assert_cmpstr(kernel.calls, ==, "delete ");
        g_assert_cmpint(marker_read(config), ==, MARKER_NONE);
        device_config_free(config);
        kernel_end();
}

static void test_foreign(void) {
        Failure f = FAILURE_NULL;
        DeviceConfig *config;
        bool foreign = false;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        g_assert_cmpint(marker_write(config, false), ==, 0);
        kernel.info.ublksrv_flags = 0;
        kernel.info.state = UBLK_S_DEV_DEAD;
        release(KILLED);
        g_assert_cmpint(marker_read(config), ==, MARKER_LIVE);
        g_assert_cmpint(remove_device(TEST_ID, REMOVE_LEAVES_STATE, &foreign, &f), ==, 0);
        g_assert_true(foreign);
        g_assert_cmpstr(kernel.calls, ==, "");
        g_assert_true(kernel.exists);
        g_assert_cmpint(marker_read(config), ==, MARKER_NONE);
        device_config_free(config);
        kernel_end();
}

static void test_remove(void) {
        Failure f = FAILURE_NULL;
        DeviceConfig *config;
        bool foreign = true;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        g_assert_cmpint(marker_write(config, false), ==, 0);
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        kernel_mount();
        g_assert_cmpint(remove_device(TEST_ID, REMOVE_LEAVES_STATE, &foreign, &f), ==, -EBUSY);
        g_assert_false(foreign);
        g_assert_nonnull(strstr(f.message, "/mnt"));
        g_assert_cmpstr(kernel.calls, ==, "");
        kernel_put("/proc/1/mountinfo", "");
        g_assert_cmpint(remove_device(TEST_ID, REMOVE_LEAVES_STATE, &foreign, &f), ==, 0);
        g_assert_false(foreign);
        g_assert_cmpstr(kernel.calls, ==, "stop delete ");
        g_assert_cmpint(marker_read(config), ==, MARKER_NONE);
        g_assert_cmpint(remove_device(TEST_ID, REMOVE_LEAVES_STATE, &foreign, &f), ==, 0); /* there is none */
        g_assert_cmpstr(kernel.calls, ==, "stop delete ");
        failure_done(&f);
        device_config_free(config);
        kernel_end();
}

static bool has(const char *name) {
        char *path = kernel_path(name);
        bool r = g_file_test(path, G_FILE_TEST_EXISTS);

        g_free(path);
        return r;
}

/* As its worker would. */
static DeviceConfig *configure_with_state(bool creating) {
        DeviceConfig *config = kernel_configure("reissue", 5, false);
        char *path = kernel_path("/var/lib/ublk-ruby/disk0"), *base = g_path_get_dirname(path);

        g_assert_cmpint(g_mkdir_with_parents(base, 0755), ==, 0);
        g_assert_cmpint(state_claim(path, config->created_usec), ==, 0);
        kernel_put("/var/lib/ublk-ruby/disk0/bitmap", "x");
        config->creating = creating;
        g_assert_cmpint(device_config_save(config), ==, 0);
        g_free(base);
        g_free(path);
        return config;
}

static void test_state(void) {
        static const struct {
                RemoveState state;
                bool creating, found; /* found: it had been there before */
                bool kept;
        } cases[] = {
                { REMOVE_LEAVES_STATE, false, false, true },
                { REMOVE_STATE, false, false, false },
                { REMOVE_STATE, false, true, false },
                { REMOVE_STATE, true, false, false },
                { REMOVE_STATE, true, true, true },
                { REMOVE_KEEPS_STATE, false, false, true },
        };
        bool foreign;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Failure f = FAILURE_NULL;
                DeviceConfig *config;

                kernel_begin();
                config = configure_with_state(cases[i].creating);
                kernel.info.state = UBLK_S_DEV_QUIESCED;
                if (cases[i].found)
                        kernel_put("/var/lib/ublk-ruby/.disk0.owner", "5 found\n");
                /* Not before it is certain that the device goes. */
                kernel_mount();
                g_assert_cmpint(remove_device(TEST_ID, cases[i].state, &foreign, &f), ==, -EBUSY);
                g_assert_true(has("/var/lib/ublk-ruby/disk0/bitmap"));
                kernel_put("/proc/1/mountinfo", "");
                g_assert_cmpint(remove_device(TEST_ID, cases[i].state, &foreign, &f), ==, 0);
                g_assert_cmpint(has("/var/lib/ublk-ruby/disk0/bitmap"), ==, cases[i].kept);
                g_assert_cmpint(has("/var/lib/ublk-ruby/.disk0.owner"), ==, cases[i].state == REMOVE_LEAVES_STATE);
                failure_done(&f);
                device_config_free(config);
                kernel_end();
        }
}

/* The unit's own end of it, whatever the worker's: it can be started again, and then has what it had. */
static void test_release_keeps_state(void) {
        static const int statuses[] = { KILLED, HANDED_OVER, STOPPED, WRONG };

        for (size_t i = 0; i < ELEMENTSOF(statuses); i++) {
                DeviceConfig *config;

                kernel_begin();
                config = configure_with_state(false);
                kernel.info.state = UBLK_S_DEV_DEAD;
                release(statuses[i]);
                g_assert_true(has("/var/lib/ublk-ruby/disk0/bitmap"));
                device_config_free(config);
                kernel_end();
        }
}

/* Code on trial is on trial until its worker ends otherwise than by handing over. */
static void test_trial(void) {
        static const struct {
                int exit_status;
                bool failed;
                bool over;
        } cases[] = {
                { HANDED_OVER, false, false }, { HANDED_OVER, true, true }, { KILLED, true, true }, { 1, true, true },
                { 0, false, true },            { STOPPED, false, true },    { WRONG, true, true },
        };
        WorkerEnd end = { .invocation = "2" };
        Failure f = FAILURE_NULL;
        DeviceConfig *config;
        bool foreign;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                end.exit_status = cases[i].exit_status;
                end.unit_failed = cases[i].failed;
                g_assert_cmpint(trial_begin(config, 5, NULL, "1"), ==, 0);
                g_assert_cmpint(release_device(TEST_ID, &end, &f), ==, cases[i].over ? RELEASE_TRIAL_FAILED : 0);
                g_test_message("%d", cases[i].exit_status);
                g_assert_cmpint(trial_is_on(config, NULL), ==, !cases[i].over);
        }
        g_assert_cmpint(trial_begin(config, 5, NULL, "1"), ==, 0);
        g_assert_cmpint(remove_device(TEST_ID, REMOVE_STATE, &foreign, &f), ==, 0);
        g_assert_false(trial_is_on(config, NULL));
        device_config_free(config);
        kernel_end();
}

/* The worker before the trial dies by itself, just when that has begun: the code is not tried yet. And what is tried and fails does not
 * make one more attempt of the code before it. */
static void test_trial_and_attempts(void) {
        WorkerEnd before = { .exit_status = 1, .unit_failed = true, .invocation = "1" };
        WorkerEnd tried = { .exit_status = 1, .unit_failed = true, .invocation = "2" };
        Failure f = FAILURE_NULL;
        DeviceConfig *config;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        g_assert_cmpint(marker_write(config, false), ==, 0);
        for (size_t i = 0; i < 3; i++)
                release(1);
        g_assert_cmpuint(attempts_delay(config), ==, 0);
        g_assert_cmpint(trial_begin(config, 5, NULL, "1"), ==, 0);
        g_assert_cmpint(release_device(TEST_ID, &before, &f), ==, 0);
        g_assert_true(trial_is_on(config, NULL));
        g_assert_cmpuint(attempts_delay(config), ==, 200 * USEC_PER_MSEC);
        g_assert_cmpint(release_device(TEST_ID, &tried, &f), ==, RELEASE_TRIAL_FAILED);
        g_assert_false(trial_is_on(config, NULL));
        g_assert_cmpuint(attempts_delay(config), ==, 200 * USEC_PER_MSEC);
        g_assert_cmpint(release_device(TEST_ID, &before, &f), ==, 0);
        g_assert_cmpuint(attempts_delay(config), ==, 400 * USEC_PER_MSEC);
        device_config_free(config);
        kernel_end();
}

/* A mount counts, however short the disk's life was. */
static void test_remove_undone(void) {
        Failure f = FAILURE_NULL;
        DeviceConfig *config;
        bool foreign;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        config->creating = true;
        g_assert_cmpint(device_config_save(config), ==, 0);
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        kernel_mount();
        g_assert_cmpint(remove_device(TEST_ID, REMOVE_STATE, &foreign, &f), ==, -EBUSY);
        g_assert_cmpstr(kernel.calls, ==, "");
        failure_done(&f);
        device_config_free(config);
        kernel_end();
}

static void assert_no_attempts(const DeviceConfig *config) {
        char *path = kernel_path("/run/ublk-ruby/nodes/ublkb3.attempts");

        g_assert_cmpuint(attempts_delay(config), ==, 0);
        g_assert_cmpint(access(path, F_OK), <, 0);
        g_free(path);
}

/* Only what fails again and again is slowed down. */
static void test_attempts(void) {
        static const uint64_t msec[] = { 0, 0, 0, 200, 400, 800, 1600, 3200, 6400, 10000, 10000 };
        DeviceConfig *config, *later;
        Failure f = FAILURE_NULL;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        g_assert_cmpint(marker_write(config, false), ==, 0);
        assert_no_attempts(config);
        for (size_t i = 0; i < ELEMENTSOF(msec); i++) {
                release(i % 2 == 0 ? KILLED : 1);
                g_assert_cmpuint(attempts_delay(config), ==, msec[i] * USEC_PER_MSEC);
        }
        later = kernel_configure("reissue", 6, false);
        g_assert_cmpuint(attempts_delay(later), ==, 0);
        release(HANDED_OVER);
        assert_no_attempts(config);
        /* `activate` fails, and the worker is told to go. */
        for (size_t i = 0; i < 4; i++)
                g_assert_cmpint(release_device(TEST_ID, &(WorkerEnd) { HANDED_OVER, .unit_failed = true }, &f), ==, 0);
        g_assert_cmpuint(attempts_delay(later), ==, 200 * USEC_PER_MSEC);
        attempts_forget(TEST_ID);
        assert_no_attempts(config);
        device_config_free(later);
        device_config_free(config);
        kernel_end();
}

static void put_last_word(const char *text) {
        char *path = kernel_path("/run/ublk-ruby/3/last-word"), *directory = g_path_get_dirname(path);

        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        (void) unlink(path);
        if (text)
                g_assert_cmpint(symlink(text, path), ==, 0);
        g_free(directory);
        g_free(path);
}

/* A hook's code can end the process with any status. Only what the worker has said as well is believed. */
static void test_last_word(void) {
        static const int reserved[] = { HANDED_OVER, STOPPED, WRONG };

        kernel_begin();
        put_last_word(NULL);
        for (size_t i = 0; i < ELEMENTSOF(reserved); i++) {
                int status = reserved[i];

                put_last_word(NULL);
                g_assert_cmpint(last_word_judge(TEST_ID, status), ==, EXIT_CRASHED);
                put_last_word("77");
                g_assert_cmpint(last_word_judge(TEST_ID, status), ==, EXIT_CRASHED);
                put_last_word("/etc/shadow");
                g_assert_cmpint(last_word_judge(TEST_ID, status), ==, EXIT_CRASHED);
                last_word_begin(TEST_ID);
                last_word_say(status);
                g_assert_cmpint(last_word_judge(TEST_ID, status), ==, status);
                for (size_t k = 0; k < ELEMENTSOF(reserved); k++)
                        g_assert_cmpint(last_word_judge(TEST_ID, reserved[k]), ==, k == i ? status : EXIT_CRASHED);
                /* The next worker begins. */
                last_word_begin(TEST_ID);
                g_assert_cmpint(last_word_judge(TEST_ID, status), ==, EXIT_CRASHED);
        }
        /* Others mean nothing, said or not. */
        last_word_say(3);
        g_assert_cmpint(last_word_judge(TEST_ID, 3), ==, 3);
        g_assert_cmpint(last_word_judge(TEST_ID, 0), ==, 0);
        /* What a hook has put in its place is taken away. */
        put_last_word("75");
        last_word_say(WRONG);
        g_assert_cmpint(last_word_judge(TEST_ID, WRONG), ==, WRONG);
        kernel_end();
}

static const char *job;     /* of the unit; NULL: PID 1 does not answer */
static int restart_result;
static unsigned n_restarts;

static int answer_job(const char *unit, uint64_t timeout_usec, char **ret) {
        (void) timeout_usec;
        g_assert_cmpstr(unit, ==, "ublk-ruby-device@3.service");
        return job ? xstrdup(job, ret) : -ECONNREFUSED;
}

static int note_restart(const char *unit, uint64_t timeout_usec) {
        (void) timeout_usec;
        g_assert_cmpstr(unit, ==, "ublk-ruby-device@3.service");
        n_restarts++;
        return restart_result;
}

static void assert_restart(const char *unit_job, int wanted) {
        Failure f = FAILURE_NULL;

        n_restarts = 0;
        job = unit_job;
        g_assert_cmpint(release_restart(TEST_ID, answer_job, note_restart, &f), ==, wanted);
        g_assert_cmpuint(n_restarts, ==, wanted > 0 || (wanted < 0 && unit_job));
        if (wanted < 0)
                g_assert_nonnull(strstr(f.message, "systemctl start ublk-ruby-device@3.service"));
        failure_done(&f);
}

/* Where systemd starts no worker, as it was told a status that it has to believe. */
static void test_restart(void) {
        DeviceConfig *config;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        assert_restart("none", 0); /* it never lived */
        g_assert_cmpint(marker_write(config, false), ==, 0);
        assert_restart("none", 1);
        assert_restart("start", 1); /* the one that has failed */
        assert_restart("stop", 0);
        assert_restart("restart", 0);
        assert_restart(NULL, -ECONNREFUSED);
        restart_result = -EDEADLK;
        assert_restart("none", -EDEADLK);
        restart_result = 0;
        device_config_free(config);
        kernel_end();
}

/* Whoever makes a device deals with one that never lives; at boot nobody makes it. */
static void test_attempts_of_new(void) {
        DeviceConfig *config;

        for (int persistent = 0; persistent < 2; persistent++) {
                kernel_begin();
                config = kernel_configure("reissue", 5, persistent);
                for (size_t i = 0; i < 5; i++) {
                        kernel.exists = false;
                        release(1);
                }
                if (persistent)
                        g_assert_cmpuint(attempts_delay(config), >, 0);
                else
                        assert_no_attempts(config);
                release(WRONG);
                assert_no_attempts(config);
                device_config_free(config);
                kernel_end();
        }
}

/* What was noted, as if it were `ago` seconds older. */
static void put_attempts(const DeviceConfig *config, unsigned count, char state, uint64_t ago, uint64_t since_ago) {
        g_autofree char *text = g_strdup_printf("%u %c %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GINT64_MODIFIER "x\n", count,
                                                state, now_usec() - ago * USEC_PER_SEC, now_usec() - since_ago * USEC_PER_SEC,
                                                device_config_kernel_tag(config));

        kernel_put("/run/ublk-ruby/nodes/ublkb3.attempts", text);
}

/* A worker that comes to life only to end at once is no better than one that does not; one that serves is. */
static void test_attempts_of_live(void) {
        DeviceConfig *config;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        g_assert_cmpint(marker_write(config, false), ==, 0);
        attempts_note_live(config);
        assert_no_attempts(config);
        for (size_t i = 0; i < 8; i++) {
                release(KILLED);
                attempts_note_live(config);
        }
        release(KILLED);
        g_assert_cmpuint(attempts_delay(config), ==, 1000 * USEC_PER_MSEC); /* it did serve others */
        release(1);
        g_assert_cmpuint(attempts_delay(config), ==, 10000 * USEC_PER_MSEC);
        put_attempts(config, 9, 'l', 9, 30);
        release(KILLED);
        g_assert_cmpuint(attempts_delay(config), ==, 1000 * USEC_PER_MSEC);
        put_attempts(config, 9, 'l', 10, 30);
        release(KILLED);
        g_assert_cmpuint(attempts_delay(config), ==, 0);
        device_config_free(config);
        kernel_end();
}

static int given_status(const char *unit, uint64_t timeout_usec, char **ret) {
        g_assert_cmpstr(unit, ==, "ublk-ruby-device@3.service");
        g_assert_cmpuint(timeout_usec, >, 0);
        return xstrdup("{\"kind\":\"hook\",\"errno\":5,\"class\":\"RuntimeError\",\"message\":\"out of luck\"}", ret);
}

static int no_status(const char *unit, uint64_t timeout_usec, char **ret) {
        (void) unit, (void) timeout_usec;
        return xstrdup("Serving /dev/ublkb3", ret);
}

static int give_up(int exit_status, UnitStatusQuery query) {
        Failure f = FAILURE_NULL;
        int r;

        r = give_up_if_due(TEST_ID, exit_status, "was ended by SIGKILL", query, &f);
        failure_done(&f);
        return r;
}

static DeviceConfig *configure_error(void) {
        DeviceConfig *config = kernel_configure("reissue", 5, false);

        config->fail_on_failure = true;
        g_assert_cmpint(device_config_save(config), ==, 0);
        kernel.info.state = UBLK_S_DEV_QUIESCED;
        g_assert_cmpint(marker_write(config, false), ==, 0);
        return config;
}

static void test_give_up_when(void) {
        static const struct {
                unsigned count;
                char state;
                uint64_t since;
                bool due;
        } cases[] = {
                { 8, 'f', 20, true }, { 7, 'f', 600, false }, { 100, 'f', 19, false }, { 8, 'e', 21, true },
        };
        DeviceConfig *config;
        Failure f = FAILURE_NULL;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                kernel_begin();
                config = configure_error();
                put_attempts(config, cases[i].count, cases[i].state, 0, cases[i].since);
                g_assert_cmpint(give_up(1, given_status), ==, 0);
                g_assert_cmpstr(kernel.calls, ==, cases[i].due ? "stop delete " : "");
                g_assert_cmpint(give_up_read(config, &f), ==, cases[i].due);
                failure_done(&f);
                device_config_free(config);
                kernel_end();
        }
        /* The default is to wait. */
        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        put_attempts(config, 100, 'f', 0, 3600);
        g_assert_cmpint(give_up(1, given_status), ==, 0);
        g_assert_cmpstr(kernel.calls, ==, "");
        device_config_free(config);
        kernel_end();
}

static void test_give_up(void) {
        Failure f = FAILURE_NULL;
        DeviceConfig *config, *later;

        kernel_begin();
        config = configure_error();
        put_attempts(config, 8, 'f', 0, 25);
        g_assert_cmpint(give_up(1, given_status), ==, 0);
        g_assert_cmpint(give_up_read(config, &f), ==, 1);
        g_assert_cmpint(f.kind, ==, FAILURE_HOOK);
        g_assert_nonnull(strstr(f.message, "8 workers of disk0"));
        g_assert_nonnull(strstr(f.message, "ublkctl restart disk0"));
        g_assert_nonnull(strstr(f.message, "RuntimeError: out of luck"));
        /* The worker says so; then it is done with. */
        release(WRONG);
        g_assert_cmpint(give_up(WRONG, given_status), ==, 0);
        g_assert_cmpint(give_up_read(config, &f), ==, 0);
        g_assert_cmpint(marker_read(config), ==, MARKER_LIVE); /* for what it keeps in memory */
        assert_no_attempts(config);
        failure_done(&f);

        /* Nobody said why. Of another device with this id: nothing. */
        put_attempts(config, 8, 'e', 0, 25);
        g_assert_cmpint(give_up(KILLED, no_status), ==, 0);
        g_assert_cmpint(give_up_read(config, &f), ==, 1);
        g_assert_nonnull(strstr(f.message, "it was ended by SIGKILL"));
        failure_done(&f);
        later = kernel_configure("reissue", 6, false);
        g_assert_cmpint(give_up_read(later, &f), ==, 0);
        give_up_forget(TEST_ID);
        g_assert_cmpint(give_up_read(config, &f), ==, 0);
        device_config_free(later);
        device_config_free(config);
        kernel_end();
}

/* Where the kernel does not end the device, nothing was given up, and it is tried again. */
static void test_give_up_fails(void) {
        Failure f = FAILURE_NULL;
        DeviceConfig *config;

        kernel_begin();
        config = configure_error();
        put_attempts(config, 8, 'f', 0, 25);
        kernel.stop_result = -ETIMEDOUT;
        g_assert_cmpint(give_up(1, given_status), ==, -ETIMEDOUT);
        g_assert_cmpint(give_up_read(config, &f), ==, 0);
        kernel.stop_result = 0;
        kernel.info.ublksrv_flags = 0; /* another program's */
        g_assert_cmpint(give_up(1, given_status), ==, 0);
        g_assert_cmpstr(kernel.calls, ==, "stop ");
        g_assert_cmpint(give_up_read(config, &f), ==, 1);
        failure_done(&f);
        device_config_free(config);
        kernel_end();
}

static void test_damaged_attempts(void) {
        static const char *const bad[] = { "", "9", "9 f", "9 f 9 9 zz", "99999999999999999999 f 1 1 1", "-9 f 1 1 1",
                                           "9 f 99999999999999999 1 5\n" };
        DeviceConfig *config;

        kernel_begin();
        config = kernel_configure("reissue", 5, false);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                kernel_put("/run/ublk-ruby/nodes/ublkb3.attempts", bad[i]);
                g_assert_cmpuint(attempts_delay(config), ==, 0);
        }
        device_config_free(config);
        kernel_end();
}

static void test_node(void) {
        DeviceConfig *config;
        struct stat st;
        char *path;

        kernel_begin();
        path = kernel_path("/dev/ublkc3");
        g_assert_cmpint(control_node_reset(TEST_ID), ==, -ENOENT);
        kernel_put("/dev/ublkc3", "");
        g_assert_cmpint(control_node_reset(TEST_ID), ==, -ENXIO);
        g_assert_cmpint(unlink(path), ==, 0);
        g_assert_cmpint(symlink("/dev/null", path), ==, 0);
        g_assert_cmpint(control_node_reset(TEST_ID), ==, -ENXIO);
        g_assert_cmpint(unlink(path), ==, 0);
        /* The rest takes root. */
        if (geteuid() == 0 && mknod(path, S_IFCHR | 0666, makedev(1, 3)) == 0) {
                config = kernel_configure("reissue", 5, false);
                kernel.info.state = UBLK_S_DEV_QUIESCED;
                g_assert_cmpint(chown(path, 1234, 1234), ==, 0);
                release(KILLED);
                g_assert_cmpint(stat(path, &st), ==, 0);
                g_assert_cmpuint(st.st_uid, ==, 0);
                g_assert_cmpuint(st.st_gid, ==, 0);
                g_assert_cmphex(st.st_mode & 07777, ==, 0600);
                /* Not of another program's device. */
                g_assert_cmpint(chown(path, 1234, 1234), ==, 0);
                kernel.info.ublksrv_flags = 0;
                release(KILLED);
                g_assert_cmpint(stat(path, &st), ==, 0);
                g_assert_cmpuint(st.st_uid, ==, 1234);
                device_config_free(config);
        }
        g_free(path);
        kernel_end();
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/release/markers", test_markers);
        g_test_add_func("/release/settles", test_settles);
        g_test_add_func("/release/never-live", test_never_live);
        g_test_add_func("/release/foreign", test_foreign);
        g_test_add_func("/release/remove", test_remove);
        g_test_add_func("/release/state", test_state);
        g_test_add_func("/release/keeps-state", test_release_keeps_state);
        g_test_add_func("/release/trial", test_trial);
        g_test_add_func("/release/trial-and-attempts", test_trial_and_attempts);
        g_test_add_func("/release/remove-undone", test_remove_undone);
        g_test_add_func("/release/attempts", test_attempts);
        g_test_add_func("/release/last-word", test_last_word);
        g_test_add_func("/release/restart", test_restart);
        g_test_add_func("/release/attempts-of-new", test_attempts_of_new);
        g_test_add_func("/release/attempts-of-live", test_attempts_of_live);
        g_test_add_func("/release/damaged-attempts", test_damaged_attempts);
        g_test_add_func("/release/give-up-when", test_give_up_when);
        g_test_add_func("/release/give-up", test_give_up);
        g_test_add_func("/release/give-up-fails", test_give_up_fails);
        g_test_add_func("/release/node", test_node);
        return g_test_run();
}
