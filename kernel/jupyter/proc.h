/* proc.h - reads facts about processes and the machine from Linux's /proc. On other systems every
 * call returns -1. */
#ifndef KERNEL_JUPYTER_PROC_H
#define KERNEL_JUPYTER_PROC_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct proc_process {
    long pid, parent;
    uint64_t started; /* ticks since boot: distinguishes two processes with the same pid */
    uint64_t ticks;   /* CPU time used, user and system */
};

struct proc_memory { /* bytes */
    uint64_t total, free, available, buffers, cached, shared, active, inactive, slab;
};

struct proc_cpu { /* ticks since boot, of all CPUs */
    uint64_t busy, all;
};

/* The process pid and all its descendants, pid first. The caller frees *list. */
MUST_USE int proc_tree(long pid, struct proc_process **list, size_t *n);
/* The proportional set size in bytes: each shared page is divided among its processes. */
MUST_USE int proc_pss(long pid, uint64_t *bytes);
MUST_USE int proc_memory(struct proc_memory *m);
MUST_USE int proc_cpu(struct proc_cpu *c);

#endif
