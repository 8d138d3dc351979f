/* SPDX-License-Identifier: MIT */
#include "dbus/stuck.h"

#include "service/manager-stuck.h"
#include "service/text.h"

/* A frame may come as any bytes. */
static void clean(char *s) {
        text_clean(s);
        for (; *s; s++)
                if ((unsigned char) *s < 0x20 || *s == 0x7f)
                        *s = '?';
}

static int append_backtrace(sd_bus_message *m, const StuckRequest *request) {
        char text[STUCK_MAX_BACKTRACE + 1], *rest = text, *line;
        int r;

        memcpy(text, request->backtrace, request->backtrace_size);
        text[request->backtrace_size] = 0;
        r = sd_bus_message_open_container(m, 'a', "s");
        while (r >= 0 && (line = strsep(&rest, "\n")))
                if (line[0]) {
                        clean(line);
                        r = sd_bus_message_append(m, "s", line);
                }
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_request(sd_bus_message *m, const StuckRequest *request) {
        int r;

        r = sd_bus_message_open_container(m, 'r', "stttas");
        if (r >= 0)
                r = sd_bus_message_append(m, "sttt", stuck_request_operation(request), request->offset, request->length,
                                          request->age_usec);
        if (r >= 0)
                r = append_backtrace(m, request);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append(sd_bus_message *m, const Device *d, const void *reply) {
        const StuckReply *stuck = reply;
        int r;

        (void) d;
        r = sd_bus_message_open_container(m, 'a', "(stttas)");
        for (uint32_t i = 0; r >= 0 && stuck && i < stuck->n_requests; i++)
                r = append_request(m, &stuck->requests[i]);
        return r < 0 ? r : sd_bus_message_close_container(m);
}

static int check(const void *reply, size_t size, uint32_t device_id) {
        return stuck_reply_check(reply, size, device_id);
}

const QueryKind stuck_query = {
        .type = MESSAGE_STUCK,
        .max_reply = sizeof(StuckReply),
        .timeout_usec = STUCK_TIMEOUT_USEC,
        .about = "what is in its hook",
        .check = check,
        .append = append,
};
