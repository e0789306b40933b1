/* memory.h - what a burst took goes back to the system: holes between what lives on, glibc keeps by itself. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

static inline void memory_return(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* While on, freed blocks of up to 8 MiB stay with malloc; off: those over 128 KiB go back to the system at once. */
static inline void memory_keep(bool on)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, on ? 8 << 20 : 128 << 10);
    (void)mallopt(M_TRIM_THRESHOLD, on ? 64 << 20 : 128 << 10);
    (void)mallopt(M_TOP_PAD, on ? 16 << 20 : 128 << 10);
#else
    (void)on;
#endif
}

#endif
