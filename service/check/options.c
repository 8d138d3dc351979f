/* SPDX-License-Identifier: MIT */
#include "service/check/check.h"

#include "service/hookdir.h"
#include "service/log.h"
#include "service/name.h"
#include "service/trust.h"

#include <getopt.h>
#include <limits.h>
#include <sys/random.h>

#define MAX_SECONDS (24 * 3600)
#define MAX_ROUNDS 1000
#define MAX_IO_SIZE (UINT32_C(32) << 20)

bool check_is_asked(int argc, char *argv[]) {
        for (int i = 1; i < argc && !streq(argv[i], "--"); i++)
                if (streq(argv[i], "--check") || streq(argv[i], "--describe"))
                        return true;
        return false;
}

static void help(void) {
        printf("ublk-ruby-worker --check [OPTIONS] HOOK [KEY=VALUE...]\n"
               "ublk-ruby-worker --describe [OPTIONS] HOOK [KEY=VALUE...]\n\n"
               "Drives a hook through a simulated device and says what breaks the contract of ublk-hook(7). Needs no\n"
               "kernel device and no privileges. HOOK is a name or the path of a script, KEY=VALUE are its arguments.\n"
               "Files that arguments of type path name are copied, and the hook gets the copies.\n\n"
               "     --describe      Only show the hook's options and the disk that it makes\n"
               "     --seed=N        Repeat the run that printed this seed\n"
               "     --seconds=N     Spend so long on random requests\n"
               "     --gc-stress     Collect garbage at every allocation (slow)\n"
               "     --in-place      Make no copies: OVERWRITES what the arguments name\n"
               "     --any-hook      As root: even one that others than root can have written\n"
               "     --time=N        Measure requests of 4 KiB instead, the median of N rounds\n"
               "     --json[=short|pretty]\n"
               "                     Print JSON\n"
               "  -h --help          Show this help\n\n"
               "Exit status: 0 no fault found, 1 faults found, 2 wrong usage.\n");
}

static uint64_t random_seed(void) {
        uint32_t seed = 0;

        if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
                seed = (uint32_t) now_usec();
        return seed;
}

/* Root runs the code of nobody else, least of all by the way, as a shell does that completes a line. */
static bool needs_trust(const CheckOptions *o) {
        return geteuid() == 0 && !o->any_hook;
}

static int find_by_name(CheckOptions *o, const char *hook, char **ret_message) {
        HookDirectories directories;
        int r;

        r = xstrdup(hook, &o->hook);
        if (r >= 0)
                r = hook_directories_init(&directories, /* use_environment= */ true);
        if (r < 0)
                return r;
        r = needs_trust(o) ? hook_directories_resolve(&directories, hook, &o->path, ret_message)
                           : hook_directories_find(&directories, hook, &o->path);
        hook_directories_done(&directories);
        return r;
}

/* A path, or a name that is looked up as the service does. */
static int find_hook(CheckOptions *o, const char *hook, char **ret_message) {
        size_t n = strlen(hook);
        const char *base = strrchr(hook, '/');

        if (!base && !(n > 3 && streq(hook + n - 3, ".rb")))
                return find_by_name(o, hook, ret_message);

        o->path = realpath(hook, NULL);
        if (!o->path)
                return -errno;
        base = base ? base + 1 : hook;
        n = strlen(base);
        o->hook = strndup(base, n > 3 && streq(base + n - 3, ".rb") ? n - 3 : n);
        if (!o->hook)
                return -ENOMEM;
        return needs_trust(o) ? trust_check(o->path, /* base= */ NULL, ret_message) : 0;
}

static void explain_no_hook(const char *hook, int r, const char *message) {
        if (r == -EPERM && message)
                log_error("As root \"%s\" is not run: %s. Or run this as an ordinary user; or, if you know the code, with --any-hook.", hook,
                          message);
        else
                log_error("There is no hook \"%s\": %s. It is a name in the hook directories, or the path of a script.", hook, strerror(-r));
}

/* Options of the service that could be on the same line of `ublkctl create`. 1: it is one; 0: the hook's. */
static int take_service_option(CheckOptions *o, const char *key, const char *value) {
        static const char *const without_meaning[] = {
                "queues", "depth", "on-failure", "id", "persistent", "mlock", "start-timeout", "partscan",
                "processes", "concurrency",
        };
        int r = 1;

        if (streq(key, "class"))
                o->class_name = value;
        else if (streq(key, "recovery"))
                r = (o->recovery = recovery_from_string(value)) < 0 ? -EINVAL : 1;
        else if (streq(key, "read-only"))
                r = parse_boolean(value, &o->read_only) < 0 ? -EINVAL : 1;
        else if (streq(key, "data-path"))
                r = streq(o->data_path = value, "auto") || streq(value, "string") || streq(value, "buffer") ? 1 : -EINVAL;
        else if (streq(key, "max-io-size"))
                r = parse_u32(value, MAX_IO_SIZE,
                              &o->max_io_size) < 0 || o->max_io_size < 4096 || o->max_io_size % 4096 ? -EINVAL : 1;
        else if (streq(key, "hook-timeout")) {
                r = parse_u64(value, CONFIG_MAX_TIMEOUT_USEC, &o->hook_timeout_usec) < 0 ? -EINVAL : 1;
                if (o->hook_timeout_usec == 0) /* no limit for a device; a check has to end */
                        o->hook_timeout_usec = CHECK_DEFAULT_TIMEOUT_USEC;
        } else {
                for (size_t i = 0; i < ELEMENTSOF(without_meaning); i++)
                        if (streq(key, without_meaning[i]))
                                return 1;
                return 0;
        }
        if (r < 0)
                log_error("\"%s\" is no value of the option %s.", value, key);
        return r;
}

