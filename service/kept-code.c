/* SPDX-License-Identifier: MIT */
#include "service/kept-code.h"

#include "service/log.h"

#include <inttypes.h>

#define ENTRY "code-"

static uint32_t entry_version(const char *name) {
        uint32_t version = 0;

        if (strncmp(name, ENTRY, strlen(ENTRY)) == 0)
                (void) parse_u32(name + strlen(ENTRY), UINT32_MAX - 1, &version);
        return version;
}

static const char *entry_name(uint32_t version, char buffer[static STORE_MAX_NAME]) {
        (void) snprintf(buffer, STORE_MAX_NAME, ENTRY "%" PRIu32, version);
        return buffer;
}

/* The latest one. The others were to go when their worker ended. */
static uint32_t find_version(Store *store) {
        uint32_t version, latest = 0;
        char name[STORE_MAX_NAME];

        for (size_t i = 0; i < store->n_entries; i++) {
                version = entry_version(store->entries[i].name);
                latest = version > latest ? version : latest;
        }
        for (size_t i = store->n_entries; i > 0; i--) {
                version = entry_version(store->entries[i - 1].name);
                if (version > 0 && version < latest)
                        store_remove(store, entry_name(version, name));
        }
        return latest;
}

void kept_code_open(KeptCode *k, Store *store, bool ignore) {
        char name[STORE_MAX_NAME];
        int r;

        *k = (KeptCode) { .lock = PTHREAD_MUTEX_INITIALIZER, .store = store };
        k->version = find_version(store);
        k->is_on_trial = k->version > 0 && ignore;
        if (k->version == 0 || ignore)
                return;
        r = code_from_fd(store_find(store, entry_name(k->version, name)), &k->code);
        if (r < 0)
                log_warning("The hook's code that was kept can't be read, taking what is on the disk: %s", strerror(-r));
        else
                k->is_found = k->is_kept = true;
}

const Code *kept_code_found(const KeptCode *k) {
        return k->is_found ? &k->code : NULL;
}

static void remove_entry(KeptCode *k) {
        char name[STORE_MAX_NAME];

        if (k->version > 0)
                store_remove(k->store, entry_name(k->version, name));
}

/* Half of a program is worse than none. */
static int refuse(KeptCode *k) {
        remove_entry(k);
        k->is_kept = false;
        return -E2BIG;
}

static int keep(KeptCode *k) {
        char name[STORE_MAX_NAME];
        int r, fd;

        if (k->is_too_long)
                return refuse(k);
        if (k->is_kept)
                return 0;
        r = code_to_fd(&k->code, &fd);
        if (r >= 0)
                r = store_add(k->store, entry_name(k->version + 1, name), fd);
        if (r < 0)
                return log_error_errno(r, "The hook's code can't be kept for the next worker");
        remove_entry(k);
        k->version++;
        k->is_kept = true;
        return 0;
}

static void say_too_long(const char *path) {
        log_warning("With %s the hook's code is more than %u MiB, too long to be kept for the next worker, who will take it "
                    "from the disk as it is then.",
                    path, CODE_MAX_SIZE >> 20);
}

void kept_code_add(KeptCode *k, const char *path, const char *real_path, const void *source, size_t size) {
        int r;

        pthread_mutex_lock(&k->lock);
        r = k->is_too_long ? 0 : code_add(&k->code, path, real_path, source, size);
        if (r < 0) {
                say_too_long(path);
                k->is_too_long = true;
        }
        k->is_kept = false;
        if (k->is_kept_on)
                (void) keep(k);
        pthread_mutex_unlock(&k->lock);
}

int kept_code_keep(KeptCode *k) {
        int r;

        pthread_mutex_lock(&k->lock);
        r = keep(k);
        k->is_kept_on = r >= 0 || !k->is_on_trial;
        pthread_mutex_unlock(&k->lock);
        return r;
}
