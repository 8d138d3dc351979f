/* SPDX-License-Identifier: MIT */
#include "service/strays.h"

#include "service/config.h"
#include "service/holders-scan.h"
#include "service/log.h"
#include "service/probe.h"
#include "service/release.h"

/* Owned by the caller; NULL if a file fits. */
static int find_fault(const struct ublk_dev_info *info, char **ret) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        r = device_config_load(info->dev_id, &c, &message);
        if (r == -ENOENT)
                return xstrdup("there is no file of it", ret);
        if (r < 0)
                return xasprintf(ret, "its file can't be read (%s)", message ? message : strerror(-r));
        if (info->ublksrv_flags != device_config_kernel_tag(c))
                return xasprintf(ret, "the file of its id is that of %s, another device", c->name);
        *ret = NULL;
        return 0;
}

static bool has_file(uint32_t id) {
        _cleanup_(device_config_freep) DeviceConfig *c = NULL;
        _cleanup_free_ char *message = NULL;

        return device_config_load(id, &c, &message) != -ENOENT;
}

static bool is_served(const struct ublk_dev_info *info, char **ret_server) {
        char node[32];

        (void) snprintf(node, sizeof(node), "/dev/ublkc%u", info->dev_id);
        return info->state == UBLK_S_DEV_LIVE && node_openers_describe(node, ret_server) > 0;
}

static int describe_state(const struct ublk_dev_info *info, char **ret) {
        _cleanup_free_ char *server = NULL;

        if (is_served(info, &server))
                return xasprintf(ret, "it is served by %s", server);
        if (info->state == UBLK_S_DEV_DEAD)
                return xstrdup("it has ended", ret);
        return xstrdup(info->state == UBLK_S_DEV_FAIL_IO ? "nobody serves it, its I/O fails" : "nobody serves it, its I/O waits",
                       ret);
}

int stray_judge(const struct ublk_dev_info *info, char **ret_why) {
        _cleanup_free_ char *fault = NULL, *state = NULL;
        int r;

        if (!kernel_tag_is_ours(info->ublksrv_flags))
                return 0;
        r = find_fault(info, &fault);
        if (r < 0 || !fault)
                return r;
        r = describe_state(info, &state);
        if (r >= 0)
                r = xasprintf(ret_why, "%s; %s", fault, state);
        return r < 0 ? r : 1;
}

static int check_stray(Control *control, uint32_t id, struct ublk_dev_info *ret, Failure *f) {
        _cleanup_free_ char *why = NULL;
        int r;

        r = control_get_info(control, id, ret);
        if (r == -ENODEV)
                return failure_set(f, FAILURE_ARGUMENTS, ENODEV, "there is no ublk device %u in the kernel", id);
        if (r < 0)
                return failure_set(f, FAILURE_KERNEL, -r, "the kernel does not tell the state of device %u: %s", id,
                                   strerror(-r));
        if (!kernel_tag_is_ours(ret->ublksrv_flags))
                return failure_set(f, FAILURE_ARGUMENTS, EPERM,
                                   "/dev/ublkb%u belongs to another program, which is the one to remove it", id);
        r = stray_judge(ret, &why);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "can't tell whether device %u is a stray: %s", id, strerror(-r));
        if (r == 0)
                return failure_set(f, FAILURE_ARGUMENTS, EINVAL, "device %u is no stray: its file describes it; delete it as any "
                                   "device", id);
        return 0;
}

int stray_remove(uint32_t id, bool force, bool *ret_served, Failure *f) {
        _cleanup_(control_freep) Control *control = NULL;
        _cleanup_free_ char *server = NULL;
        struct ublk_dev_info info;
        int r;

        *ret_served = false;
        r = probe_open_control(&control, f);
        if (r >= 0)
                r = check_stray(control, id, &info, f);
        if (r >= 0 && !force)
                r = check_unused(id, f);
        if (r < 0)
                return r;
        if (is_served(&info, &server)) {
                *ret_served = true;
                return 0;
        }
        r = remove_from_kernel(control, id, f);
        if (r < 0)
                return r;
        if (!has_file(id))
                forget_device(id);
        log_info("Device %u, a stray, is deleted.", id);
        return 0;
}
