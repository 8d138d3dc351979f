/* SPDX-License-Identifier: MIT */

/*
 * Calls at random: of every member and property that org.ublk.xml has and of some that nobody has, with the right types and with
 * others, many at a time, and now and then by somebody who has gone before the answer. Each is answered; when all is over the
 * service is there as before, and so is the file system.
 *
 * RANDOM_CALLS=1000000 in the environment makes it so many; --seed, which GLib prints, makes it the same ones.
 */

#include "bus-fixture.h"

#include "service/text.h"

#define CALLS_DEFAULT 4000
#define AT_A_TIME 48
/* Nothing here takes long, but the machine may be busy. */
#define ANSWER_USEC (100 * USEC_PER_SEC)
#define NAMES 12 /* as many devices at most, but for those of ids chosen at random */

typedef struct Member {
        char *interface, *name;
        char *types; /* of a method; of a property NULL */
} Member;

typedef struct Random {
        Fixture *f;
        GArray *members; /* Member */
        Member *method;  /* that the XML is in */
        char *interface;
        unsigned n_pending, n_calls, n_ok, n_errors, n_created;
        GHashTable *errors; /* name → how many */
        char *unanswered;
} Random;

static unsigned below(unsigned n) {
        return (unsigned) g_test_rand_int_range(0, (gint32) n);
}

static bool one_in(unsigned n) {
        return below(n) == 0;
}

#define pick(array) (array)[below(G_N_ELEMENTS(array))]

/* The XML. */

static const char *attribute(const char **names, const char **values, const char *wanted) {
        for (; *names; names++, values++)
                if (streq(*names, wanted))
                        return *values;
        return NULL;
}

static void add_member(Random *x, const char *interface, const char *name, const char *types) {
        Member m = { g_strdup(interface), g_strdup(name), g_strdup(types) };

        g_array_append_val(x->members, m);
}

static void on_element(GMarkupParseContext *context, const char *element, const char **names, const char **values, gpointer data,
                       GError **error) {
        const char *name = attribute(names, values, "name"), *direction = attribute(names, values, "direction");
        Random *x = data;

        (void) context, (void) error;
        if (streq(element, "interface")) {
                g_free(x->interface);
                x->interface = g_strdup(name);
        } else if (streq(element, "method"))
                add_member(x, x->interface, name, "");
        else if (streq(element, "property"))
                add_member(x, x->interface, name, NULL);
        else if (streq(element, "arg") && g_strcmp0(direction, "in") == 0) {
                Member *m = &g_array_index(x->members, Member, x->members->len - 1);
                char *types = g_strconcat(m->types, attribute(names, values, "type"), NULL);

                g_free(m->types);
                m->types = types;
        }
}

