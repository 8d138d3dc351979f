/* SPDX-License-Identifier: MIT */
#include "service/holders-scan.h"

#include "service/config.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define MAX_MOUNTINFO (4U << 20)
#define MAX_CGROUP (64U << 10)
/* Lines of /proc/PID/maps and fdinfo that one look at all processes reads: four seconds' worth, at a microsecond each. */
#define MAX_LINES (1U << 22)
#define MAX_NVMET 1024

static DIR *open_directory(const char *format, ...) _printf_(1, 2);

static DIR *open_directory(const char *format, ...) {
        _cleanup_free_ char *path = NULL;
        va_list ap;
        int r;

        va_start(ap, format);
        r = config_vpath(&path, format, ap);
        va_end(ap);
        return r >= 0 ? opendir(path) : NULL;
}

static FILE *open_file(const char *format, ...) _printf_(1, 2);

static FILE *open_file(const char *format, ...) {
        _cleanup_free_ char *path = NULL;
        va_list ap;
        int r;

        va_start(ap, format);
        r = config_vpath(&path, format, ap);
        va_end(ap);
        return r >= 0 ? fopen(path, "re") : NULL;
}

static void read_line(const char *path, char *buffer, size_t size) {
        _cleanup_fclose_ FILE *f = open_file("%s", path);

        *buffer = 0;
        if (f && fgets(buffer, (int) size, f))
                buffer[strcspn(buffer, "\n")] = 0;
}

static void add_number(Disk *d, const char *path) {
        unsigned major, minor;
        char line[64];

        read_line(path, line, sizeof(line));
        if (sscanf(line, "%u:%u", &major, &minor) == 2 && d->n_numbers < DISK_MAX_NUMBERS &&
            !disk_has_number(d, makedev(major, minor)))
                d->numbers[d->n_numbers++] = makedev(major, minor);
}

int disk_read(uint32_t id, Disk *ret) {
        _cleanup_closedir_ DIR *dir = NULL;
        Disk d = { .id = id };
        char path[512];

        dir = open_directory("/sys/block/ublkb%u", id);
        if (!dir)
                return errno == ENOENT ? -ENODEV : -errno;
        (void) snprintf(path, sizeof(path), "/sys/block/ublkb%u/dev", id);
        add_number(&d, path);
        for (struct dirent *e; (e = readdir(dir));)
                if (disk_has_name(&d, e->d_name)) {
                        (void) snprintf(path, sizeof(path), "/sys/block/ublkb%u/%s/dev", id, e->d_name);
                        add_number(&d, path);
                }
        *ret = d;
        return 0;
}

bool disk_has_path(const Disk *d, const char *path) {
        struct stat st;

        if (disk_has_name(d, path))
                return true;
        return strncmp(path, "/dev/", 5) == 0 && stat(path, &st) == 0 && S_ISBLK(st.st_mode) &&
               disk_has_number(d, st.st_rdev);
}

static void add_tower(Disk *d, const char *name);

/* Entries of a directory in /sys that are block devices; prefix: of their names. */
static void add_towers(Disk *d, DIR *dir, const char *prefix) {
        for (struct dirent *e; dir && (e = readdir(dir));)
                if (e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0)
                        add_tower(d, e->d_name);
}

/* A block device, its partitions, and all that holds one of them. */
static void add_tower(Disk *d, const char *name) {
        _cleanup_closedir_ DIR *partitions = NULL, *holders = NULL;
        size_t before = d->n_numbers;
        char path[512];

        (void) snprintf(path, sizeof(path), "/sys/class/block/%s/dev", name);
        add_number(d, path);
        if (d->n_numbers == before)
                return; /* known, or no block device */
        partitions = open_directory("/sys/class/block/%s", name);
        add_towers(d, partitions, name);
        holders = open_directory("/sys/class/block/%s/holders", name);
        add_towers(d, holders, "");
}

/* Calls f with each loop device and the path that it was set up with, until non-zero. */
static int for_each_loop(int (*f)(const char *name, const char *file, void *userdata), void *userdata) {
        _cleanup_closedir_ DIR *dir = open_directory("/sys/block");
        int r;

        for (struct dirent *e; dir && (e = readdir(dir));) {
                char path[512], file[512];

                if (strncmp(e->d_name, "loop", 4) != 0)
                        continue;
                (void) snprintf(path, sizeof(path), "/sys/block/%s/loop/backing_file", e->d_name);
                read_line(path, file, sizeof(file));
                r = *file ? f(e->d_name, file, userdata) : 0;
                if (r != 0)
                        return r;
        }
        return 0;
}

