/* SPDX-License-Identifier: BSD-3-Clause */
/* names.c - see private.h. It is in C because a rank uses it before and after each cell. Each cell
 * adds names of IPython's own (_i1, _1, …), and a Python loop over a thousand names takes as long
 * as a short cell. */
#include "worker/ext/private.h"

#define SMALL_MAX 256  /* a container with at most this many members is kept itself */
#define TEXT_MAX  4096 /* a text of at most this many characters or bytes is kept itself */
#define MEMBERS   16   /* the mark of a larger container has the marks of this many members */
#define DEPTH     2    /* and of their members, down to this depth */

static bool is_digit(Py_UCS4 c)
{
    return c >= '0' && c <= '9';
}

/* The character of a name at this index; 0: the name is shorter. */
static Py_UCS4 char_at(PyObject *name, Py_ssize_t at)
{
    const Py_UCS4 c = PyUnicode_ReadChar(name, at);

    if (c != (Py_UCS4)-1)
        return c;
    PyErr_Clear();
    return 0;
}

/* Is it IPython's or Python's own: In, Out, _, __, __name__, _1, _i, _ii, _i1, _ih, _oh, _dh, _sh?
 */
static bool is_own(PyObject *name)
{
    Py_UCS4 c = char_at(name, 0), first;

    if (c != '_')
        return c == 0 || PyUnicode_CompareWithASCIIString(name, "Out") == 0 ||
               PyUnicode_CompareWithASCIIString(name, "In") == 0;
    first = char_at(name, 1);
    if (first == 0 || first == '_' || is_digit(first))
        return true;
    c = char_at(name, 2);
    if (first == 'i' && (c == 0 || is_digit(c) || c == 'i'))
        return true;
    return c == 'h' && char_at(name, 3) == 0 &&
           (first == 'i' || first == 'o' || first == 'd' || first == 's');
}

/* The next name that may be the user's, and its value, both borrowed. false: no more. */
static bool next_name(PyObject *names, Py_ssize_t *at, PyObject **name, PyObject **value)
{
    while (PyDict_Next(names, at, name, value)) {
        if (PyUnicode_CheckExact(*name) && !is_own(*name))
            return true;
    }
    return false;
}

/* ---- marks, which identify an object ---- */

/* Is it a number or a short text? These need little memory and keep nothing else alive. */
static bool is_plain(PyObject *value)
{
    if (PyUnicode_CheckExact(value))
        return PyUnicode_GetLength(value) <= TEXT_MAX;
    if (PyBytes_CheckExact(value))
        return PyBytes_Size(value) <= TEXT_MAX;
    return value == Py_None || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
           PyBool_Check(value) || PyComplex_CheckExact(value);
}

static bool is_container(PyObject *value)
{
    return PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value);
}

/* The next member of a container, and *key, which is NULL unless it is a dict. false: no more. */
static bool next_member(PyObject *of, Py_ssize_t *at, PyObject **key, PyObject **member)
{
    *key = NULL;
    if (PyDict_Check(of))
        return PyDict_Next(of, at, key, member);
    if (*at >= (PyList_Check(of) ? PyList_Size(of) : PyTuple_Size(of)))
        return false;
    *member = PyList_Check(of) ? PyList_GetItem(of, *at) : PyTuple_GetItem(of, *at);
    ++*at;
    return true;
}

/* Is it a container of a few plain values? */
static bool is_small(PyObject *value)
{
    PyObject *key, *member;
    Py_ssize_t at = 0, n = 0;

    if (!is_container(value))
        return false;
    while (next_member(value, &at, &key, &member)) {
        if (++n > SMALL_MAX || !is_plain(member) || (key && !is_plain(key)))
            return false;
    }
    return true;
}

