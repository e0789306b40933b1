/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptors.h - counts open descriptors, for tests that must not leave any open. */
#ifndef TESTS_UNIT_DESCRIPTORS_H
#define TESTS_UNIT_DESCRIPTORS_H

#include <fcntl.h>

/* How many of this process are open, of the lowest 256: one that is left open is among them, for it
 * is the lowest that was free. */
static inline unsigned open_descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

#endif
