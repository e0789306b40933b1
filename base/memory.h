/* memory.h - what a burst took goes back to the system: holes between what lives on, glibc keeps by itself. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

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

#endif
