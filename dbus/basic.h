/* SPDX-License-Identifier: MIT */
#pragma once

/* A value of a basic D-Bus type, read out of a message. */

#include "service/util.h"

#include <systemd/sd-bus.h>

typedef union BasicValue {
        uint8_t y;
        int b;
        int16_t n;
        uint16_t q;
        int32_t i;
        uint32_t u;
        int64_t x;
        uint64_t t;
        double d;
        const char *s; /* o and g too; borrowed of the message */
} BasicValue;

/* Of a type of ybnqiuxtdsog, and not one that is read as something else (h); -EINVAL. */
int basic_read(sd_bus_message *m, char type, BasicValue *ret);
/* The integer in it, of one of ynqiuxt, as 64 bits; negative ones sign-extended. */
uint64_t basic_to_integer(const BasicValue *v, char type);
/* As Argument.value has it (service/config.h). */
int basic_to_text(const BasicValue *v, char type, char **ret);
