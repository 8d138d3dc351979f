/* SPDX-License-Identifier: MIT */

/* ublk-ruby-control: one ublk control verb, as root, then gone. See ublk-ruby-control(8). */

#include "dbus/unit-job.h"
#include "service/activate.h"
#include "service/control-arguments.h"
#include "service/exit-status.h"
#include "service/features.h"
#include "service/give-up.h"
#include "service/holders.h"
#include "service/last-word.h"
#include "service/list.h"
#include "service/log.h"
#include "service/probe.h"
#include "service/release.h"
#include "service/resize.h"
#include "service/stop.h"
#include "service/strays.h"
#include "service/turn.h"
#include "service/worker-link.h"

#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#define EXIT_USAGE 2

/* What a verb has to say beside success or failure: for the answer's file and --json. Verbs print only if nobody
 * reads that. */
typedef struct Run {
        const ControlArguments *arguments;
        const char *instance; /* VERB-ID… as the unit has it, or NULL */
        json_t *result;
        bool silent;
} Run;

static const char usage[] =
        "Usage: ublk-ruby-control VERB [ARGUMENT…]\n"
        "\n"
        "Gives ublk control commands for ublk-ruby's units.\n"
        "\n"
        "  probe [--json]    what this kernel can do for ublk-ruby, or why it can't serve\n"
        "  list [--json]     every ublk device of this machine\n"
        "  holders ID        who uses the disk\n"
        "  remove ID [state|keep]\n"
        "                    delete a device that no worker serves and nobody uses; also what its hook kept\n"
        "                    (state), or leave that to the next device of its name (keep)\n"
        "  resize ID [BYTES] have the hook make its disk so long, and the kernel's disk where that makes it shorter;\n"
        "                    without BYTES: have the kernel's disk be as long as the hook's\n"
        "  sweep ID          delete a stray: a device of ours that no file describes\n"
        "  purge ID          the same, even if somebody uses it\n"
        "\n"
        "Run by a device's unit:\n"
        "  activate ID PID   make the device live, served by that worker\n"
        "  stop ID           delete it if a stop is asked for and nobody uses it, else have it handed over\n"
        "  release ID        tidy up after a worker\n"
        "\n"
        "  --instance VERB[-ID[-WORD]]   the answer goes to $RUNTIME_DIRECTORY/VERB[-ID[-WORD]].json\n"
        "  --help, --version\n"
        "\n"
        "Exit status: 0 done (probe: supported), 1 not, 2 wrong usage.\n";

static void print_json(const json_t *j) {
        (void) json_dumpf(j, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
        (void) fputc('\n', stdout);
}

static void print_probe(const Probe *p) {
        printf("Linux %s: %s\n", p->kernel, probe_verdict_to_string(p->verdict));
        if (*p->reason)
                printf("%s\n", p->reason);
        if (p->verdict == PROBE_SUPPORTED && !p->isolation)
                printf("Workers can't be kept from signalling each other: that takes Linux 6.12 with Landlock.\n");
        if (p->features == 0)
                return;
        for (size_t i = 0; i < UBLK_N_FEATURES; i++)
                printf("%-3s  %-28s  since %-4s  %s\n", p->features & features[i].bit ? "yes" : "no",
                       features[i].name, features[i].since, features[i].what);
}

static int run_probe(Run *run, Failure *f) {
        _cleanup_free_ char *text = NULL;
        json_t *j;
        Probe p;
        int r;

        probe_run(&p);
        r = probe_to_json(&p, &text);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "%s", strerror(-r));
        j = json_loads(text, 0, NULL);
        (void) json_object_update(run->result, j);
        if (run->arguments->json)
                print_json(j);
        else if (!run->silent)
                print_probe(&p);
        json_decref(j);
        /* An answer that is no failure, for whoever reads it; the exit status says it as well. */
        return p.verdict == PROBE_SUPPORTED || run->silent ? 0 : 1;
}

static int run_list(Run *run, Failure *f) {
        json_t *devices;
        int r;

        r = list_devices(&devices, f);
        if (r < 0)
                return r;
        (void) json_object_set_new(run->result, "devices", devices);
        if (run->arguments->json)
                print_json(run->result);
        else if (!run->silent)
                list_print(devices);
        return 0;
}

static int run_holders(Run *run, Failure *f) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        int r;

        r = holders_find_lasting(run->arguments->id, /* deadline_usec= */ 0, &h);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "can't tell who uses /dev/ublkb%u: %s",
                                   run->arguments->id, strerror(-r));
        (void) json_object_set_new(run->result, "holders", holders_to_json(&h));
        for (size_t i = 0; !run->silent && i < h.n; i++) {
                if (h.items[i].kind == HOLDER_PROCESS)
                        printf("%s %d %s\n", holder_kind_to_string(h.items[i].kind), (int) h.items[i].pid,
                               h.items[i].comm);
                else
                        printf("%s %s\n", holder_kind_to_string(h.items[i].kind), h.items[i].what);
        }
        return 0;
}

