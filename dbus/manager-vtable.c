/* SPDX-License-Identifier: MIT */
#include "dbus/manager-vtable.h"

#include "dbus/calls.h"
#include "dbus/device-bus.h"
#include "dbus/errors.h"
#include "dbus/options.h"
#include "service/name.h"
#include "service/uapi.h"

static int find_device(ManagerBus *mb, const char *designation, Device **ret, sd_bus_error *e) {
        Device *d = manager_find(mb->manager, designation);

        if (d && !d->announced)
                return bus_error_setf(e, BUS_ERROR_OPERATION_IN_PROGRESS, "Device %s is being created.", d->config->name);
        if (!d)
                return bus_error_setf(e, BUS_ERROR_NO_SUCH_DEVICE,
                                      "There is no device \"%.80s\". A device is given by its name, its id, or its node.",
                                      designation);
        *ret = d;
        return 0;
}

static int check_name(const char *name, sd_bus_error *e) {
        uint32_t id;

        if (!name_is_valid(name))
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                      "\"%.80s\" is no name for a device: a letter or _, then up to %d of A-Z a-z 0-9 . _ -",
                                      name, NAME_MAX_LENGTH - 1);
        /* Every method takes a name or a node in the same place. */
        if (device_id_parse(name, &id) >= 0)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                      "\"%s\" is no name for a device: it reads as the node of device %u.", name, id);
        return 0;
}

static int check_hook(const HookDirectories *directories, const char *hook, sd_bus_error *e) {
        _cleanup_free_ char *path = NULL, *message = NULL;
        int r;

        /* Of files the service sees less than a worker: that one says whether it is there. */
        if (hook_path_is_valid(hook))
                return 0;
        r = hook_directories_resolve(directories, hook, &path, &message);
        if (r >= 0)
                return 0;
        if (r == -EINVAL)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "\"%.80s\" is no name of a hook (its file's name without .rb), and no "
                                      "absolute path of a script without \"//\", \".\" and \"..\" in it.", hook);
        if (!message)
                return bus_error_setf(e, BUS_ERROR_NO_SUCH_HOOK, "The hook \"%s\" can't be looked up: %s.", hook, strerror(-r));
        return bus_error_setf(e, r == -ENOENT ? BUS_ERROR_NO_SUCH_HOOK : BUS_ERROR_HOOK_FAILED, "%s", message);
}

static int method_create_device(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        ManagerBus *mb = userdata;
        const char *name, *hook;
        int r;

        r = sd_bus_message_read(m, "ss", &name, &hook);
        if (r < 0)
                return r;
        r = check_name(name, e);
        if (r < 0)
                return r;
        r = check_hook(&mb->manager->hooks, hook, e);
        if (r < 0)
                return r;
        c = device_config_new(OPTION_ID_ANY);
        if (!c || xstrdup(name, &c->name) < 0 || xstrdup(hook, &c->hook) < 0)
                return -ENOMEM;
        r = options_read(m, c, e);
        if (r < 0)
                return r;
        r = create_begin(mb, m, c, e);
        if (r > 0)
                TAKE_PTR(c);
        return r < 0 ? r : 1;
}

static int method_check_hook(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        ManagerBus *mb = userdata;
        const char *hook;
        int r;

        r = sd_bus_message_read(m, "s", &hook);
        if (r < 0)
                return r;
        r = check_hook(&mb->manager->hooks, hook, e);
        if (r < 0)
                return r;
        c = device_config_new(0);
        if (!c || xstrdup("check", &c->name) < 0 || xstrdup(hook, &c->hook) < 0)
                return -ENOMEM;
        r = options_read(m, c, e);
        return r < 0 ? r : check_hook_begin(mb, m, c, e);
}

static int method_delete_device(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const char *designation;
        ManagerBus *mb = userdata;
        bool keep_state;
        Device *d;
        int r;

        r = sd_bus_message_read(m, "s", &designation);
        if (r < 0)
                return r;
        r = options_read_flag(m, "keep-state", &keep_state, e);
        if (r < 0)
                return r;
        d = manager_find(mb->manager, designation);
        if (d && !d->announced)
                return create_cancel(mb, m, d, e);
        if (!d) {
                r = create_cancel_early(mb, m, designation, e);
                if (r != 0)
                        return r;
        }
        r = find_device(mb, designation, &d, e);
        return r < 0 ? r : delete_begin(mb, m, d, keep_state, e);
}

