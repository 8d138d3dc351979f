/* SPDX-License-Identifier: MIT */
#include "dbus/device-bus.h"

#include "dbus/calls.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "dbus/options.h"
#include "dbus/statistics.h"
#include "dbus/stuck.h"
#include "service/log.h"

/* True while the file is there, or can't be judged. */
static bool has_file(uint32_t id) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL;

        return device_config_load(id, &c, &message) != -ENOENT;
}

static void emit_changes(DeviceBus *db, unsigned changed) {
        static const struct {
                unsigned bit;
                const char *name;
        } names[] = {
                { DEVICE_CHANGED_STATE, "State" },          { DEVICE_CHANGED_STATE, "StateChangeTimestamp" },
                { DEVICE_CHANGED_SIZE, "Size" },            { DEVICE_CHANGED_WORKER_PID, "WorkerPID" },
                { DEVICE_CHANGED_RESTARTS, "Restarts" },    { DEVICE_CHANGED_LAST_ERROR, "LastError" },
                { DEVICE_CHANGED_BLOCK_SIZE, "BlockSize" }, { DEVICE_CHANGED_READ_ONLY, "ReadOnly" },
                { DEVICE_CHANGED_RECOVERY, "Recovery" },   { DEVICE_CHANGED_ARGUMENTS, "Arguments" },
                { DEVICE_CHANGED_DATA_PATH, "DataPath" },
                { DEVICE_CHANGED_PERSISTENT, "Persistent" },
        };
        char *list[ELEMENTSOF(names) + 1] = {};
        _cleanup_free_ char *path = NULL;
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (changed & names[i].bit)
                        list[n++] = (char *) names[i].name;
        if (n == 0 || !db->device->announced || device_bus_path(db->device, &path) < 0)
                return;
        (void) sd_bus_emit_properties_changed_strv(db->mb->bus, path, DEVICE_INTERFACE, list);
}

void device_bus_first_news(DeviceBus *db) {
        if (db->awaited) {
                db->awaited = false;
                manager_bus_arrived(db->mb);
        }
}

void device_bus_take_hello(DeviceBus *db, uint32_t pid, const WorkerReply *reply) {
        emit_changes(db, device_take_hello(db->device, pid, reply));
}

static void on_hello(void *userdata, int r, uint32_t pid, const WorkerReply *reply) {
        DeviceBus *db = userdata;

        db->hello = hello_free(db->hello);
        if (r < 0)
                log_debug("The worker of device %u gives no answer to be believed, ignoring: %s", db->device->config->id,
                          strerror(-r));
        else
                device_bus_take_hello(db, pid, reply);
        device_bus_first_news(db);
}

/* While it is being created, the operation asks. */
static bool ask_worker(DeviceBus *db) {
        const Device *d = db->device;

        if (d->state != DEVICE_LIVE || device_has_hello(d) || db->hello || !d->announced)
                return db->hello != NULL;
        return hello_new(db->mb->event, d->config, d->unit.main_pid, MESSAGE_HELLO, on_hello, db, &db->hello) >= 0;
}

void device_bus_update_arguments(DeviceBus *db) {
        emit_changes(db, device_refresh(db->device) | DEVICE_CHANGED_ARGUMENTS);
}

void device_bus_persistent_changed(DeviceBus *db) {
        emit_changes(db, DEVICE_CHANGED_PERSISTENT);
}

void device_bus_update(DeviceBus *db) {
        Device *d = db->device;

        emit_changes(db, device_refresh(d));
        if (d->config->creating && !db->operation) {
                create_resume(db->mb, d);
                return;
        }
        if (!ask_worker(db))
                device_bus_first_news(db);
        if (db->operation) {
                operation_take_news(db->operation);
                return;
        }
        reload_resume(db->mb, d);
        if (!db->operation)
                resize_resume(db->mb, d);
        if (d->state == DEVICE_STOPPED && d->announced && !db->operation && !has_file(d->config->id))
                device_bus_remove(db);
}

int device_bus_take_properties(DeviceBus *db, sd_bus_message *m) {
        const sd_bus_error *e = sd_bus_message_get_error(m);
        int r;

        r = e ? -sd_bus_error_get_errno(e) : systemd_read_properties(m, &db->device->unit);
        if (r >= 0)
                device_bus_update(db);
        return r;
}

