/* SPDX-License-Identifier: MIT */

/* ReloadDevice: new code that is taken, new code that is not, and what a manager finds that others began. */

#include "bus-fixture.h"
#include "service/trial.h"

#define UNIT "ublk-ruby-device@0.service"
#define TRIAL "run/ublk-ruby/devices/0.trial"
#define DROP_IN "run/systemd/generator/ublk-ruby-device@0.service.d/50-needs.conf"
#define NEEDS_NETWORK "{\"error\":95,\"failure\":{\"kind\":\"needs\",\"message\":\"declares network\",\"needs\":[\"network\"]}}"
#define FAILURE "{\"kind\":\"hook\",\"class\":\"RuntimeError\",\"message\":\"third\",\"file\":\"/hooks/new.rb\",\"line\":3}"

static int reload(Fixture *f, uint64_t trial_usec) {
        return fixture_call(f, NULL, "ReloadDevice", NULL, "sa{sv}", "disk0", 1, "trial-time", "t", trial_usec);
}

#define DEVICE "/org/ublk/device/0"

/* Until the worker with the new code is there. */
static void begin(Fixture *f, char **result, uint64_t trial_usec) {
        uint64_t pid = fixture_get_number(f, DEVICE, "WorkerPID", 'u');

        fixture_begin(f, result, "ReloadDevice", "sa{sv}", "disk0", 1, "trial-time", "t", trial_usec);
        fixture_wait_file(f, TRIAL, true);
        while (fixture_get_number(f, DEVICE, "WorkerPID", 'u') == pid)
                g_usleep(1000);
        fixture_wait_state(f, DEVICE, "live");
}

/* By somebody else. */
static void start_unit(Fixture *f) {
        g_assert_cmpint(sd_bus_call_method(f->bus, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                           "org.freedesktop.systemd1.Manager", "StartUnit", NULL, NULL, "ss", UNIT, "replace"), >=, 0);
}

static void test_taken(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;
        uint64_t pid = fixture_get_number(f, path, "WorkerPID", 'u');

        (void) data;
        g_free(fixture_calls(f));
        g_assert_cmpint(reload(f, 200000), >=, 0);
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-check@0.service\nRestartUnit " UNIT "\n");
        g_assert_cmpuint(fixture_get_number(f, path, "WorkerPID", 'u'), !=, pid);
        g_assert_true(fixture_has(f, "kept-0"));
        g_assert_false(fixture_has(f, TRIAL));
        g_assert_false(fixture_has(f, "run/ublk-ruby-check/0.json"));
        g_assert_cmpstr(fixture_get_string(f, path, "LastError"), ==, "");
        /* And once more, of the object, with no trial to speak of. */
        fixture_unlink(f, "kept-0");
        g_assert_cmpint(fixture_call(f, path, "Reload", NULL, "a{sv}", 1, "trial-time", "t", UINT64_C(0)), >=, 0);
        g_assert_true(fixture_has(f, "kept-0"));
}

static void test_check_fails(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;

        (void) data;
        fixture_write(f, "check-0", "{\"error\":5,\"failure\":{\"kind\":\"hook\",\"class\":\"SyntaxError\",\"message\":\"unexpected \\\"end\\\"\","
                                    "\"file\":\"/hooks/new.rb\",\"line\":7}}");
        g_free(fixture_calls(f));
        fixture_assert_error(f, reload(f, 0), "org.ublk.Error.HookFailed", "SyntaxError: unexpected \"end\" (/hooks/new.rb:7)");
        fixture_write(f, "check-0", "{\"error\":22,\"failure\":{\"kind\":\"arguments\",\"message\":\"no option\"}}");
        fixture_assert_error(f, reload(f, 0), "org.freedesktop.DBus.Error.InvalidArgs", "no option");
        fixture_write(f, "check-0", "");
        fixture_assert_error(f, reload(f, 0), "org.ublk.Error.WorkerFailed", "ublk-ruby-check@0.service gave no answer");
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, "RestartUnit"));
        g_assert_false(fixture_has(f, TRIAL));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
}

