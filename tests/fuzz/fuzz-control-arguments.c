/* SPDX-License-Identifier: MIT */

/* The command line of ublk-ruby-control, and the instance of its unit: words with a NUL behind each. */

#include "fuzz.h"
#include "service/control-arguments.h"
#include "service/geometry.h"
#include "service/uapi.h"

#include <inttypes.h>

#define MAX_WORDS 8

static int parse(char **words, int n, ControlArguments *ret) {
        _cleanup_free_ char *message = NULL;
        ControlArguments untouched = { .id = 77, .bytes = 77, .pid = 77 };
        int r;

        *ret = untouched;
        r = control_arguments_parse(n, words, ret, &message);
        must(r < 0 ? r == -EINVAL && message : !message);
        must(r >= 0 || (ret->id == 77 && ret->bytes == 77 && ret->pid == 77));
        return r;
}

static void must_equal(const ControlArguments *a, const ControlArguments *b) {
        must(a->verb == b->verb && a->id == b->id && a->pid == b->pid && a->state == b->state && a->bytes == b->bytes);
        must(a->json == b->json && a->instance == b->instance && !b->help && !b->version);
}

static const char *state_word(RemoveState state) {
        return state == REMOVE_STATE ? "state" : "keep";
}

/* Said as an instance, it is the same once more. */
static void check_instance(const ControlArguments *a) {
        _cleanup_free_ char *text = NULL;
        const char *verb = control_verb_to_string(a->verb);
        ControlArguments again;
        int r;

        if (a->state != REMOVE_LEAVES_STATE)
                r = xasprintf(&text, "%s-%" PRIu32 "-%s", verb, a->id, state_word(a->state));
        else if (a->bytes > 0)
                r = xasprintf(&text, "%s-%" PRIu32 "-%" PRIu64, verb, a->id, a->bytes);
        else if (a->verb == CONTROL_PROBE || a->verb == CONTROL_LIST)
                r = xstrdup(verb, &text);
        else
                r = xasprintf(&text, "%s-%" PRIu32, verb, a->id);
        must(r >= 0);
        must(parse((char *[]) { (char *) "--instance", text, (char *) "--json" }, a->json ? 3 : 2, &again) >= 0);
        must_equal(a, &again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char *words[MAX_WORDS];
        Input in = { data, size };
        ControlArguments a;
        int n = 0;

        while (in.size > 0 && n < MAX_WORDS)
                words[n++] = input_string(&in);
        if (parse(words, n, &a) >= 0 && !a.help && !a.version) {
                must(a.verb >= 0 && a.verb < _CONTROL_VERB_MAX);
                must(control_verb_from_string(control_verb_to_string(a.verb)) == a.verb);
                must(a.id <= UBLK_MAX_ID && a.bytes <= GEOMETRY_MAX_SIZE && a.pid <= INT32_MAX);
                must((a.pid > 0) == (a.verb == CONTROL_ACTIVATE));
                must(a.bytes == 0 || a.verb == CONTROL_RESIZE);
                if (a.instance)
                        check_instance(&a);
        }
        while (n > 0)
                free(words[--n]);
        return 0;
}
