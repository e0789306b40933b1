/* SPDX-License-Identifier: BSD-3-Clause */
/* control.h - reads what the doubles present from the file that README.md describes. */
#ifndef TESTS_DOUBLES_CONTROL_H
#define TESTS_DOUBLES_CONTROL_H

#include <stdbool.h>

#define DOUBLE_GPUS      16u
#define DOUBLE_INSTANCES 7u
#define DOUBLE_MIB       1048576ull
#define DOUBLE_TOTAL     (81920ull * DOUBLE_MIB)

/* The nth line (from 0) that begins with `word`: its numbers; false: there are fewer.
 * "GPU.INSTANCE" is read as GPU + 100 * (INSTANCE + 1). */
bool control_line(const char *word, unsigned nth, long number[static 3]);
/* The line of this GPU (its first number), whose second number it returns; `otherwise` when there
 * is none. */
long control_of(const char *word, long gpu, long otherwise);
/* Does what the file says of a function: hangs, crashes; or the result that it fails with, 0 when
 * it doesn't. */
int control_call(const char *function);

#endif
