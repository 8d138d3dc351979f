/* SPDX-License-Identifier: MIT */
#include "service/secret.h"

#include "service/needs.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <sys/stat.h>

static void test_reference(void) {
        static const char *const credentials[] = { "vault", "Vault-2", "_x", "a.b_c-d", "0", "hunter2" };
        static const char *const files[] = { "/k", "/etc/ublk-ruby/secrets/key", "/a//b", "/.a/..b/c..", "/caf\xc3\xa9", "/a:b,c;d=e+f~" };
        static const char *const others[] = { "", ".", "..", "-x", ".hidden", "a b", "a/b", "a:b", "caf\xc3\xa9", "/a b", "/a\tb", "/a\nb",
                                              "/a'b", "/a\"b", "/a\\b", "/a%b", "/..", "/../a", "/a/..", "/a/../b", "/.", "/./a", "/a/.", "\x7f",
                                              "c2VjcmV0+w==" };
        g_autofree char *longest = g_strnfill(255, 'a'), *longer = g_strnfill(256, 'a');

        for (size_t i = 0; i < ELEMENTSOF(credentials); i++)
                g_assert_cmpint(secret_reference(credentials[i]), ==, SECRET_CREDENTIAL);
        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                g_assert_cmpint(secret_reference(files[i]), ==, SECRET_FILE);
        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                if (secret_reference(others[i]) >= 0)
                        g_error("\"%s\" was taken", others[i]);
        g_assert_cmpint(secret_reference(longest), ==, SECRET_CREDENTIAL);
        g_assert_cmpint(secret_reference(longer), ==, _SECRET_INVALID);
}

static void test_lists(void) {
        g_assert_true(secrets_are_valid("key"));
        g_assert_true(secrets_are_valid("key token a b c d e f"));
        g_assert_false(secrets_are_valid("key token a b c d e f g"));
        g_assert_false(secrets_are_valid(""));
        g_assert_false(secrets_are_valid("key Key"));
        g_assert_false(secrets_are_valid("key=1"));
        g_assert_false(secrets_are_valid("key token key"));
        g_assert_true(secret_is_listed("key token", "key"));
        g_assert_true(secret_is_listed("key token", "token"));
        g_assert_false(secret_is_listed("key token", "ke"));
        g_assert_false(secret_is_listed("key token", "keyt"));
        g_assert_false(secret_is_listed("key token", ""));
        g_assert_false(secret_is_listed(NULL, "key"));
}

typedef struct Fixture {
        char *root;
} Fixture;

static void set_up(Fixture *f, gconstpointer data) {
        (void) data;
        f->root = g_dir_make_tmp("ublk-secret-XXXXXX", NULL);
        g_assert_nonnull(f->root);
        config_set_root(f->root);
}

static void tear_down(Fixture *f, gconstpointer data) {
        g_autofree char *command = g_strdup_printf("rm -rf '%s'", f->root);

        (void) data;
        config_set_root(NULL);
        g_assert_cmpint(system(command), ==, 0);
        g_free(f->root);
}

static void put(Fixture *f, const char *path, size_t size, mode_t mode) {
        g_autofree char *full = g_build_filename(f->root, path, NULL), *directory = g_path_get_dirname(full);
        g_autofree char *bytes = g_strnfill(size, 's');

        g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
        g_assert_true(g_file_set_contents(full, bytes, (gssize) size, NULL));
        g_assert_cmpint(chmod(full, mode), ==, 0);
}

static void assert_refused(const char *value, int error, const char *part, bool may_repeat) {
        _cleanup_free_ char *message = NULL;

        g_assert_cmpint(secret_check("key", value, &message), ==, error);
        g_test_message("%s", message);
        if (!strstr(message, part) || !strstr(message, "option \"key\""))
                g_error("\"%s\" does not say \"%s\"", message, part);
        if (!may_repeat && *value)
                g_assert_null(strstr(message, value));
}

static void assert_good(const char *value) {
        _cleanup_free_ char *message = NULL;

        if (secret_check("key", value, &message) != 0)
                g_error("%s", message);
}

static void test_files(Fixture *f, gconstpointer data) {
        g_autofree char *link = g_build_filename(f->root, "srv/link", NULL);
        static const mode_t wrong[] = { 0640, 0604, 0620, 0602, 0610, 0601, 0644, 0666 };

        (void) data;
        put(f, "srv/key", 1, 0600);
        assert_good("/srv/key");
        put(f, "srv/most", SECRET_MAX_SIZE, 0400);
        assert_good("/srv/most");
        g_assert_cmpint(symlink("key", link), ==, 0);
        assert_good("/srv/link");
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                put(f, "srv/open", 5, wrong[i]);
                assert_refused("/srv/open", -EPERM, "chown root: /srv/open && chmod 600 /srv/open", true);
        }
        put(f, "srv/empty", 0, 0600);
        assert_refused("/srv/empty", -EPERM, "/srv/empty has 0 bytes", true);
        put(f, "srv/big", SECRET_MAX_SIZE + 1, 0600);
        assert_refused("/srv/big", -EPERM, "has 65537 bytes", true);
        assert_refused("/srv", -EPERM, "not a regular file", true);
        /* What is not there may be no path at all. */
        assert_refused("/c2VjcmV0+w==", -ENOENT, "no such file", false);
        assert_refused("/srv/key/below", -ENOTDIR, "no such file", false);
        assert_refused("/root/key", -ENOENT, "can't look at files below /home, /root", false);
        assert_refused("/home/me/key", -ENOENT, "/etc/ublk-ruby/secrets", false);
        assert_refused("/tmp/key", -ENOENT, "/tmp and /var/tmp", false);
        assert_refused("not a path", -EINVAL, "must be the name of a credential or the path", false);
}

