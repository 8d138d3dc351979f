/* SPDX-License-Identifier: MIT */

/*
 * org.freedesktop.systemd1 for tests on a private bus: just what ublk-rubyd uses of it, in the order in which systemd sends
 * its messages. "Starting" a device's unit reads the device's file below --root and makes there what worker and
 * kernel would make; the hook's name decides how it goes:
 *
 *     broken   fails with a failure text of the hook, and stays in auto-restart, as with Restart=always
 *     silent   fails without a word
 *     brief    comes to life and fails, the first time
 *     needy    fails for want of the network until its unit has a drop-in that gives it; so does any hook once there is needs-N
 *     insatiable
 *              fails so in any case
 *     odd      fails for want of what nobody knows
 *     secretive
 *              fails for want of its argument key, a secret, until its unit has a drop-in that loads it
 *     privy    fails to have it noted that its argument key is a secret, which its unit has
 *     slow     takes 300 ms, and as long as there is a file "hold"
 *     stuck    never ends its start
 *     keeps, keeps-broken
 *              keeps state; the second one then fails as broken does
 *     none     as any other, but its worker says that its recovery is none
 *     mute     its worker says nothing, until there is a file "speak" below the root
 *     liar, shapeless, impostor, symlink
 *              its worker names another depth; describes no disk; has another process listen; listens elsewhere
 *     huge     its worker can't keep the hook's code
 *     forgetful
 *              nor can this one's, as turns out after a trial
 *
 * Files below the root steer the rest: stuck-N and stats-N (mock-kernel.c), holders-N (JSON array), keep-N (the stop leaves the device quiesced), hold-after-stop-N
 * (becomes holders-N with the stop), foreign-N (another program is faster with the id), refuse-restart, cancel (somebody else's
 * stop ends each start), refuse-enable, unsupported (reason), no-answer (control writes nothing), refuse-reload,
 * check-N (what the check of a hook answers), check-hook (the same of one without a device; the proposal is copied to proposed),
 * fail-trial-N (a start on trial fails, and 200 ms later the old code is back),
 * late-N, hang-N (new code has a request in hand when its trial ends, which comes back in time, or does not),
 * restless-N (another worker is there once the trial was written, and then the file is gone),
 * can-resize (the driver has update-size), resize-N and settle-N (what the two steps of a resize answer),
 * mounted-N ("remove" refuses), list (JSON array), slow-list (takes 300 ms), served-N (a stray that a worker has, until its unit is stopped), swept-N (JSON:
 * what "sweep" and "purge" answer). Interface org.ublk.Mock sets a unit's state; sub-state dead-for-now: a job is about to start it.
 */

#include "mock-kernel.h"
#include "service/log.h"
#include "service/marker.h"
#include "service/paths.h"
#include "service/trial.h"

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#define MANAGER "org.freedesktop.systemd1.Manager"
#define UNIT "org.freedesktop.systemd1.Unit"
#define SERVICE "org.freedesktop.systemd1.Service"
#define PREFIX "/org/freedesktop/systemd1/unit"
#define MAX_UNITS 256

typedef struct Unit {
        char name[64];
        char active_state[32], sub_state[32], result[32];
        char status_text[2048];
        int status_errno;
        uint32_t main_pid, n_restarts;
        uint32_t job;
        uint8_t invocation[16]; /* counts the starts of the unit */
        bool started;
        pid_t worker; /* 0: none, even where there is a main_pid */
        bool enabled;
        sd_event_source *slow; /* of a start that takes its time, whose userdata is its job */
} Unit;

static Unit units[MAX_UNITS];
static size_t n_units;
static char calls[16384]; /* "StartUnit ublk-ruby-device@0.service\n…" */
static sd_bus *bus;
static sd_event *event;
static uint32_t last_job, last_pid = 1000;

/* systemd forgets units that are down: one of them, if it is to have room for another. */
static Unit *unit_unload(void) {
        static size_t next;

        for (size_t i = 0; i < MAX_UNITS; i++) {
                Unit *u = &units[next++ % MAX_UNITS];

                if (streq(u->active_state, "inactive") && !u->enabled && !u->slow && u->worker == 0)
                        return u;
        }
        return NULL;
}

