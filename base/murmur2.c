/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/murmur2.h"

#include "base/le.h"

#define M 0x5BD1E995u

uint32_t murmur2(struct slice text, uint32_t seed)
{
    const char *p = text.p;
    uint32_t h = seed ^ (uint32_t)text.n;
    size_t left = text.n;

    for (; left >= 4; p += 4, left -= 4) {
        uint32_t k = (uint32_t)le_get(p, 4) * M;

        k = (k ^ k >> 24) * M;
        h = h * M ^ k;
    }
    if (left)
        h = (h ^ (uint32_t)le_get(p, left)) * M;
    h = (h ^ h >> 13) * M;
    return h ^ h >> 15;
}
