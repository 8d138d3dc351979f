/* SPDX-License-Identifier: MIT */

/* The verbs that look at a hook and not at a device: check, describe. Neither needs the service, or root. */

#include "dbus/ctl.h"

/* The environment serves tests and running from a build tree. */
static const char *worker_path(void) {
        const char *path = secure_getenv("UBLK_RUBY_WORKER");

        return path && path[0] == '/' ? path : CTL_WORKER_PATH;
}

static int become_worker(Ctl *c, const char *option, int argc, char **argv) {
        static const char *const json[_JSON_MODE_MAX] = {
                [JSON_OFF] = "--json=off",
                [JSON_SHORT] = "--json=short",
                [JSON_PRETTY] = "--json=pretty",
        };
        const char *path = worker_path();
        char **words;
        size_t n = 0;

        words = calloc(c->n_forwarded + (size_t) argc + 5, sizeof(char *));
        if (!words)
                return CTL_FAILED;
        words[n++] = (char *) path;
        words[n++] = (char *) option;
        words[n++] = (char *) json[c->json];
        for (size_t i = 0; i < c->n_forwarded; i++)
                words[n++] = c->forwarded[i];
        words[n++] = (char *) "--";
        for (int i = 1; i < argc; i++)
                words[n++] = argv[i];

        execv(path, words);
        fprintf(stderr, "ublkctl: %s can't be run: %s\nIs ublk-ruby installed in whole?\n", path, strerror(errno));
        free(words);
        return CTL_FAILED;
}

int ctl_check(Ctl *c, int argc, char **argv) {
        return become_worker(c, "--check", argc, argv);
}

int ctl_describe(Ctl *c, int argc, char **argv) {
        return become_worker(c, "--describe", argc, argv);
}
