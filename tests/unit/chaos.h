/* SPDX-License-Identifier: BSD-3-Clause */
/* chaos.h - makes the n-th allocation fail. Link with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc. */
#ifndef TESTS_UNIT_CHAOS_H
#define TESTS_UNIT_CHAOS_H

#include <stdlib.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

/* How many allocations still work; -1: all. */
static long chaos_left = -1;

/* The nth allocation from now (from 0) fails, once; -1: none does. */
static inline void alloc_fail_at(long nth)
{
    chaos_left = nth;
}

/* Did it come to the failing one since alloc_fail_at? */
static inline int alloc_failed(void)
{
    return chaos_left == -1;
}

static inline int chaos_strikes(void)
{
    return chaos_left >= 0 && chaos_left-- == 0;
}

void *__wrap_malloc(size_t n)
{
    return chaos_strikes() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return chaos_strikes() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return chaos_strikes() ? NULL : __real_realloc(p, n);
}

#endif