static int method_restart_device(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const char *designation;
        ManagerBus *mb = userdata;
        Device *d;
        int r;

        r = sd_bus_message_read(m, "s", &designation);
        if (r < 0)
                return r;
        r = options_read_none(m, e);
        if (r < 0)
                return r;
        r = find_device(mb, designation, &d, e);
        return r < 0 ? r : restart_begin(mb, m, d, e);
}

static int method_reload_device(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const char *designation;
        ManagerBus *mb = userdata;
        Device *d;
        int r;

        r = sd_bus_message_read(m, "s", &designation);
        if (r < 0)
                return r;
        r = find_device(mb, designation, &d, e);
        return r < 0 ? r : reload_begin(mb, m, d, e);
}

static int method_get_device(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        _cleanup_free_ char *path = NULL;
        const char *designation;
        ManagerBus *mb = userdata;
        Device *d;
        int r;

        r = sd_bus_message_read(m, "s", &designation);
        if (r < 0)
                return r;
        r = find_device(mb, designation, &d, e);
        if (r < 0)
                return r;
        r = device_bus_path(d, &path);
        if (r < 0)
                return r;
        return sd_bus_reply_method_return(m, "o", path);
}

static int append_device(sd_bus_message *reply, const Device *d) {
        _cleanup_free_ char *path = NULL, *node = NULL;
        int r;

        r = device_bus_path(d, &path);
        if (r >= 0)
                r = device_node(d, &node);
        if (r < 0)
                return r;
        return sd_bus_message_append(reply, "(ussssto)", d->config->id, d->config->name, node, d->config->hook,
                                     device_state_to_string(d->state), d->kernel.size, path);
}

static int method_list_devices(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        ManagerBus *mb = userdata;
        sd_bus_message *reply = NULL;
        int r;

        (void) e;
        r = sd_bus_message_new_method_return(m, &reply);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "(ussssto)");
        for (size_t i = 0; r >= 0 && i < mb->manager->n_devices; i++)
                if (mb->manager->devices[i]->announced)
                        r = append_device(reply, mb->manager->devices[i]);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        if (r >= 0)
                r = sd_bus_send(mb->bus, reply, NULL);
        sd_bus_message_unref(reply);
        return r < 0 ? r : 1;
}

static int method_list_hooks(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        ManagerBus *mb = userdata;
        sd_bus_message *reply = NULL;
        HookFile *files;
        size_t n;
        int r;

        (void) e;
        r = hook_directories_list(&mb->manager->hooks, &files, &n);
        if (r < 0)
                return r;
        r = sd_bus_message_new_method_return(m, &reply);
        if (r >= 0)
                r = sd_bus_message_open_container(reply, 'a', "(ss)");
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = sd_bus_message_append(reply, "(ss)", files[i].name, files[i].path);
        if (r >= 0)
                r = sd_bus_message_close_container(reply);
        if (r >= 0)
                r = sd_bus_send(mb->bus, reply, NULL);
        sd_bus_message_unref(reply);
        hook_files_free(files, n);
        return r < 0 ? r : 1;
}

static int method_list_strays(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        return strays_list_begin(userdata, m, e);
}

static int read_force(sd_bus_message *m, bool *ret, sd_bus_error *e) {
        const char *key, *contents;
        int r, force;

        r = sd_bus_message_enter_container(m, 'a', "{sv}");
        while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                r = sd_bus_message_read(m, "s", &key);
                if (r >= 0)
                        r = sd_bus_message_peek_type(m, NULL, &contents);
                if (r < 0)
                        return r;
                if (!streq(key, "force") || !streq(contents, "b"))
                        return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                              "Option \"%.64s\" of type %s: RemoveStray takes force (b).", key, contents);
                r = sd_bus_message_read(m, "v", "b", &force);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
                if (r >= 0)
                        *ret = force;
        }
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int method_remove_stray(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        bool force = false;
        uint32_t id;
        int r;

        r = sd_bus_message_read(m, "u", &id);
        if (r >= 0)
                r = read_force(m, &force, e);
        if (r < 0)
                return r;
        if (id > UBLK_MAX_ID)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "%u is no id of a ublk device: they end at %u.", id, UBLK_MAX_ID);
        return strays_remove_begin(userdata, m, id, force, e);
}

static int get_string(sd_bus *bus, const char *path, const char *interface, const char *property,
                      sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        ManagerBus *mb = userdata;
        const char *s = PROJECT_VERSION;

        (void) bus, (void) path, (void) interface, (void) error;
        if (streq(property, "KernelRelease"))
                s = mb->manager->kernel;
        else if (streq(property, "UnsupportedReason"))
                s = mb->manager->support.reason;
        return sd_bus_message_append(reply, "s", s);
}

