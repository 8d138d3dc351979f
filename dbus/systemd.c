/* SPDX-License-Identifier: MIT */
#include "dbus/systemd.h"

struct SystemdJob {
        Systemd *systemd; /* borrowed */
        SystemdJob *next;
        sd_bus_slot *slot; /* of the call, until it is answered */
        char *path;        /* of the job, from then on */
        SystemdJobHandler handler;
        void *userdata;
};

struct Systemd {
        sd_bus *bus;
        sd_bus_slot *job_removed, *unit_new, *subscribe;
        SystemdUnitHandler on_new, on_job_removed;
        void *userdata;
        SystemdJob *jobs;
};

SystemdJob *systemd_job_free(SystemdJob *j) {
        if (!j)
                return NULL;
        for (SystemdJob **p = &j->systemd->jobs; *p; p = &(*p)->next)
                if (*p == j) {
                        *p = j->next;
                        break;
                }
        sd_bus_slot_unref(j->slot);
        free(j->path);
        free(j);
        return NULL;
}

/* A handler may free its job and start others, so the search begins anew after each; a job without a path is not found again. */
static SystemdJob *find_job(Systemd *s, const char *path) {
        for (SystemdJob *j = s->jobs; j; j = j->next)
                if (j->path && streq(j->path, path))
                        return j;
        return NULL;
}

static void finish_jobs(Systemd *s, const char *path, const char *result) {
        for (SystemdJob *j; (j = find_job(s, path));) {
                free(j->path);
                j->path = NULL;
                j->handler(j->userdata, result, NULL);
        }
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *path, *unit, *result;
        Systemd *s = userdata;
        uint32_t id;

        (void) error;
        if (sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) < 0)
                return 0;
        finish_jobs(s, path, result);
        if (s->on_job_removed)
                s->on_job_removed(s->userdata, unit);
        return 0;
}

static int on_unit_new(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *unit, *path;
        Systemd *s = userdata;

        (void) error;
        if (sd_bus_message_read(m, "so", &unit, &path) >= 0 && s->on_new)
                s->on_new(s->userdata, unit);
        return 0;
}

static int on_ignored(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        (void) m;
        (void) userdata;
        (void) error;
        return 0;
}

int systemd_new(sd_bus *bus, SystemdUnitHandler on_new, SystemdUnitHandler on_job, void *userdata, Systemd **ret) {
        Systemd *s = malloc(sizeof(Systemd));
        int r;

        if (!s)
                return -ENOMEM;
        *s = (Systemd) { .bus = bus, .on_new = on_new, .on_job_removed = on_job, .userdata = userdata };
        r = sd_bus_match_signal_async(bus, &s->job_removed, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "JobRemoved",
                                      on_job_removed, NULL, s);
        if (r >= 0)
                r = sd_bus_match_signal_async(bus, &s->unit_new, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "UnitNew",
                                              on_unit_new, NULL, s);
        /* Without a subscriber systemd sends no signals at all. */
        if (r >= 0)
                r = sd_bus_call_method_async(bus, &s->subscribe, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "Subscribe",
                                             on_ignored, s, NULL);
        if (r < 0) {
                systemd_free(s);
                return r;
        }
        *ret = s;
        return 0;
}

Systemd *systemd_free(Systemd *s) {
        if (!s)
                return NULL;
        sd_bus_slot_unref(s->job_removed);
        sd_bus_slot_unref(s->unit_new);
        sd_bus_slot_unref(s->subscribe);
        free(s);
        return NULL;
}

static int on_job_answer(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        SystemdJob *j = userdata;
        const char *path;

        (void) error;
        if (sd_bus_message_is_method_error(m, NULL)) {
                j->handler(j->userdata, NULL, sd_bus_message_get_error(m));
                return 0;
        }
        /* systemd answers before it sends JobRemoved, and one sender's messages stay in order. */
        if (sd_bus_message_read(m, "o", &path) < 0 || xstrdup(path, &j->path) < 0) {
                sd_bus_error e = SD_BUS_ERROR_MAKE_CONST(SD_BUS_ERROR_FAILED, "systemd's answer can't be read.");
                j->handler(j->userdata, NULL, &e);
        }
        return 0;
}

int systemd_job_new(Systemd *s, const char *method, const char *unit, const char *mode,
                    SystemdJobHandler handler, void *userdata, SystemdJob **ret) {
        SystemdJob *j = malloc(sizeof(SystemdJob));
        int r;

        if (!j)
                return -ENOMEM;
        *j = (SystemdJob) { .systemd = s, .next = s->jobs, .handler = handler, .userdata = userdata };
        s->jobs = j;
        r = sd_bus_call_method_async(s->bus, &j->slot, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, method,
                                     on_job_answer, j, "ss", unit, mode);
        if (r < 0) {
                systemd_job_free(j);
                return r;
        }
        *ret = j;
        return 0;
}

static int unit_path(const char *unit, char **ret) {
        return sd_bus_path_encode(SYSTEMD_PATH "/unit", unit, ret);
}

int systemd_get_unit(Systemd *s, sd_bus_slot **ret, const char *unit, sd_bus_message_handler_t handler, void *userdata) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = unit_path(unit, &path);
        if (r < 0)
                return r;
        return sd_bus_call_method_async(s->bus, ret, SYSTEMD_NAME, path, "org.freedesktop.DBus.Properties", "GetAll",
                                        handler, userdata, "s", "");
}

