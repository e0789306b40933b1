/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h - one process of the engine, and the agents that it holds. */
#ifndef TESTS_SIM_HOST_H
#define TESTS_SIM_HOST_H

#include <stdbool.h>

#include "protocol/keys.h"

struct host_spec {
    const char *endpoint;
    const struct secret *secret;
    unsigned agents;  /* of the whole run */
    const bool *mine; /* by index: does this process hold it? */
    int in;           /* when it ends, so does the process */
};

/* Runs until all its agents have ended. The exit status. */
int host_run(const struct host_spec *s);

#endif
