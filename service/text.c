/* SPDX-License-Identifier: MIT */
#include "service/text.h"

static bool is_character(uint32_t c) {
        return c < 0x110000 && (c & 0xfffff800) != 0xd800 && (c < 0xfdd0 || c > 0xfdef) && (c & 0xfffe) != 0xfffe;
}

/* How many bytes the first byte asks for, and what of the character it has; 0 for none that can be first. */
static size_t begin(unsigned char byte, uint32_t *ret) {
        static const struct {
                unsigned char mask, first;
        } lengths[] = { { 0x80, 0x00 }, { 0xe0, 0xc0 }, { 0xf0, 0xe0 }, { 0xf8, 0xf0 } };

        for (size_t i = 0; i < ELEMENTSOF(lengths); i++)
                if ((byte & lengths[i].mask) == lengths[i].first) {
                        *ret = byte & (unsigned char) ~lengths[i].mask;
                        return i + 1;
                }
        return 0;
}

/* The bytes of the character that s begins with; 0 if it begins with none. */
static size_t character_size(const char *s) {
        static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 }; /* less would have been shorter */
        uint32_t c = 0;
        size_t n = begin((unsigned char) s[0], &c);

        for (size_t i = 1; i < n; i++) {
                if (((unsigned char) s[i] & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | ((unsigned char) s[i] & 0x3f);
        }
        return n > 0 && c >= least[n] && is_character(c) ? n : 0;
}

bool text_is_valid(const char *s) {
        for (size_t n; *s; s += n) {
                n = character_size(s);
                if (n == 0)
                        return false;
        }
        return true;
}

void text_clean(char *s) {
        for (size_t n; *s; s += n > 0 ? n : 1) {
                n = character_size(s);
                if (n == 0)
                        *s = '?';
        }
}
