/* SPDX-License-Identifier: MIT */

/* ublkctl: the command line over org.ublk; see ublkctl(1). */

#include "dbus/ctl.h"

#include <getopt.h>
#include <locale.h>

static void help(void) {
        puts("ublkctl [OPTIONS...] COMMAND ...\n"
             "\n"
             "Block devices served by Ruby hooks.\n"
             "\n"
             "Commands:\n"
             "  list                            List the devices\n"
             "  status [DEVICE...]              Show the service, or devices\n"
             "  create NAME HOOK [NAME=VALUE...]\n"
             "                                  Create a device, print its node\n"
             "  delete [--keep-state] DEVICE... Delete devices that nobody uses\n"
             "  restart DEVICE...               Hand devices over to new workers\n"
             "  reload DEVICE...                The same, and run the hook's code that is on the disk now\n"
             "  set DEVICE NAME=VALUE...        Give a device's hook other arguments, on trial as of reload\n"
             "  persist DEVICE yes|no           Have it come back after a reboot, or not\n"
             "  resize DEVICE SIZE              Change a disk's size, under its users: 10G, 536870912\n"
             "  stats [DEVICE...]               Show what the devices have done\n"
             "  top [DEVICE...]                 Show what they are doing, each second\n"
             "  logs [-f] [-n N] DEVICE         Show the journal of a device's unit\n"
             "  monitor                         Print what the service and its devices do, as it happens\n"
             "  stuck [DEVICE...]               Show requests that hooks don't give back\n"
             "  probe                           Show what this kernel can do\n"
             "  strays                          List ublk devices of the service that have lost their file\n"
             "  check HOOK [NAME=VALUE...]      Look for faults in a hook, without a device\n"
             "  describe HOOK [NAME=VALUE...]   Show what a hook takes, and the disk that it makes\n"
             "\n"
             "Options:\n"
             "  -h --help                       Show this help\n"
             "     --version                    Show the version\n"
             "     --json=short|pretty|off      Print JSON\n"
             "     --no-legend                  Leave out headers and footers\n"
             "     --dry-run                    Of create: only have the hook make its disk, and say what that is\n"
             "     --keep-state                 Of delete: leave what the hook kept to the next device of the name\n"
             "     --wait                       Of delete: until nobody uses the device; of status: until it neither starts, nor\n"
             "                                  recovers, nor stops\n"
             "  -f --follow -n --lines=N        Of logs, as journalctl has them\n"
             "     --trial-time=USEC            Of reload and set: how long the new code may be sent back\n"
             "     --count=N --interval=SECONDS Of top: so many times, so long from one to the next\n"
             "     --remove=ID                  Of strays: remove that one\n"
             "     --force                      With --remove: even if something uses it, which then sees errors\n"
             "     --seed=N --seconds=N --gc-stress --in-place --time=N\n"
             "                                  Of check; see ublkctl(1)\n"
             "     --any-hook                   Of check and describe, as root: even a hook that others can have written\n"
             "\n"
             "A DEVICE is a name, an id, or a node: disk0, 0, /dev/ublkb0.\n"
             "\n"
             "Of the NAME=VALUE of create, these are for the service, all others for the hook:\n"
             "  queues=N depth=N max-io-size=BYTES read-only=BOOL recovery=reissue|fail|fail-io|none\n"
             "  on-failure=wait|error id=N persistent=BOOL mlock=BOOL hook-timeout=USEC start-timeout=USEC\n"
             "  class=CLASS data-path=auto|string|buffer\n"
             "\n"
             "Exit status:\n"
             "  0  done\n"
             "  1  failed; probe: this kernel can't serve; check: the hook has faults\n"
             "  2  wrong usage; nothing was asked of the service\n"
             "  3  list, status: a device has failed or is held; stuck: there are such requests");
}

#define ANY INT32_MAX

