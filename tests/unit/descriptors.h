/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptors.h - counts open descriptors, for tests that must not leave any open, and limits
 * them. */
#ifndef TESTS_UNIT_DESCRIPTORS_H
#define TESTS_UNIT_DESCRIPTORS_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* How many of this process are open, of the lowest 256: one that is left open is among them, for it
 * is the lowest that was free. */
static inline unsigned open_descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* From now on there are no more than now, until setrlimit(). *was: the limit of before. */
static inline void descriptors_end(struct rlimit *was)
{
    struct rlimit none;
    const int next = dup(STDIN_FILENO);

    close(next);
    if (next < 0 || getrlimit(RLIMIT_NOFILE, was) < 0)
        abort();
    none = *was;
    none.rlim_cur = (rlim_t)next;
    if (setrlimit(RLIMIT_NOFILE, &none) < 0)
        abort();
}

#endif
