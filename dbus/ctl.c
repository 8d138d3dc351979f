/* SPDX-License-Identifier: MIT */
#include "dbus/ctl.h"

#include "dbus/basic.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"

#include <inttypes.h>

JsonMode json_mode_from_string(const char *s) {
        static const char *const table[_JSON_MODE_MAX] = {
                [JSON_OFF] = "off",
                [JSON_SHORT] = "short",
                [JSON_PRETTY] = "pretty",
        };

        for (JsonMode i = 0; i < _JSON_MODE_MAX; i++)
                if (streq(s, table[i]))
                        return i;
        return _JSON_MODE_INVALID;
}

/* What to do about an error, if its message doesn't say so already. */
static const char *remedy_of(const char *error) {
        static const struct {
                const char *error;
                const char *remedy;
        } remedies[] = {
                { SD_BUS_ERROR_ACCESS_DENIED, "Run it as root." },
                { SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED, "Run it as root." },
                { SD_BUS_ERROR_SERVICE_UNKNOWN, "Start the service: systemctl start ublk-ruby.service" },
                { SD_BUS_ERROR_NAME_HAS_NO_OWNER, "Start the service: systemctl start ublk-ruby.service" },
                { "org.freedesktop.DBus.Error.Spawn.ChildExited", "Start the service: systemctl start ublk-ruby.service" },
                { "org.freedesktop.systemd1.UnitMasked", "Let it start: systemctl unmask ublk-ruby.service" },
                { "org.freedesktop.systemd1.NoSuchUnit", "Is ublk-ruby.service installed? systemctl daemon-reload" },
                { SD_BUS_ERROR_NO_REPLY, "It may still be at work: ublkctl list; journalctl -u ublk-ruby.service" },
                { SD_BUS_ERROR_TIMEOUT, "It may still be at work: ublkctl list; journalctl -u ublk-ruby.service" },
                { BUS_ERROR_NO_SUCH_DEVICE, "ublkctl list shows the devices." },
                { BUS_ERROR_DEVICE_EXISTS, "ublkctl list shows the devices; choose another name." },
                { BUS_ERROR_DEVICE_BUSY, "Unmount it, or end what has it open, and try again." },
                { BUS_ERROR_NO_SUCH_HOOK, "Put the hook's file into one of these directories." },
                { BUS_ERROR_HOOK_FAILED, "The hook's backtrace: journalctl -u 'ublk-ruby-device@*'" },
                { BUS_ERROR_NO_KERNEL_SUPPORT, "ublkctl probe shows what this kernel has." },
                { BUS_ERROR_WORKER_FAILED, "What was logged of it: journalctl -u ublk-ruby.service -u 'ublk-ruby-device@*'" },
                { BUS_ERROR_OPERATION_IN_PROGRESS, "Wait for it to end: ublkctl list" },
                { BUS_ERROR_CANCELLED, "What has become of it: ublkctl list" },
        };

        for (size_t i = 0; error && i < ELEMENTSOF(remedies); i++)
                if (streq(remedies[i].error, error))
                        return remedies[i].remedy;
        return NULL;
}

/* How many bytes the UTF-8 character has that s begins with; 0: it begins with none. */
static size_t character_size(const unsigned char *s) {
        size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

        for (size_t i = 1; i < n; i++)
                if ((s[i] & 0xc0) != 0x80)
                        return 0;
        return n;
}

char *ctl_visible(const char *text, bool keep_lines) {
        char *visible = NULL;
        size_t size, n;
        FILE *f = open_memstream(&visible, &size);

        if (!f)
                return NULL;
        for (const unsigned char *s = (const unsigned char *) text; *s; s += n) {
                bool is_second = s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0; /* U+0080 to U+009F */

                n = character_size(s);
                if (n == 0 || s[0] == 0x7f || (s[0] < ' ' && !(keep_lines && s[0] == '\n')) || is_second) {
                        fprintf(f, "\\x%02x", is_second ? s[1] : s[0]);
                        n = n > 0 ? n : 1;
                } else
                        (void) fwrite(s, 1, n, f);
        }
        if (fclose(f) != 0) {
                free(visible);
                return NULL;
        }
        return visible;
}

static void make_string_visible(json_t *j) {
        _cleanup_free_ char *text = ctl_visible(json_string_value(j), /* keep_lines= */ false);

        (void) json_string_set(j, text ? text : "?");
}

