/* SPDX-License-Identifier: BSD-3-Clause */
/* le.h - reads and writes little-endian numbers at any address, as in messages and files. */
#ifndef BASE_LE_H
#define BASE_LE_H

#include <stddef.h>
#include <stdint.h>

/* Writes the lowest `size` (at most 8) bytes of v. */
static inline void le_put(void *out, size_t size, uint64_t v)
{
    uint8_t *p = out;

    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

/* Reads a number of `size` (at most 8) bytes. */
static inline uint64_t le_get(const void *in, size_t size)
{
    const uint8_t *p = in;
    uint64_t v = 0;

    for (size_t i = size; i > 0; i--)
        v = v << 8 | p[i - 1];
    return v;
}

#endif
