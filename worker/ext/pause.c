/* SPDX-License-Identifier: BSD-3-Clause */
/* pause.c - releases Python's lock while C code waits; handles signals (declared in private.h). */
#include "worker/ext/private.h"

#define POLL_NS (20 * NS_PER_MS) /* not more often: taking the lock takes longer than a message */

static bool stopped(void *arg)
{
    struct pause *p = arg;
    const uint64_t now = clock_now(&clock_system);

    if (p->raised || now - p->checked_ns < POLL_NS)
        return p->raised;
    p->checked_ns = now;
    PyEval_RestoreThread(p->thread);
    p->raised = PyErr_CheckSignals() < 0;
    p->thread = PyEval_SaveThread();
    return p->raised;
}

struct deadline pause_begin(struct pause *p, double seconds)
{
    p->raised = false;
    p->checked_ns = clock_now(&clock_system);
    p->thread = PyEval_SaveThread();
    return deadline_in(seconds, stopped, p);
}

bool pause_end(struct pause *p)
{
    PyEval_RestoreThread(p->thread);
    return p->raised;
}