static void read_xml(Random *x) {
        static const GMarkupParser parser = { .start_element = on_element };
        g_autoptr(GMarkupParseContext) context = g_markup_parse_context_new(&parser, 0, x, NULL);
        g_autofree char *text = NULL;
        gsize size;

        g_assert_true(g_file_get_contents(g_getenv("BUS_XML"), &text, &size, NULL));
        g_assert_true(g_markup_parse_context_parse(context, text, (gssize) size, NULL));
        g_assert_cmpuint(x->members->len, >, 40);
        add_member(x, "org.freedesktop.DBus.Introspectable", "Introspect", "");
        add_member(x, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", "");
        add_member(x, "org.freedesktop.DBus.Peer", "Ping", "");
        add_member(x, "org.freedesktop.DBus.Properties", "GetAll", "s");
        add_member(x, "org.freedesktop.DBus.Properties", "Set", "ssv");
        add_member(x, "org.ublk.Manager", "DestroyDevice", "s");
        add_member(x, "org.ublk.Device", "Colour", NULL);
}

/* Values. */

static const char *const words[] = {
        "", "a", "yes", "/", "/dev/ublkb0", "/etc/passwd", "ublkb3", "0", "7", "4294967296", "-1", "reissue", "fail-io", "none", "wait", "error", "auto",
        "string", "buffer", "routed-copy", "My::Disk", "lower", "org.ublk.Manager", "org.ublk.Device", "State", "Version", "size", "err", "crit", "\n\t\x7f",
        "caf\xc3\xa9", "%s%n", "\\x41", "../../etc",
};
static const char *const options[] = {
        "queues", "depth", "max-io-size", "read-only", "recovery", "on-failure", "id", "persistent", "mlock", "hook-timeout", "start-timeout", "partscan",
        "data-path", "class", "processes", "concurrency", "keep-state", "force", "trial-time", "size", "path", "key",
};
static const char *const hooks[] = { "keeps", "none", "broken", "silent", "brief", "needy", "insatiable", "odd", "secretive",
                                     "privy", "keeps-broken", "forgetful", "huge", "liar", "shapeless", "impostor", "symlink", "slow", "mute", "nowhere", "/a/b.rb" };

/* Any length, of any characters. */
static char *random_text(void) {
        static const gunichar firsts[] = { 1, 'a', 0x80, 0x800, 0x10000 };
        GString *s = g_string_new(NULL);

        for (unsigned n = one_in(50) ? below(6000) : below(90); n > 0; n--)
                g_string_append_unichar(s, pick(firsts) + below(26));
        text_clean(s->str);
        return g_string_free(s, FALSE);
}

static char *random_string(void) {
        switch (below(5)) {
        case 0:
        case 1:
                return g_strdup_printf("d%u", below(NAMES));
        case 2:
                return g_strdup_printf("%s%u", one_in(2) ? "" : "/dev/ublkb", below(NAMES));
        case 3:
                return g_strdup(pick(words));
        default:
                return random_text();
        }
}

static uint64_t random_number(void) {
        static const uint64_t numbers[] = { 0, 1, 2, 64, 512, 4096, 100000, 1048576, 1 << 20, 65535, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX };

        return one_in(2) ? below(NAMES) : pick(numbers);
}

static void append(sd_bus_message *m, const char *type);

static void append_basic(sd_bus_message *m, char type) {
        g_autofree char *s = random_string();
        char types[] = { type, 0 };

        switch (type) {
        case 's':
                g_assert_cmpint(sd_bus_message_append(m, "s", s), >=, 0);
                break;
        case 'o':
                g_assert_cmpint(sd_bus_message_append(m, "o", one_in(2) ? "/" : "/org/ublk"), >=, 0);
                break;
        case 'g':
                g_assert_cmpint(sd_bus_message_append(m, "g", one_in(2) ? "" : "a{sv}"), >=, 0);
                break;
        case 'd':
                g_assert_cmpint(sd_bus_message_append(m, "d", (double) random_number() - 1e6), >=, 0);
                break;
        case 'x':
        case 't':
                g_assert_cmpint(sd_bus_message_append(m, types, random_number()), >=, 0);
                break;
        default:
                g_assert_cmpint(sd_bus_message_append(m, types, type == 'b' ? random_number() & 1 : (uint32_t) random_number()), >=, 0);
        }
}

static void append_variant(sd_bus_message *m, const char *type) {
        g_assert_cmpint(sd_bus_message_open_container(m, 'v', type), >=, 0);
        append(m, type);
        g_assert_cmpint(sd_bus_message_close_container(m), >=, 0);
}

/* Mostly the type that it wants. */
static const char *type_of(const char *option) {
        static const char *const strange[] = { "s", "u", "t", "b", "y", "n", "q", "i", "x", "d", "o", "g", "v", "as", "(su)", "a{sv}", "aay" };
        static const char *const numbers[] = { "queues", "depth", "max-io-size", "id", "processes", "concurrency" };
        static const char *const flags[] = { "read-only", "persistent", "mlock", "partscan", "keep-state", "force" };
        static const char *const times[] = { "hook-timeout", "start-timeout", "trial-time", "size" };

        if (one_in(6))
                return pick(strange);
        for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
                if (streq(option, numbers[i]))
                        return "u";
        for (size_t i = 0; i < G_N_ELEMENTS(flags); i++)
                if (streq(option, flags[i]))
                        return "b";
        for (size_t i = 0; i < G_N_ELEMENTS(times); i++)
                if (streq(option, times[i]))
                        return "t";
        return "s";
}

static void append_dictionary(sd_bus_message *m) {
        g_assert_cmpint(sd_bus_message_open_container(m, 'a', "{sv}"), >=, 0);
        for (unsigned n = one_in(3) ? below(one_in(20) ? 80 : 6) : 0; n > 0; n--) {
                g_autofree char *any = one_in(8) ? random_text() : NULL;
                const char *key = any ? any : pick(options);

                g_assert_cmpint(sd_bus_message_open_container(m, 'e', "sv"), >=, 0);
                g_assert_cmpint(sd_bus_message_append(m, "s", key), >=, 0);
                /* A trial that lasts would keep its device to itself. */
                if (streq(key, "trial-time") && !one_in(20))
                        g_assert_cmpint(sd_bus_message_append(m, "v", "t", (uint64_t) below(2000)), >=, 0);
                else
                        append_variant(m, type_of(key));
                g_assert_cmpint(sd_bus_message_close_container(m), >=, 0);
        }
        g_assert_cmpint(sd_bus_message_close_container(m), >=, 0);
}

/* One complete type. */
static void append(sd_bus_message *m, const char *type) {
        if (streq(type, "a{sv}"))
                append_dictionary(m);
        else if (streq(type, "v"))
                append_variant(m, one_in(2) ? "s" : "u");
        else if (streq(type, "as"))
                g_assert_cmpint(sd_bus_message_append(m, "as", 2, "a", "b"), >=, 0);
        else if (streq(type, "(su)"))
                g_assert_cmpint(sd_bus_message_append(m, "(su)", "a", 1), >=, 0);
        else if (streq(type, "aay"))
                g_assert_cmpint(sd_bus_message_append(m, "aay", 1, 2, 1, 2), >=, 0);
        else
                append_basic(m, type[0]);
}

/* Calls. */

static char *random_path(const char *interface) {
        static const char *const paths[] = { "/", "/org/ublk", "/org/ublk/device", "/org/ublk/device/00", "/org/ublk/device/x", "/org/ublk/device/4294967296",
                                             "/org/freedesktop/LogControl1", "/org/ublk/device/0/a" };

        if (one_in(12))
                return g_strdup(pick(paths));
        if (streq(interface, "org.ublk.Manager") || (!streq(interface, "org.ublk.Device") && one_in(2)))
                return g_strdup("/org/ublk");
        return g_strdup_printf("/org/ublk/device/%u", below(1 + below(NAMES))); /* the lower ones are taken first */
}

static sd_bus_message *new_call(sd_bus *bus, const char *path, const char *interface, const char *member) {
        sd_bus_message *m;

        g_assert_cmpint(sd_bus_message_new_method_call(bus, &m, "org.ublk", path, interface, member), >=, 0);
        return m;
}

static void append_types(sd_bus_message *m, const char *types) {
        for (const char *p = types; *p; p += strncmp(p, "a{sv}", 5) == 0 ? 5 : 1)
                append(m, strncmp(p, "a{sv}", 5) == 0 ? "a{sv}" : (const char[]) { *p, 0 });
}

static sd_bus_message *random_create(sd_bus *bus) {
        sd_bus_message *m = new_call(bus, "/org/ublk", "org.ublk.Manager", one_in(4) ? "CheckHook" : "CreateDevice");
        g_autofree char *name = one_in(8) ? random_text() : g_strdup_printf("d%u", below(NAMES));

        if (streq(sd_bus_message_get_member(m), "CreateDevice"))
                g_assert_cmpint(sd_bus_message_append(m, "s", name), >=, 0);
        g_assert_cmpint(sd_bus_message_append(m, "s", one_in(4) ? pick(hooks) : "memory"), >=, 0);
        if (one_in(2))
                g_assert_cmpint(sd_bus_message_append(m, "a{sv}", 1, "size", "t", (uint64_t) (1 + below(9)) << 20), >=, 0);
        else
                append_dictionary(m);
        return m;
}

static sd_bus_message *random_call(Random *x, sd_bus *bus) {
        static const char *const strange[] = { "", "s", "u", "ss", "a{sv}", "v", "sa{sv}", "tv", "ssa{sv}", "b" };
        const Member *member = &g_array_index(x->members, Member, below(x->members->len));
        g_autofree char *path = NULL;
        sd_bus_message *m;

        if (one_in(20))
                return random_create(bus);
        /* Or there would hardly ever be one. */
        while (strncmp(member->name, "Delete", strlen("Delete")) == 0 && !one_in(4))
                member = &g_array_index(x->members, Member, below(x->members->len));
        path = random_path(member->interface);
        if (!member->types) {
                m = new_call(bus, path, "org.freedesktop.DBus.Properties", "Get");
                g_assert_cmpint(sd_bus_message_append(m, "ss", member->interface, member->name), >=, 0);
                return m;
        }
        m = new_call(bus, path, one_in(100) ? "org.ublk.Nobody" : one_in(100) ? NULL : member->interface, member->name);
        append_types(m, one_in(8) ? pick(strange) : member->types);
        return m;
}

static int on_answer(sd_bus_message *m, void *userdata, sd_bus_error *error) {
        const sd_bus_error *e = sd_bus_message_get_error(m);
        Random *x = userdata;
        const char *path;

        (void) error;
        x->n_pending--;
        if (!e) {
                x->n_ok++;
                if (sd_bus_message_has_signature(m, "o") > 0 && sd_bus_message_read(m, "o", &path) > 0)
                        x->n_created++;
                return 0;
        }
        x->n_errors++;
        g_hash_table_insert(x->errors, g_strdup(e->name), GUINT_TO_POINTER(GPOINTER_TO_UINT(g_hash_table_lookup(x->errors, e->name)) + 1));
        if (!x->unanswered && (sd_bus_error_has_names(e, SD_BUS_ERROR_NO_REPLY, SD_BUS_ERROR_TIMEOUT, SD_BUS_ERROR_DISCONNECTED,
                                                      SD_BUS_ERROR_SERVICE_UNKNOWN, SD_BUS_ERROR_NAME_HAS_NO_OWNER) || !e->message || !*e->message))
                x->unanswered = g_strdup_printf("%s: %s", e->name, e->message);
        return 0;
}

static void wait_until_pending(Random *x, unsigned n) {
        while (x->n_pending > n && !x->unanswered) {
                int r = sd_bus_process(x->f->bus, NULL);

                g_assert_cmpint(r, >=, 0);
                if (r == 0)
                        g_assert_cmpint(sd_bus_wait(x->f->bus, USEC_PER_SEC), >=, 0);
        }
        if (x->unanswered)
                g_error("After %u calls one was not answered: %s", x->n_calls, x->unanswered);
}

static void send_call(Random *x) {
        sd_bus_message *m = random_call(x, x->f->bus);

        g_assert_cmpint(sd_bus_call_async(x->f->bus, NULL, m, on_answer, x, ANSWER_USEC), >=, 0);
        sd_bus_message_unref(m);
        x->n_pending++;
        x->n_calls++;
        wait_until_pending(x, AT_A_TIME - 1);
}

/* Who asks and is gone. */
static void send_and_leave(Random *x) {
        sd_bus *bus;

        g_assert_cmpint(sd_bus_open_system(&bus), >=, 0);
        for (unsigned n = 1 + below(5); n > 0; n--) {
                sd_bus_message *m = random_call(x, bus);

                g_assert_cmpint(sd_bus_send(bus, m, NULL), >=, 0);
                sd_bus_message_unref(m);
                x->n_calls++;
        }
        g_assert_cmpint(sd_bus_flush(bus), >=, 0);
        sd_bus_close_unref(bus);
}

/* What is left. */

static unsigned count_entries(const char *path) {
        g_autoptr(GDir) d = g_dir_open(path, 0, NULL);
        unsigned n = 0;

        while (d && g_dir_read_name(d))
                n++;
        return n;
}

static unsigned count_below(Random *x, const char *path) {
        g_autofree char *full = g_build_filename(x->f->root, path, NULL);

        return count_entries(full);
}

static unsigned manager_descriptors(Random *x) {
        g_autofree char *path = g_strdup_printf("/proc/%d/fd", x->f->manager);

        return count_entries(path);
}

/* In KiB. */
static unsigned manager_memory(Random *x) {
        g_autofree char *path = g_strdup_printf("/proc/%d/status", x->f->manager), *text = NULL;
        const char *line;

        g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
        line = strstr(text, "VmRSS:");
        return line ? (unsigned) strtoul(line + strlen("VmRSS:"), NULL, 10) : 0;
}

/* Nothing works on any device any more, as all was answered but what came from those who left. */
static void delete_all(Random *x) {
        for (unsigned tries = 0; tries < 600; tries++) {
                sd_bus_message *reply = NULL;
                unsigned n = 0;
                uint32_t id;

                g_assert_cmpint(fixture_call(x->f, NULL, "ListDevices", &reply, NULL), >=, 0);
                g_assert_cmpint(sd_bus_message_enter_container(reply, 'a', "(ussssto)"), >, 0);
                while (sd_bus_message_read(reply, "(ussssto)", &id, NULL, NULL, NULL, NULL, NULL, NULL) > 0) {
                        g_autofree char *designation = g_strdup_printf("%u", id);

                        n++;
                        if (fixture_call(x->f, NULL, "DeleteDevice", NULL, "sa{sv}", designation, 0) < 0 &&
                            !sd_bus_error_has_names(&x->f->error, "org.ublk.Error.OperationInProgress", "org.ublk.Error.NoSuchDevice"))
                                g_error("Device %u can't be deleted: %s: %s", id, x->f->error.name, x->f->error.message);
                }
                sd_bus_message_unref(reply);
                if (n == 0 && count_below(x, "run/ublk-ruby/devices") == 0)
                        return;
                g_usleep(50000);
        }
        g_error("Devices are left that can't be deleted.");
}

static void settle(Random *x) {
        wait_until_pending(x, 0);
        delete_all(x);
        /* Those that are being created are in no list. */
        for (unsigned tries = 0; tries < 600 && count_below(x, "run/ublk-ruby/proposals") > 0; tries++)
                g_usleep(50000);
        g_assert_cmpuint(count_below(x, "run/ublk-ruby/devices"), ==, 0);
        g_assert_cmpuint(count_below(x, "etc/ublk-ruby/devices"), ==, 0);
        g_assert_cmpuint(count_below(x, "run/ublk-ruby/proposals"), ==, 0);
        g_assert_cmpuint(count_below(x, "run/ublk-ruby/nodes"), ==, 0);
        g_assert_cmpuint(fixture_get_number(x->f, NULL, "DeviceCount", 'u'), ==, 0);
}

static void make_calls(Random *x, unsigned n) {
        for (unsigned end = x->n_calls + n; x->n_calls < end;)
                if (one_in(200))
                        send_and_leave(x);
                else
                        send_call(x);
        settle(x);
}

static void say_errors(Random *x) {
        GHashTableIter iter;
        gpointer name, n;

        g_hash_table_iter_init(&iter, x->errors);
        while (g_hash_table_iter_next(&iter, &name, &n))
                g_test_message("%u of %s", GPOINTER_TO_UINT(n), (const char *) name);
}

static void free_member(gpointer data) {
        Member *m = data;

        g_free(m->interface);
        g_free(m->name);
        g_free(m->types);
}

static void test_random(Fixture *f, gconstpointer data) {
        const char *number = g_getenv("RANDOM_CALLS");
        unsigned n = number ? (unsigned) strtoul(number, NULL, 10) : CALLS_DEFAULT, memory, descriptors;
        Random x = { .f = f, .members = g_array_new(FALSE, FALSE, sizeof(Member)), .errors = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL) };
        gint64 begin;

        (void) data;
        g_array_set_clear_func(x.members, free_member);
        read_xml(&x);
        g_assert_cmpint(sd_bus_set_property(f->bus, "org.ublk", "/org/freedesktop/LogControl1", "org.freedesktop.LogControl1", "LogLevel", NULL, "s", "crit"), >=, 0);
        /* What is allocated once is, after some of them. */
        make_calls(&x, n / 4);
        memory = manager_memory(&x);
        descriptors = manager_descriptors(&x);
        begin = g_get_monotonic_time();
        make_calls(&x, n - n / 4);
        g_test_message("%u calls, %u of the answers are errors, %u objects; %.0f calls a second", x.n_calls, x.n_errors, x.n_created,
                       (n - n / 4) * 1e6 / (double) (g_get_monotonic_time() - begin));
        g_test_message("memory: %u KiB, then %u; descriptors: %u, then %u", memory, manager_memory(&x), descriptors, manager_descriptors(&x));
        say_errors(&x);
        g_assert_cmpuint(x.n_ok, >, n / 10);
        g_assert_cmpuint(x.n_created, >, 0);
        g_assert_cmpuint(manager_descriptors(&x), <=, descriptors + 2);
        g_assert_cmpuint(manager_memory(&x), <=, memory + 16 * 1024);
        g_free(x.interface);
        g_hash_table_destroy(x.errors);
        g_array_free(x.members, TRUE);
}

int main(int argc, char **argv) {
        /* What a sanitizer keeps of freed memory, to find who still uses it, is no leak. */
        g_autofree char *sanitizer = g_strconcat(g_getenv("ASAN_OPTIONS") ? g_getenv("ASAN_OPTIONS") : "", ":quarantine_size_mb=4", NULL);

        g_setenv("ASAN_OPTIONS", sanitizer, TRUE);
        g_test_init(&argc, &argv, NULL);
        fixture_add("/bus/random", test_random);
        return g_test_run();
}