static Unit *unit_get(const char *name, bool load) {
        for (size_t i = 0; i < n_units; i++)
                if (streq(units[i].name, name))
                        return &units[i];
        if (!load)
                return NULL;
        Unit *u = n_units < MAX_UNITS ? &units[n_units++] : unit_unload();
        if (!u)
                return NULL;
        *u = (Unit) { .active_state = "inactive", .sub_state = "dead", .result = "success" };
        snprintf(u->name, sizeof(u->name), "%s", name);
        return u;
}

static void end_worker(Unit *u) {
        if (u->worker > 0)
                worker_stop(u->worker);
        u->worker = 0;
        u->main_pid = 0;
}

static void unit_set(Unit *u, const char *active, const char *sub, const char *result, const char *status) {
        _cleanup_free_ char *path = NULL;

        snprintf(u->active_state, sizeof(u->active_state), "%s", active);
        snprintf(u->sub_state, sizeof(u->sub_state), "%s", sub);
        snprintf(u->result, sizeof(u->result), "%s", result);
        snprintf(u->status_text, sizeof(u->status_text), "%s", status);
        if (!streq(active, "active"))
                end_worker(u);
        else if (u->main_pid == 0)
                u->main_pid = u->worker > 0 ? (uint32_t) u->worker : ++last_pid;
        if (sd_bus_path_encode(PREFIX, u->name, &path) < 0)
                return;
        /* systemd's order: the type's own interface first. */
        sd_bus_emit_properties_changed(bus, path, SERVICE, "Result", "StatusText", "StatusErrno", "MainPID", "NRestarts", NULL);
        sd_bus_emit_properties_changed(bus, path, UNIT, "ActiveState", "SubState", "InvocationID", "Job", NULL);
}

static bool device_of(const Unit *u, uint32_t *ret_id) {
        return sscanf(u->name, "ublk-ruby-device@%u.service", ret_id) == 1;
}

typedef struct Job {
        uint32_t id;
        Unit *unit;
        char path[64];
} Job;

static void job_removed(const Job *j, const char *result) {
        sd_bus_emit_signal(bus, "/org/freedesktop/systemd1", MANAGER, "JobRemoved", "uoss", j->id, j->path, j->unit->name, result);
}

/* What the generator has made of the device's file, as systemd would have read it with the last reload. */
static bool drop_in_says(uint32_t id, const char *part) {
        _cleanup_free_ char *path = NULL, *text = NULL;

        return config_path(&path, "/run/systemd/generator/ublk-ruby-device@%u.service.d/50-needs.conf", id) >= 0 &&
               read_file(path, 4096, &text, NULL) >= 0 && strstr(text, part);
}

/* What its worker would say that its unit is without; NULL: nothing. */
static const char *missing_needs(const DeviceConfig *c) {
        if (streq(c->hook, "odd"))
                return "moon";
        if (streq(c->hook, "insatiable"))
                return "network";
        if (streq(c->hook, "secretive"))
                return drop_in_says(c->id, "\nLoadCredential=") ? NULL : "secret:key";
        if (streq(c->hook, "privy"))
                return c->secrets ? NULL : "loaded:key";
        if (!streq(c->hook, "needy") && !kernel_device_flag("needs", c->id))
                return NULL;
        return drop_in_says(c->id, "\nPrivateNetwork=no\n") ? NULL : "network";
}

static const char *start_device(Unit *u, uint32_t id);

static int on_automatic_restart(sd_event_source *s, uint64_t usec, void *userdata) {
        Unit *u = userdata;
        uint32_t id = 0;

        (void) usec;
        if (device_of(u, &id))
                (void) start_device(u, id);
        sd_event_source_unref(s);
        return 0;
}

/* As the worker, `release` and systemd together. */
static const char *fail_trial(Unit *u, uint32_t id) {
        _cleanup_free_ char *text = NULL;
        Failure f = FAILURE_NULL;

        failure_set(&f, FAILURE_HOOK, EIO, "not today");
        failure_set_origin(&f, "RuntimeError", "/hooks/new.rb", 8);
        failure_to_text(&f, &text);
        failure_done(&f);
        unit_set(u, "deactivating", "stop-sigterm", "exit-code", text);
        (void) trial_end(id);
        unit_set(u, "activating", "auto-restart", "exit-code", text);
        sd_event_add_time_relative(event, &(sd_event_source *) { NULL }, CLOCK_MONOTONIC, 200 * USEC_PER_MSEC, 1,
                                   on_automatic_restart, u);
        return "failed";
}

