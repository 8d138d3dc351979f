/* SPDX-License-Identifier: MIT */
#include "fuzz-bus.h"

#include "service/text.h"

#include <sys/socket.h>

/* Half of a socket pair is enough of a bus. */
static sd_bus *get_bus(void) {
        static sd_bus *bus;
        int fds[2];

        if (bus)
                return bus;
        must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
        must(sd_bus_new(&bus) >= 0);
        must(sd_bus_set_fd(bus, fds[0], fds[0]) >= 0);
        must(sd_bus_start(bus) >= 0);
        return bus;
}

sd_bus_message *bus_call(void) {
        sd_bus_message *m;

        must(sd_bus_message_new_method_call(get_bus(), &m, "a.b", "/", "a.b", "C") >= 0);
        return m;
}

void bus_seal(sd_bus_message *m) {
        must(sd_bus_message_seal(m, 1, 0) >= 0);
}

void bus_check_error(const sd_bus_error *e) {
        must(sd_bus_error_is_set(e) && e->message && text_is_valid(e->message));
}
