/* SPDX-License-Identifier: MIT */
#include "service/hookdir.h"

#include "service/config.h"
#include "service/name.h"
#include "service/secret.h"
#include "service/trust.h"

#include <fcntl.h>

#define HOOK_PATH_DEFAULT "/etc/ublk-ruby/hooks:/usr/local/lib/ublk-ruby/hooks:/usr/lib/ublk-ruby/hooks"
#define HOOK_SUFFIX ".rb"

int hook_directories_init(HookDirectories *d, bool use_environment) {
        const char *list = use_environment ? secure_getenv("UBLK_RUBY_HOOK_PATH") : NULL;
        bool rooted = !list || !*list;
        _cleanup_free_ char *copy = NULL;
        char *state, *word;
        int r;

        *d = (HookDirectories) { .from_environment = !rooted };
        r = xstrdup(rooted ? HOOK_PATH_DEFAULT : list, &copy);
        if (r >= 0)
                r = config_path(&d->base, "%s", "");
        if (r < 0)
                return r;
        for (state = copy; (word = strsep(&state, ":"));) {
                char **grown = reallocarray(d->paths, d->n_paths + 2, sizeof(char *));

                if (!grown) {
                        hook_directories_done(d);
                        return -ENOMEM;
                }
                d->paths = grown;
                r = rooted ? config_path(&d->paths[d->n_paths], "%s", word) : xstrdup(word, &d->paths[d->n_paths]);
                if (r < 0) {
                        hook_directories_done(d);
                        return r;
                }
                d->paths[++d->n_paths] = NULL;
        }
        return 0;
}

void hook_directories_done(HookDirectories *d) {
        for (size_t i = 0; i < d->n_paths; i++)
                free(d->paths[i]);
        free(d->paths);
        free(d->base);
        *d = (HookDirectories) { 0 };
}

int hook_directories_find(const HookDirectories *d, const char *name, char **ret_path) {
        if (!name_is_valid(name))
                return -EINVAL;
        for (size_t i = 0; i < d->n_paths; i++) {
                _cleanup_free_ char *path = NULL;
                int r;

                r = xasprintf(&path, "%s/%s" HOOK_SUFFIX, d->paths[i], name);
                if (r < 0)
                        return r;
                if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
                        *ret_path = TAKE_PTR(path);
                        return 0;
                }
        }
        return -ENOENT;
}

bool hook_is_path(const char *hook) {
        return hook[0] == '/';
}

bool hook_path_is_valid(const char *path) {
        size_t n = strnlen(path, HOOK_PATH_MAX + 1);

        if (n == 0 || n > HOOK_PATH_MAX || path[0] != '/' || path[n - 1] == '/')
                return false;
        for (const char *p = path; *p; p++)
                if ((unsigned char) *p < 0x20 || *p == 0x7f || (p[0] == '/' && p[1] == '/'))
                        return false;
        for (const char *p = path; (p = strstr(p, "/.")); p++) {
                const char *end = p + 2 + (p[2] == '.');

                if (*end == '/' || *end == '\0')
                        return false;
        }
        return true;
}

static int append_directories(const HookDirectories *d, const char *hook, char **ret) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return -ENOMEM;
        fprintf(f, "there is no hook \"%s\": no file %s" HOOK_SUFFIX " in any of ", hook, hook);
        for (size_t i = 0; i < d->n_paths; i++)
                fprintf(f, "%s%s", i > 0 ? ", " : "", d->paths[i]);
        if (fclose(f) != 0)
                return -ENOMEM;
        *ret = TAKE_PTR(text);
        return 0;
}

/* A directory that comes from the environment is its own base. */
static int check_trust(const HookDirectories *d, const char *hook, const char *path, char **ret_message) {
        _cleanup_free_ char *message = NULL, *directory = NULL;
        int r, k;

        r = xstrdup(path, &directory);
        if (r < 0)
                return r;
        *strrchr(directory, '/') = 0;
        r = trust_check(path, d->from_environment ? directory : *d->base ? d->base : NULL, &message);
        if (r >= 0)
                return 0;
        k = xasprintf(ret_message, "the hook \"%s\" is not to be trusted: %s", hook, message ? message : strerror(-r));
        return k < 0 ? k : r == -ENOMEM ? r : -EPERM;
}