static void begin_invocation(Unit *u) {
        u->started = true;
        u->invocation[15]++;
}

static const char *start_device(Unit *u, uint32_t id) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL, *text = NULL;
        const char *needs;

        begin_invocation(u);
        u->job = 0;
        if (device_config_load(id, &c, &message) < 0) {
                unit_set(u, "failed", "failed", "exit-code", "");
                return "failed";
        }
        if (strncmp(c->hook, "keeps", strlen("keeps")) == 0)
                state_begin(c);
        if (kernel_device_flag("fail-trial", id) && trial_is_on(c, NULL))
                return fail_trial(u, id);
        if (streq(c->hook, "broken") || streq(c->hook, "keeps-broken")) {
                Failure f = FAILURE_NULL;
                failure_set(&f, FAILURE_HOOK, ENOENT, "No such file or directory @ rb_sysopen - /nowhere");
                failure_set_origin(&f, "Errno::ENOENT", "/hooks/broken.rb", 7);
                failure_to_text(&f, &text);
                failure_done(&f);
                u->n_restarts++;
                unit_set(u, "activating", "auto-restart", "exit-code", text);
                return "failed";
        }
        if (streq(c->hook, "silent")) {
                unit_set(u, "failed", "failed", "exit-code", "");
                return "failed";
        }
        needs = missing_needs(c);
        if (needs) {
                Failure f = FAILURE_NULL;
                failure_set(&f, FAILURE_NEEDS, EPERM, "its unit is without %s as yet", needs);
                failure_set_needs(&f, needs);
                failure_to_text(&f, &text);
                failure_done(&f);
                unit_set(u, "failed", "failed", "exit-code", text);
                return "failed";
        }
        if (streq(c->hook, "brief") && marker_read(c) == MARKER_NONE) {
                kernel_add(c);
                unit_set(u, "activating", "auto-restart", "signal", "");
                return "failed";
        }
        if (kernel_device_flag("foreign", id)) {
                Failure f = FAILURE_NULL;
                failure_set(&f, FAILURE_EXISTS, EEXIST, "the id %u was taken by another ublk device just now", id);
                failure_to_text(&f, &text);
                failure_done(&f);
                kernel_add_foreign(id);
                unit_set(u, "activating", "auto-restart", "exit-code", text);
                return "failed";
        }
        if (kernel_flag("cancel")) {
                unit_set(u, "inactive", "dead", "success", "");
                return "canceled";
        }
        end_worker(u);
        kernel_add(c);
        u->worker = worker_start(c);
        unit_set(u, "active", "running", "success", "");
        return "done";
}

static const char *stop_unit(Unit *u) {
        uint32_t id;

        if (device_of(u, &id)) {
                kernel_hold_after_stop(id);
                kernel_stop_serving(id);
        }
        if (device_of(u, &id) && streq(u->active_state, "active") && !kernel_device_flag("keep", id))
                kernel_remove(id);
        unit_set(u, "inactive", "dead", "success", u->status_text);
        return "done";
}

/* What ublk-ruby-control would do and answer. */
static const char *run_control(Unit *u) {
        char instance[64], word[16];
        uint32_t id = 0;

        if (kernel_flag("no-answer"))
                return "failed";
        if (sscanf(u->name, "ublk-ruby-check@%u.service", &id) == 1) {
                check_answer(id);
                return "done";
        }
        if (sscanf(u->name, "ublk-ruby-check@hook-%u.service", &id) == 1) {
                check_answer_proposal(id);
                return "done";
        }
        if (sscanf(u->name, "ublk-ruby-control@%63[^.].service", instance) != 1)
                return "failed";
        if (streq(instance, "probe"))
                control_answer_probe(instance);
        else if (sscanf(instance, "holders-%u", &id) == 1)
                control_answer_holders(instance, id);
        else if (sscanf(instance, "remove-%u-%15s", &id, word) == 2) {
                if (kernel_device_flag("mounted", id)) {
                        control_answer(instance, "{\"error\":16,\"failure\":{\"kind\":\"busy\",\"errno\":16,\"message\":\"in use\"}}");
                        return "done";
                }
                state_settle(id, word);
                if (kernel_device_flag("foreign", id)) {
                        (void) marker_remove(id);
                        control_answer(instance, "{\"error\":0,\"foreign\":true}");
                } else {
                        kernel_remove(id);
                        control_answer(instance, "{\"error\":0}");
                }
        } else if (sscanf(instance, "resize-%u", &id) == 1)
                control_answer_resize(instance, id, strchr(instance + 7, '-') ? strtoull(strchr(instance + 7, '-') + 1, NULL, 10) : 0);
        else if (streq(instance, "list"))
                control_answer_list(instance);
        else if (sscanf(instance, "sweep-%u", &id) == 1 || sscanf(instance, "purge-%u", &id) == 1)
                control_answer_stray(instance, id);
        else
                return "failed";
        return "done";
}

