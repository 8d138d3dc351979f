/* SPDX-License-Identifier: MIT */
#include "service/check/report.h"

#include "service/log.h"

#include <inttypes.h>

void check_report_init(CheckReport *r, const CheckOptions *o, const CheckCopies *copies) {
        *r = (CheckReport) { .options = o, .copies = copies, .checks = json_array(), .notes = json_array() };
}

void check_report_done(CheckReport *r) {
        json_decref(r->schema);
        json_decref(r->geometry);
        json_decref(r->checks);
        json_decref(r->notes);
        json_decref(r->error);
        *r = (CheckReport) { 0 };
}

static const char *text_of(const json_t *object, const char *key) {
        const char *s = json_string_value(json_object_get(object, key));

        return s ? s : "";
}

static bool is_text(const CheckReport *r) {
        return r->options->json == CHECK_JSON_OFF;
}

static void print_schema(const CheckReport *r) {
        const json_t *options = json_object_get(r->schema, "options"), *option;
        size_t i;

        printf("Hook: %s (%s), class %s\n", r->options->hook, r->options->path, text_of(r->schema, "class"));
        json_array_foreach(options, i, option) {
                const char *initial = json_string_value(json_object_get(option, "default"));

                printf("  %-16s %-9s", text_of(option, "name"), text_of(option, "type"));
                if (json_is_true(json_object_get(option, "required")))
                        printf(" required ");
                else if (initial)
                        printf(" default %s ", initial);
                else
                        printf(" optional ");
                printf(" %s\n", text_of(option, "doc"));
        }
        if (json_array_size(options) == 0)
                puts("  It takes no options.");
}

static void format_bytes(uint64_t n, char ret[static 24]) {
        static const char units[] = "BKMGTPE";
        size_t i = 0;

        while (n >= 1024 && n % 1024 == 0 && i + 2 < sizeof(units)) {
                n /= 1024;
                i++;
        }
        (void) snprintf(ret, 24, "%" PRIu64 "%c", n, units[i]);
}

static void print_geometry(const CheckReport *r) {
        const json_t *g = r->geometry;
        uint64_t size = (uint64_t) json_integer_value(json_object_get(g, "size"));
        char text[24];

        format_bytes(size, text);
        printf("Disk: %s (%" PRIu64 " bytes), blocks of %" JSON_INTEGER_FORMAT ", physically %" JSON_INTEGER_FORMAT "; recovery %s%s%s%s%s\n", text, size,
               json_integer_value(json_object_get(g, "logical-block-size")), json_integer_value(json_object_get(g,
                                                                                                                "physical-block-size")),
               text_of(g, "recovery"), json_is_true(json_object_get(g, "read-only")) ? ", read-only" : "",
               json_is_true(json_object_get(g, "rotational")) ? ", rotational" : "", json_is_true(json_object_get(g,
                                                                                                                  "discard")) ? ", discard" : "",
               json_is_true(json_object_get(g, "write-zeroes")) ? ", write_zeroes" : "");
}

static void print_figures(const json_t *figures) {
        const char *name;
        json_t *f;

        json_object_foreach((json_t *) figures, name, f)
                printf("       %-10s %7.2f \xc2\xb5s per request of 4 KiB (median; %.2f to %.2f)\n", name,
                       json_real_value(json_object_get(f, "median")),
                       json_real_value(json_object_get(f, "min")), json_real_value(json_object_get(f, "max")));
}

static void print_check(const json_t *line) {
        const char *result = text_of(line, "result"), *note = text_of(line, "note");

        if (streq(result, "fault"))
                printf("not ok %s: %s\n         fault: %s\n         hint:  %s\n", text_of(line, "check"),
                       text_of(line, "message"), text_of(line, "id"),
                       text_of(line, "hint"));
        else if (streq(result, "skipped"))
                printf("--     %s: not checked: %s\n", text_of(line, "check"), note);
        else
                printf("ok     %s: %s%s%s%s\n", text_of(line, "check"), text_of(line, "title"), note[0] ? " (" : "",
                       note, note[0] ? ")" : "");
        if (json_object_get(line, "figures"))
                print_figures(json_object_get(line, "figures"));
}

static void translate(const CheckReport *r, json_t *object, const char *key) {
        const char *text = json_string_value(json_object_get(object, key));
        _cleanup_free_ char *translated = text ? check_copies_translate(r->copies, text) : NULL;

        if (translated)
                (void) json_object_set_new(object, key, json_string(translated));
}

