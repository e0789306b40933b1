/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.h - a kernel with simulated agents, and the client that sends it cells. */
#ifndef TESTS_SIM_DRIVER_H
#define TESTS_SIM_DRIVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop/loop.h"

struct driver;

/* What a cell came to. */
struct outcome {
    bool answered; /* within the limit */
    bool ok;
    char ename[64];
    char evalue[2048];
    struct buf out, errs; /* owned: its streams */
    unsigned streams;     /* messages of them */
    double seconds;       /* from request to reply and idle */
    double cpu;           /* seconds of the kernel's processor time in between */
};

struct driver_to {
    const char *kernel;    /* the program; NULL: as installed, or beside this one */
    const char *self;      /* this program */
    const char *heartbeat; /* CELLSPAN_HEARTBEAT_TIMEOUT; NULL: as it is */
};

/* NULL: *err says why. */
struct driver *driver_start(const struct driver_to *to, struct err *err);
/* Asks it to shut down. How many of its processes are left after that, within a limit; NULL is
 * fine. */
unsigned driver_stop(struct driver *d);
pid_t driver_kernel(const struct driver *d);

/* All connections over TCP end now: the kernel's, and those between agents. */
void driver_cut(struct driver *d);
/* The same so many times while the next cell runs, every cut_ms. */
void driver_cut_during(struct driver *d, unsigned cut_ms, unsigned times);

/* Sends the cell and waits. interrupt_ms: an interrupt_request comes so long after; 0: none. */
void driver_cell(struct driver *d, const char *code, unsigned interrupt_ms, unsigned limit_s,
                 struct outcome *o);
void outcome_release(struct outcome *o);

#endif
