/* SPDX-License-Identifier: MIT */
#pragma once

/* The driver's feature bits by name, as `probe` and the bus show them: "user-copy", "user-recovery", … */

#include "service/uapi.h"
#include "service/util.h"

typedef struct Feature {
        uint64_t bit;
        const char *name;
        const char *since; /* first mainline release in which it works */
        const char *what;  /* one line for a person */
} Feature;

/* UBLK_N_FEATURES entries, ascending by bit. */
extern const Feature features[UBLK_N_FEATURES];

const Feature *feature_find(uint64_t bit);

/* Without this there is no service. */
#define FEATURES_NEEDED (UBLK_F_USER_COPY)
