/* SPDX-License-Identifier: MIT */
#include "service/failure.h"

#include "service/text.h"

#include <jansson.h>
#include <stdarg.h>

static const char *const kind_table[_FAILURE_MAX] = {
        [FAILURE_WORKER]    = "worker",
        [FAILURE_HOOK]      = "hook",
        [FAILURE_NO_HOOK]   = "no-hook",
        [FAILURE_ARGUMENTS] = "arguments",
        [FAILURE_KERNEL]    = "kernel",
        [FAILURE_EXISTS]    = "exists",
        [FAILURE_BUSY]      = "busy",
        [FAILURE_NEEDS]     = "needs",
        [FAILURE_UNSUPPORTED] = "unsupported",
};

const char *failure_kind_to_string(FailureKind kind) {
        return kind >= 0 && kind < _FAILURE_MAX ? kind_table[kind] : NULL;
}

FailureKind failure_kind_from_string(const char *s) {
        for (FailureKind i = 0; i < _FAILURE_MAX; i++)
                if (streq(s, kind_table[i]))
                        return i;
        return _FAILURE_INVALID;
}

void failure_done(Failure *f) {
        free(f->class_name);
        free(f->message);
        free(f->file);
        free(f->backtrace);
        free(f->needs);
        *f = FAILURE_NULL;
}

int failure_set(Failure *f, FailureKind kind, int error, const char *format, ...) {
        char *message;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&message, format, ap);
        va_end(ap);
        failure_done(f);
        *f = (Failure) { .kind = kind, .error = error, .message = n < 0 ? NULL : message };
        return error > 0 ? -error : -EIO;
}

static int replace(char **field, const char *s) {
        char *copy;
        int r;

        if (!s)
                return 0;
        r = xstrdup(s, &copy);
        if (r < 0)
                return r;
        free(*field);
        *field = copy;
        return 0;
}

int failure_set_origin(Failure *f, const char *class_name, const char *file, uint32_t line) {
        int r;

        r = replace(&f->class_name, class_name);
        if (r >= 0)
                r = replace(&f->file, file);
        if (r >= 0 && line > 0)
                f->line = line;
        return r;
}

int failure_set_backtrace(Failure *f, const char *backtrace) {
        return replace(&f->backtrace, backtrace);
}

int failure_set_needs(Failure *f, const char *needs) {
        if (needs && strlen(needs) > FAILURE_MAX_NEEDS)
                return -E2BIG;
        return replace(&f->needs, needs);
}

/* A JSON string of at most max bytes of s, on one line. Ruby's messages may be in any encoding and cut anywhere. */
static json_t *json_text(const char *s, size_t max) {
        _cleanup_free_ char *copy = strndup(s ? s : "", max);

        if (!copy)
                return NULL;
        text_clean(copy);
        for (char *p = copy; *p; p++)
                if ((unsigned char) *p < 0x20)
                        *p = *p == '\n' || *p == '\t' ? ' ' : '?';
        return json_string(copy);
}

/* No backslash outlives systemd's parsing of STATUS=: see failure.h. */
static int percent_encode(const char *s, char **ret) {
        char *encoded = malloc(strlen(s) * 3 + 1), *p = encoded;

        if (!encoded)
                return -ENOMEM;
        for (; *s; s++)
                if (*s == '\\' || *s == '%')
                        p += sprintf(p, "%%%02x", (unsigned) *s);
                else
                        *p++ = *s;
        *p = 0;
        *ret = encoded;
        return 0;
}

static int percent_decode(const char *s, char **ret) {
        char *decoded = malloc(strlen(s) + 1), *p = decoded;

        if (!decoded)
                return -ENOMEM;
        while (*s)
                if (strncmp(s, "%5c", 3) == 0 || strncmp(s, "%25", 3) == 0) {
                        *p++ = s[1] == '5' ? '\\' : '%';
                        s += 3;
                } else
                        *p++ = *s++;
        *p = 0;
        *ret = decoded;
        return 0;
}

static json_t *needs_to_json(const char *needs) {
        json_t *array = json_array();

        for (size_t n; *(needs += strspn(needs, " ")); needs += n) {
                n = strcspn(needs, " ");
                json_array_append_new(array, json_stringn(needs, n));
        }
        return array;
}

static size_t least(size_t a, size_t b) {
        return a < b ? a : b;
}

