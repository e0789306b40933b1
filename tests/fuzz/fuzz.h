/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz.h - a fuzz target: an entry for libFuzzer, and the path of its first inputs. driver.c runs
 * the same entry in `make check`, where there is no libFuzzer. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Aborts when something is wrong; returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* a pattern under the source tree; the files hold hexadecimal and comments */
extern const char fuzz_corpus[];
/* the driver puts each byte below this before each input; 0: inputs as they are */
extern const unsigned fuzz_prefixes;

#endif
