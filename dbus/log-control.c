/* SPDX-License-Identifier: MIT */
#include "dbus/log-control.h"

#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "service/log.h"

#define LOG_CONTROL_PATH "/org/freedesktop/LogControl1"
#define LOG_CONTROL_INTERFACE "org.freedesktop.LogControl1"

/* Standard error is where it goes: to the journal, if systemd says that this is behind it. */
static const char *target(void) {
        return log_goes_to_journal() ? "journal" : "console";
}

static int get_string(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
                      void *userdata, sd_bus_error *error) {
        const char *s = log_get_program();

        (void) bus, (void) path, (void) interface, (void) userdata, (void) error;
        if (streq(property, "LogLevel"))
                s = log_level_to_string(log_get_max_level());
        else if (streq(property, "LogTarget"))
                s = target();
        return sd_bus_message_append(reply, "s", s);
}

static int set_level(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *value,
                     void *userdata, sd_bus_error *e) {
        const char *s;
        int r, level;

        (void) bus, (void) path, (void) interface, (void) property;
        r = authorise_root(userdata, value, e);
        if (r < 0)
                return r;
        r = sd_bus_message_read(value, "s", &s);
        if (r < 0)
                return r;
        level = log_level_from_string(s);
        if (level < 0)
                return bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS,
                                      "LogLevel is one of emerg, alert, crit, err, warning, notice, info, debug, not \"%.64s\".", s);
        log_info("From here on messages of level %s and above are logged.", log_level_to_string(level));
        log_set_max_level(level);
        return 0;
}

static int set_target(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *value,
                      void *userdata, sd_bus_error *e) {
        const char *s;
        int r;

        (void) bus, (void) path, (void) interface, (void) property;
        r = authorise_root(userdata, value, e);
        if (r < 0)
                return r;
        r = sd_bus_message_read(value, "s", &s);
        if (r < 0)
                return r;
        /* What systemctl sends to have the default back. */
        if (!*s || streq(s, target()))
                return 0;
        return bus_error_setf(e, SD_BUS_ERROR_NOT_SUPPORTED, "LogTarget is %s and stays so: StandardError= of the unit decides.", target());
}

static const sd_bus_vtable log_control_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_WRITABLE_PROPERTY("LogLevel", "s", get_string, set_level, 0, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_WRITABLE_PROPERTY("LogTarget", "s", get_string, set_target, 0, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_PROPERTY("SyslogIdentifier", "s", get_string, 0, 0),
        SD_BUS_VTABLE_END,
};

int log_control_register(ManagerBus *mb) {
        return sd_bus_add_object_vtable(mb->bus, NULL, LOG_CONTROL_PATH, LOG_CONTROL_INTERFACE, log_control_vtable, mb);
}
