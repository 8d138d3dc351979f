/* SPDX-License-Identifier: MIT */

/*
 * org.freedesktop.PolicyKit1 for tests on a private bus. What it says to an action stands in the file polkit-ACTION (such as
 * polkit-create-device) below the root: yes, no, challenge (no, unless somebody can be asked), error, wait; without one
 * it is no. What is asked goes to the file polkit-log, a line each: "create-device name=d hook=memory verb=Create flags=0
 * caller=:1.5", or "cancel". Release(b) of org.ublk.Mock answers all that wait.
 */

#include "service/log.h"
#include "service/util.h"

#include <fcntl.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#define PREFIX "org.ublk."
#define MAX_WAITING 64

static const char *root;
static sd_bus_message *waiting[MAX_WAITING];
static size_t n_waiting;

static void _printf_(1, 2) note(const char *format, ...) {
        _cleanup_free_ char *path = NULL;
        va_list ap;
        FILE *f;

        if (xasprintf(&path, "%s/polkit-log", root) < 0 || !(f = fopen(path, "ae")))
                return;
        va_start(ap, format);
        vfprintf(f, format, ap);
        va_end(ap);
        fclose(f);
}

static int answer(sd_bus_message *m, bool yes, bool challenge) {
        return sd_bus_reply_method_return(m, "(bba{ss})", yes, challenge, 0);
}

/* What the test has written, "no" without. */
static void read_word(const char *action, char word[static 16]) {
        _cleanup_free_ char *path = NULL;
        FILE *f = NULL;

        snprintf(word, 16, "no");
        if (xasprintf(&path, "%s/polkit-%s", root, action) >= 0)
                f = fopen(path, "re");
        if (f && fscanf(f, "%15s", word) != 1)
                snprintf(word, 16, "no");
        if (f)
                fclose(f);
}

/* The one detail that system-bus-name has: the caller. */
static int read_subject(sd_bus_message *m, const char **ret_name) {
        const char *kind, *key;
        int r;

        r = sd_bus_message_enter_container(m, 'r', "sa{sv}");
        if (r >= 0)
                r = sd_bus_message_read(m, "s", &kind);
        if (r >= 0)
                r = sd_bus_message_read(m, "a{sv}", 1, &key, "s", ret_name);
        if (r >= 0)
                r = sd_bus_message_exit_container(m);
        return r < 0 ? r : streq(kind, "system-bus-name") && streq(key, "name") ? 0 : -EINVAL;
}

static int note_details(sd_bus_message *m) {
        const char *key, *value;
        int r;

        r = sd_bus_message_enter_container(m, 'a', "{ss}");
        while (r >= 0 && (r = sd_bus_message_read(m, "{ss}", &key, &value)) > 0)
                note(" %s=%s", key, value);
        return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int decide(sd_bus_message *m, const char *action, uint32_t flags) {
        char word[16];

        read_word(action, word);
        if (streq(word, "wait") && n_waiting < MAX_WAITING) {
                waiting[n_waiting++] = sd_bus_message_ref(m);
                return 1;
        }
        if (streq(word, "error"))
                return sd_bus_reply_method_errorf(m, "org.freedesktop.PolicyKit1.Error.Failed", "It is Monday");
        if (streq(word, "challenge"))
                return answer(m, flags & 1, !(flags & 1));
        return answer(m, streq(word, "yes"), false);
}

static int method_check(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const char *caller, *action, *id;
        uint32_t flags;
        int r;

        (void) userdata;
        r = read_subject(m, &caller);
        if (r >= 0)
                r = sd_bus_message_read(m, "s", &action);
        if (r < 0)
                return r;
        if (strncmp(action, PREFIX, strlen(PREFIX)) != 0)
                return sd_bus_error_setf(e, SD_BUS_ERROR_INVALID_ARGS, "%s", action);
        action += strlen(PREFIX);
        note("%s", action);
        r = note_details(m);
        if (r >= 0)
                r = sd_bus_message_read(m, "us", &flags, &id);
        if (r < 0)
                return r;
        note(" flags=%u caller=%s\n", flags, caller);
        return decide(m, action, flags);
}

static int method_cancel(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        (void) userdata, (void) e;
        note("cancel\n");
        return sd_bus_reply_method_return(m, NULL);
}

static int method_release(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        int yes, r;

        (void) userdata, (void) e;
        r = sd_bus_message_read(m, "b", &yes);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n_waiting; i++) {
                (void) answer(waiting[i], yes, false);
                sd_bus_message_unref(waiting[i]);
        }
        n_waiting = 0;
        return sd_bus_reply_method_return(m, NULL);
}

static const sd_bus_vtable authority_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_METHOD("CheckAuthorization", "(sa{sv})sa{ss}us", "(bba{ss})", method_check, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_METHOD("CancelCheckAuthorization", "s", "", method_cancel, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_VTABLE_END,
};
static const sd_bus_vtable mock_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_METHOD("Release", "b", "", method_release, SD_BUS_VTABLE_UNPRIVILEGED),
        SD_BUS_VTABLE_END,
};

int main(int argc, char **argv) {
        sd_event *event = NULL;
        sd_bus *bus = NULL;
        int r;

        if (argc != 2)
                return 2;
        log_setup("mock-polkit");
        root = argv[1];
        r = sd_event_default(&event);
        if (r >= 0)
                r = sd_bus_open_system(&bus);
        if (r >= 0)
                r = sd_bus_attach_event(bus, event, 0);
        if (r >= 0)
                r = sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/PolicyKit1/Authority", "org.freedesktop.PolicyKit1.Authority",
                                             authority_vtable, NULL);
        if (r >= 0)
                r = sd_bus_add_object_vtable(bus, NULL, "/org/freedesktop/PolicyKit1/Authority", "org.ublk.Mock", mock_vtable, NULL);
        if (r >= 0)
                r = sd_bus_request_name(bus, "org.freedesktop.PolicyKit1", 0);
        if (r < 0)
                return log_error_errno(r, "No bus") < 0;
        sd_bus_set_exit_on_disconnect(bus, true);
        (void) sd_event_loop(event);
        return 0;
}
