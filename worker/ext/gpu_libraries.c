/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_libraries.c - the Python interface of the CUDA driver and NCCL. */
#include "worker/ext/collective.h"

#include <stdlib.h>
#include <string.h>

#include "worker/ext/private.h"

/* Loads the driver once. The first call initialises CUDA, so never call it before a fork. */
int gpu_libraries_driver(struct collective *c)
{
    struct err err = { "" };
    bool absent;
    int rc;

    if (c->driver.library)
        return 0;
    Py_BEGIN_ALLOW_THREADS rc = cuda_driver_open(&c->driver, CUDA_COMPUTE, &absent, &err);
    Py_END_ALLOW_THREADS if (rc < 0) convey_fail(&err);
    return rc;
}

static PyObject *driver(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct collective *c = convey_collective(module);
    struct err err = { "" };
    int version = 0;

    if (gpu_libraries_driver(c) < 0)
        return NULL;
    if (cuda_driver_check(&c->driver, c->driver.version(&version), "the driver's version", &err) <
        0)
        return convey_fail(&err);
    return PyLong_FromLong(version);
}

static PyObject *device_to(const void *of, size_t i)
{
    const struct cuda_driver *d = of;
    struct err err = { "" };
    char name[256] = "", text[CUDA_UUID_SIZE];
    struct cu_uuid uuid;
    cu_device device;

    if (cuda_driver_check(d, d->device(&device, (int)i), "cuDeviceGet", &err) < 0 ||
        cuda_driver_check(d, d->name(name, sizeof name, device), "the GPU's name", &err) < 0 ||
        cuda_driver_check(d, d->uuid(&uuid, device), "the GPU's UUID", &err) < 0)
        return convey_fail(&err);
    cuda_uuid_text(&uuid, "GPU", text);
    return Py_BuildValue("ss", text, name);
}

static PyObject *devices(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct collective *c = convey_collective(module);
    struct err err = { "" };
    int n = 0;

    if (gpu_libraries_driver(c) < 0)
        return NULL;
    if (cuda_driver_check(&c->driver, c->driver.count(&n), "the number of GPUs", &err) < 0)
        return convey_fail(&err);
    return list_of((size_t)n, device_to, &c->driver);
}

#define PLACES_MAX 8

static PyObject *load_nccl(PyObject *module, PyObject *args)
{
    struct collective *c = convey_collective(module);
    const char *place[PLACES_MAX] = { NULL };
    struct err err = { "" };
    PyObject *list, *tuple;
    int rc = 0;

    if (!PyArg_ParseTuple(args, "O", &list) || !(tuple = PySequence_Tuple(list)))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple) && i < PLACES_MAX && rc == 0; i++) {
        PyObject *one = PyTuple_GetItem(tuple, i); /* borrowed */

        if (!PyBytes_Check(one) || !(place[i] = PyBytes_AsString(one)))
            rc = -1;
    }
    if (rc < 0) {
        PyErr_SetString(PyExc_TypeError, "places are bytes");
    } else if (!c->nccl.library) {
        Py_BEGIN_ALLOW_THREADS rc = nccl_open(&c->nccl, place, PLACES_MAX, &err);
        Py_END_ALLOW_THREADS if (rc < 0) convey_fail(&err);
    }
    Py_DECREF(tuple);
    return rc < 0 ? NULL : Py_BuildValue("is", c->nccl.version, c->nccl.path);
}

int gpu_libraries_nccl(const struct collective *c)
{
    if (c->nccl.library)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "nccl_load() comes first");
    return -1;
}

static PyObject *nccl_id(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct collective *c = convey_collective(module);
    struct err err = { "" };
    struct nccl_id id;
    int rc;

    if (gpu_libraries_nccl(c) < 0 || gpu_libraries_driver(c) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = nccl_check(&c->nccl, NULL, c->nccl.get_id(&id), "ncclGetUniqueId",
                                           &err);
    Py_END_ALLOW_THREADS return rc < 0 ? convey_fail(&err)
                                       : PyBytes_FromStringAndSize(id.bytes, sizeof id.bytes);
}

int gpu_libraries_id(const char *p, Py_ssize_t n, struct nccl_id *id)
{
    if (n != (Py_ssize_t)sizeof id->bytes) {
        PyErr_Format(PyExc_ValueError, "an id has %u bytes", NCCL_ID);
        return -1;
    }
    memcpy(id->bytes, p, sizeof id->bytes);
    return 0;
}

static struct transport *gpu_ring(struct collective *c, int device, const struct nccl_id *id,
                                  unsigned rank, unsigned ranks, const struct deadline *l,
                                  struct err *err)
{
    struct comm *comm = comm_open(&c->comms, &c->nccl, &c->driver, device, id, rank, ranks, l, err);

    return comm ? nccl_transport_create(comm, rank, ranks, l, err) : NULL;
}

static PyObject *check_nccl(PyObject *module, PyObject *args)
{
    struct collective *c = convey_collective(module);
    struct collective_job job = { 0 };
    struct nccl_id id;
    struct pause pause;
    struct deadline limit;
    PyObject *size_list, *out = NULL;
    uint64_t *sizes = NULL;
    const char *bytes;
    Py_ssize_t n;
    size_t n_sizes = 0;
    unsigned rank, ranks;
    int device;
    double seconds;

    if (!PyArg_ParseTuple(args, "iy#IIIOdd", &device, &bytes, &n, &rank, &ranks, &job.ops,
                          &size_list, &job.budget, &seconds) ||
        gpu_libraries_nccl(c) < 0 || gpu_libraries_driver(c) < 0 ||
        gpu_libraries_id(bytes, n, &id) < 0)
        return NULL;
    if (numbers_from(size_list, MEASURE_SIZES_MAX, &sizes, &n_sizes) == 0) {
        job.sizes = sizes;
        job.n_sizes = (unsigned)n_sizes;
        limit = pause_begin(&pause, seconds);
        job_run(&job, gpu_ring(c, device, &id, rank, ranks, &limit, &job.err), &limit);
        if (!pause_end(&pause))
            out = job_result(&job);
    }
    free(sizes);
    return out;
}

PyMethodDef gpu_libraries_methods[] = {
    { "cuda_driver", driver, METH_NOARGS,
      "cuda_driver() -> its version, 12040 for 12.4; OSError where there is none." },
    { "cuda_devices", devices, METH_NOARGS, "cuda_devices() -> [(uuid, name)]." },
    { "nccl_load", load_nccl, METH_VARARGS,
      "nccl_load([path]) -> (version, path); OSError where there is none." },
    { "nccl_id", nccl_id, METH_NOARGS,
      "nccl_id() -> bytes that the ranks of one communicator are to share." },
    { "check_nccl", check_nccl, METH_VARARGS,
      "check_nccl(device, id, rank, ranks, ops, sizes, budget, seconds) -> (rows, error)." },
    { NULL, NULL, 0, NULL },
};