static int take_arguments(CheckOptions *o, char **words, int n) {
        o->arguments = calloc((size_t) n + 1, sizeof(Argument));
        if (!o->arguments)
                return log_error_errno(-ENOMEM, "Can't check");
        for (int i = 0; i < n; i++) {
                char *equals = strchr(words[i], '=');
                int r;

                if (!equals || equals == words[i]) {
                        log_error("\"%s\" is no KEY=VALUE.", words[i]);
                        return -EINVAL;
                }
                *equals = '\0';
                r = take_service_option(o, words[i], equals + 1);
                if (r < 0)
                        return r;
                if (r > 0)
                        continue;
                if (!argument_name_is_valid(words[i])) {
                        log_error("\"%s\" can't be the name of an argument.", words[i]);
                        return -EINVAL;
                }
                o->arguments[o->n_arguments++] = (Argument) { words[i], 's', equals + 1 };
        }
        return 0;
}

static int parse_number(const char *name, const char *text, uint64_t max, uint64_t *ret) {
        int r = parse_u64(text, max, ret);

        if (r < 0)
                log_error("--%s= takes a number up to %llu, not \"%s\".", name, (unsigned long long) max, text);
        return r;
}

static int parse_json(CheckOptions *o, const char *mode) {
        if (!mode || streq(mode, "short"))
                o->json = CHECK_JSON_SHORT;
        else if (streq(mode, "pretty"))
                o->json = CHECK_JSON_PRETTY;
        else if (streq(mode, "off"))
                o->json = CHECK_JSON_OFF;
        else {
                log_error("--json= takes short, pretty or off, not \"%s\".", mode);
                return -EINVAL;
        }
        return 0;
}

enum { ARG_CHECK = 256, ARG_DESCRIBE, ARG_SEED, ARG_SECONDS, ARG_GC_STRESS, ARG_IN_PLACE, ARG_ANY_HOOK, ARG_TIME, ARG_JSON };

static int take_option(CheckOptions *o, int c) {
        uint64_t number = 0;
        int r = 0;

        switch (c) {
        case ARG_CHECK:
                break;
        case ARG_DESCRIBE:
                o->describe = true;
                break;
        case ARG_SEED:
                r = parse_number("seed", optarg, INT64_MAX, &o->seed);
                break;
        case ARG_SECONDS:
                r = parse_number("seconds", optarg, MAX_SECONDS, &number);
                o->seconds = (unsigned) number;
                break;
        case ARG_TIME:
                r = parse_number("time", optarg, MAX_ROUNDS, &number);
                o->rounds = (unsigned) number;
                break;
        case ARG_GC_STRESS:
                o->gc_stress = true;
                break;
        case ARG_IN_PLACE:
                o->in_place = true;
                break;
        case ARG_ANY_HOOK:
                o->any_hook = true;
                break;
        case ARG_JSON:
                r = parse_json(o, optarg);
                break;
        default:
                r = -EINVAL;
        }
        return r;
}

int check_options_parse(int argc, char *argv[], CheckOptions *ret) {
        static const struct option options[] = {
                { "check", no_argument, NULL, ARG_CHECK },
                { "describe", no_argument, NULL, ARG_DESCRIBE },
                { "seed", required_argument, NULL, ARG_SEED },
                { "seconds", required_argument, NULL, ARG_SECONDS },
                { "gc-stress", no_argument, NULL, ARG_GC_STRESS },
                { "in-place", no_argument, NULL, ARG_IN_PLACE },
                { "any-hook", no_argument, NULL, ARG_ANY_HOOK },
                { "time", required_argument, NULL, ARG_TIME },
                { "json", optional_argument, NULL, ARG_JSON },
                { "help", no_argument, NULL, 'h' },
                { 0 },
        };
        _cleanup_free_ char *message = NULL;
        int c, r;

        *ret = (CheckOptions) { .max_io_size = CONFIG_DEFAULT_MAX_IO_SIZE, .seed = random_seed(), .hook_timeout_usec = CHECK_DEFAULT_TIMEOUT_USEC };
        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
                if (c == 'h') {
                        help();
                        return 0;
                }
                if (take_option(ret, c) < 0)
                        return -EINVAL;
        }
        if (optind >= argc) {
                log_error("Which hook? --check --help shows the usage.");
                return -EINVAL;
        }
        if (take_arguments(ret, argv + optind + 1, argc - optind - 1) < 0)
                return -EINVAL;
        r = find_hook(ret, argv[optind], &message);
        if (r < 0) {
                explain_no_hook(argv[optind], r, message);
                return -EINVAL;
        }
        return 1;
}

void check_options_done(CheckOptions *o) {
        free(o->hook);
        free(o->path);
        free(o->arguments);
        *o = (CheckOptions) { 0 };
}
