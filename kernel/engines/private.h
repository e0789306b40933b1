/* private.h - the state of kernel/engines, for engines.c and tests only. */
#ifndef KERNEL_ENGINES_PRIVATE_H
#define KERNEL_ENGINES_PRIVATE_H

#include "kernel/engines/engine_run.h"
#include "kernel/engines/local_agent.h"

struct engines {
    struct loop *loop;
    struct engines_config config;
    struct local_agent local;
    struct engine_run **run; /* by number, from 1 at 0; NULL: it is gone */
    size_t n;
    uint64_t start_ns; /* how long nodes may take to come up */
    struct watch *child, *sweep, *look;
    int sweeps; /* that are still to come after a lost agent */
};

/* NULL: there is none any more. */
struct engine_run *engines_run(const struct engines *e, unsigned number);

#endif
