/* SPDX-License-Identifier: MIT */
#include "service/probe-facts.h"

#include "service/config.h"
#include "service/paths.h"
#include "service/privileges.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#define MODULE "ublk_drv"
#define MAX_GROUPS 1024

static bool below_root(const char *path) {
        _cleanup_free_ char *p = NULL;

        return config_path(&p, "%s", path) >= 0 && access(p, F_OK) == 0;
}

static FILE *open_below_root(const char *path) {
        _cleanup_free_ char *p = NULL;

        return config_path(&p, "%s", path) >= 0 ? fopen(p, "re") : NULL;
}

/* modules.dep is text, modules.dep.bin has the same paths in it. Neither has a limit that we know of, so
 * nothing is kept. */
static bool file_mentions_module(const char *release, const char *name) {
        static const char needle[] = "/" MODULE ".ko";
        _cleanup_fclose_ FILE *f = NULL;
        _cleanup_free_ char *path = NULL;
        size_t matched = 0;
        int c;

        if (xasprintf(&path, "/lib/modules/%s/%s", release, name) < 0)
                return false;
        f = open_below_root(path);
        if (!f)
                return false;
        while (needle[matched] && (c = getc(f)) != EOF)
                /* The needle's first byte occurs in it once only, so after a mismatch nothing but that byte
                 * can go on. */
                matched = c == needle[matched] ? matched + 1 : c == needle[0] ? 1 : 0;
        return !needle[matched];
}

/* modprobe takes - for _ and the other way round. */
static bool is_module(const char *word) {
        return word && (streq(word, "ublk_drv") || streq(word, "ublk-drv"));
}

static void read_modprobe_file(const char *path, ProbeFacts *f) {
        _cleanup_fclose_ FILE *file = open_below_root(path);
        _cleanup_free_ char *line = NULL;
        size_t size = 0;

        while (file && getline(&line, &size, file) >= 0) {
                char *state = NULL, *verb = strtok_r(line, " \t\n", &state),
                     *module = strtok_r(NULL, " \t\n", &state);

                if (!verb || !is_module(module) || (!streq(verb, "install") && !streq(verb, "blacklist")))
                        continue;
                (void) snprintf(f->kept_by, sizeof(f->kept_by), "`%s %s%s` in %s", verb, module,
                                streq(verb, "install") ? " …" : "", path);
                /* A blacklist only holds modules-load.d back, an install line holds everybody: it is the one
                 * to name. */
                if (streq(verb, "install"))
                        return;
        }
}

static void read_modprobe_directories(ProbeFacts *f) {
        static const char *const directories[] = {
                "/usr/lib/modprobe.d", "/lib/modprobe.d", "/usr/local/lib/modprobe.d",
                "/run/modprobe.d",     "/etc/modprobe.d",
        };

        for (size_t i = 0; i < ELEMENTSOF(directories); i++) {
                _cleanup_free_ char *root = NULL;
                _cleanup_closedir_ DIR *d = NULL;

                if (config_path(&root, "%s", directories[i]) < 0)
                        continue;
                d = opendir(root);
                for (struct dirent *e; d && (e = readdir(d));) {
                        _cleanup_free_ char *path = NULL;
                        size_t n = strlen(e->d_name);

                        if (n <= 5 || !streq(e->d_name + n - 5, ".conf") ||
                            xasprintf(&path, "%s/%s", directories[i], e->d_name) < 0)
                                continue;
                        read_modprobe_file(path, f);
                }
        }
}