/* The new code declares what the old did not. */
static void test_needs(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL, *file = NULL;

        (void) data;
        fixture_write(f, "check-0", NEEDS_NETWORK);
        g_free(fixture_calls(f));
        g_assert_cmpint(reload(f, 0), >=, 0);
        calls = fixture_calls(f);
        g_assert_nonnull(strstr(calls, "Reload"));
        g_assert_nonnull(strstr(calls, "RestartUnit " UNIT));
        file = fixture_read(f, "run/ublk-ruby/devices/0.conf");
        g_assert_nonnull(strstr(file, "Network=yes"));
        g_assert_true(fixture_has(f, DROP_IN));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
}

/* What is given to code that is then sent back is taken back: from the file, from the unit, and from the worker that came back. */
static void test_needs_taken_back(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL, *file = NULL;

        (void) data;
        fixture_write(f, "check-0", NEEDS_NETWORK);
        fixture_write(f, "fail-trial-0", "");
        g_free(fixture_calls(f));
        fixture_assert_error(f, reload(f, 5000000), "org.ublk.Error.HookFailed", "not today");
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-check@0.service\nReload\nRestartUnit " UNIT "\nReload\nRestartUnit " UNIT "\n");
        file = fixture_read(f, "run/ublk-ruby/devices/0.conf");
        g_assert_null(strstr(file, "Network=yes"));
        g_assert_false(fixture_has(f, DROP_IN));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
}

/* The worker that was there before is not on trial, even if it came when that was being written. */
static void test_worker_before(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *result = NULL, *trial = NULL, *calls = NULL;

        (void) data;
        fixture_write(f, "restless-0", "");
        g_free(fixture_calls(f));
        begin(f, &result, 3000000);
        /* The first start was the creation's. */
        do {
                g_free(trial);
                trial = fixture_read(f, TRIAL);
                g_assert_nonnull(trial);
        } while (!strstr(trial, " 3000000 00000000000000000000000000000002\n"));
        g_assert_cmpstr(fixture_end(f, &result), ==, "ok");
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-check@0.service\nRestartUnit " UNIT "\n");
        g_assert_nonnull(path);
}

/* The answer comes when the old code is back. */
static void test_start_fails(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_write(f, "fail-trial-0", "");
        fixture_assert_error(f, reload(f, 5000000), "org.ublk.Error.HookFailed", "RuntimeError: not today (/hooks/new.rb:8)");
        g_assert_nonnull(strstr(f->error.message, "goes on with the code that it had"));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_false(fixture_has(f, TRIAL));
        g_assert_false(fixture_has(f, "kept-0"));
}

static void test_does_not_last(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *result = NULL, *again = NULL;

        (void) data;
        begin(f, &result, 20000000);
        fixture_assert_error(f, reload(f, 0), "org.ublk.Error.OperationInProgress", NULL);
        fixture_set_unit(f, UNIT, "active", "running", "success", FAILURE);
        fixture_unlink(f, TRIAL);
        fixture_set_unit(f, UNIT, "deactivating", "stop-post", "exit-code", FAILURE);
        fixture_set_unit(f, UNIT, "activating", "auto-restart", "exit-code", FAILURE);
        fixture_set_unit(f, UNIT, "active", "running", "success", "Serving");
        g_assert_cmpstr(fixture_end(f, &result), ==, "org.ublk.Error.HookFailed");
        /* Without a word. */
        start_unit(f);
        begin(f, &again, 20000000);
        fixture_unlink(f, TRIAL);
        fixture_set_unit(f, UNIT, "deactivating", "stop-post", "signal", "");
        fixture_set_unit(f, UNIT, "active", "running", "success", "Serving");
        g_assert_cmpstr(fixture_end(f, &again), ==, "org.ublk.Error.WorkerFailed");
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_false(fixture_has(f, "kept-0"));
}

/* Its unit is stopped: it is not started again for this. */
static void test_stopped(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *result = NULL, *calls = NULL;

        (void) data;
        begin(f, &result, 1000000);
        g_free(fixture_calls(f));
        fixture_set_unit(f, UNIT, "inactive", "dead", "success", "");
        g_assert_cmpstr(fixture_end(f, &result), ==, "org.ublk.Error.Cancelled");
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "");
        g_assert_false(fixture_has(f, TRIAL));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "held");
}

static void test_stop_instead(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_write(f, "cancel", "");
        fixture_assert_error(f, reload(f, 0), "org.ublk.Error.Cancelled", "told to stop");
        g_assert_false(fixture_has(f, TRIAL));
        g_assert_nonnull(path);
}

