/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - giving freed memory back to the system, which glibc does not always do by itself, and
 * wiping secrets before their memory is freed. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Overwrites with zeros. The compiler may not optimise this away, unlike memset(). */
static inline void memory_wipe(void *p, size_t n)
{
    volatile unsigned char *byte = p;

    while (n-- > 0)
        *byte++ = 0;
}

static inline void memory_return(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* From now on malloc keeps freed blocks of up to 8 MiB. While many large blocks are allocated and
 * freed, returning their pages and getting new ones would take more time than the work itself. */
static inline void memory_keep(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 8 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
    (void)mallopt(M_TOP_PAD, 16 << 20);
#endif
}

/* Ends memory_keep(): returns what was kept, and from now on each freed block of `large` bytes or
 * more goes back to the system at once. */
static inline void memory_keep_no_more(int large)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, large);
    (void)mallopt(M_TRIM_THRESHOLD, 2 * large);
    (void)mallopt(M_TOP_PAD, 128 << 10);
#else
    (void)large;
#endif
    memory_return();
}

#endif
