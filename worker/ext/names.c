/* In C, since a rank asks around every cell: IPython's own names (_i1, _1, …) grow with each of
 * them, and a loop in Python over a thousand takes as long as a short cell. */
#include "worker/ext/names.h"

#include <stdbool.h>
#include <stdint.h>

#define MEMBERS  16   /* of a container, by which it is known again */
#define TEXT_MAX 4096 /* characters or bytes of a text that may be kept */

static bool is_digit(Py_UCS4 c)
{
    return c >= '0' && c <= '9';
}

/* A character of a name; 0: it has none there. */
static Py_UCS4 char_at(PyObject *name, Py_ssize_t at)
{
    const Py_UCS4 c = PyUnicode_ReadChar(name, at);

    if (c != (Py_UCS4)-1)
        return c;
    PyErr_Clear();
    return 0;
}

/* _, __, __name__, _1, _i, _ii, _i1, _ih, _oh, _dh, _sh: IPython's and Python's own. */
static bool is_own(PyObject *name)
{
    Py_UCS4 c = char_at(name, 0), first;

    if (c != '_')
        return c == 0;
    first = char_at(name, 1);
    if (first == 0 || first == '_' || is_digit(first))
        return true;
    c = char_at(name, 2);
    if (first == 'i' && (c == 0 || is_digit(c) || c == 'i'))
        return true;
    return c == 'h' && char_at(name, 3) == 0 &&
           (first == 'i' || first == 'o' || first == 'd' || first == 's');
}

/* The next name that the user may have given, and its value; false: there is none. Both are
 * borrowed. */
static bool next_name(PyObject *names, Py_ssize_t *at, PyObject **name, PyObject **value)
{
    while (PyDict_Next(names, at, name, value)) {
        if (PyUnicode_CheckExact(*name) && !is_own(*name))
            return true;
    }
    return false;
}

static uint64_t mix(uint64_t hash, const void *p)
{
    return (hash ^ (uint64_t)(uintptr_t)p) * UINT64_C(0x100000001b3);
}

/* What tells a value from another one that stands at the same place later: of a container its
 * length and its first members, of a text all of it. Its hash can't fail, and is computed once for
 * each text. */
static uint64_t face_of(PyObject *value)
{
    uint64_t hash = mix(mix(UINT64_C(0xcbf29ce484222325), value), Py_TYPE(value));
    PyObject *key, *member;
    Py_ssize_t at = 0;

    if (PyDict_Check(value)) {
        hash = mix(hash, (void *)(uintptr_t)PyDict_Size(value));
        for (int k = 0; k < MEMBERS && PyDict_Next(value, &at, &key, &member); k++)
            hash = mix(mix(hash, key), member);
    } else if (PyList_Check(value)) {
        hash = mix(hash, (void *)(uintptr_t)PyList_Size(value));
        for (; at < MEMBERS && at < PyList_Size(value); at++)
            hash = mix(hash, PyList_GetItem(value, at));
    } else if (PyTuple_Check(value)) {
        hash = mix(hash, (void *)(uintptr_t)PyTuple_Size(value));
        for (; at < MEMBERS && at < PyTuple_Size(value); at++)
            hash = mix(hash, PyTuple_GetItem(value, at));
    } else if (PyUnicode_CheckExact(value) || PyBytes_CheckExact(value)) {
        hash = mix(hash, (void *)(uintptr_t)PyObject_Hash(value));
    }
    return hash;
}

static bool is_large_text(PyObject *value)
{
    if (PyUnicode_CheckExact(value))
        return PyUnicode_GetLength(value) > TEXT_MAX;
    return PyBytes_CheckExact(value) && PyBytes_Size(value) > TEXT_MAX;
}

static bool is_container(PyObject *value)
{
    return PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value);
}

/* Numbers, short texts and the like: nothing else can stand where they do while they are kept, and
 * they keep nothing alive. */
static bool is_small(PyObject *value)
{
    return !(PyType_GetFlags(Py_TYPE(value)) & Py_TPFLAGS_HAVE_GC) && !is_large_text(value) &&
           !PyByteArray_Check(value);
}

/* A weak reference where there can be one, else a number. Values of which there is none, and that
 * are small, go into kept. NULL with an exception. */
static PyObject *mark_of(PyObject *value, PyObject *kept)
{
    PyObject *mark = NULL;

    if (!is_container(value) && !is_large_text(value) && !PyLong_CheckExact(value) &&
        !PyUnicode_CheckExact(value) && !PyFloat_CheckExact(value)) {
        mark = PyWeakref_NewRef(value, NULL);
        if (mark || !PyErr_ExceptionMatches(PyExc_TypeError))
            return mark;
        PyErr_Clear();
    }
    if (is_small(value) && PyList_Append(kept, value) < 0)
        return NULL;
    return PyLong_FromUnsignedLongLong(face_of(value));
}

/* Whether the mark is of this value; -1 with an exception. */
static int is_marked(PyObject *mark, PyObject *value)
{
    PyObject *was;
    unsigned long long number;

    if (PyWeakref_CheckRef(mark)) {
        was = PyObject_CallObject(mark, NULL);
        Py_XDECREF(was); /* the value, if it is the one that is looked at, lives on */
        return !was ? -1 : was == value && value != Py_None;
    }
    number = PyLong_AsUnsignedLongLong(mark);
    if (number == (unsigned long long)-1 && PyErr_Occurred())
        return -1;
    return number == face_of(value);
}

static PyObject *marks(PyObject *module, PyObject *args)
{
    PyObject *names, *name, *value, *found, *kept = NULL;
    Py_ssize_t at = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &names) || !(found = PyDict_New()))
        return NULL;
    if (!(kept = PyList_New(0)))
        goto fail;
    while (next_name(names, &at, &name, &value)) {
        PyObject *mark = mark_of(value, kept);
        const int rc = mark ? PyDict_SetItem(found, name, mark) : -1;

        Py_XDECREF(mark);
        if (rc < 0)
            goto fail;
    }
    return Py_BuildValue("(NN)", found, kept);
fail:
    Py_DECREF(found);
    Py_XDECREF(kept);
    return NULL;
}

static PyObject *rebound(PyObject *module, PyObject *args)
{
    PyObject *names, *before, *kept, *name, *value, *found;
    Py_ssize_t at = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!(O!O!)", &PyDict_Type, &names, &PyDict_Type, &before,
                          &PyList_Type, &kept) ||
        !(found = PyList_New(0)))
        return NULL;
    while (next_name(names, &at, &name, &value)) {
        PyObject *mark = PyDict_GetItemWithError(before, name); /* borrowed */
        const int same = mark ? is_marked(mark, value) : PyErr_Occurred() ? -1 : 0;

        if (same < 0 || (!same && PyList_Append(found, name) < 0)) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

static PyMethodDef methods[] = {
    { "marks", marks, METH_VARARGS,
      "marks(namespace) -> what rebound() takes: which object each of the user's names has. It keeps nothing large alive." },
    { "rebound", rebound, METH_VARARGS,
      "rebound(namespace, marks) -> the names that are new, or have another object than then." },
    { NULL, NULL, 0, NULL },
};

int names_add(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
