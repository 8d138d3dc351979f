/* SPDX-License-Identifier: MIT */
#include "service/list.h"

#include "service/config.h"
#include "service/features.h"
#include "service/probe.h"
#include "service/strays.h"

static const char *state_name(uint16_t state) {
        static const char *const names[] = {
                [UBLK_S_DEV_DEAD]     = "dead",
                [UBLK_S_DEV_LIVE]     = "live",
                [UBLK_S_DEV_QUIESCED] = "quiesced",
                [UBLK_S_DEV_FAIL_IO]  = "fail-io",
        };

        return state < ELEMENTSOF(names) ? names[state] : "unknown";
}

static json_t *flag_names(uint64_t flags) {
        json_t *list = json_array();

        for (size_t i = 0; i < UBLK_N_FEATURES; i++)
                if (flags & features[i].bit)
                        (void) json_array_append_new(list, json_string(features[i].name));
        return list;
}

static json_t *describe(const struct ublk_dev_info *info) {
        _cleanup_free_ char *why = NULL;
        char node[32];

        (void) snprintf(node, sizeof(node), "/dev/ublkb%u", info->dev_id);
        (void) stray_judge(info, &why);
        return json_pack("{si ss ss sb si si si si so ss*}", "id", (int) info->dev_id, "node", node, "state",
                         state_name(info->state), "ours", (int) kernel_tag_is_ours(info->ublksrv_flags),
                         "pid", (int) info->ublksrv_pid, "queues", (int) info->nr_hw_queues, "depth",
                         (int) info->queue_depth, "max-io-size", (int) info->max_io_buf_bytes, "flags",
                         flag_names(info->flags), "stray", why);
}

int list_devices(json_t **ret, Failure *f) {
        _cleanup_(control_freep) Control *c = NULL;
        _cleanup_free_ uint32_t *ids = NULL;
        json_t *list;
        size_t n = 0;
        int r;

        r = probe_open_control(&c, f);
        if (r < 0)
                return r;
        r = control_list_ids(&ids, &n);
        if (r < 0)
                return failure_set(f, FAILURE_WORKER, -r, "can't list ublk devices: %s", strerror(-r));
        list = json_array();
        for (size_t i = 0; i < n; i++) {
                struct ublk_dev_info info;

                r = control_get_info(c, ids[i], &info);
                if (r == -ENODEV) /* gone in the meantime */
                        continue;
                if (r < 0) {
                        json_decref(list);
                        return failure_set(f, FAILURE_KERNEL, -r, "the kernel tells nothing of device %u: %s",
                                           ids[i], strerror(-r));
                }
                (void) json_array_append_new(list, describe(&info));
        }
        *ret = list;
        return 0;
}

void list_print(const json_t *devices) {
        const json_t *d, *flag;
        size_t i, k;

        printf("%-8s %-9s %-8s %8s %7s %6s  %s\n", "ID", "STATE", "OWNER", "PID", "QUEUES", "DEPTH", "FLAGS");
        json_array_foreach(devices, i, d) {
                printf("%-8lld %-9s %-8s %8lld %7lld %6lld ", json_integer_value(json_object_get(d, "id")),
                       json_string_value(json_object_get(d, "state")),
                       json_is_true(json_object_get(d, "ours")) ? "ours" : "foreign",
                       json_integer_value(json_object_get(d, "pid")),
                       json_integer_value(json_object_get(d, "queues")),
                       json_integer_value(json_object_get(d, "depth")));
                json_array_foreach(json_object_get(d, "flags"), k, flag)
                        printf(" %s", json_string_value(flag));
                printf("\n");
                if (json_object_get(d, "stray"))
                        printf("%-8s stray: %s\n", "", json_string_value(json_object_get(d, "stray")));
        }
}
