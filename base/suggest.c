/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/suggest.h"

#include <string.h>

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static size_t length(const char *word)
{
    return strnlen(word, SUGGEST_MAX);
}

/* Keeps three rows of the Damerau-Levenshtein table: swaps look two rows back. */
unsigned suggest_distance(const char *a, const char *b)
{
    unsigned rows[3][SUGGEST_MAX + 1];
    const size_t n = length(a);
    const size_t m = length(b);

    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        const unsigned *above2 = rows[(i + 1) % 3];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            const unsigned change = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;

            row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + change);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

/* At most a third of the letters may be wrong, or half of them if the first is right. An unfinished
 * word is nearer than any misspelt one. */
const char *suggest_nearest(const char *word, const char *const *valid, size_t n)
{
    const char *nearest = NULL;
    unsigned best = 0;

    for (size_t i = 0; i < n; i++) {
        const size_t longer = length(word) > length(valid[i]) ? length(word) : length(valid[i]);
        unsigned far = suggest_distance(word, valid[i]);

        if (length(word) > 1 && strncmp(word, valid[i], length(word)) == 0)
            far = least(far, 1);
        if (far <= (lower(*word) == lower(*valid[i]) ? longer / 2 : (longer + 1) / 3) &&
            (!nearest || far < best)) {
            nearest = valid[i];
            best = far;
        }
    }
    return nearest;
}
