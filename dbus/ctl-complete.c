/* SPDX-License-Identifier: MIT */

/*
 * ublkctl --complete WORD...: what may stand in place of the last of the words that a shell has after "ublkctl", one candidate a line,
 * with a tab and an explanation where there is one. What a verb takes is read off its usage, so the table of verbs is all there is
 * to keep. Whatever can't be found out is left out, silently. The shells' part is in dbus/completion/.
 */

#include "dbus/ctl.h"
#include "dbus/options.h"

#include <fcntl.h>
#include <getopt.h>
#include <sys/wait.h>

/* Nobody waits longer for a tab. */
#define CALL_TIMEOUT_USEC (2 * USEC_PER_SEC)
/* A hook's script is run for this: in seconds. */
#define DESCRIBE_TIMEOUT 10

static void offer(const char *candidate, const char *why) {
        _cleanup_free_ char *shown = ctl_visible(candidate, /* keep_lines= */ false),
                            *explained = why ? ctl_visible(why, /* keep_lines= */ false) : NULL;

        if (shown)
                printf("%s%s%s\n", shown, explained && *explained ? "\t" : "", explained ? explained : "");
}

/* The answer to a call of the manager, with up to one argument. A service that is down is not started for this. */
static sd_bus_message *ask(Ctl *c, const char *method, const char *argument) {
        sd_bus_message *m = NULL, *reply = NULL;

        if (c->bus && (m = ctl_new_call(c, method)) && (!argument || sd_bus_message_append(m, "s", argument) >= 0) &&
            sd_bus_message_set_auto_start(m, false) >= 0)
                (void) sd_bus_call(c->bus, m, CALL_TIMEOUT_USEC, NULL, &reply);
        sd_bus_message_unref(m);
        return reply;
}

static void offer_devices(Ctl *c) {
        sd_bus_message *reply = ask(c, "ListDevices", NULL);
        const char *name, *node, *hook, *state;

        if (reply && sd_bus_message_enter_container(reply, 'a', "(ussssto)") >= 0)
                while (sd_bus_message_read(reply, "(ussssto)", NULL, &name, &node, &hook, &state, NULL, NULL) > 0) {
                        _cleanup_free_ char *why = NULL;

                        (void) xasprintf(&why, "%s, %s, %s", node, hook, state);
                        offer(name, why);
                }
        sd_bus_message_unref(reply);
}

static void offer_hooks(Ctl *c) {
        sd_bus_message *reply = ask(c, "ListHooks", NULL);
        const char *name, *file;

        if (reply && sd_bus_message_enter_container(reply, 'a', "(ss)") >= 0)
                while (sd_bus_message_read(reply, "(ss)", &name, &file) > 0)
                        offer(name, file);
        sd_bus_message_unref(reply);
}

/* The hook of a device that is there. */
static char *hook_of_device(Ctl *c, const char *designation) {
        sd_bus_message *reply = ask(c, "GetDevice", designation);
        const char *path;
        char *hook = NULL;

        if (reply && sd_bus_message_read(reply, "o", &path) > 0)
                (void) sd_bus_get_property_string(c->bus, "org.ublk", path, "org.ublk.Device", "Hook", NULL, &hook);
        sd_bus_message_unref(reply);
        return hook;
}

/* ublkctl describe, as a child, whose output is the end's. */
static __attribute__((noreturn)) void describe(Ctl *c, const char *hook, int fd) {
        char *words[] = { (char *) "describe", (char *) hook, NULL };
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        (void) dup2(fd, STDOUT_FILENO);
        (void) dup2(null, STDERR_FILENO);
        (void) dup2(null, STDIN_FILENO);
        (void) alarm(DESCRIBE_TIMEOUT);
        c->json = JSON_SHORT;
        c->n_forwarded = 0;
        _exit(ctl_describe(c, 2, words));
}

/* What the hook's schema says, or NULL, as it is where root completes a line and somebody else can have written the hook. */
static json_t *describe_hook(Ctl *c, const char *hook) {
        _cleanup_fclose_ FILE *f = NULL;
        json_t *description = NULL;
        int fds[2];
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return NULL;
        pid = fork();
        if (pid == 0)
                describe(c, hook, fds[1]);
        (void) close(fds[1]);
        f = fdopen(fds[0], "r");
        if (pid > 0 && f)
                description = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
        if (pid > 0)
                (void) waitpid(pid, NULL, 0);
        return description;
}

/* What stands after the "=" of an option that has few values. */
static void offer_values(const char *option, bool is_boolean) {
        static const struct {
                const char *option, *values;
        } known[] = {
                { "recovery", "reissue fail fail-io none" },
                { "on-failure", "wait error" },
                { "data-path", "auto string buffer" },
        };
        const char *values = is_boolean ? "yes no" : NULL;
        _cleanup_free_ char *copy = NULL;
        char *rest, *value;

        for (size_t i = 0; i < ELEMENTSOF(known); i++)
                if (streq(known[i].option, option))
                        values = known[i].values;
        if (xstrdup(values ? values : "", &copy) < 0)
                return;
        for (rest = copy; (value = strsep(&rest, " "));)
                if (*value)
                        printf("%s=%s\n", option, value);
}