/* A loop device on what is there already; one on that again is found next time. */
static int add_loop_tower(const char *name, const char *file, void *userdata) {
        Disk *d = userdata;

        if (disk_has_path(d, file))
                add_tower(d, name);
        return 0;
}

void disk_add_stacked(Disk *d) {
        char name[32];
        size_t before;

        (void) snprintf(name, sizeof(name), "ublkb%u", d->id);
        d->n_numbers = 0;
        add_tower(d, name);
        do {
                before = d->n_numbers;
                (void) for_each_loop(add_loop_tower, d);
        } while (d->n_numbers > before);
}

static int add_names(Holders *h, DIR *dir) {
        int r;

        for (struct dirent *e; dir && (e = readdir(dir));) {
                if (e->d_name[0] == '.')
                        continue;
                r = holders_add(h, HOLDER_DEVICE, e->d_name, 0, NULL);
                if (r < 0)
                        return r;
        }
        return 0;
}

typedef struct Scan {
        Holders *holders;
        const Disk *disk;
        unsigned n_lines; /* read so far, of MAX_LINES */
} Scan;

/* A loop device on a block device claims it for an instant only, and shows in no holders directory. */
static int add_loop(const char *name, const char *file, void *userdata) {
        const Scan *scan = userdata;

        return disk_has_name(scan->disk, file) ? holders_add(scan->holders, HOLDER_DEVICE, name, 0, NULL) : 0;
}

static int add_nvmet_namespace(Holders *h, const Disk *d, const char *subsystem, const char *number) {
        _cleanup_free_ char *text = NULL;
        char path[1024], line[4096];
        int r;

        (void) snprintf(path, sizeof(path), "/sys/kernel/config/nvmet/subsystems/%s/namespaces/%s/device_path", subsystem,
                        number);
        read_line(path, line, sizeof(line));
        if (!disk_has_path(d, line))
                return 0;
        (void) snprintf(path, sizeof(path), "/sys/kernel/config/nvmet/subsystems/%s/namespaces/%s/enable", subsystem, number);
        read_line(path, line, sizeof(line));
        if (streq(line, "0"))
                return 0;
        r = xasprintf(&text, "nvmet %s/%s", subsystem, number);
        return r < 0 ? r : holders_add(h, HOLDER_DEVICE, text, 0, NULL);
}

