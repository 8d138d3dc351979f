/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Messages of the mains and of bus handlers, one line each to standard error. Under systemd a line starts
 * with its syslog level in angle brackets (sd-daemon(3)), on a terminal with the program's name.
 * Libraries return their errors and log nothing above debug.
 */

#include "service/util.h"

#include <syslog.h>

void log_setup(const char *program);
/* For a program that has no journal yet and whose standard error nobody reads: to the kernel's log. */
void log_setup_kernel(const char *program);
void log_set_max_level(int level);
int log_get_max_level(void);
/* "emerg" … "debug", by syslog's names; NULL or -EINVAL for what is none. */
const char *log_level_to_string(int level);
int log_level_from_string(const char *s);
const char *log_get_program(void);
/* systemd has connected standard error with it. */
bool log_goes_to_journal(void);

void log_line(int level, const char *format, ...) _printf_(2, 3);

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_notice(...) log_line(LOG_NOTICE, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERR, __VA_ARGS__)
/* Logs and evaluates to the error, so that a failing main can `return log_error_errno(r, …)`. */
#define log_error_errno(error, format, ...) \
        ({ int _e = (error); log_error(format ": %s", ##__VA_ARGS__, strerror(-_e)); _e; })
