/* SPDX-License-Identifier: MIT */
#include "service/holders.h"

#include "service/child.h"
#include "service/config.h"
#include "service/holders-scan.h"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <time.h>

#define MAX_HOLDERS 256
#define MAX_DESCRIBED 5
#define MAX_MOUNTINFO (4U << 20)
#define MAX_SWAPS (64U << 10)
#define PROBE_TIMEOUT_USEC (3 * USEC_PER_SEC)
#define LASTING_USEC USEC_PER_SEC

static const char *const kind_table[_HOLDER_MAX] = {
        [HOLDER_MOUNT]   = "mount",
        [HOLDER_SWAP]    = "swap",
        [HOLDER_DEVICE]  = "holder",
        [HOLDER_PROCESS] = "process",
};

const char *holder_kind_to_string(HolderKind kind) {
        return kind < _HOLDER_MAX ? kind_table[kind] : NULL;
}

void holders_done(Holders *h) {
        for (size_t i = 0; i < h->n; i++) {
                free(h->items[i].what);
                free(h->items[i].comm);
        }
        free(h->items);
        *h = HOLDERS_NULL;
}

int holders_add(Holders *h, HolderKind kind, const char *what, pid_t pid, const char *comm) {
        Holder *grown, holder = { .kind = kind, .pid = pid };

        for (size_t i = 0; i < h->n; i++)
                if (h->items[i].kind == kind && h->items[i].pid == pid && streq(h->items[i].what, what))
                        return 0;
        if (h->n >= MAX_HOLDERS)
                return 0;
        grown = reallocarray(h->items, h->n + 1, sizeof(Holder));
        if (!grown)
                return -ENOMEM;
        h->items = grown;
        holder.what = strdup(what);
        holder.comm = comm ? strdup(comm) : NULL;
        if (!holder.what || (comm && !holder.comm)) {
                free(holder.what);
                free(holder.comm);
                return -ENOMEM;
        }
        h->items[h->n++] = holder;
        return 0;
}

bool disk_has_name(const Disk *d, const char *name) {
        char own[32];
        size_t n;

        if (strncmp(name, "/dev/", 5) == 0)
                name += 5;
        n = (size_t) snprintf(own, sizeof(own), "ublkb%u", d->id);
        if (strncmp(name, own, n) != 0)
                return false;
        return name[n] == 0 || (name[n] == 'p' && name[n + 1] >= '0' && name[n + 1] <= '9');
}

bool disk_has_number(const Disk *d, dev_t number) {
        for (size_t i = 0; i < d->n_numbers; i++)
                if (d->numbers[i] == number)
                        return true;
        return false;
}

