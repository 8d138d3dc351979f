/* SPDX-License-Identifier: MIT */

/*
 * ublk-ruby-generator NORMAL EARLY LATE: systemd.generator(7), run at boot and with each reload, before any unit. Makes a
 * drop-in for each device whose file says that its hook needs more of its unit than others have: see needs.h. Whatever is wrong
 * with one device must keep neither another one nor the machine from starting.
 */

#include "service/log.h"
#include "service/needs.h"
#include "service/paths.h"
#include "service/trial.h"

#include <getopt.h>
#include <sys/stat.h>

static int write_drop_in(const DeviceConfig *c, const char *directory) {
        _cleanup_free_ char *text = NULL, *folder = NULL, *path = NULL;
        int r;

        r = needs_drop_in(c, &text);
        if (r == 0)
                return 0;
        if (r >= 0)
                r = xasprintf(&folder, "%s/" UNIT_DEVICE ".d", directory, c->id);
        if (r >= 0)
                r = xasprintf(&path, "%s/50-needs.conf", folder);
        if (r >= 0)
                r = mkdir_parents(folder, 0755);
        return r < 0 ? r : write_file_atomic(path, text, strlen(text), 0644);
}

static int generate(uint32_t id, const char *directory) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = device_config_load(id, &c, &message);
        if (r == -ENOENT)
                return 0;
        if (r < 0) {
                log_warning("Device file %u.conf can't be read, skipping it: %s", id, message ? message : strerror(-r));
                return r;
        }
        trial_add_needs(c);
        r = write_drop_in(c, directory);
        return r < 0 ? log_error_errno(r, "The drop-in of device %u (%s) can't be written", id, c->name) : 0;
}

static int generate_all(const char *directory) {
        _cleanup_free_ uint32_t *ids = NULL;
        size_t n;
        int r;

        r = device_config_list(&ids, &n);
        if (r < 0)
                return log_error_errno(r, "The devices' files can't be listed");
        for (size_t i = 0; i < n; i++)
                if (generate(ids[i], directory) < 0)
                        r = -EIO; /* said */
        return r;
}

static void help(void) {
        puts("ublk-ruby-generator [--root=DIRECTORY] NORMAL EARLY LATE\n"
             "\n"
             "Run by systemd at boot and when it reloads: gives the units of devices what their hooks need.\n"
             "\n"
             "  -h --help              Show this help\n"
             "     --root=DIRECTORY    For tests only: look for /run and /etc below it, and report to standard error");
}

int main(int argc, char *argv[]) {
        enum { ARG_ROOT = 256 };
        static const struct option options[] = {
                { "help", no_argument, NULL, 'h' },
                { "root", required_argument, NULL, ARG_ROOT },
                {},
        };
        const char *root = NULL;
        int c;

        while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0)
                switch (c) {
                case 'h':
                        help();
                        return 0;
                case ARG_ROOT:
                        root = optarg;
                        break;
                default:
                        return 2;
                }
        if (root)
                log_setup("ublk-ruby-generator");
        else
                log_setup_kernel("ublk-ruby-generator");
        if (optind + 3 != argc) {
                log_error("Three arguments are needed, the directories that systemd gives to a generator.");
                return 2;
        }
        (void) umask(0022);
        config_set_root(root);
        return generate_all(argv[optind]) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
