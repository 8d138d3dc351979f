/* SPDX-License-Identifier: MIT */
#include "service/name.h"

#include "service/uapi.h"

/* No isalpha(3): a locale must not decide what is a name. */
static bool is_lower(char c) {
        return (c >= 'a' && c <= 'z') || c == '_';
}
static bool is_letter(char c) {
        return is_lower(c) || (c >= 'A' && c <= 'Z');
}
static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

bool name_is_valid(const char *name) {
        size_t n = strnlen(name, NAME_MAX_LENGTH + 1);

        if (n == 0 || n > NAME_MAX_LENGTH || !is_letter(name[0]))
                return false;
        for (size_t i = 1; i < n; i++)
                if (!is_letter(name[i]) && !is_digit(name[i]) && name[i] != '.' && name[i] != '-')
                        return false;
        return true;
}

bool argument_name_is_valid(const char *name) {
        size_t n = strnlen(name, NAME_MAX_LENGTH + 1);

        if (n == 0 || n > NAME_MAX_LENGTH || !is_lower(name[0]))
                return false;
        for (size_t i = 1; i < n; i++)
                if (!is_lower(name[i]) && !is_digit(name[i]))
                        return false;
        return true;
}

int device_id_parse(const char *s, uint32_t *ret) {
        if (strncmp(s, "/dev/", 5) == 0)
                s += 5;
        if (strncmp(s, "ublkb", 5) == 0)
                s += 5;
        return parse_u32(s, UBLK_MAX_ID, ret) < 0 ? -EINVAL : 0;
}
