/* SPDX-License-Identifier: MIT */
#include "service/secret.h"

#include "service/config.h"
#include "service/mounts.h"
#include "service/name.h"

#include <sys/stat.h>

#define CREDENTIAL_MAX_LENGTH 255
#define ALPHANUMERIC "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static bool is_credential_name(const char *s) {
        size_t n = strnlen(s, CREDENTIAL_MAX_LENGTH + 1);

        return n > 0 && n <= CREDENTIAL_MAX_LENGTH && strspn(s, ALPHANUMERIC "_") > 0 && strspn(s, ALPHANUMERIC "._-") == n;
}

/* "." and ".." are refused as systemd refuses them. */
static bool is_plain_path(const char *s) {
        if (s[0] != '/')
                return false;
        for (const char *p = s; *p; p++)
                if ((unsigned char) *p <= 0x20 || strchr("\"'%\\\x7f", *p))
                        return false;
        for (const char *p = s; (p = strstr(p, "/.")); p++) {
                const char *end = p + 2 + (p[2] == '.');

                if (*end == '/' || *end == '\0')
                        return false;
        }
        return true;
}

SecretReference secret_reference(const char *value) {
        if (is_plain_path(value))
                return SECRET_FILE;
        return is_credential_name(value) ? SECRET_CREDENTIAL : _SECRET_INVALID;
}

/* The next word of a list, NULL at its end; not terminated. */
static const char *next_word(const char **list, size_t *ret_length) {
        const char *word = *list + strspn(*list, " ");

        *ret_length = strcspn(word, " ");
        *list = word + *ret_length;
        return *ret_length > 0 ? word : NULL;
}

bool secret_is_listed(const char *secrets, const char *option) {
        const char *word;
        size_t n;

        while (secrets && (word = next_word(&secrets, &n)))
                if (strlen(option) == n && strncmp(word, option, n) == 0)
                        return true;
        return false;
}

bool secrets_are_valid(const char *secrets) {
        const char *word;
        size_t n, count = 0;

        while ((word = next_word(&secrets, &n))) {
                _cleanup_free_ char *name = strndup(word, n);

                if (!name || !argument_name_is_valid(name) || secret_is_listed(secrets, name) || ++count > SECRETS_MAX)
                        return false;
        }
        return count > 0;
}

bool secret_is_stored(const char *name) {
        static const char *const stores[] = { "/etc/credstore", "/run/credstore", "/usr/local/lib/credstore", "/usr/lib/credstore" };

        for (size_t i = 0; i < ELEMENTSOF(stores); i++) {
                _cleanup_free_ char *path = NULL;

                if (config_path(&path, "%s/%s", stores[i], name) >= 0 && access(path, F_OK) >= 0)
                        return true;
        }
        return false;
}

bool path_is_out_of_sight(const char *path) {
        static const char *const hidden[] = { "/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/" };

        for (size_t i = 0; i < ELEMENTSOF(hidden); i++)
                if (strncmp(path, hidden[i], strlen(hidden[i])) == 0)
                        return true;
        return false;
}

static int explain_unseen(const char *option, const char *path, int error, char **ret_message) {
        if (path_is_out_of_sight(path))
                (void) xasprintf(ret_message,
                                 "option \"%s\": ublk-rubyd can't look at files below /home, /root, /run/user, /tmp and /var/tmp. Put it "
                                 "elsewhere, into /etc/ublk-ruby/secrets for instance", option);
        else if (error == ENOENT || error == ENOTDIR)
                (void) xasprintf(ret_message, "option \"%s\": there is no such file. It must be the path of one with the secret in it, "
                                              "or the name of a credential", option);
        else
                (void) xasprintf(ret_message, "option \"%s\": ublk-rubyd can't look at the file: %s", option, strerror(error));
        return -error;
}

/* What somebody else's server has, or may have, is left to systemd: the manager waits for nobody. */
static int check_file(const char *option, const char *path, char **ret_message) {
        _cleanup_free_ char *full = NULL;
        _cleanup_close_ int fd = -EBADF;
        struct stat st;
        int r;

        r = config_path(&full, "%s", path);
        if (r >= 0)
                r = mounts_open_at_hand(full, &fd);
        if (r == -ENOMEM || r == -EREMOTE)
                return r == -EREMOTE ? 0 : r;
        if (r < 0 || fstat(fd, &st) < 0)
                return explain_unseen(option, path, r < 0 ? -r : errno, ret_message);
        if (!S_ISREG(st.st_mode))
                r = xasprintf(ret_message, "option \"%s\": %s is not a regular file", option, path);
        else if (st.st_uid != geteuid() || (st.st_mode & 077) != 0) /* 0, but in tests */
                r = xasprintf(ret_message, "option \"%s\": others than root can read or change %s. First: chown root: %s && chmod 600 %s",
                              option, path, path, path);
        else if (st.st_size == 0 || st.st_size > SECRET_MAX_SIZE)
                r = xasprintf(ret_message, "option \"%s\": %s has %llu bytes, a secret has 1 to %d", option, path,
                              (unsigned long long) st.st_size, SECRET_MAX_SIZE);
        else
                return 0;
        return r < 0 ? r : -EPERM;
}

int secret_check(const char *option, const char *value, char **ret_message) {
        switch (secret_reference(value)) {
        case SECRET_FILE:
                return check_file(option, value, ret_message);
        case SECRET_CREDENTIAL:
                if (secret_is_stored(value))
                        return 0;
                (void) xasprintf(ret_message,
                                 "option \"%s\": there is no credential of the name that it gives, neither in /etc/credstore or another "
                                 "store of systemd's, nor set by a drop-in of the unit", option);
                return -ENOENT;
        default:
                (void) xasprintf(ret_message, "option \"%s\" must be the name of a credential or the path of a file with the secret in it",
                                 option);
                return -EINVAL;
        }
}
