/* SPDX-License-Identifier: BSD-3-Clause */
/* resize.c - calls a function of Python's before each numpy.ndarray.resize() (declared in
 * private.h). It is in C because numpy counts the references to the array: a function of Python's
 * around numpy's would hold one more. */
#include "worker/ext/private.h"

static PyCFunctionWithKeywords numpys; /* NULL: it is not watched */
static PyObject *before;               /* owned */

/* The references of what calls it are those that numpy's own would have: `array` is borrowed, and
 * `args` does not hold it. */
static PyObject *resize(PyObject *array, PyObject *args, PyObject *named)
{
    PyObject *done = PyObject_CallFunction(before, "OnO", array, (Py_ssize_t)Py_REFCNT(array),
                                           named ? named : Py_None);

    if (!done)
        return NULL;
    Py_DECREF(done);
    return numpys(array, args, named);
}

static PyMethodDef of_array = { "resize", (PyCFunction)(void (*)(void))resize,
                                METH_VARARGS | METH_KEYWORDS, NULL };

/* Does it take its arguments as numpy's does? Another numpy's resize() stays as it is. */
static bool is_known(PyObject *bound)
{
    return PyCFunction_Check(bound) &&
           PyCFunction_GetFlags(bound) == (METH_VARARGS | METH_KEYWORDS);
}

/* Takes the function out of an array's own method, since a method descriptor does not tell it, and
 * puts ours in its place in the type's dict: types of C let nobody set their attributes. */
static PyObject *before_resize(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *type, *names, *bound, *call, *made;
    const char *text;
    int rc;

    if (!PyArg_ParseTuple(args, "O!O!OOz", &PyType_Type, &type, &PyDict_Type, &names, &bound, &call,
                          &text))
        return NULL;
    if (numpys || !is_known(bound))
        Py_RETURN_FALSE;
    if (!(made = PyDescr_NewMethod((PyTypeObject *)type, &of_array)))
        return NULL; /* it reads the text when it is asked for it */
    of_array.ml_doc = text;
    Py_INCREF(args); /* it has the text of the documentation, and `call` */
    before = call;
    numpys = (PyCFunctionWithKeywords)(void (*)(void))PyCFunction_GetFunction(bound);
    rc = PyDict_SetItemString(names, "resize", made);
    Py_DECREF(made);
    if (rc < 0)
        return NULL;
    PyType_Modified((PyTypeObject *)type);
    Py_RETURN_TRUE;
}

PyMethodDef resize_methods[] = {
    { "before_resize", before_resize, METH_VARARGS,
      "before_resize(numpy.ndarray, its dict, an array's resize, call, documentation) -> is it done? From now on, call(array, number of "
      "references to it, its arguments with names or None) is called before numpy's resize(). Once in a process." },
    { NULL, NULL, 0, NULL },
};