/* Another worker, by whoever's hand: the trial is the device's, and goes on. */
static void test_restarted_meanwhile(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *result = NULL;

        (void) data;
        begin(f, &result, 300000);
        fixture_set_unit(f, UNIT, "deactivating", "stop", "success", "");
        g_usleep(600000);
        /* It may be down for long in the middle of that: longer than TICK_USEC of reload.c. */
        fixture_set_unit(f, UNIT, "inactive", "dead-for-now", "success", "");
        g_usleep(2600000);
        start_unit(f);
        g_assert_cmpstr(fixture_end(f, &result), ==, "ok");
        g_assert_true(fixture_has(f, "kept-0"));
        g_assert_false(fixture_has(f, TRIAL));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
}

static void test_cannot_be_kept(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "forgetful"), *calls = NULL;

        (void) data;
        g_free(fixture_calls(f));
        fixture_assert_error(f, reload(f, 0), "org.ublk.Error.WorkerFailed", "can't be kept");
        calls = fixture_calls(f); /* there and back */
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-check@0.service\nRestartUnit " UNIT "\nRestartUnit " UNIT "\n");
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_false(fixture_has(f, TRIAL));
}

static void test_late(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory");

        (void) data;
        fixture_write(f, "late-0", "");
        g_assert_cmpint(reload(f, 0), >=, 0);
        g_assert_true(fixture_has(f, "kept-0"));
        g_assert_nonnull(path);
}

static void test_hang(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;

        (void) data;
        fixture_write(f, "hang-0", "");
        g_free(fixture_calls(f));
        fixture_assert_error(f, reload(f, 0), "org.ublk.Error.HookFailed", "has been in the hook for 5.1 s (/hooks/new.rb:9). New code of device disk0");
        calls = fixture_calls(f); /* there and back */
        g_assert_cmpstr(calls, ==, "StartUnit ublk-ruby-check@0.service\nRestartUnit " UNIT "\nRestartUnit " UNIT "\n");
        g_assert_false(fixture_has(f, TRIAL));
        g_assert_false(fixture_has(f, "kept-0"));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
}

static void test_refused(Fixture *f, gconstpointer data) {
        g_autofree char *none = fixture_create(f, "none0", "none"), *huge = fixture_create(f, "huge0", "huge"), *calls = NULL;

        (void) data;
        g_free(fixture_calls(f));
        fixture_assert_error(f, fixture_call(f, none, "Reload", NULL, "a{sv}", 0), "org.freedesktop.DBus.Error.NotSupported", "recovery none");
        fixture_assert_error(f, fixture_call(f, huge, "Reload", NULL, "a{sv}", 0), "org.freedesktop.DBus.Error.NotSupported", "no way back");
        fixture_assert_error(f, fixture_call(f, NULL, "ReloadDevice", NULL, "sa{sv}", "nobody", 0), "org.ublk.Error.NoSuchDevice", NULL);
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "");
}

static void assert_invalid(Fixture *f, int r, const char *part) {
        fixture_assert_error(f, r, "org.freedesktop.DBus.Error.InvalidArgs", part);
}

static void test_options(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *calls = NULL;
        uint64_t day = 24 * 3600 * USEC_PER_SEC;

        (void) data;
        g_free(fixture_calls(f));
        assert_invalid(f, fixture_call(f, path, "Reload", NULL, "a{sv}", 1, "size", "t", UINT64_C(1)), "this method takes trial-time");
        assert_invalid(f, fixture_call(f, path, "Reload", NULL, "a{sv}", 1, "trial-time", "u", 1), "must have type t");
        assert_invalid(f, fixture_call(f, path, "Reload", NULL, "a{sv}", 2, "trial-time", "t", day, "trial-time", "t", day), "twice");
        assert_invalid(f, fixture_call(f, path, "Reload", NULL, "a{sv}", 1, "trial-time", "t", day + 1), "0 to 86400000000");
        calls = fixture_calls(f);
        g_assert_cmpstr(calls, ==, "");
}

/* The manager is killed while there is code on trial: the next one sees it to its end. */
static void test_resumed(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *result = NULL;

        (void) data;
        begin(f, &result, 500000);
        fixture_kill_manager(f, SIGKILL);
        g_assert_cmpstr(fixture_end(f, &result), !=, "ok");
        g_assert_true(fixture_has(f, TRIAL));
        fixture_start_manager(f, getuid());
        fixture_wait_file(f, TRIAL, false);
        g_assert_true(fixture_has(f, "kept-0"));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        g_assert_cmpint(reload(f, 0), >=, 0);
}

