/* pause.h - C code that waits without the interpreter's lock, and looks at signals now and then as
 * Python would. */
#ifndef WORKER_EXT_PAUSE_H
#define WORKER_EXT_PAUSE_H

#include "worker/ext/python.h"

#include <stdbool.h>

#include "worker/collective/limit.h"

struct pause {
    PyThreadState *thread;
    uint64_t looked_ns;
    bool raised; /* a signal's handler did: the exception is set */
};

/* Releases the lock; the limit's `stopped` is a signal's handler that raises. */
struct limit pause_begin(struct pause *p, double seconds);
/* Takes it again. true: an exception is set, whatever else came of the call. */
bool pause_end(struct pause *p);

#endif
