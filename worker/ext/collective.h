/* SPDX-License-Identifier: BSD-3-Clause */
/* collective.h - the Python interface of worker/collective/: connections between ranks, checks of
 * these, broadcasts, aborts. */
#ifndef WORKER_EXT_COLLECTIVE_H
#define WORKER_EXT_COLLECTIVE_H

#include "base/err.h"
#include "worker/collective/comm.h"
#include "worker/collective/mesh.h"
#include "worker/collective/transport.h"
#include "worker/ext/python.h"

/* The first member of the module's state. */
struct collective {
    struct nccl nccl; /* library NULL: not loaded yet */
    struct cuda_driver driver;
    struct comms comms;
    int aborted[2]; /* a pipe that a Python thread reads; -1 until it is requested */
};

/* Adds the functions to the module. -1 with a Python exception. */
MUST_USE int collective_add(PyObject *module, struct collective *c);
void collective_forked(struct collective *c);
/* Call it when a rank has failed; from any thread, without the interpreter's lock. Aborts our
 * communicators and wakes the Python thread. */
void collective_abort(void *collective);

/* ---- convey.c: converts lists and rows of figures between Python and worker/collective/ ---- */
struct collective *convey_collective(PyObject *module);
/* Raises an OSError with this text and returns NULL. */
PyObject *convey_fail(const struct err *err);

/* Reads a tuple into one zeroed row: 0, or -1 with an exception. */
typedef int (*tuple_f)(PyObject *tuple, void *one);
/* Converts a sequence of tuples to an array of rows of size_of_one bytes. The caller must free
 * *out, also after a failure. -1 with an exception. */
MUST_USE int tuples_from(PyObject *list, size_t size_of_one, tuple_f f, void **out, size_t *n);
/* The same for a sequence of pairs of numbers. */
MUST_USE int pairs_from(PyObject *list, struct mesh_way **out, size_t *n);
/* The same for a sequence of at most `most` numbers. */
MUST_USE int numbers_from(PyObject *list, size_t most, uint64_t **out, size_t *n);

/* One run of measure(): arguments and results. */
struct collective_job {
    unsigned ops, n_sizes;
    const uint64_t *sizes;
    double budget;
    struct figure rows[COLL_OPS * MEASURE_SIZES_MAX];
    unsigned n_rows;
    struct err err;
};

/* Takes ownership of the transport (NULL: it could not be made, and job->err says why). Does not
 * need the interpreter's lock. */
void job_run(struct collective_job *job, struct transport *t, const struct deadline *l);
/* (rows, error): after a failure, rows has what was measured before it. */
PyObject *job_result(const struct collective_job *job);

extern PyMethodDef meshes_methods[], gpu_libraries_methods[], broadcasts_methods[];

/* -1 with an exception if there is no driver, or if nccl_load() has not been called. */
MUST_USE int gpu_libraries_driver(struct collective *c);
MUST_USE int gpu_libraries_nccl(const struct collective *c);
/* Reads a communicator's id from bytes. */
MUST_USE int gpu_libraries_id(const char *p, Py_ssize_t n, struct nccl_id *id);

#endif