/* max: bytes of each of its strings; for 0 it is left without what it needs, too. */
static int failure_dump(const Failure *f, size_t max, char **ret) {
        _cleanup_free_ char *text = NULL;
        json_t *o = json_object();

        json_object_set_new(o, "kind", json_string(failure_kind_to_string(f->kind)));
        if (f->error > 0)
                json_object_set_new(o, "errno", json_integer(f->error));
        if (f->class_name)
                json_object_set_new(o, "class", json_text(f->class_name, least(max, 128)));
        json_object_set_new(o, "message", json_text(f->message, max));
        if (f->file)
                json_object_set_new(o, "file", json_text(f->file, least(max, 256)));
        if (f->line > 0)
                json_object_set_new(o, "line", json_integer(f->line));
        if (f->needs && max > 0)
                json_object_set_new(o, "needs", needs_to_json(f->needs));
        text = json_dumps(o, JSON_COMPACT);
        json_decref(o);
        return text ? percent_encode(text, ret) : -ENOMEM;
}

int failure_to_text(const Failure *f, char **ret) {
        /* Escaping can make six bytes of one; halve until it fits. */
        for (size_t max = 1536;; max /= 2) {
                _cleanup_free_ char *text = NULL;
                int r;

                r = failure_dump(f, max, &text);
                if (r < 0)
                        return r;
                if (strlen(text) < FAILURE_MAX_TEXT || max == 0) {
                        *ret = TAKE_PTR(text);
                        return 0;
                }
        }
}

/* NULL where there are none. */
static int needs_from_json(const json_t *array, char **ret) {
        _cleanup_free_ char *text = NULL;
        const char *need;
        size_t size, i;
        json_t *item;
        FILE *f;

        *ret = NULL;
        if (!array)
                return 0;
        f = open_memstream(&text, &size);
        if (!f)
                return -ENOMEM;
        json_array_foreach((json_t *) array, i, item) {
                need = json_string_value(item);
                fprintf(f, "%s%s", i > 0 ? " " : "", need ? need : "?");
        }
        if (fclose(f) != 0)
                return -ENOMEM;
        *ret = TAKE_PTR(text);
        return 0;
}

/* JSON lets more pass than the bus. */
static void clean(char *s) {
        if (s)
                text_clean(s);
}

int failure_from_json(json_t *o, Failure *ret) {
        const char *kind = json_string_value(json_object_get(o, "kind"));
        const char *message = json_string_value(json_object_get(o, "message"));
        json_int_t error = json_integer_value(json_object_get(o, "errno"));
        json_int_t line = json_integer_value(json_object_get(o, "line"));
        _cleanup_free_ char *needs = NULL;
        Failure f = FAILURE_NULL;
        int r;

        if (!kind || !message || failure_kind_from_string(kind) < 0)
                return -EBADMSG;
        if (error < 0 || error > 4095 || line < 0 || line > UINT32_MAX)
                return -EBADMSG;
        (void) failure_set(&f, failure_kind_from_string(kind), (int) error, "%s", message);
        r = failure_set_origin(&f, json_string_value(json_object_get(o, "class")),
                               json_string_value(json_object_get(o, "file")), (uint32_t) line);
        if (r >= 0)
                r = needs_from_json(json_object_get(o, "needs"), &needs);
        if (r >= 0)
                r = failure_set_needs(&f, needs);
        clean(f.class_name);
        clean(f.message);
        clean(f.file);
        clean(f.needs);
        if (r < 0 || !f.message) {
                failure_done(&f);
                return r == -E2BIG ? -EBADMSG : -ENOMEM;
        }
        *ret = f;
        return 0;
}

int failure_from_text(const char *text, Failure *ret) {
        _cleanup_free_ char *json = NULL;
        json_t *o;
        int r;

        if (strnlen(text, FAILURE_MAX_TEXT) == FAILURE_MAX_TEXT)
                return -EBADMSG;
        r = percent_decode(text, &json);
        if (r < 0)
                return r;
        o = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
        r = json_is_object(o) ? failure_from_json(o, ret) : -EBADMSG;
        json_decref(o);
        return r;
}

json_t *failure_to_json(const Failure *f) {
        _cleanup_free_ char *text = NULL, *json = NULL;

        if (failure_to_text(f, &text) < 0 || percent_decode(text, &json) < 0)
                return NULL;
        return json_loads(json, 0, NULL);
}

int failure_describe(const Failure *f, char **ret) {
        const char *message = f->message ? f->message : "out of memory", *colon = f->class_name ? ": " : "";
        const char *class_name = f->class_name ? f->class_name : "";

        if (f->file && f->line > 0)
                return xasprintf(ret, "%s%s%s (%s:%u)", class_name, colon, message, f->file, f->line);
        if (f->file)
                return xasprintf(ret, "%s%s%s (%s)", class_name, colon, message, f->file);
        return xasprintf(ret, "%s%s%s", class_name, colon, message);
}

int failure_describe_fully(const Failure *f, char **ret) {
        _cleanup_free_ char *text = NULL;
        int r;

        r = failure_describe(f, &text);
        if (r < 0)
                return r;
        if (f->backtrace && f->backtrace[0])
                return xasprintf(ret, "%s\n%s", text, f->backtrace);
        *ret = TAKE_PTR(text);
        return 0;
}
