/* SPDX-License-Identifier: MIT */
#include "service/log.h"

#include <fcntl.h>
#include <stdarg.h>

/* The kernel takes no longer line (PRINTKRB_RECORD_MAX), and none that is cut. */
#define KERNEL_LINE_MAX 1024

static const char *log_program = "ublk-ruby";
static int log_max_level = LOG_INFO;
static bool log_levels = false, log_kernel = false;

void log_setup(const char *program) {
        const char *level = getenv("UBLK_RUBY_LOG_LEVEL");

        log_program = program;
        log_levels = getenv("JOURNAL_STREAM") != NULL;
        if (level && streq(level, "debug"))
                log_max_level = LOG_DEBUG;
}

void log_setup_kernel(const char *program) {
        _cleanup_close_ int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC | O_NOCTTY);

        log_setup(program);
        log_kernel = fd >= 0 && dup2(fd, STDERR_FILENO) >= 0;
}

void log_set_max_level(int level) {
        log_max_level = level;
}

int log_get_max_level(void) {
        return log_max_level;
}

static const char *const levels[] = {
        [LOG_EMERG] = "emerg",
        [LOG_ALERT] = "alert",
        [LOG_CRIT] = "crit",
        [LOG_ERR] = "err",
        [LOG_WARNING] = "warning",
        [LOG_NOTICE] = "notice",
        [LOG_INFO] = "info",
        [LOG_DEBUG] = "debug",
};

const char *log_level_to_string(int level) {
        return level >= 0 && (size_t) level < ELEMENTSOF(levels) ? levels[level] : NULL;
}

int log_level_from_string(const char *s) {
        for (size_t i = 0; i < ELEMENTSOF(levels); i++)
                if (streq(s, levels[i]))
                        return (int) i;
        return -EINVAL;
}

const char *log_get_program(void) {
        return log_program;
}

bool log_goes_to_journal(void) {
        return log_levels;
}

static int put_head(char *line, size_t size, int level) {
        if (log_kernel)
                return snprintf(line, size, "<%d>%s[%d]: ", LOG_DAEMON | level, log_program, (int) getpid());
        return log_levels ? snprintf(line, size, "<%d>", level) : snprintf(line, size, "%s: ", log_program);
}

void log_line(int level, const char *format, ...) {
        char line[2048];
        size_t size = log_kernel ? KERNEL_LINE_MAX : sizeof(line);
        va_list ap;
        int n;

        if (level > log_max_level)
                return;
        n = put_head(line, size, level);
        va_start(ap, format);
        (void) vsnprintf(line + n, size - (size_t) n - 1, format, ap);
        va_end(ap);
        /* One write(2) a line, so that threads do not mix theirs. Nobody is left to hear of a failure. */
        n = (int) strlen(line);
        line[n++] = '\n';
        (void) write_all(STDERR_FILENO, line, (size_t) n);
}
