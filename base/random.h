/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h - random numbers and unique names, by libsodium and libuuid. Nothing else in the program
 * makes random numbers. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define UUID_TEXT_SIZE 37 /* 36 characters and the NUL */

/* Call it once in main, before the other functions here. */
MUST_USE int random_open(struct err *err);
void random_bytes(void *p, size_t n);
uint64_t random_u64(void);
/* A random (version 4) UUID in lower case, NUL-terminated. */
void random_uuid(char out[static UUID_TEXT_SIZE]);

#endif
