/* SPDX-License-Identifier: MIT */
#include "service/config.h"

#include "service/hookdir.h"
#include "service/name.h"
#include "service/paths.h"
#include "service/secret.h"
#include "service/text.h"
#include "service/uapi.h"

#include <ctype.h>
#include <grp.h>
#include <libgen.h>

static const char *config_root = "";

void config_set_root(const char *root) {
        config_root = root ? root : "";
}

int config_vpath(char **ret, const char *format, va_list ap) {
        _cleanup_free_ char *tail = NULL;

        if (vasprintf(&tail, format, ap) < 0) {
                tail = NULL;
                return -ENOMEM;
        }
        return xasprintf(ret, "%s%s", config_root, tail);
}

int config_path(char **ret, const char *format, ...) {
        va_list ap;
        int r;

        va_start(ap, format);
        r = config_vpath(ret, format, ap);
        va_end(ap);
        return r;
}

static const char *const recovery_table[_RECOVERY_MAX] = {
        [RECOVERY_DEFAULT] = "default",
        [RECOVERY_NONE]    = "none",
        [RECOVERY_FAIL]    = "fail",
        [RECOVERY_FAIL_IO] = "fail-io",
        [RECOVERY_REISSUE] = "reissue",
};

const char *recovery_to_string(Recovery recovery) {
        return recovery >= 0 && recovery < _RECOVERY_MAX ? recovery_table[recovery] : NULL;
}

Recovery recovery_from_string(const char *s) {
        for (Recovery i = 0; i < _RECOVERY_MAX; i++)
                if (streq(s, recovery_table[i]))
                        return i;
        return _RECOVERY_INVALID;
}

DeviceConfig *device_config_new(uint32_t id) {
        DeviceConfig *c = malloc(sizeof(DeviceConfig));

        if (!c)
                return NULL;
        *c = (DeviceConfig) {
                .id = id,
                .queues = 1,
                .depth = CONFIG_DEFAULT_DEPTH,
                .max_io_size = CONFIG_DEFAULT_MAX_IO_SIZE,
                .mlock = true,
                .hook_timeout_usec = CONFIG_DEFAULT_HOOK_TIMEOUT_USEC,
                .start_timeout_usec = CONFIG_DEFAULT_START_TIMEOUT_USEC,
        };
        return c;
}

DeviceConfig *device_config_free(DeviceConfig *c) {
        if (!c)
                return NULL;
        for (size_t i = 0; i < c->n_arguments; i++) {
                free(c->arguments[i].name);
                free(c->arguments[i].value);
        }
        free(c->arguments);
        free(c->name);
        free(c->hook);
        free(c->class_name);
        free(c->data_path);
        free(c->secrets);
        free(c);
        return NULL;
}

const Argument *device_config_find_argument(const DeviceConfig *c, const char *name) {
        for (size_t i = 0; i < c->n_arguments; i++)
                if (streq(c->arguments[i].name, name))
                        return &c->arguments[i];
        return NULL;
}

static bool is_signed(const char *s, uint64_t max) {
        uint64_t v;

        return *s == '-' ? parse_u64(s + 1, max + 1, &v) >= 0 : parse_u64(s, max, &v) >= 0;
}

static bool is_double(const char *s) {
        char *end;

        (void) strtod(s, &end);
        return end > s && *end == 0;
}

static bool value_is_valid(char type, const char *s) {
        uint64_t v;

        switch (type) {
        case 'y':
                return parse_u64(s, UINT8_MAX, &v) >= 0;
        case 'b':
                return streq(s, "true") || streq(s, "false");
        case 'n':
                return is_signed(s, INT16_MAX);
        case 'q':
                return parse_u64(s, UINT16_MAX, &v) >= 0;
        case 'i':
                return is_signed(s, INT32_MAX);
        case 'u':
                return parse_u64(s, UINT32_MAX, &v) >= 0;
        case 'x':
                return is_signed(s, INT64_MAX);
        case 't':
                return parse_u64(s, UINT64_MAX, &v) >= 0;
        case 'd':
                return is_double(s);
        }
        return type == 's';
}