static void take_check(CheckReport *r, const json_t *line) {
        json_t *check = json_copy((json_t *) line);
        bool fault = streq(text_of(line, "result"), "fault");

        if (fault) {
                r->n_faults++;
                /* Whoever was ended tells no more of it: there is no word of a lesser fault. */
                r->stop = r->stop || !json_is_false(json_object_get(line, "essential"));
                (void) json_object_set_new(check, "hint", json_string(check_hint(text_of(line, "id"))));
                translate(r, check, "message");
                (void) json_object_del(check, "essential");
        } else
                r->n_ok += streq(text_of(line, "result"), "ok");
        translate(r, check, "note");
        if (is_text(r))
                print_check(check);
        (void) json_array_append_new(r->checks, check);
}

/* A hook that can't be loaded the first time is no fault of a check but its end; later it is one. */
static void take_load(CheckReport *r, const json_t *failure) {
        json_t *line;

        if (!r->geometry) {
                check_report_error(r, text_of(failure, "kind"), text_of(failure, "message"));
                return;
        }
        line = json_pack("{s:s, s:s, s:s, s:s}", "check", "load", "result", "fault", "id", r->load_id ? r->load_id :
                         "load-again", "message", text_of(failure, "message"));
        take_check(r, line);
        json_decref(line);
}

void check_report_line(void *userdata, const json_t *line) {
        CheckReport *r = userdata;

        if (json_object_get(line, "schema")) {
                r->schema = json_incref(json_object_get(line, "schema"));
                if (is_text(r))
                        print_schema(r);
        } else if (json_object_get(line, "geometry")) {
                r->geometry = json_incref(json_object_get(line, "geometry"));
                if (is_text(r))
                        print_geometry(r);
        } else if (json_object_get(line, "load"))
                take_load(r, json_object_get(line, "load"));
        else
                take_check(r, line);
        (void) fflush(stdout);
}

void check_report_note(CheckReport *r, char *text) {
        if (!text)
                return;
        if (is_text(r))
                puts(text);
        (void) json_array_append_new(r->notes, json_string(text));
        free(text);
}

void check_report_error(CheckReport *r, const char *kind, const char *message) {
        _cleanup_free_ char *translated = check_copies_translate(r->copies, message), *text = NULL;

        if (!translated)
                return;
        /* The hook was sent to look in a directory of the check's, and may give advice for that. */
        if (r->copies->missing)
                (void) xasprintf(&text, "%s=%s does not exist, and the hook could not make it either: %s",
                                 r->copies->missing->name,
                                 r->copies->missing->value, translated);
        r->stop = true;
        r->usage = streq(kind, "arguments") || streq(kind, "no-hook");
        json_decref(r->error);
        r->error = json_pack("{s:s, s:s}", "kind", kind, "message", text ? text : translated);
        if (is_text(r)) {
                (void) fflush(stdout);
                log_error("%s", text ? text : translated);
        }
}

static void print_end(const CheckReport *r) {
        if (r->error || r->options->describe || r->options->rounds > 0)
                return;
        if (r->n_faults > 0)
                printf("\n%u fault%s found; --seed=%" PRIu64 " repeats this run.\n", r->n_faults, r->n_faults == 1 ?
                       "" : "s", r->options->seed);
        else
                printf("\nNo fault found in %u checks (seed %" PRIu64 ").\n", r->n_ok, r->options->seed);
}

static void print_document(CheckReport *r, const char *result) {
        json_t *d = json_pack("{s:s, s:s, s:O?, s:O?, s:s}", "hook", r->options->hook, "path", r->options->path,
                              "schema", r->schema, "geometry",
                              r->geometry, "result", result);

        if (!r->options->describe) {
                (void) json_object_set_new(d, "seed", json_integer((json_int_t) r->options->seed));
                (void) json_object_set(d, "checks", r->checks);
        }
        (void) json_object_set(d, "notes", r->notes);
        if (r->error)
                (void) json_object_set(d, "error", r->error);
        (void) json_dumpf(d, stdout, r->options->json == CHECK_JSON_PRETTY ? JSON_INDENT(8) : JSON_COMPACT);
        (void) putchar('\n');
        json_decref(d);
}

int check_report_end(CheckReport *r) {
        int status = r->error ? (r->usage ? CHECK_USAGE : CHECK_FAULTS) : r->n_faults > 0 ? CHECK_FAULTS : CHECK_PASSED;

        if (is_text(r))
                print_end(r);
        else
                print_document(r, r->error ? "error" : r->n_faults > 0 ? "faults" : "pass");
        if (fflush(stdout) != 0 || ferror(stdout))
                return CHECK_FAULTS;
        return status;
}
