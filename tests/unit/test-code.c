/* SPDX-License-Identifier: MIT */
#include "service/code.h"

#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void add(Code *c, const char *path, const char *source) {
        g_assert_cmpint(code_add(c, path, path, source, strlen(source)), ==, 0);
}

static off_t size_of(int fd) {
        struct stat st;

        g_assert_cmpint(fstat(fd, &st), ==, 0);
        return st.st_size;
}

static void test_round(void) {
        static const char bytes[] = "\0\xff\n\0";
        _cleanup_close_ int fd = -EBADF;
        Code c = CODE_NULL, d;

        add(&c, "/hooks/disk.rb", "class Disk\nend\n");
        g_assert_cmpint(code_add(&c, "/hooks/caf\xc3\xa9.rb", "/srv/x.rb", bytes, sizeof(bytes)), ==, 0);
        add(&c, "/hooks/empty.rb", "");
        g_assert_cmpint(code_to_fd(&c, &fd), ==, 0);
        g_assert_cmpint(size_of(fd), ==, (off_t) c.size);
        g_assert_cmpint(code_from_fd(fd, &d), ==, 0);
        g_assert_cmpuint(d.n_files, ==, 3);
        g_assert_cmpuint(d.size, ==, c.size);
        g_assert_cmpstr(d.files[0].path, ==, "/hooks/disk.rb");
        g_assert_cmpstr(d.files[0].source, ==, "class Disk\nend\n");
        g_assert_cmpstr(d.files[1].real_path, ==, "/srv/x.rb");
        g_assert_cmpmem(d.files[1].source, d.files[1].size, bytes, sizeof(bytes));
        g_assert_cmpuint(d.files[2].size, ==, 0);
        g_assert_cmpstr(d.files[2].source, ==, "");
        /* Twice: whoever read it has not moved on in it. */
        code_done(&d);
        g_assert_cmpint(code_from_fd(fd, &d), ==, 0);
        code_done(&d);
        code_done(&c);
}

static void test_sealed(void) {
        _cleanup_close_ int fd = -EBADF;
        Code c = CODE_NULL;

        add(&c, "/disk.rb", "1");
        g_assert_cmpint(code_to_fd(&c, &fd), ==, 0);
        g_assert_cmpint(write(fd, "x", 1), <, 0);
        g_assert_cmpint(errno, ==, EPERM);
        g_assert_cmpint(ftruncate(fd, 3), <, 0);
        g_assert_cmpint(fcntl(fd, F_GETFD) & FD_CLOEXEC, !=, 0);
        code_done(&c);
}

static void test_replaced(void) {
        Code c = CODE_NULL;
        size_t size;

        add(&c, "/disk.rb", "1");
        add(&c, "/helper.rb", "2");
        size = c.size;
        add(&c, "/disk.rb", "one");
        g_assert_cmpuint(c.n_files, ==, 2);
        g_assert_cmpstr(c.files[0].source, ==, "one");
        g_assert_cmpuint(c.size, ==, size + 2);
        code_done(&c);
}

static void test_limits(void) {
        g_autofree char *big = g_malloc0(CODE_MAX_SIZE), *path = g_malloc0(PATH_MAX + 1);
        _cleanup_close_ int fd = -EBADF;
        Code c = CODE_NULL, d;

        g_assert_cmpint(code_to_fd(&c, &fd), ==, -ENODATA);
        g_assert_cmpint(code_add(&c, "", "/disk.rb", "1", 1), ==, -EINVAL);
        g_assert_cmpint(code_add(&c, "/disk.rb", "", "1", 1), ==, -EINVAL);
        memset(path, 'x', PATH_MAX);
        g_assert_cmpint(code_add(&c, path, "/disk.rb", "1", 1), ==, -EINVAL);
        g_assert_cmpint(code_add(&c, "/disk.rb", "/disk.rb", big, CODE_MAX_SIZE), ==, -E2BIG);
        g_assert_cmpint(code_add(&c, "/disk.rb", "/disk.rb", big, SIZE_MAX), ==, -E2BIG);
        g_assert_cmpuint(c.n_files, ==, 0);
        add(&c, "/disk.rb", "1");
        g_assert_cmpint(code_add(&c, "/big.rb", "/big.rb", big, CODE_MAX_SIZE - c.size - 12 - 14 + 1), ==, -E2BIG);
        g_assert_cmpint(code_add(&c, "/big.rb", "/big.rb", big, CODE_MAX_SIZE - c.size - 12 - 14), ==, 0);
        g_assert_cmpuint(c.size, ==, CODE_MAX_SIZE);
        g_assert_cmpint(code_add(&c, "/disk.rb", "/disk.rb", "12", 2), ==, -E2BIG);
        g_assert_cmpstr(c.files[0].source, ==, "1");
        g_assert_cmpint(code_to_fd(&c, &fd), ==, 0);
        g_assert_cmpint(code_from_fd(fd, &d), ==, 0);
        code_done(&d);
        code_done(&c);
        for (unsigned i = 0; i < CODE_MAX_FILES; i++) {
                g_snprintf(path, PATH_MAX, "/%u.rb", i);
                add(&c, path, "");
        }
        g_assert_cmpint(code_add(&c, "/one-more.rb", "/one-more.rb", "", 0), ==, -E2BIG);
        add(&c, "/7.rb", "seven");
        code_done(&c);
}

