/* names.c - which names of a namespace a piece of code has bound. In C, since a rank asks around every cell: IPython's own
 * names (_i1, _1, …) in it grow with each cell, and a loop in Python over a thousand of them takes as long as a short cell. */
#include "worker/ext/names.h"

#include <stdbool.h>

/* The next name that the user may have given, and its value; false: there is none. Both are borrowed. */
static bool next_name(PyObject *names, Py_ssize_t *at, PyObject **name, PyObject **value)
{
    while (PyDict_Next(names, at, name, value)) {
        if (PyUnicode_CheckExact(*name) && PyUnicode_GetLength(*name) > 0 && PyUnicode_ReadChar(*name, 0) != '_')
            return true;
    }
    return false;
}

static PyObject *idents(PyObject *module, PyObject *args)
{
    PyObject *names, *name, *value, *found;
    Py_ssize_t at = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &names) || !(found = PyDict_New()))
        return NULL;
    while (next_name(names, &at, &name, &value)) {
        PyObject *ident = PyLong_FromVoidPtr(value);
        const int rc = ident ? PyDict_SetItem(found, name, ident) : -1;

        Py_XDECREF(ident);
        if (rc < 0) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

/* Whether this is the value that the name had; -1 with an exception. */
static int is_as_before(PyObject *before, PyObject *name, const PyObject *value)
{
    PyObject *was = PyDict_GetItemWithError(before, name); /* borrowed */
    const void *p;

    if (!was)
        return PyErr_Occurred() ? -1 : 0;
    p = PyLong_AsVoidPtr(was);
    return PyErr_Occurred() ? -1 : p == value;
}

static PyObject *rebound(PyObject *module, PyObject *args)
{
    PyObject *names, *before, *name, *value, *found;
    Py_ssize_t at = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &names, &PyDict_Type, &before) || !(found = PyList_New(0)))
        return NULL;
    while (next_name(names, &at, &name, &value)) {
        const int same = is_as_before(before, name, value);

        if (same < 0 || (!same && PyList_Append(found, name) < 0)) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

static PyMethodDef methods[] = {
    { "idents", idents, METH_VARARGS, "idents(namespace) -> {name: the object's number} of names without a leading underscore; no value is kept." },
    { "rebound", rebound, METH_VARARGS, "rebound(namespace, before) -> the names whose objects are others than in idents()'s answer." },
    { NULL, NULL, 0, NULL },
};

int names_add(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
