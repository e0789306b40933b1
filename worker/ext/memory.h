/* memory.h - equal(), address() and written() of cellspan._link: compare memory without reading
 * pages that can't have changed. */
#ifndef WORKER_EXT_MEMORY_H
#define WORKER_EXT_MEMORY_H

#include "worker/ext/python.h"

#include "base/err.h"

/* Adds the functions to the module. -1 with a Python exception. */
MUST_USE int memory_add(PyObject *module);

#endif
