/* SPDX-License-Identifier: MIT */

/* What a unit answers that the manager has asked: of a check of a hook that hook may have had a hand in it. */

#include "dbus/answer.h"
#include "fuzz-bus.h"
#include "service/manager.h"

static void check_report(const json_t *answer, const sd_bus_error *e) {
        sd_bus_message *m = bus_call();

        if (answer_append_report(m, answer, e) >= 0)
                bus_seal(m);
        sd_bus_message_unref(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static Manager *manager;
        sd_bus_error e = SD_BUS_ERROR_NULL;
        _cleanup_free_ char *text = NULL;
        Input in = { data, size };
        json_t *answer = NULL;
        int r;

        text = input_string(&in);
        if (!manager)
                must(manager_new(/* hook_environment= */ false, &manager) >= 0);
        if (answer_parse(text, &answer) < 0) {
                must(!answer);
                return 0;
        }
        r = answer_check(answer, "a.service", &e);
        must(r <= 0 && r >= -4095);
        if (r < 0)
                bus_check_error(&e);
        else
                must(!sd_bus_error_is_set(&e));
        check_report(answer, &e);
        r = manager_take_probe(manager, text);
        must(r == 0 || r == -EBADMSG);
        must(manager->support.reason || r < 0);
        json_decref(answer);
        sd_bus_error_free(&e);
        return 0;
}
