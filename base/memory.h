/* memory.h - what a burst took goes back to the system: holes between what lives on, glibc keeps by
 * itself. And secrets that are overwritten before their memory is anybody's. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Also where a compiler sees that nobody reads it any more. */
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

/* From now on freed blocks of up to 8 MiB stay with malloc: while many large ones come and go,
 * giving their pages back and taking them anew costs more time than what is done with them. */
static inline void memory_keep(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 8 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
    (void)mallopt(M_TOP_PAD, 16 << 20);
#endif
}

/* Freed blocks of `large` bytes and more go back to the system at once again, and so does what was
 * kept. */
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
