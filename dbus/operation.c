/* SPDX-License-Identifier: MIT */
#include "dbus/operation.h"

#include "dbus/answer.h"
#include "dbus/device-bus.h"
#include "dbus/errors.h"
#include "dbus/manager-bus.h"
#include "service/log.h"
#include "service/paths.h"

#include <stdarg.h>

#define RESULT_MAX_FILE (256 * 1024)

/* Root finds its place whatever others are about. */
static int check_limits(const ManagerBus *mb, uid_t uid, sd_bus_error *e) {
        bool is_root = uid == mb->trusted_uid;
        size_t own = 0, others = 0;

        for (const Operation *op = mb->operations; op; op = op->next) {
                own += op->message && op->uid == uid;
                others += op->message && op->uid != mb->trusted_uid;
        }
        if (own >= (is_root ? OPERATIONS_MAX : OPERATIONS_MAX_PER_USER))
                return bus_error_setf(e, SD_BUS_ERROR_LIMITS_EXCEEDED,
                                      "%zu calls of user id %u are being worked on, which is the most; try again later.", own, uid);
        if (!is_root && others >= OPERATIONS_MAX)
                return bus_error_setf(e, SD_BUS_ERROR_LIMITS_EXCEEDED,
                                      "%zu calls of other users than root are being worked on, which is the most; try again later.",
                                      others);
        return 0;
}

int operation_new(ManagerBus *mb, sd_bus_message *message, uid_t uid, Device *device, Operation **ret, sd_bus_error *e) {
        Operation *op;
        int r;

        if (device && device_bus_get(device)->operation)
                return bus_error_setf(e, BUS_ERROR_OPERATION_IN_PROGRESS,
                                      "Another call is still working on %s; try again when it has ended.",
                                      device->config->name);
        if (message && mb->draining)
                return bus_error_setf(e, BUS_ERROR_CANCELLED, "The service is being stopped; try again when it is back.");
        r = message ? check_limits(mb, uid, e) : 0;
        if (r < 0)
                return r;
        op = malloc(sizeof(Operation));
        if (!op)
                return -ENOMEM;
        *op = (Operation) { .mb = mb, .next = mb->operations, .message = sd_bus_message_ref(message), .uid = uid, .device = device };
        mb->operations = op;
        if (device)
                device_bus_get(device)->operation = op;
        *ret = op;
        return 0;
}

/* What a step left behind. */
static void step_done(Operation *op) {
        op->slot = sd_bus_slot_unref(op->slot);
        op->job = systemd_job_free(op->job);
        op->hello = hello_free(op->hello);
        op->authorisation = authorisation_free(op->authorisation);
        op->timer = sd_event_source_disable_unref(op->timer);
        op->enough = NULL;
        sd_bus_error_free(&op->step_error);
}

Operation *operation_free(Operation *op) {
        ManagerBus *mb;

        if (!op)
                return NULL;
        mb = op->mb;
        for (Operation **p = &mb->operations; *p; p = &(*p)->next)
                if (*p == op) {
                        *p = op->next;
                        break;
                }
        step_done(op);
        if (op->device)
                device_bus_get(op->device)->operation = NULL;
        sd_bus_message_unref(op->message);
        askers_done(&op->list_askers);
        device_config_free(op->config);
        sd_bus_error_free(&op->error);
        free(op->job_result);
        free(op->trial_needs);
        free(op->before_trial);
        free(op->asked_unit);
        free(op->answer_path);
        free(op->proposal_path);
        if (op->canceller)
                (void) sd_bus_reply_method_errorf(op->canceller, BUS_ERROR_WORKER_FAILED, "The creation could not be undone in whole; "
                                                                                          "see: journalctl -u ublk-ruby.service");
        sd_bus_message_unref(op->canceller);
        json_decref(op->answer);
        free(op);
        manager_bus_operation_ended(mb);
        return NULL;
}

static void step_begin(Operation *op, OperationNext then) {
        step_done(op);
        op->then = then;
}

/* Ends the step with an error of our own making. */
static void step_fail(Operation *op, int r, const char *what) {
        sd_bus_error_free(&op->step_error);
        bus_error_setf(&op->step_error, BUS_ERROR_WORKER_FAILED, "%s: %s", what, strerror(-r));
        op->then(op, r);
}

