/* SPDX-License-Identifier: MIT */
#include "service/needs.h"

#include "service/mounts.h"
#include "service/paths.h"
#include "service/secret.h"

const char *need_secret(const char *need, bool *ret_wanted) {
        static const char wanted[] = "secret:", loaded[] = "loaded:";

        *ret_wanted = strncmp(need, wanted, strlen(wanted)) == 0;
        if (*ret_wanted)
                return need + strlen(wanted);
        return strncmp(need, loaded, strlen(loaded)) == 0 ? need + strlen(loaded) : NULL;
}

static int note_secret(DeviceConfig *c, const char *option) {
        const Argument *a = device_config_find_argument(c, option);
        _cleanup_free_ char *grown = NULL;
        int r;

        if (!a || a->type != 's' || secret_reference(a->value) < 0)
                return -EINVAL;
        if (secret_is_listed(c->secrets, option))
                return 0;
        r = xasprintf(&grown, "%s%s%s", c->secrets ? c->secrets : "", c->secrets ? " " : "", option);
        return r < 0 ? r : device_config_set(c, "Secrets", grown, NULL);
}

int needs_note(DeviceConfig *c, const char *need) {
        const char *option;
        bool wanted;

        option = need_secret(need, &wanted);
        if (option)
                return note_secret(c, option);
        if (streq(need, "network"))
                c->network = true;
        else if (streq(need, "jit"))
                c->jit = true;
        else
                return -EINVAL;
        return 0;
}

bool needs_any(const DeviceConfig *c) {
        return c->network || c->jit || c->secrets;
}

/* What systemd takes for a path, in double quotes: it knows no escapes there. */
static bool is_path(const Argument *a) {
        if (a->type != 's' || a->value[0] != '/' || strstr(a->value, "/../") || strpbrk(a->value, "\"\\'"))
                return false;
        for (const char *p = a->value; *p; p++)
                if ((unsigned char) *p < ' ' || *p == 0x7f)
                        return false;
        return true;
}

bool needs_mounts(const DeviceConfig *c) {
        bool found = false;
        Mounts m;

        if (mounts_read(&m) < 0)
                return true;
        for (size_t i = 0; i < c->n_arguments && !found; i++)
                found = is_path(&c->arguments[i]) && mounts_is_elsewhere(&m, c->arguments[i].value);
        mounts_done(&m);
        return found;
}

static void put_mounts(FILE *f, const DeviceConfig *c) {
        for (size_t i = 0; i < c->n_arguments; i++) {
                if (!is_path(&c->arguments[i]))
                        continue;
                fputs("RequiresMountsFor=\"", f);
                for (const char *p = c->arguments[i].value; *p; p++)
                        fputs(*p == '%' ? "%%" : (const char[]) { *p, 0 }, f);
                fputs("\"\n", f);
        }
}

/* A disk whose bytes come from the network is stopped before that is. The names of hosts count as network. */
static void put_unit(FILE *f, const DeviceConfig *c) {
        fputs("[Unit]\n", f);
        if (c->network)
                fputs("Wants=network-online.target\n"
                      "After=network.target network-online.target nss-lookup.target\n", f);
        put_mounts(f, c);
}

static void put_network(FILE *f) {
        fputs("PrivateNetwork=no\n"
              "IPAddressDeny=\n"
              "RestrictAddressFamilies=AF_INET AF_INET6\n", f);
}

/* A credential that a drop-in of the administrator's sets is not in the store, and is left to that. */
static void put_secret(FILE *f, const Argument *a) {
        if (secret_reference(a->value) == SECRET_FILE)
                fprintf(f, "LoadCredential=%s:%s\n", a->name, a->value);
        else if (secret_is_stored(a->value))
                fprintf(f, "LoadCredential=%s\n", a->value);
}

static bool has_paths(const DeviceConfig *c) {
        for (size_t i = 0; i < c->n_arguments; i++)
                if (is_path(&c->arguments[i]))
                        return true;
        return false;
}

static void put_service(FILE *f, const DeviceConfig *c) {
        fputs("\n[Service]\n", f);
        if (c->network)
                put_network(f);
        if (c->jit)
                fputs("MemoryDenyWriteExecute=no\n", f);
        for (size_t i = 0; i < c->n_arguments; i++)
                if (secret_is_listed(c->secrets, c->arguments[i].name))
                        put_secret(f, &c->arguments[i]);
}

int needs_drop_in(const DeviceConfig *c, char **ret) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *f;

        if (!needs_any(c) && !has_paths(c))
                return 0;
        f = open_memstream(&text, &size);
        if (!f)
                return -ENOMEM;
        fprintf(f, "# Made by ublk-ruby-generator: what the hook of device %s needs. See ublk-ruby.service(8).\n\n", c->name);
        if (c->network || has_paths(c))
                put_unit(f, c);
        if (needs_any(c))
                put_service(f, c);
        if (fclose(f) != 0)
                return -ENOMEM;
        *ret = TAKE_PTR(text);
        return 1;
}

bool needs_drop_in_exists(uint32_t id) {
        _cleanup_free_ char *path = NULL;

        return config_path(&path, "/run/systemd/generator/" UNIT_DEVICE ".d/50-needs.conf", id) < 0 || access(path, F_OK) == 0;
}
