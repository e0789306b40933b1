/* names.h - marks() and rebound() of cellspan._link: find out which names of a namespace some code
 * has bound. */
#ifndef WORKER_EXT_NAMES_H
#define WORKER_EXT_NAMES_H

#include "worker/ext/python.h"

#include "base/err.h"

/* Adds the functions to the module. -1 with a Python exception. */
MUST_USE int names_add(PyObject *module);

#endif
