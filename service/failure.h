/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An error on its way to the user, across processes: hook → worker → systemd's StatusText → manager → D-Bus.
 * As text it is one line of JSON of at most FAILURE_MAX_TEXT bytes, e.g.
 *
 *     {"kind":"hook","class":"Errno::ENOENT","message":"No such file …","file":"/etc/…/file.rb","line":7}
 *
 * (and "needs":["network"] where the kind is that), in which a backslash is written %5c and a percent sign %25: systemd (252 … 257) drops backslashes from STATUS=, which would
 * leave an escaped quotation mark unescaped.
 */

#include "service/util.h"

#define FAILURE_MAX_TEXT 2048
#define FAILURE_MAX_NEEDS 1024

/* What went wrong, and so the D-Bus error. The strings are in failure.c. */
typedef enum FailureKind {
        FAILURE_WORKER,       /* "worker"       org.ublk.Error.WorkerFailed: ours or the system's */
        FAILURE_HOOK,         /* "hook"         org.ublk.Error.HookFailed: the Ruby code */
        FAILURE_NO_HOOK,      /* "no-hook"      org.ublk.Error.NoSuchHook */
        FAILURE_ARGUMENTS,    /* "arguments"    org.freedesktop.DBus.Error.InvalidArgs: what the hook was given */
        FAILURE_KERNEL,       /* "kernel"       org.ublk.Error.NoKernelSupport */
        FAILURE_EXISTS,       /* "exists"       org.ublk.Error.DeviceExists: the id belongs to another program */
        FAILURE_BUSY,         /* "busy"         org.ublk.Error.DeviceBusy */
        FAILURE_NEEDS,        /* "needs"        org.ublk.Error.WorkerFailed: its unit is without what the hook declares */
        FAILURE_UNSUPPORTED,  /* "unsupported"  org.freedesktop.DBus.Error.NotSupported: not with this hook */
        _FAILURE_MAX,
        _FAILURE_INVALID = -EINVAL,
} FailureKind;

typedef struct Failure {
        FailureKind kind;
        int error;        /* positive errno, 0 if none fits */
        char *class_name; /* Ruby class, or NULL */
        char *message;    /* cause and remedy, one or more sentences */
        char *file;       /* or NULL */
        uint32_t line;
        bool is_answer;   /* of a request: the hook meant this errno, by an Errno::X, a Timeout::Error or a negative Integer;
                           * otherwise it made a mistake. Never part of the text */
        char *backtrace;  /* the innermost frames, a line each, or NULL; for the journal, never part of the text */
        char *needs;      /* FAILURE_NEEDS: those of service/needs.h, with spaces between them; else NULL */
} Failure;

#define FAILURE_NULL ((Failure) { .kind = FAILURE_WORKER })

const char *failure_kind_to_string(FailureKind kind);
FailureKind failure_kind_from_string(const char *s);

/* Replaces *f. Returns -error, or -EIO where error is 0, so that a caller can `return failure_set(…)`. */
int failure_set(Failure *f, FailureKind kind, int error, const char *format, ...) _printf_(4, 5);
/* Where in the hook. Copies; NULL leaves a field as it is. */
int failure_set_origin(Failure *f, const char *class_name, const char *file, uint32_t line);
/* Copies; NULL leaves it as it is. */
int failure_set_backtrace(Failure *f, const char *backtrace);
/* The same. -E2BIG above FAILURE_MAX_NEEDS. */
int failure_set_needs(Failure *f, const char *needs);
void failure_done(Failure *f);

/* Always such a line, in UTF-8, shortened to fit. */
int failure_to_text(const Failure *f, char **ret);
/* -EBADMSG if it isn't one of ours. */
int failure_from_text(const char *text, Failure *ret);
struct json_t;
/* The same as an object, for an answer in JSON: no backslash is harmed there. NULL without memory. */
struct json_t *failure_to_json(const Failure *f);
int failure_from_json(struct json_t *o, Failure *ret);
/* "Errno::ENOENT: No such file (file.rb:7)": what a person reads. */
int failure_describe(const Failure *f, char **ret);
/* The same, and below it the backtrace if there is one. */
int failure_describe_fully(const Failure *f, char **ret);