/* Whoever runs this may see less than who gave the path. */
static int check_path(const char *path, char **ret_message) {
        int r = 0;

        if (access(path, F_OK) == 0)
                return 0;
        r = path_is_out_of_sight(path) ?
                xasprintf(ret_message, "there is no hook %s in sight of a worker, from which /home, /root, /run/user, /tmp and /var/tmp are "
                                       "kept. Put it elsewhere, into /usr/local/lib/ublk-ruby for instance", path) :
                xasprintf(ret_message, "there is no hook %s: %s", path, strerror(errno));
        return r < 0 ? r : -ENOENT;
}

int hook_directories_resolve(const HookDirectories *d, const char *hook, char **ret_path, char **ret_message) {
        _cleanup_free_ char *path = NULL;
        int r, k;

        *ret_message = NULL;
        if (hook_is_path(hook)) {
                r = hook_path_is_valid(hook) ? check_path(hook, ret_message) : -EINVAL;
                return r < 0 ? r : xstrdup(hook, ret_path);
        }
        r = hook_directories_find(d, hook, &path);
        if (r == -ENOENT) {
                k = append_directories(d, hook, ret_message);
                return k < 0 ? k : r;
        }
        if (r >= 0)
                r = check_trust(d, hook, path, ret_message);
        if (r >= 0)
                *ret_path = TAKE_PTR(path);
        return r;
}

void hook_files_free(HookFile *files, size_t n) {
        for (size_t i = 0; i < n; i++) {
                free(files[i].name);
                free(files[i].path);
        }
        free(files);
}

typedef struct HookList {
        HookFile *files;
        size_t n;
} HookList;

static void hook_list_done(HookList *l) {
        hook_files_free(l->files, l->n);
}

/* Adds one directory entry, unless it is no hook or an earlier directory has one of that name. */
static int hook_list_add(HookList *l, const char *directory, const char *file) {
        size_t length = strlen(file), suffix = strlen(HOOK_SUFFIX);
        _cleanup_free_ char *name = NULL, *path = NULL;
        HookFile *grown;

        if (length <= suffix || !streq(file + length - suffix, HOOK_SUFFIX))
                return 0;
        name = strndup(file, length - suffix);
        if (!name || xasprintf(&path, "%s/%s", directory, file) < 0)
                return -ENOMEM;
        if (!name_is_valid(name))
                return 0;
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->files[i].name, name))
                        return 0;
        grown = reallocarray(l->files, l->n + 1, sizeof(HookFile));
        if (!grown)
                return -ENOMEM;
        l->files = grown;
        l->files[l->n++] = (HookFile) { TAKE_PTR(name), TAKE_PTR(path) };
        return 0;
}

static int compare_hooks(const void *a, const void *b) {
        return strcmp(((const HookFile *) a)->name, ((const HookFile *) b)->name);
}

int hook_directories_list(const HookDirectories *d, HookFile **ret, size_t *ret_n) {
        _cleanup_(hook_list_done) HookList list = { 0 };

        for (size_t i = 0; i < d->n_paths; i++) {
                _cleanup_closedir_ DIR *dir = opendir(d->paths[i]);
                struct dirent *entry;
                int r;

                if (!dir && errno == ENOENT)
                        continue;
                if (!dir)
                        return -errno;
                while ((entry = readdir(dir))) {
                        r = hook_list_add(&list, d->paths[i], entry->d_name);
                        if (r < 0)
                                return r;
                }
        }
        if (list.n > 0)
                qsort(list.files, list.n, sizeof(HookFile), compare_hooks);
        *ret = TAKE_PTR(list.files);
        *ret_n = list.n;
        list.n = 0;
        return 0;
}
