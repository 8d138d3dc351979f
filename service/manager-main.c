/* SPDX-License-Identifier: MIT */

/* ublk-rubyd: the bus service. Wires the manager to the bus and runs the loop; see ublk-ruby.service(8). */

#include "dbus/manager-bus.h"
#include "service/log.h"

#include <getopt.h>
#include <signal.h>
#include <sys/stat.h>

static const char *arg_root = NULL;
static uint32_t arg_trusted_uid = 0;

static void help(void) {
        puts("ublk-rubyd [OPTIONS...]\n"
             "\n"
             "The D-Bus service org.ublk: block devices served by Ruby hooks.\n"
             "\n"
             "  -h --help              Show this help\n"
             "     --version           Show the version\n"
             "\n"
             "For tests only:\n"
             "     --root=DIRECTORY    Look for /run, /etc and /sys below it, and for hooks in\n"
             "                         UBLK_RUBY_HOOK_PATH\n"
             "     --trusted-uid=UID   Who may change devices, instead of root");
}

/* 1: go on; 0: done; negative: usage. */
static int parse_argv(int argc, char **argv) {
        enum { ARG_VERSION = 0x100, ARG_ROOT, ARG_TRUSTED_UID };
        static const struct option options[] = {
                { "help", no_argument, NULL, 'h' },
                { "version", no_argument, NULL, ARG_VERSION },
                { "root", required_argument, NULL, ARG_ROOT },
                { "trusted-uid", required_argument, NULL, ARG_TRUSTED_UID },
                {},
        };
        int c;

        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 'h':
                        help();
                        return 0;
                case ARG_VERSION:
                        puts("ublk-rubyd " PROJECT_VERSION);
                        return 0;
                case ARG_ROOT:
                        arg_root = optarg;
                        break;
                case ARG_TRUSTED_UID:
                        if (parse_u32(optarg, UINT32_MAX, &arg_trusted_uid) < 0) {
                                log_error("--trusted-uid takes a user id, not %s.", optarg);
                                return -EINVAL;
                        }
                        break;
                default:
                        return -EINVAL;
                }
        if (optind < argc) {
                log_error("ublk-rubyd takes no arguments, such as %s.", argv[optind]);
                return -EINVAL;
        }
        return 1;
}

static int on_signal(sd_event_source *s, const struct signalfd_siginfo *info, void *userdata) {
        (void) s, (void) info;
        manager_bus_drain(userdata);
        return 0;
}

static int add_signal(sd_event *event, int signal, ManagerBus *mb) {
        sd_event_source *s = NULL;
        int r;

        r = sd_event_add_signal(event, &s, signal, on_signal, mb);
        if (r < 0)
                return r;
        /* Before whatever the bus has for us: no call that comes after the signal is begun. */
        r = sd_event_source_set_priority(s, SD_EVENT_PRIORITY_IMPORTANT);
        if (r >= 0)
                r = sd_event_source_set_floating(s, true);
        sd_event_source_unref(s);
        return r;
}

/* Until there is a manager to be drained, each ends the process. */
static int add_signals(sd_event *event, ManagerBus *mb) {
        sigset_t mask;
        int r;

        (void) sigemptyset(&mask);
        (void) sigaddset(&mask, SIGTERM);
        (void) sigaddset(&mask, SIGINT);
        if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
                return -errno;
        r = add_signal(event, SIGTERM, mb);
        return r < 0 ? r : add_signal(event, SIGINT, mb);
}

static void event_unrefp(sd_event **e) {
        sd_event_unref(*e);
}

static int run(void) {
        _cleanup_(event_unrefp) sd_event *event = NULL;
        _cleanup_(manager_freep) Manager *manager = NULL;
        _cleanup_(manager_bus_freep) ManagerBus *mb = NULL;
        int r;

        r = sd_event_default(&event);
        if (r >= 0)
                r = sd_event_set_watchdog(event, true);
        if (r < 0)
                return log_error_errno(r, "The event loop can't be set up");
        r = manager_new(/* hook_environment= */ arg_root != NULL, &manager);
        if (r < 0)
                return log_error_errno(r, "The manager can't be set up");
        r = manager_bus_new(manager, event, arg_trusted_uid, &mb);
        if (r < 0)
                return r; /* logged */
        r = add_signals(event, mb);
        if (r < 0)
                return log_error_errno(r, "The signals can't be set up");
        r = sd_event_loop(event);
        return r < 0 ? log_error_errno(r, "The event loop failed") : r;
}

int main(int argc, char **argv) {
        int r;

        log_setup("ublk-rubyd");
        r = parse_argv(argc, argv);
        if (r <= 0)
                return r < 0 ? 2 : 0;
        (void) umask(0022);
        config_set_root(arg_root);
        return run() == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
