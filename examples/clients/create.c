/* SPDX-License-Identifier: MIT */

/*
 * A client of org.ublk with sd-bus: makes a RAM disk, follows what becomes of it, shows what it has done, and deletes it.
 * As root:  create NAME SIZE       SIZE in bytes
 * gcc -Wall create.c -o create $(pkg-config --cflags --libs libsystemd)
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <systemd/sd-bus.h>

#define SERVICE "org.ublk"
#define MANAGER "/org/ublk"
#define TIMEOUT_USEC (60 * UINT64_C(1000000))

static bool said_removed; /* InterfacesRemoved has come */

static int on_signal(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const char *member = sd_bus_message_get_member(m);

        (void) userdata, (void) error;
        printf("signal: %s from %s\n", member, sd_bus_message_get_path(m));
        if (strcmp(member, "InterfacesRemoved") == 0)
                said_removed = true;
        return 0;
}

/* An error has a name, which programs go by, and a message, which people read. */
static int complain(int r, const sd_bus_error *e) {
        if (sd_bus_error_is_set(e))
                printf("%s: %s\n", e->name, e->message);
        else
                printf("%s\n", strerror(-r));
        return r;
}

/* The answer comes when the disk is there, or when nothing is left of it. *ret_path is to be freed. */
static int create(sd_bus *bus, const char *name, uint64_t size, sd_bus_error *e, char **ret_path) {
        sd_bus_message *m = NULL, *reply = NULL;
        const char *path;
        int r;

        r = sd_bus_message_new_method_call(bus, &m, SERVICE, MANAGER, "org.ublk.Manager", "CreateDevice");
        if (r >= 0)
                r = sd_bus_message_append(m, "ssa{sv}", name, "memory", 1, "size", "t", size);
        if (r >= 0)
                r = sd_bus_call(bus, m, TIMEOUT_USEC, e, &reply);
        if (r >= 0)
                r = sd_bus_message_read(reply, "o", &path);
        if (r >= 0) {
                *ret_path = strdup(path);
                r = *ret_path ? 0 : -ENOMEM;
        }
        sd_bus_message_unref(m);
        sd_bus_message_unref(reply);
        return r;
}

/* The numbers of GetStatistics; what else it has is skipped. */
static int show_statistics(sd_bus *bus, const char *path, sd_bus_error *e) {
        sd_bus_message *reply = NULL;
        const char *key, *type;
        int r;

        r = sd_bus_call_method(bus, SERVICE, path, "org.ublk.Device", "GetStatistics", e, &reply, NULL);
        if (r >= 0)
                r = sd_bus_message_enter_container(reply, 'a', "{sv}");
        while (r >= 0 && (r = sd_bus_message_enter_container(reply, 'e', "sv")) > 0) {
                uint64_t number;

                r = sd_bus_message_read(reply, "s", &key);
                if (r >= 0)
                        r = sd_bus_message_peek_type(reply, NULL, &type);
                if (r >= 0 && strcmp(type, "t") == 0) {
                        r = sd_bus_message_read(reply, "v", "t", &number);
                        if (r >= 0)
                                printf("statistics: %s %" PRIu64 "\n", key, number);
                } else if (r >= 0)
                        r = sd_bus_message_skip(reply, "v");
                if (r >= 0)
                        r = sd_bus_message_exit_container(reply);
        }
        sd_bus_message_unref(reply);
        return r;
}

static int write_some(const char *node) {
        static const char zeroes[256 << 10];
        int fd = open(node, O_WRONLY | O_CLOEXEC), r = 0;

        if (fd < 0)
                return -errno;
        if (write(fd, zeroes, sizeof(zeroes)) != (ssize_t) sizeof(zeroes) || fsync(fd) < 0)
                r = errno > 0 ? -errno : -EIO;
        (void) close(fd);
        return r;
}

static int listen_to(sd_bus *bus, const char *path, const char *interface, const char *member) {
        return sd_bus_match_signal(bus, NULL, SERVICE, path, interface, member, on_signal, NULL);
}

static int use(sd_bus *bus, const char *name, uint64_t size, const char *path, sd_bus_error *e) {
        char *node = NULL, *state = NULL, *second = NULL;
        int r;

        r = sd_bus_get_property_string(bus, SERVICE, path, "org.ublk.Device", "Node", e, &node);
        if (r >= 0)
                r = sd_bus_get_property_string(bus, SERVICE, path, "org.ublk.Device", "State", e, &state);
        if (r >= 0) {
                printf("made: %s, %s, %s\n", path, node, state);
                r = write_some(node);
        }
        if (r >= 0)
                r = show_statistics(bus, path, e);
        if (r >= 0) {
                r = create(bus, name, size, e, &second);
                if (r >= 0 || !sd_bus_error_has_name(e, "org.ublk.Error.DeviceExists"))
                        r = r < 0 ? r : -ENOTUNIQ;
                else {
                        (void) complain(r, e);
                        sd_bus_error_free(e);
                        r = 0;
                }
        }
        free(second);
        free(node);
        free(state);
        return r;
}

static int finish(sd_bus *bus, const char *name, const char *path, sd_bus_error *e) {
        int r;

        r = sd_bus_call_method(bus, SERVICE, path, "org.ublk.Device", "Restart", e, NULL, "a{sv}", 0);
        if (r >= 0)
                r = sd_bus_call_method(bus, SERVICE, path, "org.ublk.Device", "Delete", e, NULL, "a{sv}", 0);
        /* Signals wait until somebody asks for them. */
        while (r >= 0 && !said_removed) {
                r = sd_bus_process(bus, NULL);
                if (r == 0)
                        r = sd_bus_wait(bus, TIMEOUT_USEC) > 0 ? 0 : -ETIMEDOUT;
        }
        if (r >= 0)
                printf("deleted: %s\n", name);
        return r;
}

int main(int argc, char **argv) {
        sd_bus_error e = SD_BUS_ERROR_NULL;
        sd_bus *bus = NULL;
        char *path = NULL, *end;
        uint64_t size;
        int r;

        if (argc != 3 || (size = strtoull(argv[2], &end, 10), *end)) {
                fprintf(stderr, "usage: %s NAME SIZE\n", argv[0]);
                return 2;
        }
        r = sd_bus_open_system(&bus);
        if (r >= 0)
                r = listen_to(bus, MANAGER, "org.freedesktop.DBus.ObjectManager", "InterfacesAdded");
        if (r >= 0)
                r = listen_to(bus, MANAGER, "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved");
        if (r >= 0)
                r = create(bus, argv[1], size, &e, &path);
        if (r >= 0)
                r = listen_to(bus, path, "org.freedesktop.DBus.Properties", "PropertiesChanged");
        if (r >= 0)
                r = use(bus, argv[1], size, path, &e);
        if (r >= 0)
                r = finish(bus, argv[1], path, &e);
        if (r < 0)
                (void) complain(r, &e);
        sd_bus_error_free(&e);
        free(path);
        sd_bus_flush_close_unref(bus);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