static int on_fetched(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        DeviceBus *db = userdata;
        int r;

        (void) error;
        db->fetch = sd_bus_slot_unref(db->fetch);
        r = device_bus_take_properties(db, m);
        if (r < 0) {
                log_warning("The unit of device %u can't be read: %s", db->device->config->id, strerror(-r));
                device_bus_update(db);
        }
        return 0;
}

static int on_properties_changed(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        DeviceBus *db = userdata;
        const char *interface;

        (void) error;
        if (sd_bus_message_read(m, "s", &interface) < 0)
                return 0;
        /* systemd sends .Service first and .Unit after it, and says that this order may be relied on: only both are a state. */
        if (streq(interface, "org.freedesktop.systemd1.Unit"))
                (void) device_bus_take_properties(db, m);
        else if (streq(interface, "org.freedesktop.systemd1.Service"))
                (void) systemd_read_properties(m, &db->device->unit);
        return 0;
}

int device_bus_new(ManagerBus *mb, Device *d) {
        DeviceBus *db = malloc(sizeof(DeviceBus));
        _cleanup_free_ char *unit = NULL;
        int r;

        if (!db)
                return -ENOMEM;
        *db = (DeviceBus) { .mb = mb, .device = d };
        d->userdata = db;
        r = device_unit(d, &unit);
        if (r >= 0)
                r = systemd_watch_unit(mb->systemd, &db->watch, unit, on_properties_changed, db);
        if (r >= 0)
                r = systemd_get_unit(mb->systemd, &db->fetch, unit, on_fetched, db);
        if (r < 0)
                device_bus_free(db);
        return r;
}

DeviceBus *device_bus_free(DeviceBus *db) {
        if (!db)
                return NULL;
        db->device->userdata = NULL;
        sd_bus_slot_unref(db->watch);
        sd_bus_slot_unref(db->fetch);
        hello_free(db->hello);
        worker_query_free(db->stuck);
        worker_query_free(db->statistics);
        free(db);
        return NULL;
}

int device_bus_path(const Device *d, char **ret) {
        return xasprintf(ret, DEVICE_PATH_PREFIX "/%u", d->config->id);
}

void device_bus_announce(DeviceBus *db) {
        _cleanup_free_ char *path = NULL;
        int r;

        if (db->device->announced)
                return;
        db->device->announced = true;
        if (!db->mb->ready) /* nobody can have been told that it isn't there */
                return;
        r = device_bus_path(db->device, &path);
        if (r >= 0)
                r = sd_bus_emit_object_added(db->mb->bus, path);
        if (r < 0)
                log_warning("InterfacesAdded of device %u was not sent, ignoring: %s", db->device->config->id, strerror(-r));
        manager_bus_count_changed(db->mb);
}

void device_bus_remove(DeviceBus *db) {
        bool announced = db->device->announced;
        _cleanup_free_ char *path = NULL;
        ManagerBus *mb = db->mb;
        Device *d = db->device;

        device_bus_first_news(db);
        if (announced && device_bus_path(d, &path) >= 0)
                (void) sd_bus_emit_object_removed(mb->bus, path);
        device_bus_free(db);
        manager_remove(mb->manager, d);
        if (announced)
                manager_bus_count_changed(mb);
}

/* Getters. userdata is the Device, from find_device. */
static int get_node(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                    void *userdata, sd_bus_error *error) {
        _cleanup_free_ char *node = NULL;
        int r;

        (void) bus, (void) path, (void) interface, (void) property, (void) error;
        r = device_node(userdata, &node);
        return r < 0 ? r : sd_bus_message_append(reply, "s", node);
}

static int get_unit(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                    void *userdata, sd_bus_error *error) {
        _cleanup_free_ char *unit = NULL;
        int r;

        (void) bus, (void) path, (void) interface, (void) property, (void) error;
        r = device_unit(userdata, &unit);
        return r < 0 ? r : sd_bus_message_append(reply, "s", unit);
}

static int get_arguments(sd_bus *bus, const char *path, const char *interface, const char *property,
                         sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        Device *d = userdata;

        (void) bus, (void) path, (void) interface, (void) property, (void) error;
        return arguments_append(reply, d->config);
}

/* Strings of the device and of its configuration. */
static int get_string(sd_bus *bus, const char *path, const char *interface, const char *property,
                      sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        Device *d = userdata;
        const char *s = "";

        (void) bus, (void) path, (void) interface, (void) error;
        if (streq(property, "Name"))
                s = d->config->name;
        else if (streq(property, "Hook"))
                s = d->config->hook;
        else if (streq(property, "Recovery"))
                s = device_recovery(d);
        else if (streq(property, "DataPath"))
                s = device_data_path(d);
        else if (streq(property, "State"))
                s = device_state_to_string(d->state);
        else if (streq(property, "LastError"))
                s = d->last_error;
        return sd_bus_message_append(reply, "s", s);
}

