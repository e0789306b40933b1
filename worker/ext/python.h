/* SPDX-License-Identifier: BSD-3-Clause */
/* python.h - includes Python.h for the stable ABI of 3.9: one binary for all later versions. */
#ifndef WORKER_EXT_PYTHON_H
#define WORKER_EXT_PYTHON_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03090000
#endif
#define PY_SSIZE_T_CLEAN
/* Python's headers give warnings with this project's options. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <Python.h>
#pragma GCC diagnostic pop

#endif