static const char *start_unit(Unit *u) {
        uint32_t id;

        return device_of(u, &id) ? start_device(u, id) : run_control(u);
}

static int on_slow_start(sd_event_source *s, uint64_t usec, void *userdata) {
        Job *j = userdata;

        if (kernel_flag("hold"))
                return sd_event_source_set_time(s, usec + 10 * USEC_PER_MSEC) < 0 ? -EIO : sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);
        j->unit->slow = sd_event_source_unref(s);
        job_removed(j, start_unit(j->unit));
        free(j);
        return 0;
}

/* A stop takes the place of a start. */
static void cancel_slow_start(Unit *u) {
        Job *j;

        if (!u->slow)
                return;
        j = sd_event_source_get_userdata(u->slow);
        u->slow = sd_event_source_disable_unref(u->slow);
        job_removed(j, "canceled");
        free(j);
}

static bool has_hook(const Unit *u, const char *hook) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL;
        uint32_t id;

        return device_of(u, &id) && device_config_load(id, &c, &message) >= 0 && streq(c->hook, hook);
}

static int method_job(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const char *verb = sd_bus_message_get_member(m), *name, *mode;
        Job *j;

        (void) userdata;
        if (sd_bus_message_read(m, "ss", &name, &mode) < 0)
                return -EINVAL;
        snprintf(calls + strlen(calls), sizeof(calls) - strlen(calls), "%s %s\n", verb, name);
        Unit *u = unit_get(name, true);
        if (!u)
                return sd_bus_error_set(e, "org.freedesktop.systemd1.NoSuchUnit", "Too many units.");
        j = calloc(1, sizeof(Job));
        *j = (Job) { .id = ++last_job, .unit = u };
        snprintf(j->path, sizeof(j->path), "/org/freedesktop/systemd1/job/%u", j->id);
        sd_bus_reply_method_return(m, "o", j->path);
        if (!streq(verb, "StopUnit") && has_hook(u, "stuck")) {
                unit_set(u, "activating", "start", "success", "");
                free(j);
                return 1;
        }
        if (!streq(verb, "StopUnit") && (has_hook(u, "slow") || (streq(name, "ublk-ruby-control@list.service") && kernel_flag("slow-list")))) {
                unit_set(u, "activating", "start", "success", "");
                sd_event_add_time_relative(event, &u->slow, CLOCK_MONOTONIC, 300 * USEC_PER_MSEC, 1, on_slow_start, j);
                return 1;
        }
        if (streq(verb, "StopUnit")) {
                cancel_slow_start(u);
                job_removed(j, stop_unit(u));
        }
        else if (streq(verb, "RestartUnit") && kernel_flag("refuse-restart")) {
                unit_set(u, "activating", "auto-restart", "exit-code",
                         "{\"kind\":\"hook\",\"class\":\"RuntimeError\",\"message\":\"not today\"}");
                job_removed(j, "failed");
        } else
                job_removed(j, start_unit(u));
        free(j);
        return 1;
}

static int method_reset_failed(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const char *name;

        (void) userdata;
        if (sd_bus_message_read(m, "s", &name) < 0)
                return -EINVAL;
        Unit *u = unit_get(name, false);
        if (!u)
                return sd_bus_error_set(e, "org.freedesktop.systemd1.NoSuchUnit", "Not loaded.");
        if (streq(u->active_state, "failed"))
                unit_set(u, "inactive", "dead", "success", "");
        return sd_bus_reply_method_return(m, NULL);
}

