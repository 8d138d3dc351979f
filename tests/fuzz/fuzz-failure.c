/* SPDX-License-Identifier: MIT */

/* What a worker reports in its status, and in its replies: the manager tells it on, and notes what it says that the hook needs. */

#include "dbus/errors.h"
#include "fuzz-bus.h"
#include "fuzz-config.h"
#include "service/needs.h"
#include "service/text.h"

static bool is_text(const char *s) {
        return !s || text_is_valid(s);
}

/* One line that systemd takes as it is, which says the same once more. */
static void check_text(const Failure *f) {
        _cleanup_free_ char *text = NULL, *again = NULL;
        Failure back = FAILURE_NULL;

        must(failure_to_text(f, &text) == 0);
        must(strlen(text) < FAILURE_MAX_TEXT && text_is_valid(text) && !strpbrk(text, "\n\\"));
        must(failure_from_text(text, &back) == 0);
        must(back.kind == f->kind && back.error == f->error && back.line == f->line);
        must(failure_to_text(&back, &again) == 0);
        must(streq(text, again));
        failure_done(&back);
}

static void check_error(const Failure *f) {
        sd_bus_error e = SD_BUS_ERROR_NULL;

        must(bus_error_set_failure(&e, f) < 0);
        bus_check_error(&e);
        sd_bus_error_free(&e);
}

/* As dbus/needs.c does: a device whose file then can't be read again would be lost. */
static void check_needs(const Failure *f) {
        _cleanup_(device_config_freep) DeviceConfig *c = device_config_new(3);
        _cleanup_free_ char *copy = NULL;
        char *rest, *need;

        must(c && xstrdup("disk0", &c->name) >= 0 && xstrdup("memory", &c->hook) >= 0);
        must(device_config_add_argument(c, "key", 's', "/etc/key") >= 0 && device_config_add_argument(c, "pin", 's', "pin") >= 0);
        must(device_config_add_argument(c, "size", 't', "4096") >= 0);
        must(xstrdup(f->needs, &copy) >= 0);
        for (rest = copy; (need = strsep(&rest, " "));)
                (void) needs_note(c, need);
        config_must_last(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *text = NULL, *described = NULL;
        Failure f = FAILURE_NULL;
        Input in = { data, size };

        text = input_string(&in);
        if (failure_from_text(text, &f) < 0)
                return 0;
        must(failure_kind_to_string(f.kind) && f.message && f.error >= 0 && f.error <= 4095);
        must(is_text(f.message) && is_text(f.class_name) && is_text(f.file) && is_text(f.needs));
        must(failure_describe(&f, &described) == 0);
        check_text(&f);
        check_error(&f);
        if (f.needs)
                check_needs(&f);
        failure_done(&f);
        return 0;
}