static const Verb verbs[] = {
        { "list",    0, 0,   ctl_list,    "list" },
        { "status",  0, ANY, ctl_status,  "status [DEVICE...]" },
        { "create",  2, ANY, ctl_create,  "create NAME HOOK [NAME=VALUE...]" },
        { "delete",  1, ANY, ctl_delete,  "delete [--keep-state] [--wait] DEVICE..." },
        { "restart", 1, ANY, ctl_restart, "restart DEVICE..." },
        { "reload",  1, ANY, ctl_reload,  "reload DEVICE..." },
        { "set",     2, ANY, ctl_set,     "set DEVICE NAME=VALUE..." },
        { "persist", 2, 2,   ctl_persist, "persist DEVICE yes|no" },
        { "resize",  2, 2,   ctl_resize,  "resize DEVICE SIZE" },
        { "stats",   0, ANY, ctl_stats,   "stats [DEVICE...]" },
        { "top",     0, ANY, ctl_top,     "top [--count=N] [--interval=SECONDS] [DEVICE...]" },
        { "logs",    1, 1,   ctl_logs,    "logs [--follow] [--lines=N] DEVICE" },
        { "monitor", 0, 0,   ctl_monitor, "monitor" },
        { "stuck",   0, ANY, ctl_stuck,   "stuck [DEVICE...]" },
        { "probe",   0, 0,   ctl_probe,   "probe" },
        { "strays",  0, 0,   ctl_strays,  "strays [--remove=ID [--force]]" },
        { "check",   1, ANY, ctl_check,   "check HOOK [NAME=VALUE...]", .alone = true },
        { "describe", 1, ANY, ctl_describe, "describe HOOK [NAME=VALUE...]", .alone = true },
};

static const Verb *verb_find(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(verbs); i++)
                if (streq(verbs[i].name, name))
                        return &verbs[i];
        return NULL;
}

static int parse_json_mode(Ctl *c, const char *s) {
        JsonMode mode = json_mode_from_string(s);

        if (mode < 0) {
                fprintf(stderr, "ublkctl: --json= takes short, pretty or off, not \"%s\".\n", s);
                return -EINVAL;
        }
        c->json = mode;
        return 0;
}

/* An option of check, as it goes to the worker. */
static int forward(Ctl *c, const char *name, const char *value) {
        int r;

        if (c->n_forwarded >= CTL_MAX_FORWARDED) {
                fputs("ublkctl: Too many options.\n", stderr);
                return -E2BIG;
        }
        r = xasprintf(&c->forwarded[c->n_forwarded], value ? "--%s=%s" : "--%s", name, value);
        if (r >= 0)
                c->n_forwarded++;
        return r;
}

enum {
        ARG_VERSION = 0x100, ARG_JSON, ARG_NO_LEGEND, ARG_KEEP_STATE, ARG_TRIAL_TIME, ARG_REMOVE, ARG_FORCE, ARG_WAIT, ARG_COUNT, ARG_INTERVAL,
        ARG_DRY_RUN, ARG_FORWARD,
};
static const struct option options[] = {
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, ARG_VERSION },
        { "json", required_argument, NULL, ARG_JSON },
        { "no-legend", no_argument, NULL, ARG_NO_LEGEND },
        { "keep-state", no_argument, NULL, ARG_KEEP_STATE },
        { "wait", no_argument, NULL, ARG_WAIT },
        { "follow", no_argument, NULL, 'f' },
        { "lines", required_argument, NULL, 'n' },
        { "trial-time", required_argument, NULL, ARG_TRIAL_TIME },
        { "remove", required_argument, NULL, ARG_REMOVE },
        { "force", no_argument, NULL, ARG_FORCE },
        { "dry-run", no_argument, NULL, ARG_DRY_RUN },
        { "count", required_argument, NULL, ARG_COUNT },
        { "interval", required_argument, NULL, ARG_INTERVAL },
        { "seed", required_argument, NULL, ARG_FORWARD },
        { "seconds", required_argument, NULL, ARG_FORWARD },
        { "time", required_argument, NULL, ARG_FORWARD },
        { "gc-stress", no_argument, NULL, ARG_FORWARD },
        { "in-place", no_argument, NULL, ARG_FORWARD },
        { "any-hook", no_argument, NULL, ARG_FORWARD },
        {},
};