static void on_job(void *userdata, const char *result, const sd_bus_error *error) {
        Operation *op = userdata;

        free(op->job_result);
        op->job_result = strdup(result ? result : "");
        if (!result) {
                bus_error_setf(&op->step_error, BUS_ERROR_WORKER_FAILED, "systemd refused: %s",
                               error && error->message ? error->message : "no reason given");
                op->job = systemd_job_free(op->job);
                op->then(op, -EREMOTEIO);
                return;
        }
        op->job = systemd_job_free(op->job);
        if (!op->job_result) {
                step_fail(op, -ENOMEM, "Waiting for systemd");
                return;
        }
        op->then(op, 0);
}

void operation_run_job(Operation *op, const char *method, const char *mode, OperationNext then) {
        operation_run_job_of(op, op->device->config->id, method, mode, then);
}

void operation_run_job_of(Operation *op, uint32_t id, const char *method, const char *mode, OperationNext then) {
        _cleanup_free_ char *unit = NULL;
        int r;

        step_begin(op, then);
        r = xasprintf(&unit, UNIT_DEVICE, id);
        if (r >= 0)
                r = systemd_job_new(op->mb->systemd, method, unit, mode, on_job, op, &op->job);
        if (r < 0)
                step_fail(op, r, "Calling systemd");
}

