/* SPDX-License-Identifier: MIT */
#include "run-ublkctl.h"

#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

static void run(const char *arguments, int wanted, char **ret_out, char **ret_err) {
        g_autofree char *line = g_strdup_printf("%s %s", g_getenv("UBLKCTL"), arguments);
        g_autoptr(GError) error = NULL;
        int status;

        if (!g_spawn_command_line_sync(line, ret_out, ret_err, &status, &error))
                g_error("%s", error->message);
        g_test_message("ublkctl %s\n%s%s", arguments, *ret_out, *ret_err);
        g_assert_true(WIFEXITED(status));
        g_assert_cmpint(WEXITSTATUS(status), ==, wanted);
}

void ublkctl(const char *arguments, int status, const char *part) {
        g_autofree char *out = NULL, *err = NULL;
        bool error = status != 0 && status != 3;

        run(arguments, status, &out, &err);
        if (!strstr(out, part) && !(error && strstr(err, part)))
                g_error("ublkctl %s: no \"%s\" in:\n%s%s", arguments, part, out, error ? err : "");
}

char *ublkctl_output(const char *arguments, int status) {
        g_autofree char *err = NULL;
        char *out;

        run(arguments, status, &out, &err);
        return out;
}

char *ublkctl_errors(const char *arguments, int status) {
        g_autofree char *out = NULL;
        char *err;

        run(arguments, status, &out, &err);
        return err;
}

json_t *ublkctl_json(const char *arguments, int status) {
        g_autofree char *out = ublkctl_output(arguments, status);
        json_t *j = json_loads(out, 0, NULL);

        g_assert_nonnull(j);
        return j;
}
