/* murmur2.c - computes MurmurHash2, the hash in the file names of cells (declared in debug.h). */
#include "kernel/debug/debug.h"

#define M 0x5BD1E995u

uint32_t murmur2(struct slice text, uint32_t seed)
{
    const unsigned char *p = (const unsigned char *)text.p;
    uint32_t h = seed ^ (uint32_t)text.n;
    size_t left = text.n;

    for (; left >= 4; p += 4, left -= 4) {
        uint32_t k = ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                      (uint32_t)p[3] << 24) *
                     M;

        k = (k ^ k >> 24) * M;
        h = h * M ^ k;
    }
    if (left) {
        for (size_t i = 0; i < left; i++)
            h ^= (uint32_t)p[i] << (8 * i);
        h *= M;
    }
    h = (h ^ h >> 13) * M;
    return h ^ h >> 15;
}
