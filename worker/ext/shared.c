/* shared.c - functions of base/ that Python uses, too: one implementation for both sides. */
#include "base/murmur2.h"
#include "base/settings.h"
#include "worker/ext/parts.h"

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

PyMethodDef shared_methods[] = {
    { "murmur2", hash, METH_O, "murmur2(bytes) -> the hash in the file names of cells." },
    { "capture_limit", capture_limit, METH_NOARGS,
      "capture_limit() -> the bytes of CELLSPAN_CAPTURE_LIMIT, or its default." },
    { NULL, NULL, 0, NULL },
};
