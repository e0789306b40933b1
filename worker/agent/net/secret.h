/* secret.h - the run's secret and the agent's number in the run, as the engine hands them over: in
 * the environment, or as the first lines of stdin. What is taken is wiped where it stood, so that
 * neither workers nor /proc show it. */
#ifndef WORKER_AGENT_NET_SECRET_H
#define WORKER_AGENT_NET_SECRET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/keys.h"

#define SECRET_LINE_MAX 256u

struct handed {
    struct secret secret; /* secret_wipe() when the keys are made */
    uint32_t index;       /* CELLSPAN_AGENT */
    bool has_secret, has_index;
};

/* Takes both out of the environment: overwritten in place and unset. Call it first thing, before
 * anything copies or changes the environment. -1: what is there is wrong; the err shows nothing of
 * it. */
MUST_USE int secret_from_environment(struct handed *h, struct err *err);
/* Reads lines from fd until both are there. -1: the input ended, a line is wrong, or nothing came
 * for limit_ms. */
MUST_USE int secret_from_stdin(struct handed *h, int fd, int limit_ms, struct err *err);
/* One line, without its newline: `CELLSPAN_AGENT=…` or `CELLSPAN_SECRET=…`. Pure. */
MUST_USE int secret_take_line(struct handed *h, struct slice line, struct err *err);

#endif
