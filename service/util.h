/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The dozen helpers that every file here uses: ownership by scope, small parsers with limits, and whole
 * files read or written in one go. No knowledge of ublk, D-Bus or Ruby.
 */

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define ELEMENTSOF(x) (sizeof(x) / sizeof((x)[0]))
#define USEC_PER_SEC UINT64_C(1000000)
#define USEC_PER_MSEC UINT64_C(1000)
#define NSEC_PER_USEC UINT64_C(1000)

/* Moves ownership out of a variable, so that its cleanup finds nothing. */
#define TAKE_PTR(p) ({ __typeof__(p) _taken = (p); (p) = NULL; _taken; })
#define TAKE_FD(fd) ({ int _taken = (fd); (fd) = -EBADF; _taken; })

static inline void freep(void *p) {
        free(*(void **) p);
}

/* Closes fd when it is one, keeps errno, returns -EBADF for the caller's variable. */
int safe_close(int fd);
static inline void closep(int *fd) {
        safe_close(*fd);
}
static inline void fclosep(FILE **f) {
        if (*f)
                fclose(*f);
}
static inline void closedirp(DIR **d) {
        if (*d)
                closedir(*d);
}

#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)
#define _cleanup_fclose_ _cleanup_(fclosep)
#define _cleanup_closedir_ _cleanup_(closedirp)

static inline bool streq(const char *a, const char *b) {
        return strcmp(a, b) == 0;
}
static inline bool streq_ptr(const char *a, const char *b) {
        return a && b ? strcmp(a, b) == 0 : a == b;
}
static inline bool is_power_of_2(uint64_t x) {
        return x != 0 && (x & (x - 1)) == 0;
}

/* CLOCK_MONOTONIC / CLOCK_REALTIME in microseconds. */
uint64_t now_usec(void);
uint64_t now_realtime_usec(void);

/* Decimal numbers only, no sign, no white space, no trailing bytes. -EINVAL, or -ERANGE above the limit. */
int parse_u64(const char *s, uint64_t max, uint64_t *ret);
int parse_u32(const char *s, uint32_t max, uint32_t *ret);
/* "yes"/"no", "true"/"false", "1"/"0", "on"/"off". */
int parse_boolean(const char *s, bool *ret);

/* printf into a fresh string; -ENOMEM. */
int xasprintf(char **ret, const char *format, ...) _printf_(2, 3);
int xstrdup(const char *s, char **ret);

/* A whole file as one NUL-terminated string; -E2BIG above max bytes. Embedded NUL bytes are -EBADMSG. */
int read_file(const char *path, size_t max, char **ret, size_t *ret_size);

/* Writes beside path, fsyncs, renames over it, fsyncs the directory: a reader sees the old file or the new
 * one, a crash too. */
int write_file_atomic(const char *path, const void *data, size_t size, mode_t mode);
/* The same for the members of a group, before anybody can see it; (gid_t) -1 is that of the process. */
int write_file_atomic_for(const char *path, const void *data, size_t size, mode_t mode, gid_t group);

/* Which mount it was opened through (Linux 5.8). */
int fd_mount_id(int fd, uint64_t *ret);
/* Removes it for good: a crash does not bring it back. No error if it is not there. */
int unlink_durably(const char *path);

/* mkdir -p; existing directories are left as they are. */
int mkdir_parents(const char *path, mode_t mode);

/* Writes all of it, retrying EINTR and short writes. */
int write_all(int fd, const void *data, size_t size);

/* Like poll(2) with one fd, an absolute now_usec() deadline, and EINTR retried; 0 on the deadline, else
 * revents. Linux 7.3 gives EINTR without a signal after io_uring commands, so every wait here retries it. */
int poll_until(int fd, short events, uint64_t deadline_usec);
