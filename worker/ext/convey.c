/* SPDX-License-Identifier: BSD-3-Clause */
/* convey.c - converts the arguments and results of worker/collective/ from and to Python: lists of
 * tuples and numbers, errors, and the figures of measure(), which it runs (declared in
 * collective.h). */
#include "worker/ext/collective.h"

#include <stdlib.h>

#include "worker/ext/private.h"

struct collective *convey_collective(PyObject *module)
{
    return PyModule_GetState(module);
}

PyObject *convey_fail(const struct err *err)
{
    PyErr_SetString(PyExc_OSError, err->text);
    return NULL;
}

/* Allocates zeroed rows for the list, and one more, so that NULL always means failure. */
static int rows_make(PyObject *list, size_t size_of_one, void **out, size_t *n)
{
    const Py_ssize_t size = PySequence_Size(list);

    *out = NULL;
    if (size < 0)
        return -1;
    if (!(*out = calloc((size_t)size + 1, size_of_one))) {
        PyErr_NoMemory();
        return -1;
    }
    *n = (size_t)size;
    return 0;
}

int tuples_from(PyObject *list, size_t size_of_one, tuple_f f, void **out, size_t *n)
{
    if (rows_make(list, size_of_one, out, n) < 0)
        return -1;
    for (size_t i = 0; i < *n; i++) {
        PyObject *item = PySequence_GetItem(list, (Py_ssize_t)i),
                 *tuple = item ? PySequence_Tuple(item) : NULL;
        const int rc = tuple ? f(tuple, (char *)*out + i * size_of_one) : -1;

        Py_XDECREF(item);
        Py_XDECREF(tuple);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int way_from(PyObject *tuple, void *one)
{
    struct mesh_way *way = one;

    return PyArg_ParseTuple(tuple, "II", &way->from, &way->to) ? 0 : -1;
}

int pairs_from(PyObject *list, struct mesh_way **out, size_t *n)
{
    void *rows = NULL;
    const int rc = tuples_from(list, sizeof **out, way_from, &rows, n);

    *out = rows;
    return rc;
}

int numbers_from(PyObject *list, size_t most, uint64_t **out, size_t *n)
{
    void *rows = NULL;
    int rc = rows_make(list, sizeof **out, &rows, n);

    *out = rows;
    if (rc == 0 && *n > most) {
        PyErr_Format(PyExc_ValueError, "a list of more than %zu numbers", most);
        rc = -1;
    }
    for (size_t i = 0; rc == 0 && i < *n; i++) {
        PyObject *item = PySequence_GetItem(list, (Py_ssize_t)i);

        (*out)[i] = item ? PyLong_AsUnsignedLongLong(item) : 0;
        Py_XDECREF(item);
        rc = PyErr_Occurred() ? -1 : 0;
    }
    return rc;
}

static PyObject *figure_to(const void *rows, size_t i)
{
    const struct figure *row = (const struct figure *)rows + i;

    return Py_BuildValue("sKdddKI", coll_name(row->op), (unsigned long long)row->bytes, row->us,
                         row->algbw, row->busbw, (unsigned long long)row->bad, row->iterations);
}

void job_run(struct collective_job *job, struct transport *t, const struct deadline *l)
{
    if (t &&
        measure(t, job->ops, job->sizes, job->n_sizes, job->budget, l, job->rows, &job->n_rows,
                &job->err) < 0 &&
        !job->err.text[0])
        (void)err_set(&job->err, "failed");
    transport_destroy(t);
}

PyObject *job_result(const struct collective_job *job)
{
    PyObject *list = list_of(job->n_rows, figure_to, job->rows);

    return list ? Py_BuildValue("Ns", list, job->err.text) : NULL;
}
