/* SPDX-License-Identifier: MIT */
#include "service/util.h"

#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>

int safe_close(int fd) {
        if (fd >= 0) {
                int saved = errno;
                (void) close(fd);
                errno = saved;
        }
        return -EBADF;
}

static uint64_t clock_usec(clockid_t clock) {
        struct timespec ts;
        (void) clock_gettime(clock, &ts);
        return (uint64_t) ts.tv_sec * USEC_PER_SEC + (uint64_t) ts.tv_nsec / NSEC_PER_USEC;
}

uint64_t now_usec(void) {
        return clock_usec(CLOCK_MONOTONIC);
}

uint64_t now_realtime_usec(void) {
        return clock_usec(CLOCK_REALTIME);
}

int parse_u64(const char *s, uint64_t max, uint64_t *ret) {
        uint64_t v = 0;

        if (!*s)
                return -EINVAL;
        for (; *s; s++) {
                if (*s < '0' || *s > '9')
                        return -EINVAL;
                if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
                    __builtin_add_overflow(v, (uint64_t) (*s - '0'), &v))
                        return -ERANGE;
        }
        if (v > max)
                return -ERANGE;
        *ret = v;
        return 0;
}

int parse_u32(const char *s, uint32_t max, uint32_t *ret) {
        uint64_t v;
        int r;

        r = parse_u64(s, max, &v);
        if (r < 0)
                return r;
        *ret = (uint32_t) v;
        return 0;
}

int parse_boolean(const char *s, bool *ret) {
        static const struct {
                const char *word;
                bool value;
        } words[] = {
                { "yes", true }, { "true", true },   { "1", true },  { "on", true },
                { "no", false }, { "false", false }, { "0", false }, { "off", false },
        };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (streq(s, words[i].word)) {
                        *ret = words[i].value;
                        return 0;
                }
        return -EINVAL;
}

int xasprintf(char **ret, const char *format, ...) {
        va_list ap;
        char *s;
        int n;

        va_start(ap, format);
        n = vasprintf(&s, format, ap);
        va_end(ap);
        if (n < 0)
                return -ENOMEM;
        *ret = s;
        return 0;
}

int xstrdup(const char *s, char **ret) {
        char *copy = strdup(s);

        if (!copy)
                return -ENOMEM;
        *ret = copy;
        return 0;
}

int read_file(const char *path, size_t max, char **ret, size_t *ret_size) {
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *buffer = NULL;
        size_t size = 0;

        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return -errno;
        buffer = malloc(max + 2);
        if (!buffer)
                return -ENOMEM;
        /* One byte more than allowed is asked for: getting it tells a file that is too long from one that just fits. */
        while (size <= max) {
                ssize_t n = read(fd, buffer + size, max + 1 - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t) n;
        }
        if (size > max)
                return -E2BIG;
        if (memchr(buffer, 0, size))
                return -EBADMSG;
        buffer[size] = 0;
        *ret = TAKE_PTR(buffer);
        if (ret_size)
                *ret_size = size;
        return 0;
}

int write_all(int fd, const void *data, size_t size) {
        const char *p = data;

        while (size > 0) {
                ssize_t n = write(fd, p, size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                p += n;
                size -= (size_t) n;
        }
        return 0;
}

static int fsync_parent(const char *path) {
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *copy = NULL;
        int r;

        r = xstrdup(path, &copy);
        if (r < 0)
                return r;
        fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) < 0)
                return -errno;
        return 0;
}

int fd_mount_id(int fd, uint64_t *ret) {
        struct statx sx;

        if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &sx) < 0)
                return -errno;
        *ret = sx.stx_mnt_id;
        return 0;
}

int unlink_durably(const char *path) {
        if (unlink(path) < 0)
                return errno == ENOENT ? 0 : -errno;
        return fsync_parent(path);
}

int write_file_atomic(const char *path, const void *data, size_t size, mode_t mode) {
        return write_file_atomic_for(path, data, size, mode, (gid_t) -1);
}

int write_file_atomic_for(const char *path, const void *data, size_t size, mode_t mode, gid_t group) {
        _cleanup_close_ int fd = -EBADF;
        _cleanup_free_ char *temporary = NULL;
        int r;

        r = xasprintf(&temporary, "%s.new-XXXXXX", path);
        if (r < 0)
                return r;
        fd = mkostemp(temporary, O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = write_all(fd, data, size);
        if (r >= 0 && group != (gid_t) -1 && fchown(fd, (uid_t) -1, group) < 0)
                r = -errno;
        if (r >= 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0 || rename(temporary, path) < 0))
                r = -errno;
        if (r < 0) {
                (void) unlink(temporary);
                return r;
        }
        return fsync_parent(path);
}

int mkdir_parents(const char *path, mode_t mode) {
        _cleanup_free_ char *copy = NULL;
        int r;

        r = xstrdup(path, &copy);
        if (r < 0)
                return r;
        for (char *p = copy + 1; *p; p++)
                if (*p == '/') {
                        *p = 0;
                        if (mkdir(copy, mode) < 0 && errno != EEXIST)
                                return -errno;
                        *p = '/';
                }
        if (mkdir(copy, mode) < 0 && errno != EEXIST)
                return -errno;
        return 0;
}

int poll_until(int fd, short events, uint64_t deadline_usec) {
        for (;;) {
                struct pollfd p = { .fd = fd, .events = events };
                uint64_t now = now_usec(), left = deadline_usec > now ? deadline_usec - now : 0;
                struct timespec ts = {
                        .tv_sec = (time_t) (left / USEC_PER_SEC),
                        .tv_nsec = (long) (left % USEC_PER_SEC * NSEC_PER_USEC),
                };
                int n = ppoll(&p, 1, &ts, NULL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                return n == 0 ? 0 : p.revents;
        }
}