int device_config_add_argument(DeviceConfig *c, const char *name, char type, const char *value) {
        _cleanup_free_ char *n = NULL, *v = NULL;
        Argument *grown;

        if (!argument_name_is_valid(name) || !type || !strchr("ybnqiuxtds", type))
                return -EINVAL;
        if (c->n_arguments >= CONFIG_MAX_ARGUMENTS || strlen(value) > CONFIG_MAX_VALUE)
                return -E2BIG;
        if (!value_is_valid(type, value))
                return -ERANGE;
        if (device_config_find_argument(c, name))
                return -EEXIST;
        if (xstrdup(name, &n) < 0 || xstrdup(value, &v) < 0)
                return -ENOMEM;
        grown = realloc(c->arguments, (c->n_arguments + 1) * sizeof(Argument));
        if (!grown)
                return -ENOMEM;
        c->arguments = grown;
        c->arguments[c->n_arguments++] = (Argument) { TAKE_PTR(n), type, TAKE_PTR(v) };
        return 0;
}

int device_config_set_argument(DeviceConfig *c, const char *name, char type, const char *value) {
        Argument *a = (Argument *) device_config_find_argument(c, name);
        char *copy;

        if (!a)
                return device_config_add_argument(c, name, type, value);
        if (!type || !strchr("ybnqiuxtds", type))
                return -EINVAL;
        if (strlen(value) > CONFIG_MAX_VALUE)
                return -E2BIG;
        if (!value_is_valid(type, value))
                return -ERANGE;
        copy = strdup(value);
        if (!copy)
                return -ENOMEM;
        free(a->value);
        a->type = type;
        a->value = copy;
        return 0;
}

/* How the [Device] keys map to fields. One table serves reading, writing and their limits. */
typedef enum KeyType {
        KEY_NAME,
        KEY_HOOK,
        KEY_WORD,
        KEY_CLASS,
        KEY_U32,
        KEY_U64,
        KEY_BOOL,
        KEY_FLAG, /* a boolean that is in the file only while it is true */
        KEY_RECOVERY,
        KEY_FAILURE,
        KEY_SECRETS,
} KeyType;

typedef struct Key {
        const char *key;
        KeyType type;
        size_t field;
        uint64_t min, max;
        const char *limits;
} Key;

#define FIELD(f) offsetof(DeviceConfig, f)

static const Key keys[] = {
        { "Name", KEY_NAME, FIELD(name), 0, 0, "a letter or _, then up to 63 of A-Z a-z 0-9 . _ -" },
        { "Hook", KEY_HOOK, FIELD(hook), 0, 0, "a hook's name (a letter or _, then up to 63 of A-Z a-z 0-9 . _ -) or the absolute path of a script" },
        { "Class", KEY_CLASS, FIELD(class_name), 0, 0, "a Ruby class name such as FileDisk or My::Disk" },
        { "Queues", KEY_U32, FIELD(queues), 1, UBLK_MAX_QUEUES, "1 to the number of CPUs" },
        { "Depth", KEY_U32, FIELD(depth), 1, UBLK_MAX_QUEUE_DEPTH, "1 to 4096" },
        { "MaxIOSize", KEY_U32, FIELD(max_io_size), 4096, UBLK_MAX_IO_SIZE, "4096 to 33554432 bytes, a multiple of 4096" },
        { "ReadOnly", KEY_BOOL, FIELD(read_only), 0, 0, "yes or no" },
        { "Mlock", KEY_BOOL, FIELD(mlock), 0, 0, "yes or no" },
        { "PartScan", KEY_BOOL, FIELD(partscan), 0, 0, "yes or no" },
        { "Recovery", KEY_RECOVERY, FIELD(recovery), 0, 0, "reissue, fail, fail-io or none" },
        { "OnFailure", KEY_FAILURE, FIELD(fail_on_failure), 0, 0, "wait or error" },
        { "DataPath", KEY_WORD, FIELD(data_path), 0, 0, "auto, string, buffer, routed-copy or routed-zero-copy" },
        { "HookTimeoutUSec", KEY_U64, FIELD(hook_timeout_usec), 0, CONFIG_MAX_TIMEOUT_USEC, "0 (none), or 100000 (0.1 s) to one day, in microseconds" },
        { "StartTimeoutUSec", KEY_U64, FIELD(start_timeout_usec), USEC_PER_SEC / 10, CONFIG_MAX_TIMEOUT_USEC, "100000 (0.1 s) to one day, in microseconds" },
        { "CreatedUSec", KEY_U64, FIELD(created_usec), 0, UINT64_MAX, "microseconds since 1970" },
        { "Creating", KEY_FLAG, FIELD(creating), 0, 0, "yes or no" },
        { "Resizing", KEY_FLAG, FIELD(resizing), 0, 0, "yes or no" },
        { "Network", KEY_FLAG, FIELD(network), 0, 0, "yes or no" },
        { "JIT", KEY_FLAG, FIELD(jit), 0, 0, "yes or no" },
        { "Secrets", KEY_SECRETS, FIELD(secrets), 0, 0, "names of arguments, at most 8, none of them twice" },
};

