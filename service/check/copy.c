/* SPDX-License-Identifier: MIT */
#include "service/check/copy.h"

#include <ftw.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TEMPLATE "ublk-check-XXXXXX"

static const json_t *find_option(const json_t *schema, const char *name) {
        const json_t *options = json_object_get(schema, "options"), *option;
        size_t i;

        json_array_foreach(options, i, option)
                if (streq_ptr(json_string_value(json_object_get(option, "name")), name))
                        return option;
        return NULL;
}

bool check_argument_is_path(const CheckCopies *c, const Argument *a) {
        const json_t *option = find_option(c->schema, a->name);

        return a->value[0] == '/' && streq_ptr(json_string_value(json_object_get(option, "type")), "path");
}

static const char *base_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : "directory";
}

static int make_directory(CheckCopies *c) {
        const char *parent = secure_getenv("TMPDIR");
        _cleanup_free_ char *path = NULL;
        int r;

        if (c->directory)
                return 0;
        r = xasprintf(&path, "%s/" TEMPLATE, parent && parent[0] == '/' ? parent : "/var/tmp");
        if (r < 0)
                return r;
        if (!mkdtemp(path))
                return -errno;
        c->directory = TAKE_PTR(path);
        return 0;
}

/* cp knows all that there is to know of holes and shared blocks. */
static int run_cp(const char *from, const char *to) {
        char *argv[] = { (char *) "cp", (char *) "-R", (char *) "-H", (char *) "--preserve=mode",
                (char *) "--sparse=always",
                         (char *) "--reflink=auto", (char *) "--", (char *) from, (char *) to, NULL };
        int status = 0, r;
        pid_t pid;

        r = posix_spawnp(&pid, "cp", NULL, NULL, argv, environ);
        if (r != 0)
                return -r;
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

/* What to do with a path: leave it as it is, copy it, or hand out a name beside the copies for what is not there. */
enum { PATH_KEPT, PATH_COPIED, PATH_MISSING };

static int judge_path(const Argument *a, char **ret_message) {
        struct stat st;

        if (stat(a->value, &st) < 0)
                return errno == ENOENT ? PATH_MISSING : PATH_KEPT;
        if (S_ISCHR(st.st_mode))
                return PATH_KEPT;
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
                (void) xasprintf(ret_message,
                                 "%s=%s is neither a file nor a directory, so a copy can't be made of it. Name a file, or check the "
                                 "thing itself with --in-place, which overwrites it.", a->name, a->value);
                return -EINVAL;
        }
        if (S_ISREG(st.st_mode) && (uint64_t) st.st_blocks * 512 > CHECK_COPY_MAX) {
                (void) xasprintf(ret_message,
                                 "%s=%s has more than %llu GiB of data, too much to copy. Name a smaller file: one of truncate -s 64M will do.",
                                 a->name, a->value, (unsigned long long) (CHECK_COPY_MAX >> 30));
                return -EFBIG;
        }
        return PATH_COPIED;
}

static int copy_argument(CheckCopies *c, const Argument *a, char **ret_value, char **ret_message) {
        _cleanup_free_ char *directory = NULL, *to = NULL;
        int kind, r;

        kind = judge_path(a, ret_message);
        if (kind < 0)
                return kind;
        if (kind == PATH_KEPT)
                return xstrdup(a->value, ret_value);

        r = make_directory(c);
        if (r >= 0)
                r = xasprintf(&directory, "%s/%u-%s", c->directory, c->n_sets, a->name);
        if (r >= 0)
                r = xasprintf(&to, "%s/%s", directory, base_name(a->value));
        if (r >= 0 && mkdir(directory, 0700) < 0)
                r = -errno;
        if (r >= 0 && kind == PATH_COPIED)
                r = run_cp(a->value, to);
        if (r < 0) {
                (void) xasprintf(ret_message, "%s=%s can't be copied to %s: %s", a->name, a->value, c->directory ?
                                 c->directory : "a temporary directory",
                                 strerror(-r));
                return r;
        }
        c->n_copied += kind == PATH_COPIED;
        if (kind == PATH_MISSING)
                c->missing = a;
        *ret_value = TAKE_PTR(to);
        return 0;
}

static int make_state(CheckCopies *c, char **ret_message) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = make_directory(c);
        if (r >= 0)
                r = xasprintf(&path, "%s/%u.state", c->directory, c->n_sets);
        if (r >= 0 && mkdir(path, 0700) < 0)
                r = -errno;
        if (r < 0) {
                (void) xasprintf(ret_message, "A temporary directory can't be made: %s. TMPDIR=... says where it can.", strerror(-r));
                return r;
        }
        free(c->state);
        c->state = TAKE_PTR(path);
        return 0;
}

int check_copies_make(CheckCopies *c, Argument **ret, char **ret_message) {
        const CheckOptions *o = c->options;
        Argument *list = calloc(o->n_arguments + 1, sizeof(Argument));
        int r;

        c->n_sets++;
        c->n_paths = c->n_copied = 0;
        c->missing = NULL;
        r = list ? make_state(c, ret_message) : -ENOMEM;
        for (size_t i = 0; i < o->n_arguments && r >= 0; i++) {
                const Argument *a = &o->arguments[i];

                list[i] = (Argument) { a->name, a->type, NULL };
                c->n_paths += check_argument_is_path(c, a);
                if (!o->in_place && check_argument_is_path(c, a))
                        r = copy_argument(c, a, &list[i].value, ret_message);
                else
                        r = xstrdup(a->value, &list[i].value);
        }
        if (r < 0) {
                if (list)
                        check_arguments_free(o, list);
                return r;
        }
        *ret = list;
        return 0;
}

void check_arguments_free(const CheckOptions *o, Argument *arguments) {
        for (size_t i = 0; arguments && i < o->n_arguments; i++)
                free(arguments[i].value);
        free(arguments);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) st, (void) type, (void) ftw;
        (void) remove(path);
        return 0;
}

void check_copies_remove(CheckCopies *c) {
        if (c->directory)
                (void) nftw(c->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(TAKE_PTR(c->directory));
        free(TAKE_PTR(c->state));
}

void check_copies_done(CheckCopies *c) {
        check_copies_remove(c);
}

/* The copy's path is DIRECTORY/N-ARGUMENT/BASE: everything up to BASE becomes the original's directory. */
char *check_copies_translate(const CheckCopies *c, const char *text) {
        char *out = NULL;
        size_t size = 0, n = c->directory ? strlen(c->directory) : 0;
        FILE *f = open_memstream(&out, &size);

        if (!f)
                return NULL;
        while (*text) {
                const Argument *found = NULL;
                size_t skip = 0;

                for (size_t i = 0; n > 0 && strncmp(text, c->directory, n) == 0 && i < c->options->n_arguments &&
                     !found; i++) {
                        const Argument *a = &c->options->arguments[i];
                        const char *p = text + n + strspn(text + n, "/0123456789");

                        skip = (size_t) (p - text) + 1 + strlen(a->name) + 1;
                        if (*p == '-' && strncmp(p + 1, a->name, strlen(a->name)) == 0 && p[1 + strlen(a->name)] == '/')
                                found = a;
                }
                if (found) {
                        const char *slash = strrchr(found->value, '/');

                        (void) fprintf(f, "%.*s", (int) (slash - found->value + 1), found->value);
                        text += skip;
                } else
                        (void) fputc(*text++, f);
        }
        (void) fclose(f);
        return out;
}