/* word: up to a "=" that it may have, the name; values are offered once it has one. */
static void offer_option(const char *word, const char *name, bool is_boolean, const char *why) {
        const char *equals = strchr(word, '=');
        _cleanup_free_ char *candidate = NULL;

        if (equals) {
                if (strlen(name) == (size_t) (equals - word) && strncmp(word, name, strlen(name)) == 0)
                        offer_values(name, is_boolean);
        } else if (xasprintf(&candidate, "%s=", name) >= 0)
                offer(candidate, why);
}

static void offer_hook_options(Ctl *c, const char *hook, const char *word) {
        json_t *description = describe_hook(c, hook), *option;
        size_t i;

        json_array_foreach(json_object_get(json_object_get(description, "schema"), "options"), i, option) {
                const char *type = json_string_value(json_object_get(option, "type")),
                           *doc = json_string_value(json_object_get(option, "doc"));
                bool required = json_is_true(json_object_get(option, "required"));
                _cleanup_free_ char *why = NULL;

                (void) xasprintf(&why, "%s%s%s%s", type ? type : "", required ? ", required" : "", doc ? ": " : "", doc ? doc : "");
                offer_option(word, json_string_value(json_object_get(option, "name")), streq_ptr(type, "bool"), why);
        }
        json_decref(description);
}

static void offer_assignments(Ctl *c, const char *hook, const char *word) {
        const Option *o;

        if (hook)
                offer_hook_options(c, hook, word);
        for (size_t i = 0; (o = option_at(i)); i++)
                offer_option(word, o->name, o->type == 'b', "of the service");
}

/* "[DEVICE...]" → "DEVICE", and whether it is the last of its kind; NULL for "[--keep-state]" and at the end. */
static char *next_token(const char **usage, bool *ret_repeats) {
        for (;;) {
                const char *start = *usage + strspn(*usage, " ");
                size_t n = strcspn(start, " ");
                _cleanup_free_ char *token = strndup(start, n);

                if (!token || n == 0)
                        return NULL;
                *usage = start + n;
                if (strstr(token, "--"))
                        continue;
                *ret_repeats = strstr(token, "...") != NULL;
                token[strcspn(token, ".]")] = 0;
                return strdup(token[0] == '[' ? token + 1 : token);
        }
}

/* "yes|no" */
static void offer_words(char *words) {
        char *word;

        while ((word = strsep(&words, "|")))
                offer(word, NULL);
}

/* words: the verb and what stands after it; the last is the one to be completed. */
static void complete_argument(Ctl *c, const Verb *v, int argc, char **argv) {
        _cleanup_free_ char *token = NULL, *hook = NULL;
        const char *usage = v->usage;
        bool repeats = false;

        for (int i = 0; i < argc; i++) {
                char *next = repeats ? NULL : next_token(&usage, &repeats);

                if (next) {
                        free(token);
                        token = next;
                } else if (!repeats)
                        return;
                if (i + 1 < argc && streq(token, "HOOK")) {
                        free(hook);
                        hook = strdup(argv[i]);
                } else if (i + 1 < argc && streq(token, "DEVICE") && !hook)
                        hook = hook_of_device(c, argv[i]);
        }
        if (streq_ptr(token, "DEVICE"))
                offer_devices(c);
        else if (streq_ptr(token, "HOOK"))
                offer_hooks(c);
        else if (streq_ptr(token, "NAME=VALUE"))
                offer_assignments(c, hook, argv[argc - 1]);
        else if (token && strchr(token, '|'))
                offer_words(token);
}

static void offer_options(const struct option *options) {
        for (const struct option *o = options; o->name; o++) {
                if (streq(o->name, "json"))
                        for (JsonMode i = 0; i < _JSON_MODE_MAX; i++)
                                printf("--json=%s\n", i == JSON_OFF ? "off" : i == JSON_SHORT ? "short" : "pretty");
                else
                        printf("--%s%s\n", o->name, o->has_arg == required_argument ? "=" : "");
        }
}

int ctl_complete(Ctl *c, const Verb *verbs, size_t n, const struct option *options, int argc, char **argv) {
        int k = 0;

        if (argc == 0)
                return CTL_USAGE;
        (void) sd_bus_open_system(&c->bus);
        if (argv[argc - 1][0] == '-') {
                offer_options(options);
                return CTL_OK;
        }
        /* Options may stand anywhere. */
        for (int i = 0; i < argc; i++)
                if (argv[i][0] != '-' || i == argc - 1)
                        argv[k++] = argv[i];
        for (size_t i = 0; i < n; i++)
                if (k == 1)
                        offer(verbs[i].name, verbs[i].usage);
                else if (streq(argv[0], verbs[i].name))
                        complete_argument(c, &verbs[i], k, argv);
        return CTL_OK;
}