static const Key *key_find(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                if (streq(keys[i].key, name))
                        return &keys[i];
        return NULL;
}

static bool data_path_is_valid(const char *s) {
        static const char *const words[] = { "auto", "string", "buffer", "routed-copy", "routed-zero-copy" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (streq(s, words[i]))
                        return true;
        return false;
}

static bool class_name_is_valid(const char *s) {
        size_t n = strnlen(s, 256);

        if (n == 0 || n >= 256 || !isupper((unsigned char) s[0]))
                return false;
        return strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:") == n;
}

static int set_string(char **field, const char *value, bool valid) {
        _cleanup_free_ char *copy = NULL;
        int r;

        if (!valid)
                return -EINVAL;
        r = xstrdup(value, &copy);
        if (r < 0)
                return r;
        free(*field);
        *field = TAKE_PTR(copy);
        return 0;
}

static int set_number(const Key *key, void *field, const char *value) {
        uint64_t v;
        int r;

        r = parse_u64(value, key->max, &v);
        if (r < 0)
                return r;
        if (v < key->min || (key->field == FIELD(max_io_size) && v % 4096 != 0) ||
            (key->field == FIELD(hook_timeout_usec) && v > 0 && v < CONFIG_MIN_HOOK_TIMEOUT_USEC))
                return -ERANGE;
        if (key->type == KEY_U32)
                *(uint32_t *) field = (uint32_t) v;
        else
                *(uint64_t *) field = v;
        return 0;
}

static int set_field(const Key *key, void *field, const char *value) {
        Recovery recovery;

        switch (key->type) {
        case KEY_NAME:
                return set_string(field, value, name_is_valid(value));
        case KEY_HOOK:
                return set_string(field, value, name_is_valid(value) || hook_path_is_valid(value));
        case KEY_CLASS:
                return set_string(field, value, class_name_is_valid(value));
        case KEY_WORD:
                return set_string(field, value, data_path_is_valid(value));
        case KEY_SECRETS:
                return set_string(field, value, secrets_are_valid(value));
        case KEY_U32:
        case KEY_U64:
                return set_number(key, field, value);
        case KEY_BOOL:
        case KEY_FLAG:
                return parse_boolean(value, field);
        case KEY_RECOVERY:
                recovery = recovery_from_string(value);
                if (recovery < 0 || recovery == RECOVERY_DEFAULT)
                        return -EINVAL;
                *(Recovery *) field = recovery;
                return 0;
        case KEY_FAILURE:
                if (!streq(value, "wait") && !streq(value, "error"))
                        return -EINVAL;
                *(bool *) field = streq(value, "error");
                return 0;
        }
        return -EINVAL;
}

int device_config_set(DeviceConfig *c, const char *key, const char *value, const char **ret_limits) {
        const Key *k = key_find(key);

        if (!k)
                return -ENOENT;
        if (ret_limits)
                *ret_limits = k->limits;
        return set_field(k, (char *) c + k->field, value);
}

static bool is_control(char c) {
        return (unsigned char) c < 0x20 || c == 0x7f;
}

/* Text of a value: control characters and backslash as \xNN, so that a value is always one line. */
static void put_escaped(FILE *f, const char *s) {
        for (; *s; s++)
                if (is_control(*s) || *s == '\\')
                        fprintf(f, "\\x%02x", (unsigned char) *s);
                else
                        fputc(*s, f);
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return -EINVAL;
}

static int unescape(char *s) {
        char *out = s;

        while (*s) {
                if (*s != '\\') {
                        *out++ = *s++;
                        continue;
                }
                int high = s[1] == 'x' ? hex_digit(s[2]) : -EINVAL, low = high >= 0 ? hex_digit(s[3]) : -EINVAL;
                if (low < 0 || high * 16 + low == 0)
                        return -EINVAL;
                *out++ = (char) (high * 16 + low);
                s += 4;
        }
        *out = 0;
        return 0;
}

typedef struct Parser {
        DeviceConfig *config;
        char section; /* 'D', 'A', or 0 before the first */
        uint32_t seen; /* bit per key */
        char **ret_message;
        unsigned line;
} Parser;

static int parse_fail(const Parser *p, const char *what, const char *detail) {
        if (p->ret_message)
                (void) xasprintf(p->ret_message, "line %u: %s%s%s", p->line, what, detail ? ": " : "", detail ? detail : "");
        return -EBADMSG;
}

static int parse_device_key(Parser *p, const char *key, const char *value) {
        const Key *k = key_find(key);
        const char *limits = NULL;
        uint32_t bit;

        if (!k)
                return parse_fail(p, "unknown key in [Device]", key);
        bit = UINT32_C(1) << (k - keys);
        if (p->seen & bit)
                return parse_fail(p, "key given twice", key);
        p->seen |= bit;
        if (device_config_set(p->config, key, value, &limits) < 0) {
                _cleanup_free_ char *detail = NULL;
                (void) xasprintf(&detail, "%s must be %s", key, limits);
                return parse_fail(p, "bad value", detail);
        }
        return 0;
}

static int parse_argument(Parser *p, const char *key, const char *value) {
        int r;

        if (!value[0] || value[1] != ':')
                return parse_fail(p, "an argument is TYPE:VALUE", key);
        r = device_config_add_argument(p->config, key, value[0], value + 2);
        if (r == -EEXIST)
                return parse_fail(p, "argument given twice", key);
        if (r == -E2BIG)
                return parse_fail(p, "too many arguments, or a value that is too long", key);
        if (r == -ERANGE)
                return parse_fail(p, "an argument's value is none of its type", key);
        if (r < 0)
                return parse_fail(p, "bad name or type of an argument", key);
        return 0;
}

static bool has_control(const char *s) {
        for (; *s; s++)
                if (is_control(*s))
                        return true;
        return false;
}

static int parse_line(Parser *p, char *line) {
        char *value;

        /* Its values go onto the bus, which takes no other. */
        if (!text_is_valid(line))
                return parse_fail(p, "not UTF-8", NULL);
        if (line[0] == 0 || line[0] == '#' || line[0] == ';')
                return 0;
        if (streq(line, "[Device]") || streq(line, "[Arguments]")) {
                p->section = line[1];
                return 0;
        }
        if (line[0] == '[')
                return parse_fail(p, "unknown section", line);
        value = strchr(line, '=');
        if (!value)
                return parse_fail(p, "not KEY=VALUE", NULL);
        *value++ = 0;
        if (has_control(value))
                return parse_fail(p, "a control character, which is to be \\xNN, in the value of", line);
        if (unescape(value) < 0)
                return parse_fail(p, "bad \\xNN in the value of", line);
        if (!text_is_valid(value))
                return parse_fail(p, "not UTF-8 is the value of", line);
        switch (p->section) {
        case 'D':
                return parse_device_key(p, line, value);
        case 'A':
                return parse_argument(p, line, value);
        }
        return parse_fail(p, "stands before [Device]", line);
}

static void device_config_freeze_defaults(DeviceConfig *c) {
        if (!c->data_path)
                (void) xstrdup("auto", &c->data_path);
}

/* The arguments come after the key that lists them. No message repeats a value. */
static int check_secrets(const Parser *p) {
        _cleanup_free_ char *copy = NULL;
        char *state, *name;

        if (!p->config->secrets)
                return 0;
        if (xstrdup(p->config->secrets, &copy) < 0)
                return -ENOMEM;
        for (state = copy; (name = strsep(&state, " "));) {
                const Argument *a = device_config_find_argument(p->config, name);

                if (*name && (!a || a->type != 's' || secret_reference(a->value) < 0))
                        return parse_fail(p, "Secrets= lists what is neither the name of a credential nor the path of a file", name);
        }
        return 0;
}

int device_config_parse(uint32_t id, const char *text, DeviceConfig **ret, char **ret_message) {
        _cleanup_(device_config_freep) DeviceConfig *c = device_config_new(id);
        _cleanup_free_ char *copy = NULL;
        Parser p = { .config = c, .ret_message = ret_message };
        char *state, *line;
        int r;

        if (!c || xstrdup(text, &copy) < 0)
                return -ENOMEM;
        if (strlen(copy) > CONFIG_MAX_FILE)
                return parse_fail(&p, "the file is too long", NULL);
        for (state = copy; (line = strsep(&state, "\n"));) {
                p.line++;
                r = parse_line(&p, line);
                if (r < 0)
                        return r;
        }
        if (!c->name || !c->hook)
                return parse_fail(&p, "the file ends without", c->name ? "Hook=" : "Name=");
        r = check_secrets(&p);
        if (r < 0)
                return r;
        device_config_freeze_defaults(c);
        if (!c->data_path)
                return -ENOMEM;
        *ret = TAKE_PTR(c);
        return 0;
}

static void serialize_field(FILE *f, const Key *k, const DeviceConfig *c) {
        const void *field = (const char *) c + k->field;

        switch (k->type) {
        case KEY_NAME:
        case KEY_HOOK:
        case KEY_CLASS:
        case KEY_WORD:
        case KEY_SECRETS:
                if (!*(char *const *) field)
                        break;
                fprintf(f, "%s=", k->key);
                put_escaped(f, *(char *const *) field);
                fputc('\n', f);
                break;
        case KEY_U32:
                fprintf(f, "%s=%u\n", k->key, *(const uint32_t *) field);
                break;
        case KEY_U64:
                fprintf(f, "%s=%llu\n", k->key, (unsigned long long) *(const uint64_t *) field);
                break;
        case KEY_FLAG:
                if (*(const bool *) field)
                        fprintf(f, "%s=yes\n", k->key);
                break;
        case KEY_BOOL:
                fprintf(f, "%s=%s\n", k->key, *(const bool *) field ? "yes" : "no");
                break;
        case KEY_RECOVERY:
                if (*(const Recovery *) field != RECOVERY_DEFAULT)
                        fprintf(f, "%s=%s\n", k->key, recovery_to_string(*(const Recovery *) field));
                break;
        case KEY_FAILURE:
                fprintf(f, "%s=%s\n", k->key, *(const bool *) field ? "error" : "wait");
                break;
        }
}

int device_config_serialize(const DeviceConfig *c, char **ret) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *f;

        f = open_memstream(&text, &size);
        if (!f)
                return -ENOMEM;
        fputs("# Written by ublk-rubyd; see ublk-ruby-device.conf(5).\n[Device]\n", f);
        for (size_t i = 0; i < ELEMENTSOF(keys); i++)
                serialize_field(f, &keys[i], c);
        fputs("\n[Arguments]\n", f);
        for (size_t i = 0; i < c->n_arguments; i++) {
                fprintf(f, "%s=%c:", c->arguments[i].name, c->arguments[i].type);
                put_escaped(f, c->arguments[i].value);
                fputc('\n', f);
        }
        if (fclose(f) != 0)
                return -ENOMEM;
        if (size > CONFIG_MAX_FILE)
                return -E2BIG;
        *ret = TAKE_PTR(text);
        return 0;
}