static int run_activate(Run *run, Failure *f) {
        return activate(run->arguments->id, (pid_t) run->arguments->pid, f);
}

static int worker_in_memory(uint32_t id, pid_t pid, uint64_t timeout_usec) {
        _cleanup_(worker_link_done) WorkerLink link = WORKER_LINK_NULL;
        uint64_t deadline = now_usec() + timeout_usec;
        Failure ignored = FAILURE_NULL;
        WorkerReply reply;
        int r;

        r = worker_link_connect(&link, id, pid, deadline, &ignored);
        if (r >= 0)
                r = worker_link_call(&link, MESSAGE_HELLO, deadline, &reply, &ignored);
        failure_done(&ignored);
        return r < 0 ? r : reply.geometry.in_memory != 0;
}

static void ask_for_time(uint64_t usec) {
        (void) sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu", (unsigned long long) usec);
}

static int run_stop(Run *run, Failure *f) {
        static const StopCalls calls = { .job_type = unit_job_type, .restart = unit_restart, .going_down = system_is_going_down, .unmounting = system_is_unmounting,
                                          .in_memory = worker_in_memory, .more_time = ask_for_time };
        const char *s = getenv("MAINPID");
        uint32_t pid = 0;

        if (s && parse_u32(s, INT32_MAX, &pid) < 0)
                return failure_set(f, FAILURE_ARGUMENTS, EINVAL, "$MAINPID is \"%s\", which is no process id",
                                   s);
        return stop_device(run->arguments->id, (pid_t) pid, &calls, f);
}

/* For PID 1 to say so. */
#define GOING_DOWN_USEC (5 * USEC_PER_SEC)

/* Where the hook's code has ended the process with a status that means something when the worker gives it. */
static int judge_status(uint32_t id, int status, bool *ret_usurped) {
        int judged = last_word_judge(id, status);

        *ret_usurped = judged != status;
        if (*ret_usurped)
                log_warning("Code of the hook has ended the worker of device %u with exit status %i, which is not its to use: that counts as a crash.", id,
                            status);
        return judged;
}

/* $EXIT_STATUS is a number after an exit, a signal's name after a kill, and unset if the worker never ran. */
static int run_release(Run *run, Failure *f) {
        const char *code = getenv("EXIT_CODE"), *s = getenv("EXIT_STATUS"), *result = getenv("SERVICE_RESULT");
        bool failed = result && !streq(result, "success"), exited = code && streq(code, "exited");
        WorkerEnd end = { .exit_status = -1, .unit_failed = failed, .invocation = getenv("INVOCATION_ID") };
        uint32_t id = run->arguments->id, status;
        char how[64] = "did not start";
        bool usurped = false;
        int r;

        if (exited && s && parse_u32(s, 255, &status) >= 0)
                end.exit_status = judge_status(id, (int) status, &usurped);
        else if (!failed && code && streq(code, "killed") && streq_ptr(s, "TERM"))
                end.exit_status = EXIT_HANDED_OVER; /* it was told to hand over before it had a handler for that */
        if (code && s)
                (void) snprintf(how, sizeof(how), exited ? "exited with status %s" : "was ended by SIG%s", s);
        r = release_device(id, &end, f);
        /* 75 is no reason for systemd not to start the next one. */
        if (usurped && status != EXIT_HANDED_OVER && r >= 0 && release_restart(id, unit_job_type, unit_restart, f) < 0)
                return -EIO;
        if (r < 0 || r == RELEASE_TRIAL_FAILED)
                return r < 0 ? r : 0;
        /* No worker will come; but a crash is the usual case, and not to be held up. */
        if ((end.exit_status == EXIT_HANDED_OVER || streq_ptr(result, "timeout")) && system_is_going_down(GOING_DOWN_USEC) > 0)
                return release_for_ever(id, f);
        r = give_up_if_due(id, end.exit_status, how, unit_status_text, f);
        if (r >= 0)
                turn_await(id, end.exit_status, unit_job_type);
        return r;
}

static int run_remove(Run *run, Failure *f) {
        bool foreign;
        int r;

        r = remove_device(run->arguments->id, run->arguments->state, &foreign, f);
        if (r < 0 || !foreign)
                return r;
        (void) json_object_set_new(run->result, "foreign", json_true());
        if (!run->silent)
                printf("/dev/ublkb%u belongs to another program and is left alone.\n", run->arguments->id);
        return 0;
}

