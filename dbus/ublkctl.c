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
             "  delete DEVICE...                Delete devices that nobody uses\n"
             "  restart DEVICE...               Hand devices over to new workers\n"
             "  probe                           Show what this kernel can do\n"
             "\n"
             "Options:\n"
             "  -h --help                       Show this help\n"
             "     --version                    Show the version\n"
             "     --json=short|pretty|off      Print JSON\n"
             "     --no-legend                  Leave out headers and footers\n"
             "\n"
             "A DEVICE is a name, an id, or a node: disk0, 0, /dev/ublkb0.\n"
             "\n"
             "Of the NAME=VALUE of create, these are for the service, all others for the hook:\n"
             "  queues=N depth=N max-io-size=BYTES read-only=BOOL recovery=reissue|fail|fail-io|none\n"
             "  on-failure=wait|error id=N persistent=BOOL mlock=BOOL hook-timeout=USEC\n"
             "  start-timeout=USEC partscan=BOOL data-path=auto|string|... class=CLASS\n"
             "\n"
             "Exit status:\n"
             "  0  done\n"
             "  1  failed; probe: this kernel can't serve\n"
             "  2  wrong usage; nothing was asked of the service\n"
             "  3  list, status: a device has failed or is held");
}

typedef struct Verb {
        const char *name;
        int min_arguments, max_arguments; /* beside its own name */
        CtlVerb run;
        const char *usage;
} Verb;

#define ANY INT32_MAX

static const Verb verbs[] = {
        { "list",    0, 0,   ctl_list,    "list" },
        { "status",  0, ANY, ctl_status,  "status [DEVICE...]" },
        { "create",  2, ANY, ctl_create,  "create NAME HOOK [NAME=VALUE...]" },
        { "delete",  1, ANY, ctl_delete,  "delete DEVICE..." },
        { "restart", 1, ANY, ctl_restart, "restart DEVICE..." },
        { "probe",   0, 0,   ctl_probe,   "probe" },
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

/* 1: go on; 0: done; negative: usage. */
static int parse_argv(Ctl *c, int argc, char **argv) {
        enum { ARG_VERSION = 0x100, ARG_JSON, ARG_NO_LEGEND };
        static const struct option options[] = {
                { "help", no_argument, NULL, 'h' },
                { "version", no_argument, NULL, ARG_VERSION },
                { "json", required_argument, NULL, ARG_JSON },
                { "no-legend", no_argument, NULL, ARG_NO_LEGEND },
                {},
        };
        int o;

        while ((o = getopt_long(argc, argv, "h", options, NULL)) >= 0)
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
        return ctl_connect(c) < 0 ? CTL_FAILED : v->run(c, argc, argv);
}

int main(int argc, char **argv) {
        const char *term = getenv("TERM");
        Ctl c = {
                .legend = true,
                .colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && term && !streq(term, "dumb"),
        };
        int r;

        (void) setlocale(LC_TIME, "");
        r = parse_argv(&c, argc, argv);
        if (r <= 0)
                return r < 0 ? CTL_USAGE : CTL_OK;
        r = run_verb(&c, argc - optind, argv + optind);
        ctl_done(&c);
        if (fflush(stdout) != 0 || ferror(stdout))
                return CTL_FAILED;
        return r;
}