static int config_file(uint32_t id, bool persistent, char **ret) {
        return config_path(ret, "%s/%u.conf", persistent ? PATH_DEVICES_PERSISTENT : PATH_DEVICES_TRANSIENT, id);
}

int device_config_load_from(const char *path, uint32_t id, DeviceConfig **ret, char **ret_message) {
        _cleanup_free_ char *text = NULL;
        int r;

        r = read_file(path, CONFIG_MAX_FILE, &text, NULL);
        if (r == -EBADMSG && ret_message)
                (void) xasprintf(ret_message, "%s: a NUL byte in the file", path);
        return r < 0 ? r : device_config_parse(id, text, ret, ret_message);
}

int device_config_load(uint32_t id, DeviceConfig **ret, char **ret_message) {
        for (int persistent = 1; persistent >= 0; persistent--) {
                _cleanup_free_ char *path = NULL;
                int r;

                r = config_file(id, persistent, &path);
                if (r < 0)
                        return r;
                r = device_config_load_from(path, id, ret, ret_message);
                if (r == -ENOENT)
                        continue;
                if (r < 0)
                        return r;
                (*ret)->persistent = persistent;
                return 0;
        }
        return -ENOENT;
}

/* The workers' group, beside root. Arguments are nobody else's business: one may be a secret, given by mistake. */
static gid_t readers(void) {
        const struct group *g = geteuid() == 0 ? getgrnam(WORKER_USER) : NULL;

        return g ? g->gr_gid : (gid_t) -1;
}

