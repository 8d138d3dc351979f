/* SPDX-License-Identifier: MIT */
#include "service/code.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The memfd: the magic, then for each file three lengths in this machine's byte order and what they are the lengths of. */
#define MAGIC "ublk-ruby code 1"
#define MAGIC_SIZE (sizeof(MAGIC) - 1)
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

typedef struct Lengths {
        uint32_t path;
        uint32_t real_path;
        uint32_t source;
} Lengths;

static void file_done(CodeFile *f) {
        free(f->path);
        free(f->real_path);
        free(f->source);
}

void code_done(Code *c) {
        for (size_t i = 0; i < c->n_files; i++)
                file_done(&c->files[i]);
        free(c->files);
        *c = CODE_NULL;
}

static size_t file_size(const char *path, const char *real_path, size_t size) {
        return sizeof(Lengths) + strlen(path) + strlen(real_path) + size;
}

static CodeFile *find(const Code *c, const char *path) {
        for (size_t i = 0; i < c->n_files; i++)
                if (streq(c->files[i].path, path))
                        return &c->files[i];
        return NULL;
}

static bool path_is_valid(const char *path) {
        return *path && strlen(path) < PATH_MAX;
}

static int grow(Code *c) {
        size_t n = c->n_allocated > 0 ? c->n_allocated * 2 : 8;
        CodeFile *grown;

        if (c->n_files < c->n_allocated)
                return 0;
        grown = realloc(c->files, n * sizeof(CodeFile));
        if (!grown)
                return -ENOMEM;
        c->files = grown;
        c->n_allocated = n;
        return 0;
}

static int file_new(const char *path, const char *real_path, const void *source, size_t size, CodeFile *ret) {
        CodeFile f = { .path = strdup(path), .real_path = strdup(real_path), .source = malloc(size + 1), .size = size };

        if (!f.path || !f.real_path || !f.source) {
                file_done(&f);
                return -ENOMEM;
        }
        memcpy(f.source, source, size);
        f.source[size] = 0;
        *ret = f;
        return 0;
}

int code_add(Code *c, const char *path, const char *real_path, const void *source, size_t size) {
        CodeFile *old = find(c, path), f;
        size_t total;
        int r;

        if (!path_is_valid(path) || !path_is_valid(real_path))
                return -EINVAL;
        total = (c->n_files > 0 ? c->size : MAGIC_SIZE) - (old ? file_size(old->path, old->real_path, old->size) : 0);
        if (size > CODE_MAX_SIZE || total + file_size(path, real_path, size) > CODE_MAX_SIZE ||
            (!old && c->n_files >= CODE_MAX_FILES))
                return -E2BIG;
        if (!old) {
                r = grow(c);
                if (r < 0)
                        return r;
        }
        r = file_new(path, real_path, source, size, &f);
        if (r < 0)
                return r;
        if (old) {
                file_done(old);
                *old = f;
        } else
                c->files[c->n_files++] = f;
        c->size = total + file_size(path, real_path, size);
        return 0;
}

static int write_file(int fd, const CodeFile *f) {
        Lengths lengths = { (uint32_t) strlen(f->path), (uint32_t) strlen(f->real_path), (uint32_t) f->size };
        int r;

        r = write_all(fd, &lengths, sizeof(lengths));
        if (r >= 0)
                r = write_all(fd, f->path, lengths.path);
        if (r >= 0)
                r = write_all(fd, f->real_path, lengths.real_path);
        return r < 0 ? r : write_all(fd, f->source, f->size);
}

int code_to_fd(const Code *c, int *ret) {
        _cleanup_close_ int fd = -EBADF;
        int r;

        if (c->n_files == 0)
                return -ENODATA;
        fd = memfd_create("ublk-ruby-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;
        r = write_all(fd, MAGIC, MAGIC_SIZE);
        for (size_t i = 0; r >= 0 && i < c->n_files; i++)
                r = write_file(fd, &c->files[i]);
        if (r < 0)
                return r;
        if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
                return -errno;
        *ret = TAKE_FD(fd);
        return 0;
}

/* What is left to be read. */
typedef struct Reader {
        const char *p;
        size_t size;
} Reader;

/* A string of its own, or a source. NULL past the end, without memory, and for a path with a NUL in it. */
static char *take(Reader *r, size_t size, bool is_path) {
        char *copy = NULL;

        if (size <= r->size && !(is_path && memchr(r->p, 0, size)))
                copy = malloc(size + 1);
        if (!copy)
                return NULL;
        memcpy(copy, r->p, size);
        copy[size] = 0;
        r->p += size;
        r->size -= size;
        return copy;
}

static int read_one(Reader *r, Code *c) {
        _cleanup_free_ char *path = NULL, *real_path = NULL, *source = NULL;
        Lengths lengths;

        if (r->size < sizeof(lengths))
                return -EBADMSG;
        memcpy(&lengths, r->p, sizeof(lengths));
        r->p += sizeof(lengths);
        r->size -= sizeof(lengths);
        path = take(r, lengths.path, true);
        real_path = path ? take(r, lengths.real_path, true) : NULL;
        source = real_path ? take(r, lengths.source, false) : NULL;
        if (!source || find(c, path))
                return -EBADMSG;
        return code_add(c, path, real_path, source, lengths.source);
}

static int read_all(Reader r, Code *c) {
        int k = 0;

        if (r.size <= MAGIC_SIZE || memcmp(r.p, MAGIC, MAGIC_SIZE) != 0)
                return -EBADMSG;
        r.p += MAGIC_SIZE;
        r.size -= MAGIC_SIZE;
        while (k >= 0 && r.size > 0)
                k = read_one(&r, c);
        return k == -ENOMEM || k >= 0 ? k : -EBADMSG;
}

int code_from_fd(int fd, Code *ret) {
        Code c = CODE_NULL;
        struct stat st;
        void *p;
        int r;

        if (fstat(fd, &st) < 0)
                return -errno;
        /* Only what nobody can change is safe to be mapped and believed. */
        if (!S_ISREG(st.st_mode) || (fcntl(fd, F_GET_SEALS) & SEALS) != SEALS || st.st_size <= 0 || st.st_size > CODE_MAX_SIZE)
                return -EBADMSG;
        p = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
                return -errno;
        r = read_all((Reader) { p, (size_t) st.st_size }, &c);
        (void) munmap(p, (size_t) st.st_size);
        if (r < 0) {
                code_done(&c);
                return r;
        }
        *ret = c;
        return 0;
}

static bool is_unchanged(const CodeFile *f) {
        _cleanup_close_ int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        _cleanup_free_ char *text = malloc(f->size + 1);
        struct stat st;
        ssize_t n;

        if (fd < 0 || !text || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t) st.st_size != f->size)
                return false;
        n = read(fd, text, f->size + 1);
        return n >= 0 && (size_t) n == f->size && memcmp(text, f->source, f->size) == 0;
}

const char *code_find_changed(const Code *c) {
        for (size_t i = 0; i < c->n_files; i++)
                if (!is_unchanged(&c->files[i]))
                        return c->files[i].path;
        return NULL;
}
