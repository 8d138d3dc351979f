/* SPDX-License-Identifier: MIT */

/* The other main of a target, without libFuzzer: runs each file of a directory, as a test (TAP). */

#include "fuzz.h"

#include <stdio.h>

#define INPUT_MAX (1024 * 1024)

static int is_visible(const struct dirent *entry) {
        return entry->d_name[0] != '.';
}

/* In memory of just that size, so that a sanitizer sees what is read beyond it. */
static int run(const char *directory, const char *name) {
        _cleanup_free_ uint8_t *exact = NULL, *buffer = malloc(INPUT_MAX);
        _cleanup_free_ char *path = NULL;
        _cleanup_fclose_ FILE *f = NULL;
        size_t n;

        if (!buffer || xasprintf(&path, "%s/%s", directory, name) < 0)
                return -ENOMEM;
        f = fopen(path, "re");
        if (!f)
                return -errno;
        n = fread(buffer, 1, INPUT_MAX, f);
        exact = malloc(n > 0 ? n : 1);
        if (!exact)
                return -ENOMEM;
        memcpy(exact, buffer, n);
        (void) LLVMFuzzerTestOneInput(exact, n);
        return 0;
}

int main(int argc, char **argv) {
        struct dirent **entries;
        int n, failed = 0;

        if (argc != 2) {
                fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
                return 2;
        }
        n = scandir(argv[1], &entries, is_visible, alphasort);
        if (n <= 0) {
                printf("Bail out! no input in %s\n", argv[1]);
                return 1;
        }
        printf("1..%d\n", n);
        for (int i = 0; i < n; i++) {
                int r;

                /* First, as an input that is found to be wrong ends the process. */
                fprintf(stderr, "# %s\n", entries[i]->d_name);
                (void) fflush(NULL);
                r = run(argv[1], entries[i]->d_name);
                failed += r < 0;
                printf("%s %d %s%s%s\n", r < 0 ? "not ok" : "ok", i + 1, entries[i]->d_name, r < 0 ? ": " : "", r < 0 ? strerror(-r) : "");
                free(entries[i]);
        }
        free(entries);
        return failed > 0;
}