static int method_list(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        sd_bus_message *reply;

        (void) userdata, (void) e;
        sd_bus_message_new_method_return(m, &reply);
        sd_bus_message_open_container(reply, 'a', "(ssssssouso)");
        for (size_t i = 0; i < n_units; i++)
                if (strncmp(units[i].name, "ublk-ruby-device@", 17) == 0)
                        sd_bus_message_append(reply, "(ssssssouso)", units[i].name, "", "loaded", units[i].active_state,
                                              units[i].sub_state, "", "/", 0, "", "/");
        sd_bus_message_close_container(reply);
        int r = sd_bus_send(bus, reply, NULL);
        sd_bus_message_unref(reply);
        return r < 0 ? r : 1;
}

static int method_enable(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        bool enable = streq(sd_bus_message_get_member(m), "EnableUnitFiles");
        const char *name;

        (void) userdata;
        if (kernel_flag("refuse-enable"))
                return sd_bus_error_set(e, SD_BUS_ERROR_FAILED, "not today");
        sd_bus_message_enter_container(m, 'a', "s");
        while (sd_bus_message_read(m, "s", &name) > 0)
                unit_get(name, true)->enabled = enable;
        return enable ? sd_bus_reply_method_return(m, "ba(sss)", true, 0) : sd_bus_reply_method_return(m, "a(sss)", 0);
}

/* As PID 1 does it: what the generators made last goes, and they run again. */
static int method_reload(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        _cleanup_free_ char *command = NULL, *out = NULL, *root = NULL;

        (void) userdata;
        snprintf(calls + strlen(calls), sizeof(calls) - strlen(calls), "Reload\n");
        if (kernel_flag("refuse-reload"))
                return sd_bus_error_set(e, SD_BUS_ERROR_FAILED, "no space left");
        if (config_path(&out, "/run/systemd/generator") < 0 || config_path(&root, "%s", "") < 0 ||
            xasprintf(&command, "rm -rf '%s' && mkdir -p '%s' && '%s' --root='%s' '%s' /nonexistent /nonexistent", out, out,
                      getenv("UBLK_RUBY_GENERATOR"), root, out) < 0)
                return -ENOMEM;
        if (system(command) != 0)
                return sd_bus_error_set(e, SD_BUS_ERROR_FAILED, "The generator failed.");
        return sd_bus_reply_method_return(m, NULL);
}

static int method_nothing(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        (void) userdata, (void) e;
        return sd_bus_reply_method_return(m, NULL);
}