static int remove_stray(Run *run, bool force, Failure *f) {
        bool served;
        int r;

        r = stray_remove(run->arguments->id, force, &served, f);
        if (r < 0 || !served)
                return r;
        if (!run->silent)
                return failure_set(f, FAILURE_BUSY, EBUSY, "/dev/ublkb%u is served: stop its unit first, ublk-ruby-device@%u.service",
                                   run->arguments->id, run->arguments->id);
        (void) json_object_set_new(run->result, "served", json_true());
        return 0;
}

static int run_resize(Run *run, Failure *f) {
        const ControlArguments *a = run->arguments;
        Resized resized = { 0 };
        int r;

        r = a->bytes > 0 ? resize_device(a->id, a->bytes, &resized, f) : resize_settle(a->id, &resized, f);
        if (r < 0) {
                (void) json_object_set_new(run->result, "unchanged", json_boolean(resized.unchanged));
                return r;
        }
        (void) json_object_set_new(run->result, "size", json_integer((json_int_t) resized.size));
        (void) json_object_set_new(run->result, "takes-size", json_boolean(resized.takes_size));
        if (!run->silent)
                printf("%llu\n", (unsigned long long) resized.size);
        return 0;
}

static int run_sweep(Run *run, Failure *f) {
        return remove_stray(run, /* force= */ false, f);
}

static int run_purge(Run *run, Failure *f) {
        return remove_stray(run, /* force= */ true, f);
}

static int (*const verbs[_CONTROL_VERB_MAX])(Run *, Failure *) = {
        [CONTROL_PROBE] = run_probe,     [CONTROL_LIST] = run_list,       [CONTROL_ACTIVATE] = run_activate,
        [CONTROL_STOP] = run_stop,       [CONTROL_RELEASE] = run_release, [CONTROL_HOLDERS] = run_holders,
        [CONTROL_REMOVE] = run_remove,   [CONTROL_SWEEP] = run_sweep,     [CONTROL_PURGE] = run_purge,
        [CONTROL_RESIZE] = run_resize,
};

/* For the manager, which has no capabilities and reads it as any user may. */
static int write_result(const Run *run, int error, const Failure *f) {
        const char *directory = getenv("RUNTIME_DIRECTORY");
        _cleanup_free_ char *path = NULL, *text = NULL;
        json_t *result = run->result;
        int r;

        if (!directory || !*directory)
                return log_error_errno(-ENOENT, "$RUNTIME_DIRECTORY is not set");
        (void) json_object_set_new(result, "error", json_integer(error < 0 ? -error : 0));
        if (error < 0)
                (void) json_object_set_new(result, "failure", failure_to_json(f));
        text = json_dumps(result, JSON_COMPACT);
        if (!text)
                return log_error_errno(-ENOMEM, "Can't make the result");
        r = xasprintf(&path, "%s/%s.json", directory, run->instance);
        if (r >= 0)
                r = write_file_atomic(path, text, strlen(text), 0644);
        return r < 0 ? log_error_errno(r, "Can't write the result to %s", directory) : 0;
}

static void log_failure(const ControlArguments *a, const Failure *f) {
        _cleanup_free_ char *text = NULL;

        if (failure_describe(f, &text) >= 0)
                log_error("%s: %s", control_verb_to_string(a->verb), text);
}

static int run_verb(const ControlArguments *a, const char *instance) {
        Run run = { .arguments = a, .instance = instance, .result = json_object(), .silent = instance };
        Failure f = FAILURE_NULL;
        int r;

        r = verbs[a->verb](&run, &f);
        if (r < 0)
                log_failure(a, &f);
        if (instance)
                r = write_result(&run, r, &f);
        failure_done(&f);
        json_decref(run.result);
        return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The one argument beside options. It has been checked to be VERB, VERB-ID or VERB-ID-WORD: no slash, no more than a name. */
static const char *find_instance(int argc, char **argv) {
        for (int i = 1; i < argc; i++)
                if (argv[i][0] != '-')
                        return argv[i];
        return NULL;
}

int main(int argc, char **argv) {
        _cleanup_free_ char *message = NULL;
        ControlArguments a;

        log_setup("ublk-ruby-control");
        if (control_arguments_parse(argc - 1, argv + 1, &a, &message) < 0) {
                log_error("%s; see ublk-ruby-control --help", message ? message : "wrong arguments");
                return EXIT_USAGE;
        }
        if (a.help || a.version) {
                printf("%s", a.help ? usage : "ublk-ruby-control " PROJECT_VERSION "\n");
                return EXIT_SUCCESS;
        }
        (void) umask(0022);
        return run_verb(&a, a.instance ? find_instance(argc, argv) : NULL);
}