void ctl_make_visible(json_t *j) {
        json_t *value;
        const char *key;
        size_t i;

        if (json_is_string(j))
                make_string_visible(j);
        json_array_foreach(j, i, value)
                ctl_make_visible(value);
        json_object_foreach(j, key, value)
                ctl_make_visible(value);
}

static int report(const char *what, int r, const sd_bus_error *e) {
        _cleanup_free_ char *shown = ctl_visible(what, /* keep_lines= */ false),
                            *message = ctl_visible(e && e->message ? e->message : strerror(-r), /* keep_lines= */ true);
        const char *remedy = remedy_of(e ? e->name : NULL);

        fprintf(stderr, "ublkctl: %s: %s\n", shown ? shown : "?", message ? message : "?");
        if (remedy)
                fprintf(stderr, "%s\n", remedy);
        return r;
}

int ctl_connect(Ctl *c) {
        int r;

        r = sd_bus_open_system_with_description(&c->bus, "ublkctl");
        if (r < 0) {
                fprintf(stderr, "ublkctl: The system bus can't be reached: %s\n"
                                "Is dbus.service running? systemctl start dbus.service\n", strerror(-r));
                return r;
        }
        return 0;
}

void ctl_done(Ctl *c) {
        c->bus = sd_bus_flush_close_unref(c->bus);
        while (c->n_forwarded > 0)
                free(c->forwarded[--c->n_forwarded]);
}

sd_bus_message *ctl_new_call(Ctl *c, const char *method) {
        sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_method_call(c->bus, &m, MANAGER_NAME, MANAGER_PATH, MANAGER_INTERFACE, method);
        if (r < 0)
                report(method, r, NULL);
        return m;
}

static int send_call(Ctl *c, sd_bus_message *m, uint64_t timeout_usec, sd_bus_error *e, sd_bus_message **ret) {
        int r;

        /* polkit may ask for a password where an agent runs. */
        (void) sd_bus_message_set_allow_interactive_authorization(m, true);
        r = sd_bus_call(c->bus, m, timeout_usec, e, ret);
        sd_bus_message_unref(m);
        return r;
}

int ctl_call(Ctl *c, sd_bus_message *m, uint64_t timeout_usec, const char *what, sd_bus_message **ret) {
        sd_bus_error e = SD_BUS_ERROR_NULL;
        sd_bus_message *reply = NULL;
        int r;

        r = send_call(c, m, timeout_usec, &e, &reply);
        if (r < 0)
                report(what, r, &e);
        else if (ret)
                *ret = reply;
        else
                sd_bus_message_unref(reply);
        sd_bus_error_free(&e);
        return r < 0 ? r : 0;
}

int ctl_try(Ctl *c, sd_bus_message *m, uint64_t timeout_usec, const char *what) {
        sd_bus_error e = SD_BUS_ERROR_NULL;
        sd_bus_message *reply = NULL;
        int r;

        r = send_call(c, m, timeout_usec, &e, &reply);
        sd_bus_message_unref(reply);
        if (sd_bus_error_has_name(&e, BUS_ERROR_DEVICE_BUSY) || sd_bus_error_has_name(&e, BUS_ERROR_OPERATION_IN_PROGRESS))
                r = 1;
        else if (r < 0)
                report(what, r, &e);
        else
                r = 0;
        sd_bus_error_free(&e);
        return r;
}

int ctl_get_device(Ctl *c, const char *designation, char **ret_path) {
        sd_bus_message *m = ctl_new_call(c, "GetDevice"), *reply = NULL;
        const char *path;
        int r;

        if (!m)
                return -EIO;
        r = sd_bus_message_append(m, "s", designation);
        if (r < 0) {
                sd_bus_message_unref(m);
                return report(designation, r, NULL);
        }
        r = ctl_call(c, m, 0, designation, &reply);
        if (r < 0)
                return r;
        r = sd_bus_message_read(reply, "o", &path);
        if (r >= 0)
                r = xstrdup(path, ret_path);
        sd_bus_message_unref(reply);
        return r < 0 ? report(designation, r, NULL) : 0;
}

