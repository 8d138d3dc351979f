/* SPDX-License-Identifier: MIT */
#pragma once

/* What kernel, worker and ublk-ruby-control would leave below the test's root: sysfs, the worker's socket, results. */

#include "service/device.h"

void kernel_set_root(const char *root);
/* Whether the test has put such a file below the root; NAME, or NAME-ID. */
bool kernel_flag(const char *name);
bool kernel_device_flag(const char *name, uint32_t id);

/* sysfs and marker of a live device; its size is the argument "size". */
void kernel_add(const DeviceConfig *c);
void kernel_remove(uint32_t id);
/* Of another program. */
void kernel_add_foreign(uint32_t id);

/* Makes the test's hold-after-stop-N its holders-N. */
void kernel_hold_after_stop(uint32_t id);

/* Takes the test's served-N away. */
void kernel_stop_serving(uint32_t id);

/* What a worker whose hook keeps state does, and what becomes of that with `remove`: the real thing. */
void state_begin(const DeviceConfig *c);
void state_settle(uint32_t id, const char *word);

/* A process that answers HELLO, STUCK with what the test's file stuck-N says, and KEEP_CODE, which makes kept-N, as the device's
 * worker; its pid. */
pid_t worker_start(const DeviceConfig *c);
void worker_stop(pid_t pid);

void control_answer(const char *instance, const char *json);
void control_answer_probe(const char *instance);
void control_answer_resize(const char *instance, uint32_t id, uint64_t bytes);
void control_answer_holders(const char *instance, uint32_t id);
/* Of ublk-ruby-check@N.service. */
void check_answer(uint32_t id);
void check_answer_proposal(uint32_t number);
void control_answer_list(const char *instance);
void control_answer_stray(const char *instance, uint32_t id);