static PyObject *own(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

static Py_ssize_t size_of(PyObject *container)
{
    if (PyDict_Check(container))
        return PyDict_Size(container);
    return PyList_Check(container) ? PyList_Size(container) : PyTuple_Size(container);
}

static PyObject *mark_of(PyObject *value, int depth);

/* Appends the mark of a member; member may be NULL. */
static int add_mark(PyObject *list, PyObject *member, int depth)
{
    PyObject *mark = member ? mark_of(member, depth) : NULL;
    const int rc = mark ? PyList_Append(list, mark) : member ? -1 : 0;

    Py_XDECREF(mark);
    return rc;
}

/* [address, size, marks of the first members and keys], as a list: no other mark is a list. */
static PyObject *mark_of_container(PyObject *value, int depth)
{
    PyObject *mark = Py_BuildValue("[Nn]", PyLong_FromVoidPtr(value), size_of(value));
    PyObject *key, *member;
    Py_ssize_t at = 0;

    for (int k = 0; mark && depth && k < MEMBERS && next_member(value, &at, &key, &member); k++) {
        if (add_mark(mark, key, depth - 1) < 0 || add_mark(mark, member, depth - 1) < 0)
            Py_CLEAR(mark);
    }
    return mark;
}

/* The mark of a value, which distinguishes it from another value that later has the same address. A
 * plain value is its own mark: while it is kept, no other value can have its address. NULL with an
 * exception. */
static PyObject *mark_of(PyObject *value, int depth)
{
    PyObject *mark;

    if (is_plain(value))
        return own(value);
    if (is_container(value))
        return mark_of_container(value, depth);
    if (PyUnicode_CheckExact(value) || PyBytes_CheckExact(value)) /* a long text; can't fail */
        return Py_BuildValue("(Nn)", PyLong_FromVoidPtr(value), (Py_ssize_t)PyObject_Hash(value));
    mark = PyWeakref_NewRef(value, NULL);
    if (mark || !PyErr_ExceptionMatches(PyExc_TypeError))
        return mark;
    PyErr_Clear();
    /* for example NumPy's numbers: types without garbage collection keep nothing else alive */
    if (!(PyType_GetFlags(Py_TYPE(value)) & Py_TPFLAGS_HAVE_GC) && !PyByteArray_Check(value))
        return own(value);
    return PyLong_FromVoidPtr(value);
}

static int is_marked(PyObject *mark, PyObject *value, int depth);

/* Is the member's mark the next one? */
static int is_next(PyObject *mark, Py_ssize_t *at, PyObject *member, int depth)
{
    if (!member)
        return 1;
    return *at < PyList_Size(mark) ? is_marked(PyList_GetItem(mark, (*at)++), member, depth) : 0;
}

static int is_marked_container(PyObject *mark, PyObject *value, int depth)
{
    const void *address = PyLong_AsVoidPtr(PyList_GetItem(mark, 0));
    PyObject *key, *member;
    Py_ssize_t at = 0, next = 2;
    int same = address == value && PyLong_AsSsize_t(PyList_GetItem(mark, 1)) == size_of(value);

    for (int k = 0; same > 0 && depth && k < MEMBERS && next_member(value, &at, &key, &member);
         k++) {
        if ((same = is_next(mark, &next, key, depth - 1)) > 0)
            same = is_next(mark, &next, member, depth - 1);
    }
    return same;
}

static int mark_is_address(PyObject *mark, PyObject *value)
{
    const void *address = PyLong_AsVoidPtr(mark);

    return !address && PyErr_Occurred() ? -1 : address == value;
}

/* Is it the mark of this value? -1 with an exception. */
static int is_marked(PyObject *mark, PyObject *value, int depth)
{
    PyObject *other;
    int rc;

    if (mark == value)
        return 1;
    if (PyWeakref_CheckRef(mark) && !PyWeakref_CheckRef(value)) {
        other = PyObject_CallObject(mark, NULL);
        Py_XDECREF(other); /* if it is the value, that lives on */
        return !other ? -1 : other == value;
    }
    if (PyLong_CheckExact(mark) && !is_plain(value))
        return mark_is_address(mark, value);
    if (is_container(value))
        return PyList_CheckExact(mark) ? is_marked_container(mark, value, depth) : 0;
    if (is_plain(value) || !PyTuple_CheckExact(mark))
        return 0;
    if (!(other = mark_of(value, depth)))
        return -1;
    rc = PyObject_RichCompareBool(mark, other, Py_EQ);
    Py_DECREF(other);
    return rc;
}

/* Records the object that the name has: a small container itself, so that a change in place does
 * not count; otherwise its mark. */
static int note(PyObject *name, PyObject *value, PyObject *marks, PyObject *kept)
{
    PyObject *mark;
    int rc;

    if (is_plain(value) || is_small(value))
        return PyDict_SetItem(kept, name, value);
    if (!(mark = mark_of(value, DEPTH)))
        return -1;
    rc = PyDict_SetItem(marks, name, mark);
    Py_DECREF(mark);
    return rc;
}

static int is_as_before(PyObject *name, PyObject *value, PyObject *marks, PyObject *kept)
{
    PyObject *was = PyDict_GetItemWithError(kept, name), *mark; /* borrowed, both */

    if (was || PyErr_Occurred())
        return was ? was == value : -1;
    mark = PyDict_GetItemWithError(marks, name);
    return mark ? is_marked(mark, value, DEPTH) : PyErr_Occurred() ? -1 : 0;
}

/* ---- what Python calls ---- */

static PyObject *marks_(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *names, *name, *value, *marks = PyDict_New(), *kept = PyDict_New();
    Py_ssize_t at = 0;

    if (!marks || !kept || !PyArg_ParseTuple(args, "O!", &PyDict_Type, &names))
        goto fail;
    while (next_name(names, &at, &name, &value)) {
        if (note(name, value, marks, kept) < 0)
            goto fail;
    }
    return Py_BuildValue("(NN)", marks, kept);
fail:
    Py_XDECREF(marks);
    Py_XDECREF(kept);
    return NULL;
}

static PyObject *rebound(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *names, *marks, *kept, *name, *value, *found;
    Py_ssize_t at = 0;

    if (!PyArg_ParseTuple(args, "O!(O!O!)", &PyDict_Type, &names, &PyDict_Type, &marks,
                          &PyDict_Type, &kept) ||
        !(found = PyList_New(0)))
        return NULL;
    while (next_name(names, &at, &name, &value)) {
        const int same = is_as_before(name, value, marks, kept);

        if (same < 0 || (!same && PyList_Append(found, name) < 0)) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

PyMethodDef names_methods[] = {
    { "marks", marks_, METH_VARARGS,
      "marks(namespace) -> what rebound() takes: which object each of the user's names has. It keeps nothing large alive." },
    { "rebound", rebound, METH_VARARGS,
      "rebound(namespace, marks) -> the names that are new, or have another object than then." },
    { NULL, NULL, 0, NULL },
};
