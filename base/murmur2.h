/* SPDX-License-Identifier: BSD-3-Clause */
/* murmur2.h - MurmurHash2, the hash in the file names of cells, as ipykernel has them. */
#ifndef BASE_MURMUR2_H
#define BASE_MURMUR2_H

#include <stdint.h>

#include "base/slice.h"

#define MURMUR2_SEED 0xC70F6907u /* ipykernel's */

uint32_t murmur2(struct slice text, uint32_t seed);

#endif