/* It was killed before the worker with the new code was there; or when that was kept already. */
static void test_nothing_to_resume(Fixture *f, gconstpointer data) {
        g_autofree char *path = fixture_create(f, "disk0", "memory"), *result = NULL, *trial = NULL, *calls = NULL, *prepared = NULL;

        (void) data;
        begin(f, &result, 20000000);
        trial = fixture_read(f, TRIAL);
        fixture_kill_manager(f, SIGKILL);
        (void) fixture_end(f, &result);
        fixture_unlink(f, TRIAL);
        start_unit(f);
        g_free(fixture_calls(f)); /* answered when that is done */
        fixture_write(f, TRIAL, trial);
        fixture_start_manager(f, getuid());
        fixture_wait_file(f, TRIAL, false);
        calls = fixture_calls(f);
        g_assert_null(strstr(calls, UNIT));
        g_assert_false(fixture_has(f, "kept-0"));
        g_assert_cmpstr(fixture_get_string(f, path, "State"), ==, "live");
        /* It was killed when only what the code needs was there. */
        *strchr(trial, ' ') = '\0';
        prepared = g_strdup_printf("%s 5000000 nobody network\n", trial);
        fixture_stop_manager(f);
        fixture_write(f, TRIAL, prepared);
        fixture_start_manager(f, getuid());
        fixture_wait_file(f, TRIAL, false);
        /* Of an earlier device with this id: nobody's affair. */
        fixture_stop_manager(f);
        fixture_write(f, TRIAL, "1234567 5000000\n");
        fixture_start_manager(f, getuid());
        g_assert_cmpint(fixture_call(f, path, "Restart", NULL, "a{sv}", 0), >=, 0);
}

/* It was killed when the worker had kept the code, or could not for its length: the code stays, and so does what it needs. */
static void test_needs_of_kept(Fixture *f, gconstpointer data) {
        static const char *const hooks[] = { "memory", "huge" };

        (void) data;
        for (uint32_t id = 0; id < ELEMENTSOF(hooks); id++) {
                g_autofree char *name = g_strdup_printf("disk%u", id), *path = fixture_create(f, name, hooks[id]), *file = NULL;
                g_autofree char *conf = g_strdup_printf("run/ublk-ruby/devices/%u.conf", id);
                g_autofree char *trial = g_strdup_printf("run/ublk-ruby/devices/%u.trial", id);
                _cleanup_(device_config_freep) DeviceConfig *c = NULL;
                _cleanup_free_ char *message = NULL;

                fixture_kill_manager(f, SIGKILL);
                config_set_root(f->root);
                g_assert_cmpint(device_config_load(id, &c, &message), ==, 0);
                g_assert_cmpint(trial_begin(c, 5000000, "network", "0123456789abcdef0123456789abcdef"), ==, 0);
                config_set_root(NULL);
                fixture_start_manager(f, getuid());
                fixture_wait_file(f, trial, false);
                file = fixture_read(f, conf);
                g_assert_nonnull(strstr(file, "Network=yes"));
                g_assert_nonnull(path);
        }
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/reload/taken", test_taken);
        fixture_add("/bus/reload/check-fails", test_check_fails);
        fixture_add("/bus/reload/needs", test_needs);
        fixture_add("/bus/reload/needs-taken-back", test_needs_taken_back);
        fixture_add("/bus/reload/worker-before", test_worker_before);
        fixture_add("/bus/reload/start-fails", test_start_fails);
        fixture_add("/bus/reload/does-not-last", test_does_not_last);
        fixture_add("/bus/reload/stopped", test_stopped);
        fixture_add("/bus/reload/stop-instead", test_stop_instead);
        fixture_add("/bus/reload/restarted-meanwhile", test_restarted_meanwhile);
        fixture_add("/bus/reload/can't-be-kept", test_cannot_be_kept);
        fixture_add("/bus/reload/late", test_late);
        fixture_add("/bus/reload/hang", test_hang);
        fixture_add("/bus/reload/refused", test_refused);
        fixture_add("/bus/reload/options", test_options);
        fixture_add("/bus/reload/resumed", test_resumed);
        fixture_add("/bus/reload/needs-of-kept", test_needs_of_kept);
        fixture_add("/bus/reload/nothing-to-resume", test_nothing_to_resume);
        return g_test_run();
}