static const sd_bus_vtable manager_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_METHOD("Subscribe", "", "", method_nothing, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("StartUnit", "ss", "o", method_job, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("StopUnit", "ss", "o", method_job, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("RestartUnit", "ss", "o", method_job, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("Reload", "", "", method_reload, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("ResetFailedUnit", "s", "", method_reset_failed, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("ListUnitsByPatterns", "asas", "a(ssssssouso)", method_list, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("EnableUnitFiles", "asbb", "ba(sss)", method_enable, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("DisableUnitFiles", "asb", "a(sss)", method_enable, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_VTABLE_END,
};

/* org.ublk.Mock: what a test does to systemd behind the manager's back. */
static int method_set(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const char *name, *active, *sub, *result, *status;
        bool known;

        (void) userdata, (void) e;
        if (sd_bus_message_read(m, "sssss", &name, &active, &sub, &result, &status) < 0)
                return -EINVAL;
        known = unit_get(name, false) != NULL;
        Unit *u = unit_get(name, true);
        if (!known)
                sd_bus_emit_signal(bus, "/org/freedesktop/systemd1", MANAGER, "UnitNew", "so", name, "/ignored");
        if (streq(sub, "auto-restart"))
                u->n_restarts++;
        u->job = streq(sub, "dead-for-now") ? 1 : 0; /* in the middle of a restart */
        unit_set(u, active, sub, result, status);
        return sd_bus_reply_method_return(m, NULL);
}

static int method_calls(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        (void) userdata, (void) e;
        int r = sd_bus_reply_method_return(m, "s", calls);
        calls[0] = 0;
        return r;
}

static int method_is_enabled(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const char *name;

        (void) userdata, (void) e;
        if (sd_bus_message_read(m, "s", &name) < 0)
                return -EINVAL;
        Unit *u = unit_get(name, false);
        return sd_bus_reply_method_return(m, "b", u && u->enabled);
}

static const sd_bus_vtable mock_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_METHOD("Set", "sssss", "", method_set, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("Calls", "", "s", method_calls, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("IsEnabled", "s", "b", method_is_enabled, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_VTABLE_END,
};

static int get_field(sd_bus *b, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                     void *userdata, sd_bus_error *e) {
        Unit *u = userdata;
        const char *s = streq(property, "ActiveState") ? u->active_state : streq(property, "SubState") ? u->sub_state :
                        streq(property, "Result") ? u->result : streq(property, "StatusText") ? u->status_text : u->name;

        (void) b, (void) path, (void) interface, (void) e;
        return sd_bus_message_append(reply, "s", s);
}

/* As systemd crashes and starts a worker behind the manager's back. */
static void restart_restless(Unit *u) {
        _cleanup_free_ char *trial = NULL, *flag = NULL;
        uint32_t id;

        if (!device_of(u, &id) || !kernel_device_flag("restless", id) || config_path(&trial, PATH_DEVICES_TRANSIENT "/%u.trial", id) < 0 ||
            access(trial, F_OK) < 0 || config_path(&flag, "/restless-%u", id) < 0)
                return;
        (void) unlink(flag);
        begin_invocation(u);
}

static int get_invocation(sd_bus *b, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                          void *userdata, sd_bus_error *e) {
        Unit *u = userdata;

        (void) b, (void) path, (void) interface, (void) property, (void) e;
        restart_restless(u);
        return sd_bus_message_append_array(reply, 'y', u->invocation, u->started ? sizeof(u->invocation) : 0);
}

static int get_job(sd_bus *b, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                   void *userdata, sd_bus_error *e) {
        Unit *u = userdata;

        (void) b, (void) path, (void) interface, (void) property, (void) e;
        return sd_bus_message_append(reply, "(uo)", u->job, "/");
}

static const sd_bus_vtable unit_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("Id", "s", get_field, 0, SD_BUS_VTABLE_PROPERTY_CONST),
        SD_BUS_PROPERTY("ActiveState", "s", get_field, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
        SD_BUS_PROPERTY("SubState", "s", get_field, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
        SD_BUS_PROPERTY("Job", "(uo)", get_job, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
        SD_BUS_PROPERTY("InvocationID", "ay", get_invocation, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
        SD_BUS_VTABLE_END,
};
static const sd_bus_vtable service_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("Result", "s", get_field, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
        SD_BUS_PROPERTY("StatusText", "s", get_field, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
        SD_BUS_PROPERTY("StatusErrno", "i", NULL, offsetof(Unit, status_errno), SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
        SD_BUS_PROPERTY("MainPID", "u", NULL, offsetof(Unit, main_pid), SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
        SD_BUS_PROPERTY("NRestarts", "u", NULL, offsetof(Unit, n_restarts), SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
        SD_BUS_VTABLE_END,
};

static int find_unit(sd_bus *b, const char *path, const char *interface, void *userdata, void **ret, sd_bus_error *e) {
        _cleanup_free_ char *name = NULL;

        (void) b, (void) interface, (void) userdata, (void) e;
        if (sd_bus_path_decode(path, PREFIX, &name) <= 0)
                return 0;
        *ret = unit_get(name, true);
        return *ret != NULL;
}

int main(int argc, char **argv) {
        int r;

        if (argc != 2)
                return 2;
        log_setup("mock-systemd");
        config_set_root(argv[1]);
        kernel_set_root(argv[1]);
        r = sd_event_default(&event);
        if (r >= 0)
                r = sd_bus_open_system(&bus);
        if (r >= 0)
                r = sd_bus_attach_event(bus, event, 0);
        if (r >= 0)
                r = sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/systemd1", MANAGER, manager_vtable, NULL);
        if (r >= 0)
                r = sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/systemd1", "org.ublk.Mock", mock_vtable, NULL);
        if (r >= 0)
                r = sd_bus_add_fallback_vtable(bus, NULL, PREFIX, UNIT, unit_vtable, find_unit, NULL);
        if (r >= 0)
                r = sd_bus_add_fallback_vtable(bus, NULL, PREFIX, SERVICE, service_vtable, find_unit, NULL);
        if (r >= 0)
                r = sd_bus_request_name(bus, "org.freedesktop.systemd1", 0);
        if (r < 0)
                return log_error_errno(r, "No bus") < 0;
        sd_bus_set_exit_on_disconnect(bus, true);
        (void) sd_event_loop(event);
        return 0;
}
