/* SPDX-License-Identifier: MIT */
#include "service/control-arguments.h"

#include "service/geometry.h"
#include "service/uapi.h"

/* Longer than any instance that can be meant. */
#define INSTANCE_MAX 64

static const struct {
        const char *name;
        int n_arguments;
        int n_optional; /* beside those */
        bool instance; /* for the manager; the others belong to a device's unit */
        bool json;
} verbs[_CONTROL_VERB_MAX] = {
        [CONTROL_PROBE]    = { "probe", 0, 0, true, true },
        [CONTROL_LIST]     = { "list", 0, 0, true, true },
        [CONTROL_ACTIVATE] = { "activate", 2, 0, false, false },
        [CONTROL_STOP]     = { "stop", 1, 0, false, false },
        [CONTROL_RELEASE]  = { "release", 1, 0, false, false },
        [CONTROL_HOLDERS]  = { "holders", 1, 0, true, false },
        [CONTROL_REMOVE]   = { "remove", 1, 1, true, false },
        [CONTROL_RESIZE]   = { "resize", 1, 1, true, false },
        [CONTROL_SWEEP]    = { "sweep", 1, 0, true, false },
        [CONTROL_PURGE]    = { "purge", 1, 0, true, false },
};

const char *control_verb_to_string(ControlVerb verb) {
        return verb >= 0 && verb < _CONTROL_VERB_MAX ? verbs[verb].name : NULL;
}

ControlVerb control_verb_from_string(const char *s) {
        for (ControlVerb v = 0; v < _CONTROL_VERB_MAX; v++)
                if (streq(s, verbs[v].name))
                        return v;
        return _CONTROL_VERB_INVALID;
}

#define refuse(ret_message, ...) ({ (void) xasprintf(ret_message, __VA_ARGS__); -EINVAL; })

static int parse_words(int n, char *const *words, ControlArguments *a, char **ret_message) {
        int least, most;

        a->verb = control_verb_from_string(words[0]);
        if (a->verb < 0)
                return refuse(ret_message, "unknown verb \"%s\"", words[0]);
        least = verbs[a->verb].n_arguments;
        most = least + verbs[a->verb].n_optional;
        if (n - 1 < least || n - 1 > most)
                return refuse(ret_message, "%s takes %d%s argument%s, not %d", words[0], least, most > least ? " or more" : "",
                              least == 1 ? "" : "s", n - 1);
        if (n > 1 && parse_u32(words[1], UBLK_MAX_ID, &a->id) < 0)
                return refuse(ret_message, "\"%s\" is no device id: a number from 0 to %u", words[1],
                              UBLK_MAX_ID);
        if (n > 2 && a->verb == CONTROL_REMOVE) {
                if (!streq(words[2], "state") && !streq(words[2], "keep"))
                        return refuse(ret_message, "\"%s\" is neither \"state\" nor \"keep\"", words[2]);
                a->state = streq(words[2], "state") ? REMOVE_STATE : REMOVE_KEEPS_STATE;
        } else if (n > 2 && a->verb == CONTROL_RESIZE) {
                if (parse_u64(words[2], GEOMETRY_MAX_SIZE, &a->bytes) < 0 || a->bytes == 0)
                        return refuse(ret_message, "\"%s\" is no size in bytes: 1 to %llu", words[2], (unsigned long long) GEOMETRY_MAX_SIZE);
        } else if (n > 2 && (parse_u32(words[2], INT32_MAX, &a->pid) < 0 || a->pid == 0))
                return refuse(ret_message, "\"%s\" is no process id", words[2]);
        if (a->instance && !verbs[a->verb].instance)
                return refuse(ret_message, "%s is not for ublk-ruby-control@.service", words[0]);
        if (a->json && !verbs[a->verb].json)
                return refuse(ret_message, "%s has no --json", words[0]);
        return 0;
}

static int parse_instance(const char *instance, ControlArguments *a, char **ret_message) {
        char copy[INSTANCE_MAX], *words[3], *state = copy, *word;
        int n = 0;

        if (strlen(instance) >= sizeof(copy))
                return refuse(ret_message, "the instance is too long");
        strcpy(copy, instance);
        while ((word = strsep(&state, "-"))) {
                if (n == ELEMENTSOF(words))
                        return refuse(ret_message, "\"%s\" has too many parts", instance);
                words[n++] = word;
        }
        return parse_words(n, words, a, ret_message);
}

int control_instance_to_id(const char *instance, uint32_t *ret_id) {
        ControlArguments a = { .instance = true };
        _cleanup_free_ char *message = NULL;
        int r;

        r = parse_instance(instance, &a, &message);
        if (r < 0)
                return r;
        if (verbs[a.verb].n_arguments == 0)
                return -ENODEV;
        *ret_id = a.id;
        return 0;
}

int control_arguments_parse(int argc, char **argv, ControlArguments *ret, char **ret_message) {
        ControlArguments a = { 0 };
        char *words[4];
        int n = 0, r;

        for (int i = 0; i < argc; i++) {
                if (streq(argv[i], "--help") || streq(argv[i], "-h"))
                        a.help = true;
                else if (streq(argv[i], "--version"))
                        a.version = true;
                else if (streq(argv[i], "--json"))
                        a.json = true;
                else if (streq(argv[i], "--instance"))
                        a.instance = true;
                else if (argv[i][0] == '-')
                        return refuse(ret_message, "unknown option \"%s\"", argv[i]);
                else if (n == ELEMENTSOF(words))
                        return refuse(ret_message, "too many arguments");
                else
                        words[n++] = argv[i];
        }
        if (!a.help && !a.version) {
                if (n == 0)
                        return refuse(ret_message, "a verb is missing");
                if (a.instance && n != 1)
                        return refuse(ret_message, "--instance takes one argument");
                r = a.instance ? parse_instance(words[0], &a, ret_message)
                               : parse_words(n, words, &a, ret_message);
                if (r < 0)
                        return r;
        }
        *ret = a;
        return 0;
}
