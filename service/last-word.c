/* SPDX-License-Identifier: MIT */
#include "service/last-word.h"

#include "service/config.h"
#include "service/exit-status.h"
#include "service/paths.h"

#include <limits.h>

static char link_path[PATH_MAX];

void last_word_begin(uint32_t id) {
        _cleanup_free_ char *path = NULL;

        if (config_path(&path, PATH_WORKER_LAST_WORD, id) < 0 || strlen(path) >= sizeof(link_path))
                return;
        (void) unlink(path);
        strcpy(link_path, path);
}

void last_word_say(int status) {
        const char text[] = { (char) ('0' + status / 10), (char) ('0' + status % 10), 0 };

        if (!exit_status_is_reserved(status) || !*link_path)
                return;
        (void) unlink(link_path);
        (void) !symlink(text, link_path);
}

int last_word_judge(uint32_t id, int exit_status) {
        _cleanup_free_ char *path = NULL, *wanted = NULL;
        char text[16];
        ssize_t n;

        if (!exit_status_is_reserved(exit_status))
                return exit_status;
        if (config_path(&path, PATH_WORKER_LAST_WORD, id) < 0 || xasprintf(&wanted, "%i", exit_status) < 0)
                return EXIT_CRASHED;
        n = readlink(path, text, sizeof(text) - 1);
        if (n < 0)
                return EXIT_CRASHED;
        text[n] = 0;
        return streq(text, wanted) ? exit_status : EXIT_CRASHED;
}
