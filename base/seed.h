/* SPDX-License-Identifier: BSD-3-Clause */
/* seed.h - seeds of random numbers, as users write them. They stay text until a rank uses them. */
#ifndef BASE_SEED_H
#define BASE_SEED_H

#include <stdbool.h>
#include <string.h>

#define SEED_MOST "18446744073709551615" /* 2^64 - 1, the largest that torch takes */

/* Is the text a whole number from 0 to SEED_MOST, in decimal digits and no more of them than that?
 */
static inline bool seed_is(const char *text)
{
    const size_t n = strlen(text), most = sizeof SEED_MOST - 1;

    return n > 0 && strspn(text, "0123456789") == n &&
           (n < most || (n == most && strcmp(text, SEED_MOST) <= 0));
}

#endif