static int get_u32(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                   void *userdata, sd_bus_error *error) {
        Device *d = userdata;
        uint32_t v = 0;

        (void) bus, (void) path, (void) interface, (void) error;
        if (streq(property, "Id"))
                v = d->config->id;
        else if (streq(property, "BlockSize"))
                v = d->block_size;
        else if (streq(property, "Queues"))
                v = d->config->queues;
        else if (streq(property, "Depth"))
                v = d->config->depth;
        else if (streq(property, "MaxIOSize"))
                v = d->config->max_io_size;
        else if (streq(property, "WorkerPID"))
                v = d->worker_pid;
        else if (streq(property, "Restarts"))
                v = d->restarts;
        return sd_bus_message_append(reply, "u", v);
}

static int get_u64(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                   void *userdata, sd_bus_error *error) {
        Device *d = userdata;
        uint64_t v = 0;

        (void) bus, (void) path, (void) interface, (void) error;
        if (streq(property, "Size"))
                v = d->kernel.size;
        else if (streq(property, "StateChangeTimestamp"))
                v = d->state_usec;
        else if (streq(property, "CreationTimestamp"))
                v = d->config->created_usec;
        return sd_bus_message_append(reply, "t", v);
}

static int get_bool(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                    void *userdata, sd_bus_error *error) {
        Device *d = userdata;

        (void) bus, (void) path, (void) interface, (void) error;
        return sd_bus_message_append(reply, "b", streq(property, "ReadOnly") ? d->read_only : d->config->persistent);
}

static int method_delete(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        Device *d = userdata;
        bool keep_state;
        int r;

        r = options_read_flag(m, "keep-state", &keep_state, e);
        return r < 0 ? r : delete_begin(device_bus_get(d)->mb, m, d, keep_state, e);
}

static int method_restart(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        Device *d = userdata;
        int r;

        r = options_read_none(m, e);
        return r < 0 ? r : restart_begin(device_bus_get(d)->mb, m, d, e);
}

static int method_resize(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        Device *d = userdata;
        uint64_t bytes;
        int r;

        r = sd_bus_message_read(m, "t", &bytes);
        if (r >= 0)
                r = options_read_none(m, e);
        if (r < 0)
                return r;
        if (bytes == 0 || bytes > GEOMETRY_MAX_SIZE)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "A disk has 1 to %llu bytes, not %llu.",
                                      (unsigned long long) GEOMETRY_MAX_SIZE, (unsigned long long) bytes);
        return resize_begin(device_bus_get(d)->mb, m, d, bytes, e);
}

static int method_reconfigure(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        Device *d = userdata;

        return reconfigure_begin(device_bus_get(d)->mb, m, d, e);
}

static int method_set_persistent(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        Device *d = userdata;
        int r, persistent;

        r = sd_bus_message_read(m, "b", &persistent);
        if (r >= 0)
                r = options_read_none(m, e);
        return r < 0 ? r : persist_begin(device_bus_get(d)->mb, m, d, persistent, e);
}

static int method_get_stuck_requests(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        DeviceBus *db = device_bus_get(userdata);

        return worker_query_begin(db, &stuck_query, &db->stuck, m, e);
}

static int method_get_statistics(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        DeviceBus *db = device_bus_get(userdata);

        return worker_query_begin(db, &statistics_query, &db->statistics, m, e);
}

static int method_reload(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        Device *d = userdata;

        return reload_begin(device_bus_get(d)->mb, m, d, e);
}

#define CONSTANT SD_BUS_VTABLE_PROPERTY_CONST
#define CHANGES SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE

