#include "worker/ext/convey.h"

#include <stdlib.h>

struct collective *collective_of(PyObject *module)
{
    return PyModule_GetState(module);
}

PyObject *collective_fail(const struct err *err)
{
    PyErr_SetString(PyExc_OSError, err->text);
    return NULL;
}

int pairs_from(PyObject *list, struct mesh_way **out, size_t *n)
{
    const Py_ssize_t size = PySequence_Size(list);

    *out = NULL;
    if (size < 0)
        return -1;
    if (!(*out = calloc((size_t)size + 1, sizeof **out))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PySequence_GetItem(list, i), *pair = item ? PySequence_Tuple(item) : NULL;
        const int good = pair && PyArg_ParseTuple(pair, "II", &(*out)[i].from, &(*out)[i].to);

        Py_XDECREF(item);
        Py_XDECREF(pair);
        if (!good)
            return -1;
    }
    *n = (size_t)size;
    return 0;
}

int numbers_from(PyObject *list, size_t most, uint64_t **out, size_t *n)
{
    const Py_ssize_t size = PySequence_Size(list);

    *out = NULL;
    if (size < 0)
        return -1;
    if ((size_t)size > most) {
        PyErr_Format(PyExc_ValueError, "a list of more than %zu numbers", most);
        return -1;
    }
    if (!(*out = calloc((size_t)size + 1, sizeof **out))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *item = PySequence_GetItem(list, i);

        (*out)[i] = item ? PyLong_AsUnsignedLongLong(item) : 0;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return -1;
    }
    *n = (size_t)size;
    return 0;
}

static PyObject *rows_to(const struct figure *rows, unsigned n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (unsigned i = 0; list && i < n; i++) {
        PyObject *row =
            Py_BuildValue("sKdddKI", coll_name(rows[i].op), (unsigned long long)rows[i].bytes, rows[i].us,
                          rows[i].algbw, rows[i].busbw, (unsigned long long)rows[i].bad, rows[i].iterations);

        if (!row) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, (Py_ssize_t)i, row); /* takes row */
    }
    return list;
}

void job_run(struct job *job, struct transport *t, const struct limit *l)
{
    if (t && measure(t, job->ops, job->sizes, job->n_sizes, job->budget, l, job->rows, &job->n_rows, &job->err) < 0 &&
        !job->err.text[0])
        (void)err_set(&job->err, "failed");
    transport_destroy(t);
}

PyObject *job_result(const struct job *job)
{
    PyObject *list = rows_to(job->rows, job->n_rows);

    return list ? Py_BuildValue("Ns", list, job->err.text) : NULL;
}
