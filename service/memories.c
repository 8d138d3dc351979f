/* SPDX-License-Identifier: MIT */
#include "service/memories.h"

#include "service/log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define PREFIX "memory-"

static int own_prefix(const Memories *m, char **ret) {
        return xasprintf(ret, PREFIX "%" PRIx64 "-", m->config->created_usec);
}

static bool has_prefix(const char *s, const char *prefix) {
        return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* The first entry of an earlier device of this id, NULL if there is none. */
static const char *find_stale(const Store *s, const char *own) {
        for (size_t i = 0; i < s->n_entries; i++)
                if (has_prefix(s->entries[i].name, PREFIX) && !has_prefix(s->entries[i].name, own))
                        return s->entries[i].name;
        return NULL;
}

void memories_open(Memories *m, Store *store, const DeviceConfig *config, bool known) {
        _cleanup_free_ char *own = NULL;
        const char *stale;

        *m = (Memories) { .store = store, .config = config, .known = known, .failure = FAILURE_NULL };
        if (own_prefix(m, &own) < 0)
                return; /* then no name of theirs can be made either */
        while ((stale = find_stale(store, own))) {
                log_notice("Throwing %s away: it is another device's.", stale);
                store_remove(store, stale);
        }
}

static bool has_own(const Memories *m, const char *own) {
        for (size_t i = 0; i < m->store->n_entries; i++)
                if (has_prefix(m->store->entries[i].name, own))
                        return true;
        return false;
}

/* "data, index" */
static char *list_own(const Memories *m, const char *own) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = NULL;

        for (size_t i = 0; i < m->store->n_entries; i++) {
                const char *name = m->store->entries[i].name;

                if (!has_prefix(name, own) || (!f && !(f = open_memstream(&text, &size))))
                        continue;
                fprintf(f, "%s%s", ftell(f) > 0 ? ", " : "", name + strlen(own));
        }
        if (f)
                (void) fclose(f);
        return text;
}

static int give_found(const Memories *m, const char *name, uint64_t size, int fd, int *ret_fd, Failure *f) {
        struct stat st;
        int copy;

        if (fstat(fd, &st) < 0 || !memory_file_is_one(fd))
                return failure_set(f, FAILURE_WORKER, EBADF, "what the descriptor store of the unit has for the memory \"%s\" of %s is no "
                                                             "memory", name, m->config->name);
        if ((uint64_t) st.st_size != size)
                return failure_set(f, FAILURE_HOOK, ESTALE,
                                   "the memory \"%s\" of %s has %llu bytes, and the hook now asks for %" PRIu64
                                   ": its size can't be changed while the device is there",
                                   name, m->config->name, (unsigned long long) st.st_size, size);
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (copy < 0)
                return -errno;
        *ret_fd = copy;
        return 1;
}

/* It can't be there any more if it ever was. */
static int refuse(Memories *m, const char *name, const char *own, Failure *f) {
        _cleanup_free_ char *others = NULL;

        if (has_own(m, own)) {
                others = list_own(m, own);
                return failure_set(f, FAILURE_HOOK, ENODATA,
                                   "the hook asks for a memory \"%s\" that %s did not have when it was made (it has %s): memories can't be "
                                   "added to a device that is there; delete it and create it anew, or give the hook back what it was",
                                   name, m->config->name, others ? others : "others");
        }
        m->lost = true;
        (void) failure_set(&m->failure, FAILURE_WORKER, ENODATA,
                           "the memory \"%s\" of %s is lost: systemd keeps it only as long as the unit is neither stopped nor failed (or the "
                           "hook did not have it when the device was made). An empty disk is not put in its place; delete the device and "
                           "create it anew",
                           name, m->config->name);
        return failure_set(f, FAILURE_WORKER, ENODATA, "%s", m->failure.message ? m->failure.message : "");
}

static int give_new(Memories *m, const char *entry, const char *name, uint64_t size, int *ret_fd, Failure *f) {
        _cleanup_close_ int fd = -EBADF;
        int r, copy;

        r = memory_file_create(name, size, &fd);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "the memory \"%s\" of %" PRIu64 " bytes can't be made: %s", name, size, strerror(-r));
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        r = copy < 0 ? -errno : store_add(m->store, entry, copy);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r,
                                   "systemd does not take the memory \"%s\", which would be lost when the worker dies: %s (is there a "
                                   "FileDescriptorStoreMax= in the unit?)",
                                   name, strerror(-r));
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int memories_get(Memories *m, const char *name, uint64_t size, int *ret_fd, Failure *f) {
        _cleanup_free_ char *own = NULL, *entry = NULL;
        int r, fd;

        r = own_prefix(m, &own);
        if (r >= 0)
                r = xasprintf(&entry, "%s%s", own, name);
        if (r < 0)
                return r;
        fd = store_find(m->store, entry);
        if (fd >= 0)
                return give_found(m, name, size, fd, ret_fd, f);
        return m->known ? refuse(m, name, own, f) : give_new(m, entry, name, size, ret_fd, f);
}