/* Whoever looks at it may never come back, so it is left to systemd. */
static void test_remote(Fixture *f, gconstpointer data) {
        g_autofree char *table = g_strdup_printf("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:41 / %s/srv/net rw - nfs4 a:/ rw\n", f->root),
                        *info = g_build_filename(f->root, "proc/self/mountinfo", NULL);

        (void) data;
        assert_refused("/srv/net/key", -ENOENT, "no such file", false);
        put(f, "proc/self/mountinfo", 1, 0600);
        g_assert_true(g_file_set_contents(info, table, -1, NULL));
        assert_good("/srv/net/key");
}

static void test_store(Fixture *f, gconstpointer data) {
        (void) data;
        assert_refused("hunter2", -ENOENT, "/etc/credstore", false);
        g_assert_false(secret_is_stored("vault"));
        put(f, "etc/credstore/vault", 3, 0600);
        put(f, "run/credstore/other", 3, 0600);
        g_assert_true(secret_is_stored("vault"));
        assert_good("vault");
        assert_good("other");
}

static DeviceConfig *device(const char *value, char type) {
        DeviceConfig *c = device_config_new(3);

        g_assert_cmpint(device_config_set(c, "Name", "a", NULL), ==, 0);
        g_assert_cmpint(device_config_set(c, "Hook", "b", NULL), ==, 0);
        g_assert_cmpint(device_config_add_argument(c, "key", type, value), ==, 0);
        g_assert_cmpint(device_config_add_argument(c, "url", 's', "/not/secret"), ==, 0);
        return c;
}

static void test_need(void) {
        bool wanted = false;

        g_assert_cmpstr(need_secret("secret:key", &wanted), ==, "key");
        g_assert_true(wanted);
        g_assert_cmpstr(need_secret("loaded:key", &wanted), ==, "key");
        g_assert_false(wanted);
        g_assert_null(need_secret("network", &wanted));
        g_assert_null(need_secret("key", &wanted));
}

static void test_noted(void) {
        _cleanup_(device_config_freep) DeviceConfig *c = device("/srv/key", 's'), *back = NULL;
        _cleanup_(device_config_freep) DeviceConfig *number = device("5", 't'), *value = device("se cret", 's');
        _cleanup_free_ char *text = NULL, *message = NULL;

        g_assert_cmpint(needs_note(c, "secret:key"), ==, 0);
        g_assert_cmpint(needs_note(c, "loaded:key"), ==, 0);
        g_assert_cmpstr(c->secrets, ==, "key");
        g_assert_true(needs_any(c));
        g_assert_cmpint(needs_note(c, "secret:nothing"), ==, -EINVAL);
        g_assert_cmpint(needs_note(c, "secret:"), ==, -EINVAL);
        g_assert_cmpint(needs_note(number, "secret:key"), ==, -EINVAL);
        g_assert_cmpint(needs_note(value, "secret:key"), ==, -EINVAL);
        g_assert_cmpint(device_config_serialize(c, &text), ==, 0);
        g_assert_nonnull(strstr(text, "\nSecrets=key\n"));
        g_assert_cmpint(device_config_parse(3, text, &back, &message), ==, 0);
        g_assert_cmpstr(back->secrets, ==, "key");
        g_assert_cmpint(needs_note(back, "secret:url"), ==, 0);
        g_assert_cmpstr(back->secrets, ==, "key url");
}

/* By hand. */
static void test_wrong_files(void) {
        static const char *const texts[] = { "[Arguments]\nother=s:x\n", "[Arguments]\nkey=t:5\n", "[Arguments]\nkey=s:top secret\n" };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                g_autofree char *text = g_strconcat("[Device]\nName=a\nHook=b\nSecrets=key\n", texts[i], NULL);
                _cleanup_free_ char *message = NULL;
                DeviceConfig *c = NULL;

                g_assert_cmpint(device_config_parse(3, text, &c, &message), ==, -EBADMSG);
                g_assert_nonnull(strstr(message, "Secrets= lists"));
                g_assert_nonnull(strstr(message, ": key"));
                g_assert_null(strstr(message, "top secret"));
        }
}

int main(int argc, char *argv[]) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/secret/reference", test_reference);
        g_test_add_func("/secret/lists", test_lists);
        g_test_add("/secret/files", Fixture, NULL, set_up, test_files, tear_down);
        g_test_add("/secret/remote", Fixture, NULL, set_up, test_remote, tear_down);
        g_test_add("/secret/store", Fixture, NULL, set_up, test_store, tear_down);
        g_test_add_func("/secret/need", test_need);
        g_test_add_func("/secret/noted", test_noted);
        g_test_add_func("/secret/wrong-files", test_wrong_files);
        return g_test_run();
}