/* The NVMe target of the kernel opens a block device, not exclusively, and with no descriptor. */
static int add_nvmet(Holders *h, const Disk *d) {
        _cleanup_closedir_ DIR *subsystems = open_directory("/sys/kernel/config/nvmet/subsystems");
        unsigned n = 0;
        int r;

        for (struct dirent *s; subsystems && (s = readdir(subsystems));) {
                _cleanup_closedir_ DIR *namespaces = NULL;

                if (s->d_name[0] == '.')
                        continue;
                namespaces = open_directory("/sys/kernel/config/nvmet/subsystems/%s/namespaces", s->d_name);
                for (struct dirent *e; namespaces && (e = readdir(namespaces));) {
                        if (e->d_name[0] == '.' || ++n > MAX_NVMET)
                                continue;
                        r = add_nvmet_namespace(h, d, s->d_name, e->d_name);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

int holders_add_stacked(Holders *h, const Disk *d) {
        _cleanup_closedir_ DIR *dir = NULL, *own = NULL;
        int r;

        own = open_directory("/sys/block/ublkb%u/holders", d->id);
        r = add_names(h, own);
        if (r < 0)
                return r;
        dir = open_directory("/sys/block/ublkb%u", d->id);
        for (struct dirent *e; dir && (e = readdir(dir));) {
                _cleanup_closedir_ DIR *part = NULL;

                if (!disk_has_name(d, e->d_name))
                        continue;
                part = open_directory("/sys/block/ublkb%u/%s/holders", d->id, e->d_name);
                r = add_names(h, part);
                if (r < 0)
                        return r;
        }
        r = for_each_loop(add_loop, &(Scan) { .holders = h, .disk = d });
        return r < 0 ? r : add_nvmet(h, d);
}

int for_each_process(int (*f)(pid_t pid, void *userdata), void *userdata) {
        _cleanup_closedir_ DIR *dir = open_directory("/proc");
        int r;

        if (!dir)
                return -errno;
        for (struct dirent *e; (e = readdir(dir));) {
                uint32_t pid;

                if (parse_u32(e->d_name, INT32_MAX, &pid) < 0 || pid == 0)
                        continue;
                r = f((pid_t) pid, userdata);
                if (r != 0)
                        return r;
        }
        return 0;
}

void process_name(pid_t pid, char ret[static 16]) {
        char path[64];

        (void) snprintf(path, sizeof(path), "/proc/%d/comm", (int) pid);
        read_line(path, ret, 16);
        if (!*ret)
                (void) snprintf(ret, 16, "?");
}

/* "0::/system.slice/systemd-udevd.service/udev", or a line each for the hierarchies of version 1. */
bool process_is_udev(pid_t pid) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        const char *unit;

        if (config_path(&path, "/proc/%d/cgroup", (int) pid) < 0 ||
            read_file(path, MAX_CGROUP, &text, NULL) < 0)
                return false;
        unit = strstr(text, ":/system.slice/systemd-udevd.service");
        return unit && strchr("/\n", unit[strlen(":/system.slice/systemd-udevd.service")]);
}

/* Calls f with the target of each open file of a process that lies in /dev or is named as one of ours, until
 * non-zero. By the link's text first: stat(2) of any other file may hang, on a dead NFS server for one. */
static int for_each_open_device(pid_t pid,
                                int (*f)(const char *target, const struct stat *st, void *userdata),
                                void *userdata) {
        _cleanup_closedir_ DIR *dir = open_directory("/proc/%d/fd", (int) pid);
        int r;

        for (struct dirent *e; dir && (e = readdir(dir));) {
                char target[4096];
                struct stat st;
                ssize_t n;

                n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);
                if (n <= 0)
                        continue;
                target[n] = 0;
                if ((strncmp(target, "/dev/", 5) != 0 && !strstr(target, "/ublk")) ||
                    fstatat(dirfd(dir), e->d_name, &st, 0) < 0)
                        continue;
                r = f(target, &st, userdata);
                if (r != 0)
                        return r;
        }
        return 0;
}

static int is_of_disk(const char *target, const struct stat *st, void *userdata) {
        (void) target;
        return S_ISBLK(st->st_mode) && disk_has_number(userdata, st->st_rdev);
}

/* "7f0e5c000000-7f0e5c021000 rw-s 00000000 00:05 731   /dev/ublkb0": the device there is the one that the node lies
 * on. A mapping lasts when its descriptor is closed. */
static bool maps_line_is_of_disk(pid_t pid, const Disk *d, const char *line) {
        _cleanup_free_ char *link = NULL;
        unsigned long begin, end;
        const char *path = strchr(line, '/');
        char name[64];
        struct stat st;

        if (!path || (strncmp(path, "/dev/", 5) != 0 && !strstr(path, "/ublk")) ||
            sscanf(line, "%lx-%lx", &begin, &end) != 2)
                return false;
        if (config_path(&link, "/proc/%d/map_files/%lx-%lx", (int) pid, begin, end) >= 0 && stat(link, &st) == 0)
                return S_ISBLK(st.st_mode) && disk_has_number(d, st.st_rdev);
        (void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(path, " "), path); /* "/dev/ublkb0 (deleted)" */
        return disk_has_name(d, name);
}

static bool maps_disk(pid_t pid, Scan *scan) {
        _cleanup_fclose_ FILE *f = open_file("/proc/%d/maps", (int) pid);
        _cleanup_free_ char *line = NULL;
        size_t size = 0;

        while (f && scan->n_lines < MAX_LINES && getline(&line, &size, f) >= 0) {
                scan->n_lines++;
                line[strcspn(line, "\n")] = 0;
                if (maps_line_is_of_disk(pid, scan->disk, line))
                        return true;
        }
        return false;
}

/* After "UserFiles:" a line for each registered file, which lasts when its descriptor is closed: "    3: /dev/ublkb0". Before
 * Linux 6.10 only "ublkb0", so that a file of that name elsewhere keeps the disk, too: rather that than the opposite. None of
 * it is there while the ring is at work just then. */
static bool ring_has_disk(pid_t pid, const char *fd, Scan *scan) {
        _cleanup_fclose_ FILE *f = open_file("/proc/%d/fdinfo/%s", (int) pid, fd);
        _cleanup_free_ char *line = NULL;
        bool files = false;
        size_t size = 0;

        while (f && scan->n_lines < MAX_LINES && getline(&line, &size, f) >= 0) {
                const char *colon;

                scan->n_lines++;
                line[strcspn(line, "\n")] = 0;
                if (line[0] != ' ') {
                        files = strncmp(line, "UserFiles:", 10) == 0;
                        continue;
                }
                colon = strstr(line, ": ");
                if (files && colon && disk_has_path(scan->disk, colon + 2))
                        return true;
        }
        return false;
}

static bool registered_disk(pid_t pid, Scan *scan) {
        _cleanup_closedir_ DIR *dir = open_directory("/proc/%d/fd", (int) pid);

        for (struct dirent *e; dir && (e = readdir(dir));) {
                char target[64];
                ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

                if (n <= 0)
                        continue;
                target[n] = 0;
                if (streq(target, "anon_inode:[io_uring]") && ring_has_disk(pid, e->d_name, scan))
                        return true;
        }
        return false;
}

static int add_opener(pid_t pid, void *userdata) {
        Scan *scan = userdata;
        char comm[16], node[32];

        if (pid == getpid() || (for_each_open_device(pid, is_of_disk, (void *) scan->disk) == 0 && !maps_disk(pid, scan) &&
                                !registered_disk(pid, scan)))
                return 0;
        process_name(pid, comm);
        (void) snprintf(node, sizeof(node), "/dev/ublkb%u", scan->disk->id);
        return holders_add(scan->holders, HOLDER_PROCESS, node, pid, comm);
}

int holders_add_openers(Holders *h, const Disk *d) {
        Scan scan = { .holders = h, .disk = d };
        int r;

        r = for_each_process(add_opener, &scan);
        if (r < 0 || scan.n_lines < MAX_LINES)
                return r;
        return holders_add(h, HOLDER_DEVICE, "perhaps a process: they have more mappings than can be looked through", 0, NULL);
}

static int add_mounts_of(pid_t pid, void *userdata) {
        const Scan *scan = userdata;
        _cleanup_free_ char *path = NULL, *text = NULL;

        if (config_path(&path, "/proc/%d/mountinfo", (int) pid) < 0 ||
            read_file(path, MAX_MOUNTINFO, &text, NULL) < 0)
                return 0; /* gone in the meantime */
        return holders_add_mounts(scan->holders, scan->disk, text);
}

int holders_add_foreign_mounts(Holders *h, const Disk *d) {
        return for_each_process(add_mounts_of, &(Scan) { .holders = h, .disk = d });
}

typedef struct NodeScan {
        const char *node;
        char *text;
} NodeScan;

static int is_node(const char *target, const struct stat *st, void *userdata) {
        const char *node = userdata;
        size_t n = strlen(node);

        (void) st;
        return strncmp(target, node, n) == 0 && (target[n] == 0 || streq(target + n, " (deleted)"));
}

static int add_node_opener(pid_t pid, void *userdata) {
        NodeScan *scan = userdata;
        _cleanup_free_ char *before = NULL;
        char comm[16];
        int r;

        if (for_each_open_device(pid, is_node, (void *) scan->node) == 0)
                return 0;
        process_name(pid, comm);
        before = TAKE_PTR(scan->text);
        r = xasprintf(&scan->text, "%s%s%s (pid %d)", before ? before : "", before ? ", " : "", comm,
                      (int) pid);
        return r < 0 ? r : 0;
}

int node_openers_describe(const char *node, char **ret) {
        NodeScan scan = { .node = node };
        bool found;
        int r;

        r = for_each_process(add_node_opener, &scan);
        found = scan.text;
        if (r >= 0 && !found)
                r = xstrdup("no process that can be seen: a ring or a mapping, perhaps", &scan.text);
        if (r < 0) {
                free(scan.text);
                return r;
        }
        *ret = scan.text;
        return found;
}
