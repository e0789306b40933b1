/* SPDX-License-Identifier: BSD-3-Clause */
/* pause.c - releases Python's lock while C code waits; handles signals (declared in private.h). */
#include <errno.h>
#include <poll.h>

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

int pause_for(int fd, short events, double seconds)
{
    const uint64_t begin_ns = clock_now(&clock_system);

    for (;;) {
        struct pollfd watch = { .fd = fd, .events = events };
        const double left = seconds - 1e-9 * (double)(clock_now(&clock_system) - begin_ns);
        const int ms = seconds < 0  ? -1
                       : left < 0   ? 0
                       : left > 1e6 ? 1000000000
                                    : (int)(left * 1000 + 0.999);
        int rc;

        Py_BEGIN_ALLOW_THREADS rc = poll(&watch, 1, ms);
        Py_END_ALLOW_THREADS if (rc >= 0) return rc > 0;
        if (errno != EINTR) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
}
