/* SPDX-License-Identifier: BSD-3-Clause */
/* shared.c - functions of base/ that Python uses, too: one implementation for both sides. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/murmur2.h"
#include "base/needs.h"
#include "base/settings.h"
#include "base/suggest.h"
#include "worker/ext/private.h"

static PyObject *hash(PyObject *Py_UNUSED(module), PyObject *bytes)
{
    char *p;
    Py_ssize_t n;

    if (PyBytes_AsStringAndSize(bytes, &p, &n) < 0)
        return NULL;
    return PyLong_FromUnsignedLong(murmur2(slice_of(p, (size_t)n), MURMUR2_SEED));
}

static PyObject *capture_limit(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLongLong(setting_value(SETTING_CAPTURE_LIMIT));
}

static PyObject *setting(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name, *text;

    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    for (int i = 0; i < N_SETTINGS; i++)
        if (strcmp(setting_rows[i].name, name) == 0) {
            text = setting_text((enum setting)i);
            return PyUnicode_DecodeFSDefault(text ? text : "");
        }
    return PyErr_Format(PyExc_ValueError, "%s is no setting", name);
}

static void close_owned(PyObject *capsule)
{
    (void)close((int)(intptr_t)PyCapsule_GetContext(capsule));
}

static PyObject *owner(PyObject *Py_UNUSED(module), PyObject *args)
{
    static char nobody; /* a capsule needs a pointer that is not NULL */
    PyObject *capsule;
    int fd;

    if (!PyArg_ParseTuple(args, "i", &fd) || !(capsule = PyCapsule_New(&nobody, NULL, NULL)))
        return NULL;
    if (PyCapsule_SetContext(capsule, (void *)(intptr_t)fd) == 0 &&
        PyCapsule_SetDestructor(capsule, close_owned) == 0)
        return capsule;
    Py_DECREF(capsule);
    return NULL;
}

/* ---- nearest() ---- */

/* The words in UTF-8, as a list of bytes objects; NULL: an exception is set. */
static PyObject *encoded(PyObject *words)
{
    const Py_ssize_t n = PyList_Size(words);
    PyObject *list = PyList_New(0);

    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *text = PyUnicode_AsUTF8String(PyList_GetItem(words, i));

        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *find_nearest(const char *word, PyObject *words, PyObject *texts)
{
    const Py_ssize_t n = PyList_Size(texts);
    const char **valid = PyMem_Malloc(((size_t)n + 1) * sizeof *valid), *found;
    PyObject *nearest = Py_None;

    if (!valid)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++)
        valid[i] = PyBytes_AsString(PyList_GetItem(texts, i));
    found = suggest_nearest(word, valid, (size_t)n);
    for (Py_ssize_t i = 0; i < n; i++)
        if (found && found == valid[i])
            nearest = PyList_GetItem(words, i);
    PyMem_Free((void *)valid);
    Py_INCREF(nearest);
    return nearest;
}

static PyObject *nearest(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *words, *texts, *found;
    const char *word;

    if (!PyArg_ParseTuple(args, "sO!", &word, &PyList_Type, &words) || !(texts = encoded(words)))
        return NULL;
    found = find_nearest(word, words, texts);
    Py_DECREF(texts);
    return found;
}

static PyObject *needs(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
#define PAIR(module, package, versions) { module, package versions },
    static const char *const each[][2] = { NEEDS_EACH(PAIR) };
    PyObject *found = PyDict_New();

    for (size_t i = 0; found && i < sizeof each / sizeof *each; i++) {
        PyObject *package = PyUnicode_FromString(each[i][1]);

        if (!package || PyDict_SetItemString(found, each[i][0], package) < 0)
            Py_CLEAR(found);
        Py_XDECREF(package);
    }
    return found;
}

PyMethodDef shared_methods[] = {
    { "murmur2", hash, METH_O, "murmur2(bytes) -> the hash in the file names of cells." },
    { "capture_limit", capture_limit, METH_NOARGS,
      "capture_limit() -> the bytes of CELLSPAN_CAPTURE_LIMIT, or its default." },
    { "owner", owner, METH_VARARGS,
      "owner(descriptor) -> an object that closes it when it is freed. As a __del__ in Python would, but no "
      "interrupt can be lost in it." },
    { "setting", setting, METH_VARARGS,
      "setting(name) -> the text of a CELLSPAN_ variable; \"\": it is not set." },
    { "needs", needs, METH_NOARGS,
      "needs() -> {module: its package for pip}: what the Python of home and ranks must have." },
    { "nearest", nearest, METH_VARARGS,
      "nearest(word, words) -> the one of the words that was probably meant; None: none is near." },
    { NULL, NULL, 0, NULL },
};