static void read_command_line(ProbeFacts *f) {
        _cleanup_fclose_ FILE *file = open_below_root("/proc/cmdline");
        _cleanup_free_ char *line = NULL;
        size_t size = 0;
        char *state = NULL;

        if (!file || getline(&line, &size, file) < 0)
                return;
        for (char *word = strtok_r(line, " \n", &state); word; word = strtok_r(NULL, " \n", &state)) {
                char *list = strchr(word, '=');

                if (!list || (strncmp(word, "module_blacklist=", 17) != 0 &&
                              strncmp(word, "modprobe.blacklist=", 19) != 0))
                        continue;
                for (char *names = list + 1, *name; (name = strsep(&names, ","));)
                        if (is_module(name))
                                (void) snprintf(f->kept_by, sizeof(f->kept_by),
                                                "`%.*s=%s` on the kernel's command line", (int) (list - word),
                                                word, name);
        }
}

static bool read_number(const char *path, uint32_t *ret) {
        _cleanup_fclose_ FILE *f = open_below_root(path);
        long long v;

        if (!f || fscanf(f, "%lld", &v) != 1 || v < 0 || v > UINT32_MAX)
                return false;
        *ret = (uint32_t) v;
        return true;
}

void probe_facts_read_files(const char *release, ProbeFacts *ret) {
        _cleanup_free_ char *directory = NULL;

        (void) snprintf(ret->kernel, sizeof(ret->kernel), "%s", release);
        ret->loaded = below_root("/sys/module/" MODULE);
        ret->node = below_root(UBLK_CONTROL_NODE);
        ret->builtin = file_mentions_module(release, "modules.builtin");
        ret->module_there = file_mentions_module(release, "modules.dep") ||
                            file_mentions_module(release, "modules.dep.bin");
        ret->modules_known = xasprintf(&directory, "/lib/modules/%s", release) >= 0 && below_root(directory);
        read_command_line(ret);
        read_modprobe_directories(ret);
        if (!read_number("/proc/sys/kernel/io_uring_disabled", &ret->io_uring_disabled)) /* since Linux 6.6 */
                ret->io_uring_disabled = 0;
}

/* Not with the caller's credentials: probe runs as root, whom kernel.io_uring_disabled=1 lets pass. */
static void read_worker(ProbeFacts *f) {
        gid_t groups[MAX_GROUPS];
        int n = MAX_GROUPS;
        struct passwd *user;
        uint32_t wanted;

        user = getpwnam(WORKER_USER);
        if (!user)
                return;
        f->worker_exists = true;
        if (!read_number("/proc/sys/kernel/io_uring_group", &wanted) ||
            getgrouplist(user->pw_name, user->pw_gid, groups, &n) < 0)
                return;
        for (int i = 0; i < n; i++)
                if (groups[i] == wanted)
                        f->worker_in_group = true;
}

static bool have_admin(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

        /* No libcap for one bit. */
        return syscall(SYS_capget, &header, data) == 0 &&
               (data[0].effective & (UINT32_C(1) << CAP_SYS_ADMIN));
}

static bool in_initial_namespace(void) {
        _cleanup_fclose_ FILE *f = fopen("/proc/self/uid_map", "re");
        unsigned long long inside, outside, count;

        return f && fscanf(f, "%llu %llu %llu", &inside, &outside, &count) == 3 && outside == 0 &&
               count == UINT32_MAX;
}

static void try_device(ProbeFacts *f) {
        _cleanup_(control_freep) Control *c = NULL;
        _cleanup_close_ int fd = -EBADF;
        int r;

        fd = open(UBLK_CONTROL_NODE, O_RDWR | O_CLOEXEC);
        if (fd < 0) {
                f->open_error = -errno;
                return;
        }
        r = control_new(&c);
        if (r < 0) {
                f->ring_error = r;
                return;
        }
        f->features_error = control_get_features(c, &f->features);
}

void probe_facts_read(ProbeFacts *ret) {
        struct utsname u;
        ProbeFacts f = { 0 };

        (void) uname(&u);
        probe_facts_read_files(u.release, &f);
        read_worker(&f);
        f.admin = have_admin();
        f.initial_namespace = in_initial_namespace();
        f.isolation = privileges_can_isolate();
        if (f.node)
                try_device(&f);
        *ret = f;
}
