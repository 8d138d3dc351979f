/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What an option of type :secret is given: not the secret, but where it is. Either the name of a credential of the unit, from
 * systemd's store or from a drop-in of the administrator's, or the absolute path of a file that only root can read, which
 * systemd loads as a credential with the option's name. Which arguments are such is known once a worker has said so (needs.h).
 *
 * By mistake it may be the secret itself, even one that could be a name or a path. So no message here repeats it, but for the
 * path of a file that is there.
 */

#include "service/util.h"

/* Of the secret, in bytes. systemd takes 1 MiB for all of a unit's. */
#define SECRET_MAX_SIZE (64 * 1024)
/* Of one device. */
#define SECRETS_MAX 8

typedef enum SecretReference {
        SECRET_CREDENTIAL, /* a letter, a digit or _, then up to 254 of A-Z a-z 0-9 . _ - */
        SECRET_FILE,       /* no spaces, quotes, % or backslashes: systemd 257 starts no unit that is given such a path */
        _SECRET_INVALID = -EINVAL,
} SecretReference;

/* _SECRET_INVALID for what is neither. */
SecretReference secret_reference(const char *value);

/* What the sandboxes of the units have nothing of, or another one: below /home, /tmp, … */
bool path_is_out_of_sight(const char *path);

/* secrets: the names of options, with spaces between them, or NULL. */
bool secret_is_listed(const char *secrets, const char *option);
/* The same for a list: each is the name of an option, none is there twice, and they are no more than SECRETS_MAX. */
bool secrets_are_valid(const char *secrets);

/* Whether systemd finds a credential of that name in its store: /etc/credstore, /run/credstore, … */
bool secret_is_stored(const char *name);

/* Whether systemd will be able to load it and nobody but root can read it. If not, a negative errno, and *ret_message (owned by
 * the caller) says cause and remedy. A file is only looked at where that takes no time (mounts.h). */
int secret_check(const char *option, const char *value, char **ret_message);
