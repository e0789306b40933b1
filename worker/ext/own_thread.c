/* own_thread.c - calls Python in a thread of ours (declared in parts.h). */
#include "worker/ext/parts.h"

/* The module. A thread that has no module's state at hand needs it. */
static PyObject *gc;

int own_thread_init(void)
{
    return gc || (gc = PyImport_ImportModule("gc")) ? 0 : -1;
}

/* true: it does. The call makes no object that is collected, so it collects nothing itself. */
static bool call_gc(const char *function)
{
    PyObject *r = PyObject_CallMethod(gc, function, NULL);
    const bool yes = r == Py_True;

    if (!r)
        PyErr_Clear();
    Py_XDECREF(r);
    return yes;
}

void own_thread_call(PyObject *f)
{
    const bool collects = call_gc("isenabled");
    PyObject *r;

    (void)call_gc("disable");
    Py_INCREF(f);
    if (!(r = PyObject_CallObject(f, NULL)))
        PyErr_Clear();
    Py_XDECREF(r);
    Py_DECREF(f);
    if (collects)
        (void)call_gc("enable");
}