int device_config_save_to(const DeviceConfig *c, const char *path) {
        _cleanup_free_ char *text = NULL, *directory = NULL;
        int r;

        r = device_config_serialize(c, &text);
        if (r >= 0)
                r = xstrdup(path, &directory);
        if (r >= 0)
                r = mkdir_parents(dirname(directory), 0755);
        if (r < 0)
                return r;
        return write_file_atomic_for(path, text, strlen(text), 0640, readers());
}

int device_config_save(const DeviceConfig *c) {
        _cleanup_free_ char *path = NULL;
        int r;

        r = config_file(c->id, c->persistent, &path);
        return r < 0 ? r : device_config_save_to(c, path);
}

/* While both are there the persistent one counts. */
int device_config_move(DeviceConfig *c, bool persistent) {
        _cleanup_free_ char *there = NULL, *here = NULL;
        bool before = c->persistent;
        int r;

        r = config_file(c->id, persistent, &there);
        if (r >= 0)
                r = config_file(c->id, !persistent, &here);
        if (r < 0)
                return r;
        c->persistent = persistent;
        r = device_config_save(c);
        if (r >= 0) {
                r = unlink_durably(here);
                if (r < 0 && persistent != before)
                        (void) unlink(there);
        }
        if (r < 0)
                c->persistent = before;
        return r;
}