/* A sealed memfd with any bytes. */
static int make(const char *bytes, size_t size) {
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        g_assert_cmpint(fd, >=, 0);
        g_assert_cmpint(write_all(fd, bytes, size), ==, 0);
        g_assert_cmpint(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), ==, 0);
        return fd;
}

static int parse(const char *bytes, size_t size) {
        _cleanup_close_ int fd = make(bytes, size);
        Code c = CODE_NULL;
        int r = code_from_fd(fd, &c);

        code_done(&c);
        return r;
}

/* Cut anywhere, or with any byte changed: an answer, and no access beyond what is there. */
static void test_damaged(void) {
        _cleanup_close_ int fd = -EBADF;
        Code c = CODE_NULL;
        char bytes[256];
        ssize_t n;

        add(&c, "/disk.rb", "1\n2\n");
        add(&c, "/helper.rb", "3\n");
        g_assert_cmpint(code_to_fd(&c, &fd), ==, 0);
        n = pread(fd, bytes, sizeof(bytes), 0);
        g_assert_cmpint(n, >, 0);
        for (ssize_t i = 0; i < n; i++)
                if (i != 16 + 12 + 16 + 4) /* where the first file ends */
                        g_assert_cmpint(parse(bytes, (size_t) i), ==, -EBADMSG);
        for (ssize_t i = 0; i < n; i++)
                for (unsigned bit = 0; bit < 8; bit++) {
                        bytes[i] ^= (char) (1 << bit);
                        (void) parse(bytes, (size_t) n);
                        bytes[i] ^= (char) (1 << bit);
                }
        bytes[n] = 0;
        g_assert_cmpint(parse(bytes, (size_t) n + 1), ==, -EBADMSG);
        memmove(bytes + 16 + 12 + 16 + 4 + 12, "/disk.rb\0\0", 10); /* NUL in a path */
        g_assert_cmpint(parse(bytes, (size_t) n), ==, -EBADMSG);
        code_done(&c);
}

static void test_not_one_of_ours(void) {
        _cleanup_close_ int open_memfd = memfd_create("test", MFD_CLOEXEC), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        Code c = CODE_NULL;

        g_assert_cmpint(write_all(open_memfd, "ublk-ruby code 1xxxxxxxxxxxxxx", 30), ==, 0);
        g_assert_cmpint(code_from_fd(open_memfd, &c), ==, -EBADMSG); /* not sealed */
        g_assert_cmpint(code_from_fd(null, &c), ==, -EBADMSG);
        g_assert_cmpint(code_from_fd(-EBADF, &c), ==, -EBADF);
        g_assert_cmpuint(c.n_files, ==, 0);
}

static void test_changed(void) {
        g_autofree char *directory = g_dir_make_tmp("test-code-XXXXXX", NULL);
        g_autofree char *path = g_build_filename(directory, "disk.rb", NULL);
        Code c = CODE_NULL;

        g_assert_true(g_file_set_contents(path, "one\n", -1, NULL));
        add(&c, path, "one\n");
        g_assert_null(code_find_changed(&c));
        g_assert_true(g_file_set_contents(path, "two\n", -1, NULL));
        g_assert_cmpstr(code_find_changed(&c), ==, path);
        g_assert_true(g_file_set_contents(path, "one\nmore\n", -1, NULL));
        g_assert_cmpstr(code_find_changed(&c), ==, path);
        g_assert_cmpint(g_unlink(path), ==, 0);
        g_assert_cmpstr(code_find_changed(&c), ==, path);
        g_assert_cmpint(mkfifo(path, 0600), ==, 0); /* nothing to wait for */
        g_assert_cmpstr(code_find_changed(&c), ==, path);
        g_assert_cmpint(g_unlink(path), ==, 0);
        g_assert_cmpint(g_rmdir(directory), ==, 0);
        code_done(&c);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/code/round", test_round);
        g_test_add_func("/code/sealed", test_sealed);
        g_test_add_func("/code/replaced", test_replaced);
        g_test_add_func("/code/limits", test_limits);
        g_test_add_func("/code/damaged", test_damaged);
        g_test_add_func("/code/not-one-of-ours", test_not_one_of_ours);
        g_test_add_func("/code/changed", test_changed);
        return g_test_run();
}
