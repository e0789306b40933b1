/* pause.h - for C code that waits: releases the interpreter's lock, and handles Python's signals
 * from time to time, as Python code would. */
#ifndef WORKER_EXT_PAUSE_H
#define WORKER_EXT_PAUSE_H

#include "worker/ext/python.h"

#include <stdbool.h>

#include "worker/collective/limit.h"

struct pause {
    PyThreadState *thread;
    uint64_t looked_ns;
    bool raised; /* a signal handler raised: the exception is set */
};

/* Releases the lock. The limit is cancelled when a signal handler raises. */
struct limit pause_begin(struct pause *p, double seconds);
/* Takes the lock again. true: an exception is set, regardless of the call's result. */
bool pause_end(struct pause *p);

#endif
