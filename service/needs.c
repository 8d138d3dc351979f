/* SPDX-License-Identifier: MIT */
#include "service/needs.h"

int needs_note(DeviceConfig *c, const char *need) {
        if (streq(need, "network"))
                c->network = true;
        else if (streq(need, "jit"))
                c->jit = true;
        else
                return -EINVAL;
        return 0;
}

bool needs_any(const DeviceConfig *c) {
        return c->network || c->jit;
}

/* A disk whose bytes come from the network is stopped before that is. The names of hosts count as network. */
static void put_network_order(FILE *f) {
        fputs("[Unit]\n"
              "Wants=network-online.target\n"
              "After=network.target network-online.target nss-lookup.target\n"
              "\n", f);
}

static void put_network(FILE *f) {
        fputs("PrivateNetwork=no\n"
              "IPAddressDeny=\n"
              "RestrictAddressFamilies=AF_INET AF_INET6\n", f);
}

int needs_drop_in(const DeviceConfig *c, char **ret) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *f;

        f = open_memstream(&text, &size);
        if (!f)
                return -ENOMEM;
        fprintf(f, "# Made by ublk-ruby-generator: what the hook of device %s needs. See ublk-ruby.service(8).\n\n", c->name);
        if (c->network)
                put_network_order(f);
        fputs("[Service]\n", f);
        if (c->network)
                put_network(f);
        if (c->jit)
                fputs("MemoryDenyWriteExecute=no\n", f);
        if (fclose(f) != 0)
                return -ENOMEM;
        *ret = TAKE_PTR(text);
        return 0;
}
