/* SPDX-License-Identifier: MIT */
#include "service/log.h"

#include <stdarg.h>

static const char *log_program = "ublk-ruby";
static int log_max_level = LOG_INFO;
static bool log_levels = false;

void log_setup(const char *program) {
        const char *level = getenv("UBLK_RUBY_LOG_LEVEL");

        log_program = program;
        log_levels = getenv("JOURNAL_STREAM") != NULL;
        if (level && streq(level, "debug"))
                log_max_level = LOG_DEBUG;
}

void log_set_max_level(int level) {
        log_max_level = level;
}

int log_get_max_level(void) {
        return log_max_level;
}

void log_line(int level, const char *format, ...) {
        char line[2048];
        va_list ap;
        int n;

        if (level > log_max_level)
                return;
        n = log_levels ? snprintf(line, sizeof(line), "<%d>", level) : snprintf(line, sizeof(line), "%s: ", log_program);
        va_start(ap, format);
        (void) vsnprintf(line + n, sizeof(line) - (size_t) n - 1, format, ap);
        va_end(ap);
        /* One write(2) a line, so that threads do not mix theirs. Nobody is left to hear of a failure. */
        n = (int) strlen(line);
        line[n++] = '\n';
        (void) write_all(STDERR_FILENO, line, (size_t) n);
}
