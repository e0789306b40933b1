/* convey.h - lists of numbers and rows of figures between Python and worker/collective/. */
#ifndef WORKER_EXT_CONVEY_H
#define WORKER_EXT_CONVEY_H

#include "worker/ext/python.h"

#include "worker/collective/measure.h"
#include "worker/collective/mesh.h"
#include "worker/ext/collective.h"

struct collective *collective_of(PyObject *module);
/* OSError of the words; NULL. */
PyObject *collective_fail(const struct err *err);

/* Reads a tuple into one row, which is zeroed: 0, or -1 with an exception. */
typedef int (*tuple_f)(PyObject *tuple, void *one);
/* A sequence of tuples becomes an array of rows of so many bytes; *out is the caller's to free,
 * also after a failure. -1 with an exception. */
MUST_USE int tuples_from(PyObject *list, size_t size_of_one, tuple_f f, void **out, size_t *n);
/* A sequence of pairs of numbers; *out is the caller's to free, also after a failure. -1 with an
 * exception. */
MUST_USE int pairs_from(PyObject *list, struct mesh_way **out, size_t *n);
/* A sequence of at most `most` numbers; the same. */
MUST_USE int numbers_from(PyObject *list, size_t most, uint64_t **out, size_t *n);

/* One run of measure(): what it is asked, and what came of it. */
struct job {
    unsigned ops, n_sizes;
    const uint64_t *sizes;
    double budget;
    struct figure rows[COLL_OPS * MEASURE_SIZES_MAX];
    unsigned n_rows;
    struct err err;
};

/* Takes the transport (NULL: it could not be made, and job->err says why). Needs no interpreter's
 * lock. */
void job_run(struct job *job, struct transport *t, const struct limit *l);
/* (rows, error): what was measured before it failed is worth having. */
PyObject *job_result(const struct job *job);

/* The parts of the module's table: -1 with an exception. */
MUST_USE int meshes_add(PyObject *module);
MUST_USE int gpus_add(PyObject *module);
MUST_USE int casts_add(PyObject *module);

/* For what needs them: -1 with an exception where there is no driver, or nccl_load() has not been
 * called. */
MUST_USE int gpus_need_driver(struct collective *c);
MUST_USE int gpus_need_nccl(const struct collective *c);
/* A communicator's id from its bytes. */
MUST_USE int gpus_id(const char *p, Py_ssize_t n, struct nccl_id *id);

#endif