int device_config_remove(uint32_t id) {
        for (int persistent = 1; persistent >= 0; persistent--) {
                _cleanup_free_ char *path = NULL;
                int r;

                r = config_file(id, persistent, &path);
                if (r < 0)
                        return r;
                r = unlink_durably(path); /* or it is back, and the disk with it, after a power cut */
                if (r < 0)
                        return r;
        }
        return 0;
}

static int compare_ids(const void *a, const void *b) {
        uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
        return x < y ? -1 : x > y;
}

/* "12.conf" → 12; "012.conf" and all else is not a device's. */
static int id_from_file_name(const char *name, uint32_t *ret) {
        _cleanup_free_ char *number = NULL;
        size_t n = strlen(name);

        if (n <= 5 || !streq(name + n - 5, ".conf") || (name[0] == '0' && n > 6))
                return -EINVAL;
        number = strndup(name, n - 5);
        if (!number)
                return -ENOMEM;
        return parse_u32(number, UBLK_MAX_ID, ret);
}

static int list_directory(const char *directory, uint32_t **ids, size_t *n) {
        _cleanup_free_ char *path = NULL;
        _cleanup_closedir_ DIR *d = NULL;
        struct dirent *entry;
        int r;

        r = config_path(&path, "%s", directory);
        if (r < 0)
                return r;
        d = opendir(path);
        if (!d)
                return errno == ENOENT ? 0 : -errno;
        while ((entry = readdir(d))) {
                uint32_t id, *grown;

                if (id_from_file_name(entry->d_name, &id) < 0)
                        continue;
                grown = reallocarray(*ids, *n + 1, sizeof(uint32_t));
                if (!grown)
                        return -ENOMEM;
                *ids = grown;
                (*ids)[(*n)++] = id;
        }
        return 0;
}

int device_config_list(uint32_t **ret, size_t *ret_n) {
        _cleanup_free_ uint32_t *ids = NULL;
        size_t n = 0, unique = 0;
        int r;

        r = list_directory(PATH_DEVICES_PERSISTENT, &ids, &n);
        if (r >= 0)
                r = list_directory(PATH_DEVICES_TRANSIENT, &ids, &n);
        if (r < 0)
                return r;
        if (n > 0)
                qsort(ids, n, sizeof(uint32_t), compare_ids);
        for (size_t i = 0; i < n; i++)
                if (i == 0 || ids[i] != ids[unique - 1])
                        ids[unique++] = ids[i];
        *ret = TAKE_PTR(ids);
        *ret_n = unique;
        return 0;
}

#define KERNEL_TAG_MAGIC UINT64_C(0x75527562) /* "uRub" */

/* FNV-1a, 32 bits: tells one device's name and birth from another's, nothing more. */
static uint32_t fnv1a(uint32_t hash, const void *data, size_t size) {
        for (const unsigned char *p = data; size > 0; p++, size--)
                hash = (hash ^ *p) * UINT32_C(16777619);
        return hash;
}

uint64_t device_config_kernel_tag(const DeviceConfig *c) {
        uint32_t hash = fnv1a(UINT32_C(2166136261), c->name, strlen(c->name));

        return KERNEL_TAG_MAGIC << 32 | fnv1a(hash, &c->created_usec, sizeof(c->created_usec));
}

bool kernel_tag_is_ours(uint64_t tag) {
        return tag >> 32 == KERNEL_TAG_MAGIC;
}