static int get_supported(sd_bus *bus, const char *path, const char *interface, const char *property,
                         sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        ManagerBus *mb = userdata;

        (void) bus, (void) path, (void) interface, (void) property, (void) error;
        return sd_bus_message_append(reply, "b", mb->manager->support.supported);
}

static int get_features(sd_bus *bus, const char *path, const char *interface, const char *property,
                        sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        ManagerBus *mb = userdata;

        (void) bus, (void) path, (void) interface, (void) property, (void) error;
        return sd_bus_message_append_strv(reply, mb->manager->support.features);
}

static int get_directories(sd_bus *bus, const char *path, const char *interface, const char *property,
                           sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        ManagerBus *mb = userdata;
        const HookDirectories *d = &mb->manager->hooks;
        int r;

        (void) bus, (void) path, (void) interface, (void) property, (void) error;
        r = sd_bus_message_open_container(reply, 'a', "s");
        for (size_t i = 0; r >= 0 && i < d->n_paths; i++)
                r = sd_bus_message_append(reply, "s", d->paths[i]);
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

static int get_count(sd_bus *bus, const char *path, const char *interface, const char *property,
                     sd_bus_message *reply, void *userdata, sd_bus_error *error) {
        ManagerBus *mb = userdata;

        (void) bus, (void) path, (void) interface, (void) property, (void) error;
        return sd_bus_message_append(reply, "u", manager_count(mb->manager));
}

#define CONSTANT SD_BUS_VTABLE_PROPERTY_CONST
#define CHANGES SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE
/* Every handler that changes anything authorises by itself: sd-bus' own rule asks for a capability, which tests lack. */
#define OPEN SD_BUS_VTABLE_UNPRIVILEGED

static const sd_bus_vtable manager_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("Version", "s", get_string, 0, CONSTANT),
        SD_BUS_PROPERTY("KernelRelease", "s", get_string, 0, CONSTANT),
        SD_BUS_PROPERTY("Supported", "b", get_supported, 0, CHANGES),
        SD_BUS_PROPERTY("UnsupportedReason", "s", get_string, 0, CHANGES),
        SD_BUS_PROPERTY("KernelFeatures", "as", get_features, 0, CHANGES),
        SD_BUS_PROPERTY("HookDirectories", "as", get_directories, 0, CONSTANT),
        SD_BUS_PROPERTY("DeviceCount", "u", get_count, 0, CHANGES),
        SD_BUS_METHOD_WITH_ARGS("CreateDevice", SD_BUS_ARGS("s", name, "s", hook, "a{sv}", options),
                                SD_BUS_RESULT("o", device), method_create_device, OPEN),
        SD_BUS_METHOD_WITH_ARGS("CheckHook", SD_BUS_ARGS("s", hook, "a{sv}", options), SD_BUS_RESULT("a{sv}", report), method_check_hook,
                                OPEN),
        SD_BUS_METHOD_WITH_ARGS("DeleteDevice", SD_BUS_ARGS("s", device, "a{sv}", options), SD_BUS_NO_RESULT,
                                method_delete_device, OPEN),
        SD_BUS_METHOD_WITH_ARGS("RestartDevice", SD_BUS_ARGS("s", device, "a{sv}", options), SD_BUS_NO_RESULT,
                                method_restart_device, OPEN),
        SD_BUS_METHOD_WITH_ARGS("ReloadDevice", SD_BUS_ARGS("s", device, "a{sv}", options), SD_BUS_NO_RESULT,
                                method_reload_device, OPEN),
        SD_BUS_METHOD_WITH_ARGS("GetDevice", SD_BUS_ARGS("s", device), SD_BUS_RESULT("o", path), method_get_device, OPEN),
        SD_BUS_METHOD_WITH_ARGS("ListDevices", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(ussssto)", devices), method_list_devices,
                                OPEN),
        SD_BUS_METHOD_WITH_ARGS("ListHooks", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(ss)", hooks), method_list_hooks, OPEN),
        SD_BUS_METHOD_WITH_ARGS("ListStrays", SD_BUS_NO_ARGS, SD_BUS_RESULT("a(us)", strays), method_list_strays, OPEN),
        SD_BUS_METHOD_WITH_ARGS("RemoveStray", SD_BUS_ARGS("u", id, "a{sv}", options), SD_BUS_NO_RESULT, method_remove_stray,
                                OPEN),
        SD_BUS_VTABLE_END,
};

int manager_vtable_register(ManagerBus *mb) {
        return sd_bus_add_object_vtable(mb->bus, NULL, MANAGER_PATH, MANAGER_INTERFACE, manager_vtable, mb);
}