int systemd_watch_unit(Systemd *s, sd_bus_slot **ret, const char *unit, sd_bus_message_handler_t handler, void *userdata) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = unit_path(unit, &path);
        if (r < 0)
                return r;
        return sd_bus_match_signal_async(s->bus, ret, SYSTEMD_NAME, path, "org.freedesktop.DBus.Properties",
                                         "PropertiesChanged", handler, NULL, userdata);
}

typedef struct PropertyField {
        const char *name;
        const char *type;
        size_t field;
} PropertyField;

#define FIELD(f) offsetof(UnitState, f)

static const PropertyField property_fields[] = {
        { "ActiveState", "s", FIELD(active_state) },
        { "SubState",    "s", FIELD(sub_state) },
        { "Result",      "s", FIELD(result) },
        { "StatusText",  "s", FIELD(status_text) },
        { "StatusErrno", "i", FIELD(status_errno) },
        { "ExecMainCode", "i", FIELD(exit_code) },
        { "ExecMainStatus", "i", FIELD(exit_status) },
        { "MainPID",     "u", FIELD(main_pid) },
        { "NRestarts",   "u", FIELD(n_restarts) },
        { "Job",         "(uo)", FIELD(job) },
        { "InvocationID", "ay", FIELD(invocation) },
};

static const PropertyField *property_find(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(property_fields); i++)
                if (streq(property_fields[i].name, name))
                        return &property_fields[i];
        return NULL;
}

/* Bytes, of which there are none if the unit never was started, as hexadecimal text. */
static int read_id(sd_bus_message *m, char **field) {
        const uint8_t *bytes;
        char *text;
        size_t size;
        int r;

        r = sd_bus_message_enter_container(m, 'v', "ay");
        if (r >= 0)
                r = sd_bus_message_read_array(m, 'y', (const void **) &bytes, &size);
        if (r < 0)
                return r;
        text = calloc(2 * size + 1, 1);
        if (!text)
                return -ENOMEM;
        for (size_t i = 0; i < size; i++)
                (void) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
        free(*field);
        *field = text;
        return sd_bus_message_exit_container(m);
}

static int read_property(sd_bus_message *m, const PropertyField *p, UnitState *u) {
        void *field = (char *) u + p->field;
        const char *s;
        char *copy;
        int r;

        if (p->type[0] == 'a')
                return read_id(m, field);
        if (p->type[0] == '(')
                return sd_bus_message_read(m, "v", p->type, field, NULL);
        if (p->type[0] != 's')
                return sd_bus_message_read(m, "v", p->type, field);
        r = sd_bus_message_read(m, "v", "s", &s);
        if (r < 0)
                return r;
        r = xstrdup(s, &copy);
        if (r < 0)
                return r;
        free(*(char **) field);
        *(char **) field = copy;
        return 0;
}

int systemd_read_properties(sd_bus_message *m, UnitState *u) {
        int r;

        r = sd_bus_message_enter_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                const PropertyField *p;
                const char *name;

                r = sd_bus_message_read(m, "s", &name);
                if (r < 0)
                        return r;
                p = property_find(name);
                r = p ? read_property(m, p, u) : sd_bus_message_skip(m, "v");
                if (r < 0)
                        return r;
                r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

int systemd_list_units(Systemd *s, sd_bus_slot **ret, const char *pattern, sd_bus_message_handler_t handler,
                       void *userdata) {
        return sd_bus_call_method_async(s->bus, ret, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "ListUnitsByPatterns",
                                        handler, userdata, "asas", 0, 1, pattern);
}

int systemd_read_listed(sd_bus_message *m, const char **ret_unit, bool *ret_in_use) {
        const char *unit, *active_state;
        uint32_t job;
        int r;

        r = sd_bus_message_read(m, "(ssssssouso)", &unit, NULL, NULL, &active_state, NULL, NULL, NULL, &job, NULL, NULL);
        if (r <= 0)
                return r;
        *ret_unit = unit;
        *ret_in_use = job != 0 || !streq(active_state, "inactive");
        return 1;
}

int systemd_reload(Systemd *s, sd_bus_slot **ret, sd_bus_message_handler_t handler, void *userdata) {
        return sd_bus_call_method_async(s->bus, ret, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "Reload", handler, userdata,
                                        NULL);
}

void systemd_reset_failed(Systemd *s, const char *unit) {
        /* "Not loaded" is the usual answer and as good as any. */
        (void) sd_bus_call_method_async(s->bus, NULL, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER, "ResetFailedUnit",
                                        on_ignored, NULL, "s", unit);
}

int systemd_enable(Systemd *s, sd_bus_slot **ret, const char *unit, bool enable, sd_bus_message_handler_t handler,
                   void *userdata) {
        if (enable) /* runtime, force */
                return sd_bus_call_method_async(s->bus, ret, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                                "EnableUnitFiles", handler, userdata, "asbb", 1, unit, false, true);
        return sd_bus_call_method_async(s->bus, ret, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                        "DisableUnitFiles", handler, userdata, "asb", 1, unit, false);
}
