/* SPDX-License-Identifier: MIT */
#include "service/mounts.h"

#include "service/config.h"

#include <fcntl.h>
#include <sys/stat.h>

#define MOUNTINFO "/proc/self/mountinfo"
#define MOUNTINFO_MAX (4U << 20)

/* The kernel writes space, tab, newline and backslash as \ooo. */
static void unescape(char *s) {
        char *out = s;
        unsigned c;

        for (; *s; s++)
                if (s[0] == '\\' && sscanf(s + 1, "%3o", &c) == 1) {
                        *out++ = (char) c;
                        s += 3;
                } else
                        *out++ = *s;
        *out = 0;
}

/* "36 35 8:1 /root /mnt rw,noatime shared:1 - ext4 /dev/sda1 rw": what lies before " - " has a varying number of fields. */
static bool parse_line(char *line, Mount *ret) {
        char *tail = strstr(line, " - "), *state = NULL, *fields[7];

        if (!tail)
                return false;
        *tail = 0;
        for (size_t i = 0; i < 5; i++)
                fields[i] = strtok_r(i == 0 ? line : NULL, " ", &state);
        fields[5] = strtok_r(tail + 3, " ", &state);
        fields[6] = strtok_r(NULL, " ", &state);
        if (!fields[4] || !fields[5])
                return false;
        unescape(fields[3]);
        unescape(fields[4]);
        *ret = (Mount) { .device = fields[2], .root = fields[3], .point = fields[4], .type = fields[5], .source = fields[6] ? fields[6] : "" };
        return true;
}

int mounts_parse(Mounts *m, char *text) {
        char *state = text, *line;

        *m = (Mounts) { .text = text };
        while ((line = strsep(&state, "\n"))) {
                Mount *grown = reallocarray(m->all, m->n + 1, sizeof(Mount));

                if (!grown) {
                        mounts_done(m);
                        return -ENOMEM;
                }
                m->all = grown;
                m->n += parse_line(line, &grown[m->n]);
        }
        return 0;
}

int mounts_read(Mounts *m) {
        _cleanup_free_ char *path = NULL;
        char *text;
        int r;

        r = config_path(&path, MOUNTINFO);
        if (r >= 0)
                r = read_file(access(path, F_OK) >= 0 ? path : MOUNTINFO, MOUNTINFO_MAX, &text, NULL);
        return r < 0 ? r : mounts_parse(m, text);
}

void mounts_done(Mounts *m) {
        free(m->all);
        free(m->text);
        *m = (Mounts) { 0 };
}

/* The next name of a path, which is not terminated; its length is 0 at the end. "//" and "/./" are "/". */
static const char *next_name(const char **path, size_t *ret_length) {
        const char *name;

        do {
                name = *path + strspn(*path, "/");
                *ret_length = strcspn(name, "/");
                *path = name + *ret_length;
        } while (*ret_length == 1 && *name == '.');
        return name;
}

/* What of path is below directory, "" for directory itself; NULL: it is not there. */
static const char *below(const char *path, const char *directory) {
        size_t n, k;

        for (;;) {
                const char *wanted = next_name(&directory, &n), *before = path, *name = next_name(&path, &k);

                if (n == 0)
                        return before + strspn(before, "/");
                if (n != k || strncmp(wanted, name, n) != 0)
                        return NULL;
        }
}

/* Of several on the same directory the last one hides the others. */
const Mount *mounts_find(const Mounts *m, const char *path) {
        const Mount *found = NULL;

        for (size_t i = 0; i < m->n; i++)
                if (below(path, m->all[i].point) && (!found || below(m->all[i].point, found->point)))
                        found = &m->all[i];
        return found;
}

/* The same file systems, some parts of which a service has mounted onto themselves so that they can be read only. */
static bool is_part_of(const Mount *mount, const Mount *root) {
        _cleanup_free_ char *there = NULL;

        if (!streq(mount->device, root->device) || xasprintf(&there, "%s/%s", root->root, mount->point) < 0)
                return false;
        return below(there, mount->root) && below(mount->root, there);
}

bool mounts_is_elsewhere(const Mounts *m, const char *path) {
        const Mount *mount = mounts_find(m, path), *root = mounts_find(m, "/");

        return mount != root && (!root || !is_part_of(mount, root));
}

static bool may_hang(const Mount *mount) {
        static const char *const types[] = { "afs", "autofs", "ceph", "cifs", "coda", "fuse", "gfs2", "glusterfs", "lustre", "nfs", "nfs4",
                                             "ocfs2", "orangefs", "smb3", "smbfs" };

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (streq(mount->type, types[i]))
                        return true;
        return strncmp(mount->type, "fuse.", strlen("fuse.")) == 0 || strncmp(mount->source, "/dev/ublkb", strlen("/dev/ublkb")) == 0;
}

/* Neither it, nor any on the way to it. */
static const Mount *find_at_hand(const Mounts *m, const char *path) {
        for (size_t i = 0; i < m->n; i++)
                if (may_hang(&m->all[i]) && below(path, m->all[i].point))
                        return NULL;
        return mounts_find(m, path);
}

/* Name by name, as none of them may be a link or have something mounted on it. Not with openat2(2), which would do all of it:
 * RestrictSUIDSGID= of the unit forbids that one, as its filter can't look into it. */
static int open_on_mount(const Mount *mount, const char *rest) {
        _cleanup_close_ int fd = open(mount->point, O_PATH | O_CLOEXEC);
        uint64_t wanted, got;
        size_t n;
        int r;

        if (fd < 0)
                return -errno;
        r = fd_mount_id(fd, &wanted);
        for (const char *at = rest, *word; r >= 0 && (word = next_name(&at, &n), n > 0);) {
                _cleanup_free_ char *name = strndup(word, n);
                struct stat st;
                int next;

                if (!name)
                        return -ENOMEM;
                next = openat(fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
                if (next < 0)
                        return -errno;
                safe_close(fd);
                fd = next;
                r = fd_mount_id(fd, &got);
                if (r >= 0 && (got != wanted || fstat(fd, &st) < 0 || S_ISLNK(st.st_mode)))
                        return -EREMOTE;
        }
        return r < 0 ? r : TAKE_FD(fd);
}

int mounts_open_at_hand(const char *path, int *ret_fd) {
        const Mount *mount;
        Mounts m;
        int r;

        r = mounts_read(&m);
        if (r < 0)
                return r == -ENOMEM ? r : -EREMOTE; /* who knows */
        mount = find_at_hand(&m, path);
        r = mount ? open_on_mount(mount, below(path, mount->point)) : -EREMOTE;
        mounts_done(&m);
        if (r < 0)
                return r;
        *ret_fd = r;
        return 0;
}
