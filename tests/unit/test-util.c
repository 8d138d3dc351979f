/* SPDX-License-Identifier: MIT */
#include "service/name.h"
#include "service/request.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <sys/stat.h>

static void test_parse_u64(void) {
        uint64_t v = 42;

        g_assert_cmpint(parse_u64("18446744073709551615", UINT64_MAX, &v), ==, 0);
        g_assert_cmpuint(v, ==, UINT64_MAX);
        g_assert_cmpint(parse_u64("18446744073709551616", UINT64_MAX, &v), ==, -ERANGE);
        g_assert_cmpint(parse_u64("11", 10, &v), ==, -ERANGE);
        g_assert_cmpint(parse_u64("", 10, &v), ==, -EINVAL);
        g_assert_cmpint(parse_u64(" 1", 10, &v), ==, -EINVAL);
        g_assert_cmpint(parse_u64("+1", 10, &v), ==, -EINVAL);
        g_assert_cmpint(parse_u64("0x1", 10, &v), ==, -EINVAL);
        g_assert_cmpuint(v, ==, UINT64_MAX);
}

static void test_files(void) {
        char *directory = g_dir_make_tmp("ublk-util-XXXXXX", NULL), *path = g_build_filename(directory, "f", NULL);
        _cleanup_free_ char *back = NULL;
        struct stat st;
        size_t size;

        g_assert_cmpint(read_file(path, 10, &back, &size), ==, -ENOENT);
        g_assert_cmpint(write_file_atomic(path, "0123456789", 10, 0640), ==, 0);
        g_assert_cmpint(read_file(path, 9, &back, &size), ==, -E2BIG);
        g_assert_null(back);
        g_assert_cmpint(read_file(path, 10, &back, &size), ==, 0);
        g_assert_cmpstr(back, ==, "0123456789");
        g_assert_cmpuint(size, ==, 10);
        g_assert_cmpint(stat(path, &st), ==, 0);
        g_assert_cmpuint(st.st_mode & 07777, ==, 0640);
        g_assert_cmpint(write_file_atomic(path, "a\0b", 3, 0644), ==, 0);
        g_clear_pointer(&back, free);
        g_assert_cmpint(read_file(path, 10, &back, &size), ==, -EBADMSG);
        g_assert_cmpint(g_unlink(path), ==, 0);
        /* Nothing else is left in the directory: no temporary file. */
        g_assert_cmpint(g_rmdir(directory), ==, 0);
        g_assert_cmpint(write_file_atomic(path, "x", 1, 0644), ==, -ENOENT);
        g_free(path);
        g_free(directory);
}

static void test_names(void) {
        char *longest = g_strnfill(NAME_MAX_LENGTH, 'a'), *longer = g_strnfill(NAME_MAX_LENGTH + 1, 'a');
        const char *good[] = { "a", "_", "disk0", "A.b-c_d", longest };
        const char *bad[] = { "", ".", "..", "7", "0a", "-a", "a/b", "a\nb", "a b", "é", longer };

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                g_assert_true(name_is_valid(good[i]));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                g_assert_false(name_is_valid(bad[i]));
        g_assert_true(argument_name_is_valid("block_size2"));
        g_assert_false(argument_name_is_valid("Block"));
        g_assert_false(argument_name_is_valid("max-io-size"));
        g_free(longest);
        g_free(longer);
}

static void test_device_id(void) {
        uint32_t id = 99;

        g_assert_cmpint(device_id_parse("0", &id), ==, 0);
        g_assert_cmpuint(id, ==, 0);
        g_assert_cmpint(device_id_parse("/dev/ublkb17", &id), ==, 0);
        g_assert_cmpuint(id, ==, 17);
        g_assert_cmpint(device_id_parse("ublkb4", &id), ==, 0);
        g_assert_cmpint(device_id_parse("disk0", &id), ==, -EINVAL);
        g_assert_cmpint(device_id_parse("/dev/", &id), ==, -EINVAL);
        g_assert_cmpint(device_id_parse("1048576", &id), ==, -EINVAL);
        g_assert_cmpuint(id, ==, 4);
}

static void test_request_error(void) {
        g_assert_cmpint(request_error(-ENOSPC), ==, -ENOSPC);
        g_assert_cmpint(request_error(-4095), ==, -4095);
        g_assert_cmpint(request_error(-4096), ==, -EIO);
        g_assert_cmpint(request_error(INT64_MIN + 1), ==, -EIO);
        g_assert_cmpint(request_error(0), ==, -EIO);
        g_assert_cmpint(request_error(5), ==, -EIO);
        g_assert_cmpint(request_error(-EAGAIN), ==, -EIO);
        g_assert_cmpint(request_error(-EBUSY), ==, -EIO);
        g_assert_cmpint(request_error(-ENOMEM), ==, -EIO);
}

static void test_user_copy_position(void) {
        g_assert_cmpuint(ublk_user_copy_position(0, 0, 0), ==, UINT64_C(0x80000000));
        g_assert_cmpuint(ublk_user_copy_position(1, 2, 3), ==, UINT64_C(0x80000000) + (UINT64_C(1) << 41) + (2 << 25) + 3);
        /* The largest of all still is a positive file offset. */
        g_assert_cmpint((int64_t) ublk_user_copy_position(4095, 4095, UBLK_MAX_IO_SIZE - 1), >, 0);
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/util/parse-u64", test_parse_u64);
        g_test_add_func("/util/files", test_files);
        g_test_add_func("/name/valid", test_names);
        g_test_add_func("/name/device-id", test_device_id);
        g_test_add_func("/request/error", test_request_error);
        g_test_add_func("/uapi/user-copy-position", test_user_copy_position);
        return g_test_run();
}
