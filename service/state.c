/* SPDX-License-Identifier: MIT */
#include "service/state.h"

#include "service/config.h"
#include "service/name.h"
#include "service/paths.h"

#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <sys/stat.h>

#define DELETED_PREFIX ".deleted-"
#define OWNER_MAX_FILE 64

/* PATH_STATE, NAME in it, and the file beside it. */
typedef struct State {
        char *directory;
        const char *name;
        char *owner_name;
        char *owner_path;
        int fd; /* of directory */
} State;

static void state_done(State *s) {
        free(s->directory);
        free(s->owner_name);
        free(s->owner_path);
        safe_close(s->fd);
}

int state_path(const char *name, char **ret) {
        return config_path(ret, PATH_STATE "/%s", name);
}

/* The last part of path is looked at, whatever it is; the ones before it are trusted as much as PATH_STATE is. */
static int state_open(const char *path, State *ret) {
        const char *slash = strrchr(path, '/');
        int r;

        *ret = (State) { .fd = -EBADF };
        if (!slash || !name_is_valid(slash + 1))
                return -EINVAL;
        ret->name = slash + 1;
        ret->directory = strndup(path, (size_t) (slash - path));
        if (!ret->directory)
                return -ENOMEM;
        r = xasprintf(&ret->owner_name, ".%s.owner", ret->name);
        if (r >= 0)
                r = xasprintf(&ret->owner_path, "%s/%s", ret->directory, ret->owner_name);
        if (r < 0)
                return r;
        ret->fd = open(ret->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return ret->fd < 0 ? -errno : 0;
}

bool state_exists(const char *name) {
        _cleanup_free_ char *path = NULL;
        _cleanup_(state_done) State s = { .fd = -EBADF };
        struct stat st;
        int r;

        r = state_path(name, &path);
        if (r >= 0)
                r = state_open(path, &s);
        if (r < 0)
                return r != -ENOENT;
        return fstatat(s.fd, s.name, &st, AT_SYMLINK_NOFOLLOW) >= 0 || errno != ENOENT ||
               fstatat(s.fd, s.owner_name, &st, AT_SYMLINK_NOFOLLOW) >= 0 || errno != ENOENT;
}

/* -ENOENT: nobody's. What can't be read says nothing that could be believed: it is as another device's. */
static int read_owner(const State *s, uint64_t *ret_owner, bool *ret_made) {
        _cleanup_close_ int fd = openat(s->fd, s->owner_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        char text[OWNER_MAX_FILE + 1], *word;
        ssize_t n;

        if (fd < 0 && errno == ENOENT)
                return -ENOENT;
        n = fd < 0 ? -1 : read(fd, text, OWNER_MAX_FILE);
        text[n < 0 ? 0 : n] = 0;
        word = strchr(text, ' ');
        if (word)
                *word++ = 0;
        if (!word || parse_u64(text, UINT64_MAX, ret_owner) < 0)
                *ret_owner = UINT64_MAX;
        *ret_made = word && streq(word, "made\n");
        return 0;
}

static int write_owner(const State *s, uint64_t owner, bool made) {
        _cleanup_free_ char *text = NULL;
        int r;

        r = xasprintf(&text, "%" PRIu64 " %s\n", owner, made ? "made" : "found");
        return r < 0 ? r : write_file_atomic(s->owner_path, text, strlen(text), 0600);
}

/* Out of everybody's way, in one step. */
static int set_aside(const State *s) {
        char name[NAME_MAX_LENGTH + 64];

        (void) snprintf(name, sizeof(name), DELETED_PREFIX "%s-%" PRIu64, s->name, now_realtime_usec());
        return renameat(s->fd, s->name, s->fd, name) < 0 && errno != ENOENT ? -errno : 0;
}

int state_claim(const char *path, uint64_t owner) {
        _cleanup_(state_done) State s = { .fd = -EBADF };
        bool owned, there, made = true;
        uint64_t present = 0;
        struct stat st;
        int r;

        r = state_open(path, &s);
        if (r < 0)
                return r;
        owned = read_owner(&s, &present, &made) >= 0;
        there = fstatat(s.fd, s.name, &st, AT_SYMLINK_NOFOLLOW) >= 0;
        if (there && owned && present != owner) {
                r = set_aside(&s);
                if (r < 0)
                        return r;
                there = false;
        }
        /* Before the directory: one that is there and nobody's counts as kept. */
        if (!owned || present != owner) {
                r = write_owner(&s, owner, /* made= */ !there);
                if (r < 0)
                        return r;
        }
        if (!there && mkdirat(s.fd, s.name, 0700) < 0 && errno != EEXIST)
                return -errno;
        /* Whoever keeps it may have put a link in its place, to where there is more room. */
        if (fstatat(s.fd, s.name, &st, 0) < 0)
                return -errno;
        return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

typedef struct Emptying {
        int fd;             /* the directory that is emptied */
        uint64_t mount;     /* it is there */
        uint64_t deadline_usec;
        uint64_t n_raised;  /* so many of what lay deeper lie in it now */
        bool progress;
        int error;          /* the first one */
} Emptying;

static bool time_is_up(Emptying *e) {
        if (now_usec() < e->deadline_usec)
                return false;
        e->error = -ETIMEDOUT;
        return true;
}

static void note_error(Emptying *e, int r) {
        if (e->error == 0)
                e->error = r;
}

/* Its owner may have locked himself out of a directory. Follows a link that is put there meanwhile, and so is nothing for root,
 * who needs none of it. */
static void unlock(int fd, const char *name) {
        if (geteuid() != 0)
                (void) fchmodat(fd, name, 0700, 0);
}

/* To take it apart. Through no link, and into nothing that is mounted there. Not with openat2(2), which would do all of it:
 * RestrictSUIDSGID= of the unit forbids that one, as its filter can't look into it. */
static int open_below(const Emptying *e, int fd, const char *name) {
        _cleanup_close_ int below = -EBADF;
        uint64_t mount = 0;
        int r;

        unlock(fd, name);
        below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0)
                return -errno;
        r = fd_mount_id(below, &mount);
        if (r < 0)
                return r;
        return mount == e->mount ? TAKE_FD(below) : -EXDEV;
}

/* 0: gone; 1: a directory that is not empty. */
static int unlink_entry(int fd, const char *name) {
        if (unlinkat(fd, name, AT_REMOVEDIR) >= 0 || errno == ENOENT)
                return 0;
        if (errno == ENOTEMPTY || errno == EEXIST)
                return 1;
        if (errno != ENOTDIR)
                return -errno;
        return unlinkat(fd, name, 0) >= 0 || errno == ENOENT ? 0 : -errno;
}

/* A directory moves up into the one that is emptied: so there are never more than two levels to deal with, however deep it is. */
static int raise_entry(Emptying *e, int from, const char *name) {
        char unique[32];
        int r;

        unlock(from, name); /* whose ".." changes */
        do {
                (void) snprintf(unique, sizeof(unique), ".%" PRIu64, e->n_raised++);
                r = renameat2(from, name, e->fd, unique, RENAME_NOREPLACE) < 0 ? -errno : 0;
        } while (r == -EEXIST && !time_is_up(e));
        return r;
}

typedef int (*EntryHandler)(Emptying *e, int fd, const char *name);

static bool is_dots(const char *name) {
        return streq(name, ".") || streq(name, "..");
}

/* handle: 0 if the entry is not there any more. Takes fd. */
static int for_each_entry(Emptying *e, int fd, EntryHandler handle) {
        _cleanup_closedir_ DIR *d = fdopendir(fd);
        struct dirent *entry;
        int r;

        if (!d) {
                r = -errno;
                safe_close(fd);
                return r;
        }
        while (!time_is_up(e) && (entry = readdir(d))) {
                if (is_dots(entry->d_name))
                        continue;
                r = handle(e, dirfd(d), entry->d_name);
                if (r < 0)
                        note_error(e, r);
                else
                        e->progress = true;
        }
        return 0;
}

/* Of a directory below. */
static int clear_out(Emptying *e, int fd, const char *name) {
        int r;

        r = unlink_entry(fd, name);
        return r > 0 ? raise_entry(e, fd, name) : r;
}

/* Of the directory that is emptied. */
static int take_apart(Emptying *e, int fd, const char *name) {
        int r, below;

        r = unlink_entry(fd, name);
        if (r <= 0)
                return r;
        below = open_below(e, fd, name);
        if (below < 0)
                return below;
        r = for_each_entry(e, below, clear_out);
        if (r < 0)
                return r;
        r = unlink_entry(fd, name);
        return r > 0 ? -ENOTEMPTY : r;
}

/* Again as long as it changes anything: somebody may still be at work there, and what was raised may have been missed. Its
 * own errors count only in a round that changed nothing. */
static int empty(int fd, uint64_t mount, uint64_t deadline_usec) {
        Emptying e = { .fd = fd, .mount = mount, .deadline_usec = deadline_usec };
        int r;

        do {
                int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                if (again < 0)
                        return -errno;
                e.progress = false;
                e.error = 0;
                r = for_each_entry(&e, again, take_apart);
                if (r < 0)
                        return r;
        } while (e.progress && e.error != -ETIMEDOUT);
        return e.error;
}

static int destroy(Emptying *e, int fd, const char *name) {
        int r, below;

        if (strncmp(name, DELETED_PREFIX, strlen(DELETED_PREFIX)) != 0)
                return 0;
        r = unlink_entry(fd, name);
        if (r <= 0)
                return r;
        below = open_below(e, fd, name);
        if (below < 0)
                return below;
        r = empty(below, e->mount, e->deadline_usec);
        safe_close(below);
        if (r < 0)
                return r;
        r = unlink_entry(fd, name);
        return r > 0 ? -ENOTEMPTY : r;
}

static int sweep(const State *s, uint64_t deadline_usec) {
        Emptying e = { .fd = s->fd, .deadline_usec = deadline_usec };
        int fd, r;

        r = fd_mount_id(s->fd, &e.mount);
        if (r < 0)
                return r;
        fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = for_each_entry(&e, fd, destroy);
        return r < 0 ? r : e.error;
}

/* What the worker's user put there can then lead nowhere where that user could not have gone itself. */
static int become_owner(int fd) {
        struct stat st;

        if (geteuid() != 0)
                return 0;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_uid == 0)
                return 0;
        if (setgroups(0, NULL) < 0 || setresgid(st.st_gid, st.st_gid, st.st_gid) < 0 ||
            setresuid(st.st_uid, st.st_uid, st.st_uid) < 0)
                return -errno;
        return 0;
}

/* Whether the directory goes. The file of its owner goes in any case, unless it is none of ours. */
static int settle(const State *s, const StateRemoval *removal, bool *ret_goes) {
        uint64_t owner = 0;
        bool made = false, ours;

        *ret_goes = false;
        if (read_owner(s, &owner, &made) < 0)
                return 0; /* it was there before, and this device never asked for it */
        ours = owner == removal->owner;
        switch (removal->end) {
        case STATE_DELETED:
                *ret_goes = true;
                break;
        case STATE_KEPT:
                *ret_goes = !ours; /* left behind by another one */
                break;
        case STATE_UNDONE:
                if (!ours)
                        return 0;
                *ret_goes = made;
                break;
        }
        return 1;
}

int state_remove(const void *argument) {
        const StateRemoval *removal = argument;
        _cleanup_(state_done) State s = { .fd = -EBADF };
        bool goes;
        int r;

        r = state_open(removal->path, &s);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        r = become_owner(s.fd);
        if (r < 0)
                return r;
        r = settle(&s, removal, &goes);
        if (r > 0 && goes) {
                r = set_aside(&s);
                if (r < 0)
                        return r;
                r = 1;
        }
        if (r > 0 && unlinkat(s.fd, s.owner_name, 0) < 0 && errno != ENOENT)
                return -errno;
        return sweep(&s, removal->deadline_usec);
}