json_t *ctl_get_all(Ctl *c, const char *path, const char *interface, const char *what) {
        sd_bus_message *m = NULL, *reply = NULL;
        json_t *j = NULL;
        int r;

        r = sd_bus_message_new_method_call(c->bus, &m, MANAGER_NAME, path, "org.freedesktop.DBus.Properties", "GetAll");
        if (r >= 0)
                r = sd_bus_message_append(m, "s", interface);
        if (r < 0) {
                sd_bus_message_unref(m);
                report(what, r, NULL);
                return NULL;
        }
        r = ctl_call(c, m, 0, what, &reply);
        if (r < 0)
                return NULL;
        r = json_from_message(reply, &j);
        if (r < 0)
                report(what, r, NULL);
        sd_bus_message_unref(reply);
        return j;
}

static int json_from_basic(sd_bus_message *m, char type, json_t **ret) {
        BasicValue v;
        int r;

        r = basic_read(m, type, &v);
        if (r < 0)
                return r;
        if (type == 'b')
                *ret = json_boolean(v.b);
        else if (type == 'd')
                *ret = json_real(v.d);
        else if (strchr("sog", type))
                *ret = json_string(v.s);
        else
                *ret = json_integer((json_int_t) basic_to_integer(&v, type));
        return *ret ? 0 : -ENOMEM;
}

static int json_from_dictionary(sd_bus_message *m, const char *entry, json_t *object) {
        _cleanup_free_ char *inner = strndup(entry + 1, strlen(entry) - 2);
        int r;

        if (!inner)
                return -ENOMEM;
        while ((r = sd_bus_message_enter_container(m, 'e', inner)) > 0) {
                const char *key;
                json_t *value;

                r = sd_bus_message_read(m, "s", &key);
                if (r < 0)
                        return r;
                r = json_from_message(m, &value);
                if (r < 0)
                        return r;
                (void) json_object_set_new(object, key, value);
                r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        return r;
}

static int json_from_array(sd_bus_message *m, const char *contents, json_t **ret) {
        json_t *j = contents[0] == '{' ? json_object() : json_array(), *item;
        int r;

        r = sd_bus_message_enter_container(m, 'a', contents);
        if (r >= 0 && contents[0] == '{')
                r = json_from_dictionary(m, contents, j);
        else
                while (r >= 0 && sd_bus_message_at_end(m, false) == 0) {
                        r = json_from_message(m, &item);
                        if (r >= 0)
                                (void) json_array_append_new(j, item);
                }
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        if (r < 0) {
                json_decref(j);
                return r;
        }
        *ret = j;
        return 0;
}

int json_from_message(sd_bus_message *m, json_t **ret) {
        const char *contents;
        char type;
        int r;

        r = sd_bus_message_peek_type(m, &type, &contents);
        if (r < 0)
                return r;
        if (type == 'a')
                return json_from_array(m, contents, ret);
        if (type != 'v')
                return json_from_basic(m, type, ret);
        r = sd_bus_message_enter_container(m, 'v', contents);
        if (r >= 0)
                r = json_from_message(m, ret);
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

void ctl_print_json(const Ctl *c, json_t *j) {
        (void) json_dumpf(j, stdout, c->json == JSON_PRETTY ? JSON_INDENT(8) : JSON_COMPACT);
        putchar('\n');
        json_decref(j);
}

void format_size(uint64_t size, char ret[static 16]) {
        static const char units[] = "BKMGTPE";
        uint64_t unit = 1;
        size_t i = 0;

        while (i + 2 < sizeof(units) && size / unit >= 1024) {
                unit *= 1024;
                i++;
        }
        if (size == 0)
                snprintf(ret, 16, "-");
        else if (size % unit == 0 || i == 0)
                snprintf(ret, 16, "%" PRIu64 "%c", size / unit, units[i]);
        else
                snprintf(ret, 16, "%.1f%c", (double) size / (double) unit, units[i]);
}

bool state_is_trouble(const char *state) {
        return streq(state, "failed") || streq(state, "held");
}

const char *ctl_colour_of_state(const Ctl *c, const char *state) {
        if (!c->colour)
                return "";
        if (streq(state, "live"))
                return "\033[32m";
        return streq(state, "failed") ? "\033[1;31m" : "\033[33m";
}

const char *ctl_colour_off(const Ctl *c) {
        return c->colour ? "\033[0m" : "";
}