static const sd_bus_vtable device_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("Id", "u", get_u32, 0, CONSTANT),
        SD_BUS_PROPERTY("Name", "s", get_string, 0, CONSTANT),
        SD_BUS_PROPERTY("Node", "s", get_node, 0, CONSTANT),
        SD_BUS_PROPERTY("Hook", "s", get_string, 0, CONSTANT),
        SD_BUS_PROPERTY("Arguments", "a{sv}", get_arguments, 0, CHANGES),
        SD_BUS_PROPERTY("BlockSize", "u", get_u32, 0, CHANGES),
        SD_BUS_PROPERTY("Queues", "u", get_u32, 0, CONSTANT),
        SD_BUS_PROPERTY("Depth", "u", get_u32, 0, CONSTANT),
        SD_BUS_PROPERTY("MaxIOSize", "u", get_u32, 0, CONSTANT),
        SD_BUS_PROPERTY("ReadOnly", "b", get_bool, 0, CHANGES),
        SD_BUS_PROPERTY("Recovery", "s", get_string, 0, CHANGES),
        SD_BUS_PROPERTY("DataPath", "s", get_string, 0, CHANGES),
        SD_BUS_PROPERTY("Unit", "s", get_unit, 0, CONSTANT),
        SD_BUS_PROPERTY("CreationTimestamp", "t", get_u64, 0, CONSTANT),
        SD_BUS_PROPERTY("Size", "t", get_u64, 0, CHANGES),
        SD_BUS_PROPERTY("State", "s", get_string, 0, CHANGES),
        SD_BUS_PROPERTY("StateChangeTimestamp", "t", get_u64, 0, CHANGES),
        SD_BUS_PROPERTY("WorkerPID", "u", get_u32, 0, CHANGES),
        SD_BUS_PROPERTY("Restarts", "u", get_u32, 0, CHANGES),
        SD_BUS_PROPERTY("LastError", "s", get_string, 0, CHANGES),
        SD_BUS_PROPERTY("Persistent", "b", get_bool, 0, CHANGES),
        SD_BUS_METHOD_WITH_ARGS("Delete", SD_BUS_ARGS("a{sv}", options), SD_BUS_NO_RESULT, method_delete,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("Restart", SD_BUS_ARGS("a{sv}", options), SD_BUS_NO_RESULT, method_restart,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("Resize", SD_BUS_ARGS("t", bytes, "a{sv}", options), SD_BUS_NO_RESULT, method_resize,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("Reconfigure", SD_BUS_ARGS("a{sv}", arguments, "a{sv}", options), SD_BUS_NO_RESULT, method_reconfigure,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("SetPersistent", SD_BUS_ARGS("b", persistent, "a{sv}", options), SD_BUS_NO_RESULT, method_set_persistent,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("GetStuckRequests", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(stttas)", requests), method_get_stuck_requests,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("GetStatistics", SD_BUS_NO_ARGS, SD_BUS_RESULT("a{sv}", statistics), method_get_statistics,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD_WITH_ARGS("Reload", SD_BUS_ARGS("a{sv}", options), SD_BUS_NO_RESULT, method_reload,
                                SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_VTABLE_END,
};

static int find_device(sd_bus *bus, const char *path, const char *interface, void *userdata, void **ret_found,
                       sd_bus_error *error) {
        const char *tail = path + strlen(DEVICE_PATH_PREFIX);
        ManagerBus *mb = userdata;
        uint32_t id;
        Device *d;

        (void) bus, (void) interface, (void) error;
        /* "07" is no second path to 7. */
        if (*tail != '/' || (tail[1] == '0' && tail[2]) || parse_u32(tail + 1, UINT32_MAX, &id) < 0)
                return 0;
        d = manager_get(mb->manager, id);
        if (!d || !d->announced)
                return 0;
        *ret_found = d;
        return 1;
}

static int enumerate_devices(sd_bus *bus, const char *prefix, void *userdata, char ***ret, sd_bus_error *error) {
        ManagerBus *mb = userdata;
        const Manager *m = mb->manager;
        char **paths = calloc(m->n_devices + 1, sizeof(char *));
        size_t n = 0;
        int r = 0;

        (void) bus, (void) prefix, (void) error;
        if (!paths)
                return -ENOMEM;
        for (size_t i = 0; r >= 0 && i < m->n_devices; i++)
                if (m->devices[i]->announced) {
                        r = device_bus_path(m->devices[i], &paths[n]);
                        n += r >= 0;
                }
        if (r < 0) {
                while (n > 0)
                        free(paths[--n]);
                free(paths);
                return r;
        }
        *ret = paths;
        return 0;
}

int device_bus_register(ManagerBus *mb) {
        int r;

        r = sd_bus_add_fallback_vtable(mb->bus, NULL, DEVICE_PATH_PREFIX, DEVICE_INTERFACE, device_vtable, find_device, mb);
        if (r < 0)
                return r;
        return sd_bus_add_node_enumerator(mb->bus, NULL, DEVICE_PATH_PREFIX, enumerate_devices, mb);
}
