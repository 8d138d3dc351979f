/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Text that others take: sd-bus sends no string, and systemd keeps no status, that is not UTF-8. What they mean by that leaves
 * out more than RFC 3629 does: surrogates and what is beyond U+10FFFF, but also the 66 noncharacters, such as U+FFFE, which
 * other readers let pass (jansson, for one).
 */

#include "service/util.h"

bool text_is_valid(const char *s);
/* Makes it so, in place: a '?' for every byte that is no part of such a character. */
void text_clean(char *s);
