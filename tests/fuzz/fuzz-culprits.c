/* SPDX-License-Identifier: MIT */

/* At which requests workers ended: a file in a directory of the workers' own, which the next one reads. */

#include "../../service/culprits.c"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(device_config_freep) DeviceConfig *config = device_config_new(3);
        _cleanup_free_ char *text = NULL, *written = NULL, *again = NULL, *copy = NULL;
        Input in = { data, size };
        Culprits c = { .config = config }, back = { .config = config };

        must(config && xstrdup("disk0", &config->name) >= 0);
        config->created_usec = 1;
        text = input_string(&in);
        parse(&c, text);
        must(c.n <= CULPRITS_MAX && (!c.news || c.n > 0));
        must(serialize(&c, &written) == 0 && xstrdup(written, &copy) >= 0);
        must(strlen(written) <= MAX_FILE);
        parse(&back, copy);
        must(back.n == c.n && back.news == c.news);
        must(serialize(&back, &again) == 0 && streq(written, again));
        return 0;
}
