/* SPDX-License-Identifier: MIT */
#pragma once

#include "fuzz.h"
#include "service/config.h"

/* Their files say the same. */
void config_must_equal(const DeviceConfig *a, const DeviceConfig *b);
/* What has been taken can be written, and read again as the same. */
void config_must_last(const DeviceConfig *c);
