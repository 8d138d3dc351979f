/* SPDX-License-Identifier: MIT */
#include "service/trust.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>

#define LINKS_MAX 40 /* as the kernel has it */

typedef struct Walk {
        const char *path;    /* as it was given */
        char *base;          /* real; NULL: none */
        char **ret_message;
        int fd;              /* of the directory that has been reached */
        char done[PATH_MAX]; /* its name, "" for the root */
        char rest[PATH_MAX];
        unsigned n_links;
} Walk;

/* "X", or where that is not what was given, "X, to which Y leads,". */
static int _printf_(3, 4) say(const Walk *w, const char *what, const char *format, ...) {
        _cleanup_free_ char *text = NULL;
        bool given = streq(what, w->path) || strncmp(what, w->path, strlen(what)) == 0;
        va_list ap;

        va_start(ap, format);
        if (vasprintf(&text, format, ap) < 0)
                text = NULL;
        va_end(ap);
        return xasprintf(w->ret_message, "%s%s%s%s %s", what, given ? "" : ", to which ", given ? "" : w->path,
                         given ? "" : " leads,", text ? text : "is wrong");
}

static int refuse(int r) {
        return r < 0 ? r : -EPERM;
}

/* A directory that contains base, or base itself. */
static bool contains_base(const Walk *w, const char *directory) {
        size_t n = strlen(directory);

        return w->base && strncmp(w->base, directory, n) == 0 && (w->base[n] == '/' || w->base[n] == '\0' || n == 0);
}

static bool is_below_base(const Walk *w, const char *what) {
        size_t n = w->base ? strlen(w->base) : 0;

        return w->base && strncmp(what, w->base, n) == 0 && what[n] == '/';
}

static int check_one(const Walk *w, const char *what, const struct stat *st) {
        const char *shown = *what ? what : "/";

        if (contains_base(w, what))
                return 0;
        if (st->st_uid != 0 && !(is_below_base(w, what) && st->st_uid == geteuid()))
                return refuse(say(w, shown, "belongs to user id %u, who could change it: chown %sroot %s", st->st_uid,
                                  S_ISLNK(st->st_mode) ? "-h " : "", shown));
        /* Everybody may do everything with a link, which means nothing. */
        if (S_ISLNK(st->st_mode) || (st->st_mode & 022) == 0)
                return 0;
        if (S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0) /* /tmp, which has to be as it is */
                return refuse(say(w, shown, "can be written to by others than root (mode %04o): have the file elsewhere", st->st_mode & 07777));
        return refuse(say(w, shown, "can be written to by others than root (mode %04o): chmod go-w %s", st->st_mode & 07777, shown));
}

static int append(char *path, const char *name) {
        size_t n = strlen(path);

        return snprintf(path + n, PATH_MAX - n, "/%s", name) >= (int) (PATH_MAX - n) ? -ENAMETOOLONG : 0;
}

static int go_to_root(Walk *w) {
        struct stat st;

        safe_close(w->fd);
        w->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (w->fd < 0 || fstat(w->fd, &st) < 0)
                return -errno;
        w->done[0] = 0;
        return check_one(w, w->done, &st);
}

static int go_up(Walk *w) {
        char *slash = strrchr(w->done, '/');
        int fd;

        fd = openat(w->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        safe_close(w->fd);
        w->fd = fd;
        if (slash)
                *slash = 0;
        return 0;
}

static int follow(Walk *w, int fd) {
        char target[PATH_MAX], rest[PATH_MAX];
        ssize_t n;

        if (++w->n_links > LINKS_MAX)
                return -ELOOP;
        n = readlinkat(fd, "", target, sizeof(target) - 1);
        if (n < 0)
                return -errno;
        target[n] = 0;
        if (snprintf(rest, sizeof(rest), "%s/%s", target, w->rest) >= (int) sizeof(rest))
                return -ENAMETOOLONG;
        memcpy(w->rest, rest, sizeof(rest));
        return target[0] == '/' ? go_to_root(w) : 0;
}

/* 1: that was the end. */
static int enter(Walk *w, const char *name, const char *what) {
        _cleanup_close_ int fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        bool is_last = w->rest[strspn(w->rest, "/")] == 0;
        struct stat st;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        r = check_one(w, what, &st);
        if (r < 0)
                return r;
        if (S_ISLNK(st.st_mode))
                return follow(w, fd);
        if (S_ISDIR(st.st_mode) && !is_last) {
                safe_close(w->fd);
                w->fd = TAKE_FD(fd);
                return append(w->done, name);
        }
        if (!S_ISREG(st.st_mode))
                return refuse(say(w, what, "is not a file"));
        return is_last ? 1 : -ENOTDIR;
}

static int step(Walk *w) {
        char name[NAME_MAX + 1], what[PATH_MAX];
        size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");
        int r;

        if (n == 0)
                return -EISDIR;
        if (n > NAME_MAX)
                return -ENAMETOOLONG;
        memcpy(name, w->rest + skip, n);
        name[n] = 0;
        memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
        if (streq(name, "."))
                return 0;
        if (streq(name, ".."))
                return go_up(w);
        memcpy(what, w->done, sizeof(what));
        r = append(what, name);
        if (r >= 0)
                r = enter(w, name, what);
        if (r < 0 && !*w->ret_message)
                (void) say(w, what, "can't be looked at: %s", strerror(-r));
        return r;
}

int trust_check(const char *path, const char *base, char **ret_message) {
        _cleanup_free_ char *real_base = base ? realpath(base, NULL) : NULL;
        Walk w = { .path = path, .base = real_base, .ret_message = ret_message, .fd = -EBADF };
        int r = 0;

        *ret_message = NULL;
        if (path[0] != '/' || snprintf(w.rest, sizeof(w.rest), "%s", path) >= (int) sizeof(w.rest))
                r = -EINVAL;
        if (r >= 0)
                r = go_to_root(&w);
        while (r == 0)
                r = step(&w);
        safe_close(w.fd);
        if (r < 0 && !*ret_message)
                (void) say(&w, path, "can't be looked at: %s", strerror(-r));
        return r < 0 ? r : 0;
}
