/* SPDX-License-Identifier: BSD-3-Clause */
/* words.h - writes a route as text, for tests. */
#ifndef TESTS_UNIT_KERNEL_AGENTS_WORDS_H
#define TESTS_UNIT_KERNEL_AGENTS_WORDS_H

#include <stdio.h>

#include "protocol/bytes.h"
#include "protocol/route.h"

/* As "1:2,3 4:14". Returns out. */
static inline const char *route_words(struct slice route, char *out, size_t size)
{
    struct route_section s;
    size_t n = 0;

    *out = '\0';
    while (route_next(&route, &s)) {
        n += (size_t)snprintf(out + n, size - n, "%s%u:", n ? " " : "", s.node);
        for (size_t k = 0; k < s.workers.n / 4; k++)
            n += (size_t)snprintf(out + n, size - n, "%s%u", k ? "," : "",
                                  reader_u32_at(s.workers, k));
    }
    return out;
}

#endif
