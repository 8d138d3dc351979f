/* SPDX-License-Identifier: MIT */
#include "service/manager.h"

#include "service/log.h"
#include "service/name.h"
#include "service/paths.h"
#include "service/uapi.h"

#include <jansson.h>
#include <sys/utsname.h>

static void support_done(Support *s) {
        for (char **f = s->features; f && *f; f++)
                free(*f);
        free(s->features);
        free(s->reason);
        *s = (Support) {};
}

int manager_new(bool hook_environment, Manager **ret) {
        _cleanup_(manager_freep) Manager *m = malloc(sizeof(Manager));
        struct utsname u;
        int r;

        if (!m)
                return -ENOMEM;
        *m = (Manager) {};
        r = hook_directories_init(&m->hooks, hook_environment);
        if (r < 0)
                return r;
        r = manager_set_unsupported(m, "Not known yet: ublk-ruby-control has not answered.");
        if (r < 0)
                return r;
        if (uname(&u) < 0)
                return -errno;
        (void) snprintf(m->kernel, sizeof(m->kernel), "%s", u.release);
        *ret = TAKE_PTR(m);
        return 0;
}

Manager *manager_free(Manager *m) {
        if (!m)
                return NULL;
        for (size_t i = 0; i < m->n_devices; i++)
                device_free(m->devices[i]);
        free(m->devices);
        hook_directories_done(&m->hooks);
        support_done(&m->support);
        free(m);
        return NULL;
}

Device *manager_get(const Manager *m, uint32_t id) {
        for (size_t i = 0; i < m->n_devices; i++)
                if (m->devices[i]->config->id == id)
                        return m->devices[i];
        return NULL;
}

Device *manager_find(const Manager *m, const char *designation) {
        uint32_t id;

        for (size_t i = 0; i < m->n_devices; i++)
                if (streq(m->devices[i]->config->name, designation))
                        return m->devices[i];
        return device_id_parse(designation, &id) < 0 ? NULL : manager_get(m, id);
}

uint32_t manager_count(const Manager *m) {
        uint32_t n = 0;

        for (size_t i = 0; i < m->n_devices; i++)
                n += m->devices[i]->announced;
        return n;
}

int manager_add(Manager *m, Device *d) {
        Device **grown;
        size_t at = 0;

        while (at < m->n_devices && m->devices[at]->config->id < d->config->id)
                at++;
        if (at < m->n_devices && m->devices[at]->config->id == d->config->id)
                return -EEXIST;
        grown = realloc(m->devices, (m->n_devices + 1) * sizeof(Device *));
        if (!grown)
                return -ENOMEM;
        m->devices = grown;
        memmove(grown + at + 1, grown + at, (m->n_devices - at) * sizeof(Device *));
        grown[at] = d;
        m->n_devices++;
        return 0;
}

void manager_remove(Manager *m, Device *d) {
        for (size_t i = 0; i < m->n_devices; i++)
                if (m->devices[i] == d) {
                        memmove(m->devices + i, m->devices + i + 1, (m->n_devices - i - 1) * sizeof(Device *));
                        m->n_devices--;
                        break;
                }
        device_free(d);
}

/* Two files with one name: whichever id is lower has it, as names must tell devices apart. */
static bool name_is_used(const Manager *m, const char *name) {
        for (size_t i = 0; i < m->n_devices; i++)
                if (streq(m->devices[i]->config->name, name))
                        return true;
        return false;
}

int manager_load_one(Manager *m, uint32_t id, Device **ret) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_(device_freep) Device *d = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        if (manager_get(m, id))
                return 0;
        r = device_config_load(id, &c, &message);
        if (r == -ENOENT || r == -ENOMEM)
                return r == -ENOENT ? 0 : r;
        if (r < 0) {
                log_warning("Skipping the file of device %u: %s", id, message ? message : strerror(-r));
                return 0;
        }
        if (name_is_used(m, c->name)) {
                log_warning("Skipping the file of device %u: the name %s belongs to another device.", id, c->name);
                return 0;
        }
        d = device_new(c);
        if (!d)
                return -ENOMEM;
        TAKE_PTR(c);
        r = manager_add(m, d);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(d);
        return 1;
}

int manager_load(Manager *m) {
        _cleanup_free_ uint32_t *ids = NULL;
        Device *d;
        size_t n;
        int r;

        r = device_config_list(&ids, &n);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                r = manager_load_one(m, ids[i], &d);
                if (r < 0)
                        return r;
        }
        return 0;
}

static bool ids_contain(const uint32_t *ids, size_t n, uint32_t id) {
        for (size_t i = 0; i < n; i++)
                if (ids[i] == id)
                        return true;
        return false;
}

static bool driver_has(uint32_t id) {
        KernelState k;

        kernel_state_read(id, &k);
        return k.has_char || k.has_disk;
}

bool manager_id_is_used(const Manager *m, uint32_t id) {
        _cleanup_free_ uint32_t *files = NULL;
        size_t n;

        /* A directory that can't be read may hold anything. */
        if (manager_get(m, id) || driver_has(id) || device_config_list(&files, &n) < 0)
                return true;
        return ids_contain(files, n, id);
}

int manager_choose_id(const Manager *m, const uint32_t *busy, size_t n_busy, uint32_t *ret) {
        _cleanup_free_ uint32_t *files = NULL;
        size_t n;
        int r;

        r = device_config_list(&files, &n);
        if (r < 0)
                return r;
        for (uint32_t id = 0; id <= UBLK_MAX_ID; id++)
                if (!manager_get(m, id) && !ids_contain(files, n, id) && !ids_contain(busy, n_busy, id) &&
                    !driver_has(id)) {
                        *ret = id;
                        return 0;
                }
        return -ENOSPC;
}

int manager_set_unsupported(Manager *m, const char *reason) {
        Support s = {};
        int r;

        r = xstrdup(reason, &s.reason);
        if (r < 0)
                return r;
        support_done(&m->support);
        m->support = s;
        return 0;
}

static int features_from_json(const json_t *array, char ***ret) {
        size_t n = json_array_size(array);
        char **features = calloc(n + 1, sizeof(char *));

        if (!features)
                return -ENOMEM;
        for (size_t i = 0, filled = 0; i < n; i++) {
                const char *s = json_string_value(json_array_get(array, i));
                if (s)
                        features[filled] = strdup(s);
                if (s && features[filled])
                        filled++;
        }
        *ret = features;
        return 0;
}

int manager_take_probe(Manager *m, const char *json) {
        json_t *root = json_loads(json, 0, NULL), *supported;
        const char *reason;
        Support s = {};
        int r;

        supported = json_object_get(root, "supported");
        reason = json_string_value(json_object_get(root, "reason"));
        if (!json_is_boolean(supported)) {
                json_decref(root);
                return -EBADMSG;
        }
        s.supported = json_is_true(supported);
        r = xstrdup(reason ? reason : "", &s.reason);
        if (r >= 0)
                r = features_from_json(json_object_get(root, "features"), &s.features);
        json_decref(root);
        if (r < 0) {
                support_done(&s);
                return r;
        }
        support_done(&m->support);
        m->support = s;
        return 0;
}