static int unlink_answer(const char *path) {
        return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

static int read_answer(Operation *op) {
        _cleanup_free_ char *text = NULL;
        int r;

        r = read_file(op->answer_path, RESULT_MAX_FILE, &text, NULL);
        if (r < 0)
                return r;
        r = unlink_answer(op->answer_path);
        if (r < 0)
                log_warning("%s can't be removed, ignoring: %s", op->answer_path, strerror(-r));
        return answer_parse(text, &op->answer);
}

static void on_asked_job(void *userdata, const char *result, const sd_bus_error *error) {
        Operation *op = userdata;
        int r;

        op->job = systemd_job_free(op->job);
        if (result && !streq(result, "done"))
                systemd_reset_failed(op->mb->systemd, op->asked_unit);
        r = result ? read_answer(op) : -EREMOTEIO;
        if (r < 0)
                bus_error_setf(&op->step_error, BUS_ERROR_WORKER_FAILED, "%s gave no answer (%s). See: journalctl -u %s",
                               op->asked_unit, !result && error && error->message ? error->message : strerror(-r),
                               op->asked_unit);
        else
                r = answer_check(op->answer, op->asked_unit, &op->step_error);
        op->then(op, r);
}

/* Takes unit and path. Whatever lies there is the answer to an earlier question. */
static int ask_unit(Operation *op, char *unit, char *path) {
        int r;

        free(op->asked_unit);
        free(op->answer_path);
        json_decref(op->answer);
        op->asked_unit = unit;
        op->answer_path = path;
        op->answer = NULL;
        r = unlink_answer(path);
        return r < 0 ? r : systemd_job_new(op->mb->systemd, "StartUnit", unit, "replace", on_asked_job, op, &op->job);
}

void operation_run_control(Operation *op, const char *instance, OperationNext then) {
        _cleanup_free_ char *unit = NULL, *path = NULL;
        int r;

        step_begin(op, then);
        r = config_path(&path, PATH_CONTROL_RESULT, instance);
        if (r >= 0)
                r = xasprintf(&unit, UNIT_CONTROL, instance);
        if (r >= 0)
                r = ask_unit(op, TAKE_PTR(unit), TAKE_PTR(path));
        if (r < 0)
                step_fail(op, r, "Calling systemd");
}

void operation_run_device_control(Operation *op, const char *verb, OperationNext then) {
        char instance[64];

        (void) snprintf(instance, sizeof(instance), "%s-%u", verb, op->device->config->id);
        operation_run_control(op, instance, then);
}

void operation_run_remove(Operation *op, const char *word, OperationNext then) {
        char instance[64];

        (void) snprintf(instance, sizeof(instance), "remove-%u-%s", op->device->config->id, word);
        operation_run_control(op, instance, then);
}

void operation_run_check(Operation *op, OperationNext then) {
        char instance[16];

        (void) snprintf(instance, sizeof(instance), "%u", op->device->config->id);
        operation_run_check_of(op, instance, then);
}

void operation_run_check_of(Operation *op, const char *instance, OperationNext then) {
        _cleanup_free_ char *unit = NULL, *path = NULL;
        int r;

        step_begin(op, then);
        r = config_path(&path, PATH_CHECK_RESULT, instance);
        if (r >= 0)
                r = xasprintf(&unit, UNIT_CHECK, instance);
        if (r >= 0)
                r = ask_unit(op, TAKE_PTR(unit), TAKE_PTR(path));
        if (r < 0)
                step_fail(op, r, "Calling systemd");
}

bool operation_answer_is_foreign(const Operation *op) {
        return json_is_true(json_object_get(op->answer, "foreign"));
}

static void on_authorised(void *userdata, const sd_bus_error *e) {
        Operation *op = userdata;

        if (e)
                (void) sd_bus_error_copy(&op->step_error, e);
        op->authorisation = authorisation_free(op->authorisation);
        op->then(op, e ? -EACCES : 0);
}

void operation_authorise(Operation *op, Action action, OperationNext then) {
        const DeviceConfig *c = op->device->config;
        int r;

        step_begin(op, then);
        r = authorisation_new(op->mb, op->message, action, c->name, c->hook, on_authorised, op, &op->authorisation);
        if (r < 0)
                step_fail(op, r, "Finding out whether the caller may do this");
}

static int on_unit(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        Operation *op = userdata;
        int r;

        (void) error;
        op->slot = sd_bus_slot_unref(op->slot);
        r = device_bus_take_properties(device_bus_get(op->device), m);
        if (r < 0)
                step_fail(op, r, "Asking systemd for the unit");
        else
                op->then(op, 0);
        return 0;
}

void operation_fetch(Operation *op, OperationNext then) {
        _cleanup_free_ char *unit = NULL;
        int r;

        step_begin(op, then);
        r = device_unit(op->device, &unit);
        if (r >= 0)
                r = systemd_get_unit(op->mb->systemd, &op->slot, unit, on_unit, op);
        if (r < 0)
                step_fail(op, r, "Asking systemd for the unit");
}

/* What the worker says of its own error. */
static bool take_failure(Operation *op, const WorkerReply *reply) {
        _cleanup_free_ char *text = strndup(reply->text, reply->text_size);
        Failure f = FAILURE_NULL;

        if (!text || failure_from_text(text, &f) < 0)
                return false;
        (void) bus_error_set_failure(&op->step_error, &f);
        failure_done(&f);
        return true;
}

static void on_hello(void *userdata, int r, uint32_t pid, const WorkerReply *reply) {
        Operation *op = userdata;
        bool taken = r < 0 && reply && take_failure(op, reply);

        op->hello = hello_free(op->hello);
        if (taken)
                op->then(op, r);
        else if (r < 0)
                step_fail(op, r, "Asking the worker");
        else {
                device_bus_take_hello(device_bus_get(op->device), pid, reply);
                op->then(op, 0);
        }
}

static void call_worker(Operation *op, MessageType type, OperationNext then) {
        const Device *d = op->device;
        int r;

        step_begin(op, then);
        r = hello_new(op->mb->event, d->config, d->unit.main_pid, type, on_hello, op, &op->hello);
        if (r < 0)
                step_fail(op, r, "Asking the worker");
}

void operation_ask_worker(Operation *op, OperationNext then) {
        call_worker(op, MESSAGE_HELLO, then);
}

void operation_keep_code(Operation *op, OperationNext then) {
        call_worker(op, MESSAGE_KEEP_CODE, then);
}

/* The step is over before what comes next begins: that may end the operation. */
static void wait_end(Operation *op, int r) {
        op->timer = sd_event_source_disable_unref(op->timer);
        op->enough = NULL;
        op->then(op, r);
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s, (void) usec;
        wait_end(userdata, -ETIMEDOUT);
        return 0;
}

void operation_wait(Operation *op, uint64_t usec, bool (*enough)(const Operation *op), OperationNext then) {
        int r;

        step_begin(op, then);
        op->enough = enough;
        r = sd_event_add_time_relative(op->mb->event, &op->timer, CLOCK_MONOTONIC, usec, 0, on_timer, op);
        if (r < 0)
                wait_end(op, r);
        else
                operation_take_news(op);
}

void operation_take_news(Operation *op) {
        if (op->enough && op->enough(op))
                wait_end(op, 0);
}

/* Of a call that answers with nothing of interest. */
static int on_done(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const sd_bus_error *e = sd_bus_message_get_error(m);
        Operation *op = userdata;

        (void) error;
        op->slot = sd_bus_slot_unref(op->slot);
        if (e)
                bus_error_setf(&op->step_error, BUS_ERROR_WORKER_FAILED, "systemd refused: %s", e->message);
        op->then(op, e ? -EREMOTEIO : 0);
        return 0;
}

void operation_enable(Operation *op, bool enable, OperationNext then) {
        _cleanup_free_ char *unit = NULL;
        int r;

        step_begin(op, then);
        r = device_unit(op->device, &unit);
        if (r >= 0)
                r = systemd_enable(op->mb->systemd, &op->slot, unit, enable, on_done, op);
        if (r < 0)
                step_fail(op, r, "Calling systemd");
}

void operation_reload(Operation *op, OperationNext then) {
        int r;

        step_begin(op, then);
        r = systemd_reload(op->mb->systemd, &op->slot, on_done, op);
        if (r < 0)
                step_fail(op, r, "Calling systemd");
}

void operation_set_error(Operation *op, const char *name, const char *format, ...) {
        va_list ap;

        if (sd_bus_error_is_set(&op->error))
                return;
        va_start(ap, format);
        (void) bus_error_setfv(&op->error, name, format, ap);
        va_end(ap);
}

void operation_keep_step_error(Operation *op) {
        if (sd_bus_error_is_set(&op->step_error))
                operation_set_error(op, op->step_error.name, "%s", op->step_error.message);
}

void operation_set_unit_error(Operation *op) {
        const UnitState *u = &op->device->unit;
        uint32_t id = op->device->config->id;

        if (sd_bus_error_is_set(&op->error))
                return;
        if (op->device->failure.kind == FAILURE_NEEDS && op->needs_met)
                operation_set_error(op, BUS_ERROR_WORKER_FAILED,
                                    UNIT_DEVICE " is without what its hook needs even after systemd was reloaded (%s). Is there a drop-in that "
                                    "takes it away (systemctl cat " UNIT_DEVICE "), or is ublk-ruby-generator not where systemd looks for it?",
                                    id, op->device->failure.needs ? op->device->failure.needs : "?", id);
        else if (op->device->failure.message)
                (void) bus_error_set_failure(&op->error, &op->device->failure);
        else if (streq_ptr(op->job_result, "canceled"))
                operation_set_error(op, BUS_ERROR_CANCELLED, UNIT_DEVICE " was told to stop meanwhile.", id);
        else
                operation_set_error(op, BUS_ERROR_WORKER_FAILED,
                                    UNIT_DEVICE " did not start (job: %s, result: %s%s%s). See: journalctl -u " UNIT_DEVICE,
                                    id, op->job_result ? op->job_result : "none", u->result ? u->result : "none",
                                    u->status_errno > 0 ? ", " : "",
                                    u->status_errno > 0 ? strerror(u->status_errno) : "", id);
}

void operation_return(Operation *op, const char *types, ...) {
        va_list ap;
        int r = 0;

        if (op->message) {
                va_start(ap, types);
                r = sd_bus_reply_method_returnv(op->message, types, ap);
                va_end(ap);
        }
        if (r < 0)
                log_warning("The answer to %s could not be sent, ignoring: %s", sd_bus_message_get_sender(op->message),
                            strerror(-r));
        operation_free(op);
}

void operation_fail(Operation *op) {
        int r = 0;

        operation_set_error(op, BUS_ERROR_WORKER_FAILED, "The reason is not known.");
        if (op->message) {
                log_notice("%s: %s", sd_bus_message_get_member(op->message), op->error.message);
                r = sd_bus_reply_method_error(op->message, &op->error);
        }
        if (r < 0)
                log_warning("The error could not be sent to %s, ignoring: %s", sd_bus_message_get_sender(op->message),
                            strerror(-r));
        operation_free(op);
}
