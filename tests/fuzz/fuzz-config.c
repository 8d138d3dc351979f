/* SPDX-License-Identifier: MIT */
#include "fuzz-config.h"

void config_must_equal(const DeviceConfig *a, const DeviceConfig *b) {
        must(streq(a->name, b->name) && streq(a->hook, b->hook) && streq_ptr(a->class_name, b->class_name));
        must(a->queues == b->queues && a->depth == b->depth && a->max_io_size == b->max_io_size);
        must(a->read_only == b->read_only && a->mlock == b->mlock && a->partscan == b->partscan);
        must(a->recovery == b->recovery && a->fail_on_failure == b->fail_on_failure);
        must(streq(a->data_path ? a->data_path : "auto", b->data_path ? b->data_path : "auto"));
        must(a->hook_timeout_usec == b->hook_timeout_usec && a->start_timeout_usec == b->start_timeout_usec);
        must(a->created_usec == b->created_usec && a->creating == b->creating && a->resizing == b->resizing);
        must(a->network == b->network && a->jit == b->jit && streq_ptr(a->secrets, b->secrets));
        must(a->n_arguments == b->n_arguments);
        for (size_t i = 0; i < a->n_arguments; i++)
                must(streq(a->arguments[i].name, b->arguments[i].name) && a->arguments[i].type == b->arguments[i].type &&
                     streq(a->arguments[i].value, b->arguments[i].value));
}

void config_must_last(const DeviceConfig *c) {
        _cleanup_(device_config_freep) DeviceConfig *again = NULL;
        _cleanup_free_ char *text = NULL, *message = NULL;
        int r;

        r = device_config_serialize(c, &text);
        if (r == -E2BIG)
                return;
        must(r == 0);
        must(device_config_parse(c->id, text, &again, &message) == 0);
        config_must_equal(c, again);
}
