/* SPDX-License-Identifier: MIT */
#include "service/store.h"

#include <systemd/sd-daemon.h>

/* For systemd to have taken what it was sent. It may be at work on something else, such as reading all units again. */
#define BARRIER_USEC (5 * USEC_PER_SEC)

static void entry_done(StoreEntry *e) {
        free(e->name);
        safe_close(e->fd);
}

static void remove_all(Store *s) {
        for (size_t i = 0; i < s->n_entries; i++)
                entry_done(&s->entries[i]);
        free(s->entries);
        s->entries = NULL;
        s->n_entries = 0;
}

static StoreEntry *find(const Store *s, const char *name) {
        for (size_t i = 0; i < s->n_entries; i++)
                if (streq(s->entries[i].name, name))
                        return &s->entries[i];
        return NULL;
}

/* Takes fd. */
static int append(Store *s, const char *name, int fd) {
        _cleanup_close_ int owned = fd;
        StoreEntry *grown;
        int r;

        grown = realloc(s->entries, (s->n_entries + 1) * sizeof(StoreEntry));
        if (!grown)
                return -ENOMEM;
        s->entries = grown;
        r = xstrdup(name, &grown[s->n_entries].name);
        if (r < 0)
                return r;
        grown[s->n_entries++].fd = TAKE_FD(owned);
        return 0;
}

int store_open(Store *s) {
        char **names = NULL;
        int n, r = 0;

        *s = (Store) { .lock = PTHREAD_MUTEX_INITIALIZER };
        n = sd_listen_fds_with_names(/* unset_environment= */ true, &names);
        if (n < 0)
                return n;
        for (int i = 0; i < n; i++) {
                int fd = SD_LISTEN_FDS_START + i;

                if (r >= 0)
                        r = append(s, names[i], fd);
                else
                        safe_close(fd);
                free(names[i]);
        }
        free(names);
        if (r < 0)
                remove_all(s);
        return r;
}

int store_find(Store *s, const char *name) {
        const StoreEntry *e;
        int fd;

        pthread_mutex_lock(&s->lock);
        e = find(s, name);
        fd = e ? e->fd : -ENOENT;
        pthread_mutex_unlock(&s->lock);
        return fd;
}

/* What FDNAME= may be: systemd takes any other for "stored". */
static bool name_is_fit(const char *name) {
        size_t n = strnlen(name, STORE_MAX_NAME);

        if (n == 0 || n >= STORE_MAX_NAME)
                return false;
        for (size_t i = 0; i < n; i++)
                if (name[i] <= ' ' || name[i] >= 0x7f || name[i] == ':')
                        return false;
        return true;
}

static int send_descriptor(const char *name, int fd) {
        _cleanup_free_ char *message = NULL;
        int r;

        r = xasprintf(&message, "FDSTORE=1\nFDNAME=%s", name);
        if (r < 0)
                return r;
        r = sd_pid_notify_with_fds(0, /* unset_environment= */ false, message, &fd, 1);
        if (r == 0)
                return -ENOTCONN; /* nobody is there to keep it */
        if (r > 0)
                r = sd_notify_barrier(/* unset_environment= */ false, BARRIER_USEC);
        return r < 0 ? r : 0;
}

static void send_removal(const char *name) {
        (void) sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

/* A systemd that is late has the message all the same, and takes it back after that. */
static int add(Store *s, const char *name, int fd) {
        int r;

        r = append(s, name, fd);
        if (r < 0)
                return r;
        r = send_descriptor(name, fd);
        if (r < 0) {
                send_removal(name);
                entry_done(&s->entries[--s->n_entries]);
        }
        return r;
}

int store_add(Store *s, const char *name, int fd) {
        _cleanup_close_ int owned = fd;
        int r;

        if (!name_is_fit(name))
                return -EINVAL;
        pthread_mutex_lock(&s->lock);
        r = find(s, name) ? -EEXIST : add(s, name, TAKE_FD(owned));
        pthread_mutex_unlock(&s->lock);
        return r;
}

void store_remove(Store *s, const char *name) {
        _cleanup_free_ char *copy = strdup(name); /* it may be the entry's own */
        StoreEntry *e;

        pthread_mutex_lock(&s->lock);
        e = copy ? find(s, copy) : NULL;
        if (e) {
                entry_done(e);
                *e = s->entries[--s->n_entries];
                send_removal(copy);
        }
        pthread_mutex_unlock(&s->lock);
}

void store_clear(Store *s) {
        pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < s->n_entries; i++)
                send_removal(s->entries[i].name);
        (void) sd_notify_barrier(/* unset_environment= */ false, BARRIER_USEC);
        remove_all(s);
        pthread_mutex_unlock(&s->lock);
}
