/* SPDX-License-Identifier: BSD-3-Clause */
/* watched.c - calls functions of Python's before each numpy.ndarray.resize(), and after a
 * functools.cached_property was read for the first time (declared in private.h). It is in C because
 * a function of Python's around numpy's would hold one more reference to the array, which numpy
 * counts, and because it would stand in the tracebacks of the user's errors. */
#include "worker/ext/private.h"

/* ---- numpy.ndarray.resize() ---- */

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

/* ---- functools.cached_property ---- */

static PyObject *own_get; /* owned: functools' own function; NULL: it is not watched */
static PyObject *after;   /* owned */

/* Has the object a value of this property? Then it is not computed. -1 with an exception. */
static int has_value(PyObject *property, PyObject *object)
{
    PyObject *name = PyObject_GetAttrString(property, "attrname"), *names;
    int rc = -1;

    if (!name)
        return -1;
    if ((names = PyObject_GetAttrString(object, "__dict__"))) {
        rc = PySequence_Contains(names, name);
        Py_DECREF(names);
    }
    Py_DECREF(name);
    return rc;
}

/* As functools' own function, with the same arguments. */
static PyObject *call_own(PyObject *property, PyObject *args, PyObject *named)
{
    PyObject *first = PyTuple_Pack(1, property),
             *all = first ? PySequence_Concat(first, args) : NULL;
    PyObject *value = all ? PyObject_Call(own_get, all, named) : NULL;

    Py_XDECREF(first);
    Py_XDECREF(all);
    return value;
}

static PyObject *get(PyObject *property, PyObject *args, PyObject *named)
{
    PyObject *object = PyTuple_Size(args) ? PyTuple_GetItem(args, 0) : Py_None, *value, *done;
    const int has = object == Py_None ? 1 : has_value(property, object);

    if (has < 0)
        PyErr_Clear(); /* functools' own function says what is wrong */
    /* Python counts the call of this function, too, and the user's properties may be as deep in
     * each other as without it. */
    Py_LeaveRecursiveCall();
    value = call_own(property, args, named);
    if (Py_EnterRecursiveCall(""))
        Py_CLEAR(value);
    if (!value || has)
        return value;
    if (!(done = PyObject_CallFunctionObjArgs(after, property, object, value, NULL)))
        Py_CLEAR(value);
    Py_XDECREF(done);
    return value;
}

static PyMethodDef of_property = { "__get__", (PyCFunction)(void (*)(void))get,
                                   METH_VARARGS | METH_KEYWORDS, NULL };

static PyObject *after_first_read(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *type, *own, *call;

    if (!PyArg_ParseTuple(args, "O!OO", &PyType_Type, &type, &own, &call))
        return NULL;
    Py_INCREF(args);
    after = call;
    if (own_get)
        Py_RETURN_NONE;
    own_get = own;
    if (!(own = PyDescr_NewMethod((PyTypeObject *)type, &of_property)))
        return NULL;
    if (PyObject_SetAttrString(type, "__get__", own) < 0) {
        Py_DECREF(own);
        return NULL;
    }
    Py_DECREF(own);
    Py_RETURN_NONE;
}

PyMethodDef watched_methods[] = {
    { "before_resize", before_resize, METH_VARARGS,
      "before_resize(numpy.ndarray, its dict, an array's resize, call, documentation) -> is it done? From now on, call(array, number of "
      "references to it, its arguments with names or None) is called before numpy's resize(). Once in a process." },
    { "after_first_read", after_first_read, METH_VARARGS,
      "after_first_read(functools.cached_property, its __get__, call): from now on, call(property, object, value) is called when a "
      "property has computed the value." },
    { NULL, NULL, 0, NULL },
};