/* 1: go on; 0: done; negative: usage. */
static int parse_argv(Ctl *c, int argc, char **argv) {
        int o, which = 0;

        while ((o = getopt_long(argc, argv, "hfn:", options, &which)) >= 0)
                switch (o) {
                case 'h':
                        help();
                        return 0;
                case ARG_VERSION:
                        puts("ublkctl " PROJECT_VERSION);
                        return 0;
                case ARG_JSON:
                        if (parse_json_mode(c, optarg) < 0)
                                return -EINVAL;
                        break;
                case ARG_NO_LEGEND:
                        c->legend = false;
                        break;
                case ARG_KEEP_STATE:
                        c->keep_state = true;
                        break;
                case ARG_WAIT:
                        c->wait = true;
                        break;
                case 'f':
                        c->follow = true;
                        break;
                case 'n':
                        c->lines = optarg;
                        break;
                case ARG_TRIAL_TIME:
                        c->trial_time = optarg;
                        break;
                case ARG_REMOVE:
                        c->remove = optarg;
                        break;
                case ARG_FORCE:
                        c->force = true;
                        break;
                case ARG_DRY_RUN:
                        c->dry_run = true;
                        break;
                case ARG_COUNT:
                        c->count = optarg;
                        break;
                case ARG_INTERVAL:
                        c->interval = optarg;
                        break;
                case ARG_FORWARD:
                        if (forward(c, options[which].name, optarg) < 0)
                                return -EINVAL;
                        break;
                default:
                        fputs("ublkctl --help shows the options.\n", stderr);
                        return -EINVAL;
                }
        return 1;
}

static int run_verb(Ctl *c, int argc, char **argv) {
        static char *list[] = { (char *) "list", NULL };
        const Verb *v;

        if (argc == 0) {
                argc = 1;
                argv = list;
        }
        v = verb_find(argv[0]);
        if (!v) {
                fprintf(stderr, "ublkctl: There is no command \"%s\". ublkctl --help shows them.\n", argv[0]);
                return CTL_USAGE;
        }
        if (argc - 1 < v->min_arguments || argc - 1 > v->max_arguments) {
                fprintf(stderr, "ublkctl: Too %s arguments. Usage: ublkctl %s\n", argc - 1 < v->min_arguments ? "few" : "many",
                        v->usage);
                return CTL_USAGE;
        }
        if (c->keep_state && v->run != ctl_delete) {
                fprintf(stderr, "ublkctl: --keep-state is for delete.\n");
                return CTL_USAGE;
        }
        if (c->wait && v->run != ctl_delete && v->run != ctl_status) {
                fprintf(stderr, "ublkctl: --wait is for delete and status. Usage: ublkctl %s\n", v->usage);
                return CTL_USAGE;
        }
        if ((c->follow || c->lines) && v->run != ctl_logs) {
                fprintf(stderr, "ublkctl: -f and -n are for logs. Usage: ublkctl %s\n", v->usage);
                return CTL_USAGE;
        }
        if ((c->remove || c->force) && v->run != ctl_strays) {
                fprintf(stderr, "ublkctl: --remove and --force are for strays. Usage: ublkctl %s\n", v->usage);
                return CTL_USAGE;
        }
        if (c->dry_run && v->run != ctl_create) {
                fprintf(stderr, "ublkctl: --dry-run is for create.\n");
                return CTL_USAGE;
        }
        if ((c->count || c->interval) && v->run != ctl_top) {
                fprintf(stderr, "ublkctl: --count and --interval are for top. Usage: ublkctl %s\n", v->usage);
                return CTL_USAGE;
        }
        return !v->alone && ctl_connect(c) < 0 ? CTL_FAILED : v->run(c, argc, argv);
}

/* NO_COLOR counts unless it is empty: no-color.org. */
static bool wants_colour(void) {
        const char *term = getenv("TERM"), *none = getenv("NO_COLOR");

        return isatty(STDOUT_FILENO) && !(none && *none) && term && !streq(term, "dumb");
}

int main(int argc, char **argv) {
        Ctl c = { .legend = true, .colour = wants_colour() };
        int r;

        (void) setlocale(LC_TIME, "");
        if (argc > 1 && streq(argv[1], "--complete")) {
                r = ctl_complete(&c, verbs, ELEMENTSOF(verbs), options, argc - 2, argv + 2);
                ctl_done(&c);
                return r;
        }
        r = parse_argv(&c, argc, argv);
        if (r <= 0)
                return r < 0 ? CTL_USAGE : CTL_OK;
        r = run_verb(&c, argc - optind, argv + optind);
        ctl_done(&c);
        if (fflush(stdout) != 0 || ferror(stdout))
                return CTL_FAILED;
        return r;
}
