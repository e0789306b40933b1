/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.c - within(), why() and limit_held() of cellspan._link (declared in private.h). */
#include "base/clock.h"
#include "base/process.h"
#include "worker/ext/link.h"
#include "worker/ext/private.h"

#define LIMIT_MOST 86400.0 /* seconds */

/* When so many seconds from now are over. */
static uint64_t end_of(double seconds)
{
    const double bounded = seconds > 0 ? (seconds < LIMIT_MOST ? seconds : LIMIT_MOST) : 0;

    return clock_now(&clock_system) + (uint64_t)(bounded * (double)NS_PER_S);
}

static PyObject *within(PyObject *module, PyObject *args)
{
    struct worker_link *l = own_link(module);
    PyObject *call, *rest, *named, *out;
    double seconds;
    uint64_t before;

    if (!PyArg_ParseTuple(args, "dOO!O!", &seconds, &call, &PyTuple_Type, &rest, &PyDict_Type,
                          &named))
        return NULL;
    /* Python's handlers don't run between these steps, so what one raises is raised in the call. */
    before = link_limit(l, end_of(seconds));
    out = PyObject_Call(call, rest, named);
    (void)link_limit(l, before);
    return out;
}

static PyObject *why(PyObject *module, PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLong(link_why(own_link(module)));
}

static PyObject *held(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    char text[200];

    (void)limit_held(text, sizeof text);
    return PyUnicode_FromString(text);
}

static PyMethodDef methods[] = {
    { "within", within, METH_VARARGS,
      "within(seconds, call, args, kwargs) -> call's value. When the time is over, the main thread gets a SIGINT, and again every 0.2 s. In "
      "other threads there is no limit." },
    { "why", why, METH_NOARGS,
      "why() -> for a handler of SIGINT, which of these it was since the last call: INTERRUPT, and LATE (the time is over) or OVER (it "
      "was, but within() has returned)." },
    { "limit_held", held, METH_NOARGS,
      "limit_held() -> which limit keeps this process from starting a process or a thread, or from getting memory; \"\": none that is "
      "known." },
    { NULL, NULL, 0, NULL },
};

int limits_add(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "INTERRUPT", LINK_INTERRUPT) < 0 ||
        PyModule_AddIntConstant(module, "LATE", LINK_LATE) < 0 ||
        PyModule_AddIntConstant(module, "OVER", LINK_OVER) < 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
