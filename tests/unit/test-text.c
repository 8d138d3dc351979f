/* SPDX-License-Identifier: MIT */

/* What bus and systemd take for text: checked against sd-bus itself. */

#include "service/text.h"

#include <glib.h>
#include <sys/socket.h>
#include <systemd/sd-bus.h>

/* A message belongs to a bus; half of a socket pair is enough of one. */
static bool bus_takes(const char *s) {
        static sd_bus *bus;
        sd_bus_message *m;
        int fds[2];
        bool taken;

        if (!bus) {
                g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), ==, 0);
                g_assert_cmpint(sd_bus_new(&bus), >=, 0);
                g_assert_cmpint(sd_bus_set_fd(bus, fds[0], fds[0]), >=, 0);
                g_assert_cmpint(sd_bus_start(bus), >=, 0);
        }
        g_assert_cmpint(sd_bus_message_new_signal(bus, &m, "/", "a.b", "C"), >=, 0);
        taken = sd_bus_message_append(m, "s", s) >= 0;
        sd_bus_message_unref(m);
        return taken;
}

static void check(const char *s, const char *cleaned) {
        g_autofree char *copy = g_strdup(s);

        g_assert_cmpint(text_is_valid(s), ==, streq(s, cleaned));
        g_assert_cmpint(text_is_valid(s), ==, bus_takes(s));
        text_clean(copy);
        g_assert_cmpstr(copy, ==, cleaned);
        g_assert_true(bus_takes(copy));
}

static void test_text(void) {
        check("", "");
        check("abc\n\x7f", "abc\n\x7f");
        check("été, 日本, 😀", "été, 日本, 😀");
        /* Cut, a byte that can't be first, and what no character has. */
        check("caf\xc3", "caf?");
        check("\xf0\x9f\x92", "???");
        check("\x80z", "?z");
        check("\xff\xfe", "??");
        /* Longer than it need be; a surrogate; beyond the last one. */
        check("\xc0\x80", "??");
        check("\xe0\x80\xaf", "???");
        check("\xf0\x80\x80\xaf", "????");
        check("\xed\xa0\x80", "???");
        check("\xf4\x90\x80\x80", "????");
        check("\xf8\x88\x80\x80\x80", "?????");
        /* Noncharacters, and their neighbours. */
        check("\xef\xb7\x8f \xef\xb7\x90 \xef\xb7\xaf \xef\xb7\xb0", "\xef\xb7\x8f ??? ??? \xef\xb7\xb0");
        check("\xef\xbf\xbd\xef\xbf\xbe\xef\xbf\xbf", "\xef\xbf\xbd??????");
        check("\xf4\x8f\xbf\xbd\xf4\x8f\xbf\xbe", "\xf4\x8f\xbf\xbd????");
}

/* Each character that there is or is not, between two others. */
static void test_all(void) {
        for (uint32_t c = 1; c < 0x120000; c += c < 0x10000 ? 1 : 251) {
                char s[8] = "x";
                size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

                if (n == 1)
                        s[1] = (char) c;
                for (size_t i = n; n > 1 && i > 0; i--)
                        s[i] = (char) (i > 1 ? 0x80 | ((c >> 6 * (n - i)) & 0x3f) : ((0xf00U >> n) & 0xff) | c >> 6 * (n - 1));
                s[n + 1] = 'x';
                if (text_is_valid(s) != bus_takes(s))
                        g_error("U+%04x", c);
        }
}

int main(int argc, char **argv) {
        g_test_init(&argc, &argv, NULL);
        g_test_add_func("/text/text", test_text);
        g_test_add_func("/text/all", test_all);
        return g_test_run();
}