/* The kernel writes space, tab, newline and backslash as \ooo. */
static void unescape(char *s) {
        char *out = s;

        for (; *s; s++) {
                if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
                    s[3] <= '7') {
                        *out++ = (char) ((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
                        s += 3;
                } else
                        *out++ = *s;
        }
        *out = 0;
}

/* "36 35 259:0 / /mnt rw,noatime shared:1 - ext4 /dev/ublkb0 rw": what lies before " - " has a varying number
 * of fields. Btrfs has a number of its own, so its source counts too. */
static int add_mount(Holders *h, const Disk *d, char *line) {
        char *tail = strstr(line, " - "), *state = NULL, *numbers, *point, *source;
        unsigned major, minor;

        if (!tail)
                return 0;
        *tail = 0;
        (void) strtok_r(line, " ", &state);
        (void) strtok_r(NULL, " ", &state);
        numbers = strtok_r(NULL, " ", &state);
        (void) strtok_r(NULL, " ", &state);
        point = strtok_r(NULL, " ", &state);
        if (!numbers || !point || sscanf(numbers, "%u:%u", &major, &minor) != 2)
                return 0;
        (void) strtok_r(tail + 3, " ", &state);
        source = strtok_r(NULL, " ", &state);
        if (!disk_has_number(d, makedev(major, minor)) && !(source && disk_has_path(d, source)))
                return 0;
        unescape(point);
        return holders_add(h, HOLDER_MOUNT, point, 0, NULL);
}

int holders_add_mounts(Holders *h, const Disk *d, const char *mountinfo) {
        _cleanup_free_ char *copy = NULL;
        char *state, *line;
        int r;

        r = xstrdup(mountinfo, &copy);
        if (r < 0)
                return r;
        for (state = copy; (line = strsep(&state, "\n"));) {
                r = add_mount(h, d, line);
                if (r < 0)
                        return r;
        }
        return 0;
}

int holders_add_swaps(Holders *h, const Disk *d, const char *swaps) {
        _cleanup_free_ char *copy = NULL;
        char *state, *line;
        int r;

        r = xstrdup(swaps, &copy);
        if (r < 0)
                return r;
        for (state = copy; (line = strsep(&state, "\n"));) {
                line[strcspn(line, " \t")] = 0;
                unescape(line);
                if (!disk_has_path(d, line))
                        continue;
                r = holders_add(h, HOLDER_SWAP, line, 0, NULL);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_from_file(Holders *h, const Disk *d, const char *name, size_t max,
                         int (*add)(Holders *, const Disk *, const char *)) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        int r;

        r = config_path(&path, "%s", name);
        if (r < 0)
                return r;
        r = read_file(path, max, &text, NULL);
        if (r == -ENOENT || r == -EACCES || r == -ESRCH) /* no swap in this kernel; a process that went */
                return 0;
        if (r < 0)
                return r;
        return add(h, d, text);
}

/* A mount takes the disk exclusively, in whatever namespace it lies; so do swap, dm, md. */
static int open_exclusively(const void *argument) {
        int fd = open(argument, O_RDONLY | O_EXCL | O_CLOEXEC | O_NOCTTY);

        /* No close: that of a last opener waits for write-back. The child's exit does it, without us waiting
         * for that. */
        return fd < 0 ? -errno : 0;
}

/* 1 if something has it exclusively, 0 if not. */
static int is_claimed(const char *node, uint64_t deadline_usec) {
        uint64_t now = now_usec(), left = deadline_usec > now ? deadline_usec - now : 0;
        int r;

        r = child_call(open_exclusively, node,
                       deadline_usec > 0 && left < PROBE_TIMEOUT_USEC ? left : PROBE_TIMEOUT_USEC);
        if (r == -ENOENT || r == -ENXIO || r == -ENODEV)
                return 0;
        return r == -EBUSY ? 1 : r;
}

/* PID 1's view: control may run in a mount namespace of its own. */
static int add_file_systems(Holders *h, const Disk *d) {
        int r;

        r = add_from_file(h, d, "/proc/1/mountinfo", MAX_MOUNTINFO, holders_add_mounts);
        return r < 0 ? r : add_from_file(h, d, "/proc/swaps", MAX_SWAPS, holders_add_swaps);
}

int holders_find_file_systems(uint32_t id, Holders *ret) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        Disk d;
        int r;

        r = disk_read(id, &d);
        if (r >= 0) {
                disk_add_stacked(&d);
                r = add_file_systems(&h, &d);
        }
        if (r < 0 && r != -ENODEV)
                return r;
        *ret = h;
        h = HOLDERS_NULL;
        return 0;
}

/* What shows nowhere else. */
static int add_claim(Holders *h, const Disk *d, uint64_t deadline_usec) {
        char node[32];
        int r;

        (void) snprintf(node, sizeof(node), "/dev/ublkb%u", d->id);
        r = is_claimed(node, deadline_usec);
        if (r == -ETIMEDOUT)
                return holders_add(h, HOLDER_DEVICE, "something that keeps the disk from being opened", 0, NULL);
        if (r != 1 || h->n > 0)
                return r < 0 ? r : 0;
        r = holders_add_foreign_mounts(h, d);
        if (r < 0 || h->n > 0)
                return r;
        return holders_add(h, HOLDER_DEVICE, "an exclusive user in the kernel", 0, NULL);
}

static int find(uint32_t id, uint64_t deadline_usec, bool beside_claim, Holders *ret) {
        _cleanup_(holders_done) Holders h = HOLDERS_NULL;
        Disk d;
        int r;

        r = disk_read(id, &d);
        if (r == -ENODEV) {
                *ret = HOLDERS_NULL;
                return 0;
        }
        if (r < 0)
                return r;
        r = add_file_systems(&h, &d);
        if (r >= 0)
                r = holders_add_stacked(&h, &d);
        if (r >= 0)
                r = holders_add_openers(&h, &d);
        if (r >= 0 && !beside_claim)
                r = add_claim(&h, &d, deadline_usec);
        if (r < 0)
                return r;
        *ret = h;
        h = HOLDERS_NULL;
        return 0;
}

int holders_find(uint32_t id, uint64_t deadline_usec, Holders *ret) {
        return find(id, deadline_usec, /* beside_claim= */ false, ret);
}

static bool only_processes(const Holders *h) {
        for (size_t i = 0; i < h->n; i++)
                if (h->items[i].kind != HOLDER_PROCESS)
                        return false;
        return h->n > 0;
}

static void drop_udev(Holders *h) {
        size_t n = 0;

        for (size_t i = 0; i < h->n; i++) {
                if (h->items[i].kind != HOLDER_PROCESS || !process_is_udev(h->items[i].pid)) {
                        h->items[n++] = h->items[i];
                        continue;
                }
                free(h->items[i].what);
                free(h->items[i].comm);
        }
        h->n = n;
}

static int find_lasting(uint32_t id, uint64_t deadline_usec, bool beside_claim, Holders *ret) {
        uint64_t deadline = now_usec() + LASTING_USEC;
        int r;

        if (deadline_usec > 0 && deadline_usec < deadline)
                deadline = deadline_usec;
        for (;;) {
                r = find(id, deadline_usec, beside_claim, ret);
                if (r < 0)
                        return r;
                if (!only_processes(ret) || now_usec() >= deadline) {
                        drop_udev(ret);
                        return 0;
                }
                holders_done(ret);
                /* Nothing tells when a disk is closed. */
                (void) nanosleep(&(struct timespec) { .tv_nsec = 50 * 1000 * 1000 }, NULL);
        }
}

int holders_find_lasting(uint32_t id, uint64_t deadline_usec, Holders *ret) {
        return find_lasting(id, deadline_usec, /* beside_claim= */ false, ret);
}

int holders_find_beside_claim(uint32_t id, uint64_t deadline_usec, Holders *ret) {
        return find_lasting(id, deadline_usec, /* beside_claim= */ true, ret);
}

static int describe_one(const Holder *h, char **ret) {
        switch (h->kind) {
        case HOLDER_MOUNT:
                return xasprintf(ret, "mounted at %s", h->what);
        case HOLDER_SWAP:
                return xasprintf(ret, "used as swap (%s)", h->what);
        case HOLDER_PROCESS:
                return xasprintf(ret, "open in %s (pid %d)", h->comm ? h->comm : "?", (int) h->pid);
        default:
                return xasprintf(ret, "used by %s", h->what);
        }
}

int holders_describe(const Holders *h, char **ret) {
        _cleanup_free_ char *text = NULL;
        int r;

        r = xstrdup(h->n == 0 ? "not in use" : "", &text);
        for (size_t i = 0; r >= 0 && i < h->n && i < MAX_DESCRIBED; i++) {
                _cleanup_free_ char *one = NULL, *before = TAKE_PTR(text);

                r = describe_one(&h->items[i], &one);
                if (r >= 0)
                        r = xasprintf(&text, "%s%s%s", before, i > 0 ? ", " : "", one);
        }
        if (r >= 0 && h->n > MAX_DESCRIBED) {
                _cleanup_free_ char *before = TAKE_PTR(text);

                r = xasprintf(&text, "%s and %zu more", before, h->n - MAX_DESCRIBED);
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(text);
        return 0;
}

/* Paths and names of processes are bytes; JSON is not. */
static json_t *json_text(const char *s) {
        json_t *j = json_string(s);

        if (!j) {
                _cleanup_free_ char *copy = strdup(s);

                for (char *p = copy; p && *p; p++)
                        if ((unsigned char) *p >= 0x80)
                                *p = '?';
                j = json_string(copy ? copy : "?");
        }
        return j;
}

json_t *holders_to_json(const Holders *h) {
        json_t *list = json_array();

        for (size_t i = 0; i < h->n; i++) {
                const Holder *x = &h->items[i];
                json_t *j = json_pack("{ss so}", "kind", holder_kind_to_string(x->kind), "what",
                                      json_text(x->what));

                if (j && x->kind == HOLDER_PROCESS) {
                        (void) json_object_set_new(j, "pid", json_integer(x->pid));
                        (void) json_object_set_new(j, "comm", json_text(x->comm ? x->comm : "?"));
                }
                if (!j || json_array_append_new(list, j) < 0) {
                        json_decref(list);
                        return NULL;
                }
        }
        return list;
}
