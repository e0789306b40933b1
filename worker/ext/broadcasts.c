/* SPDX-License-Identifier: BSD-3-Clause */
/* broadcasts.c - the Python interface of nccl_broadcast.h: ncclBroadcast of a bundle. */
#include "worker/ext/collective.h"

#include <stdlib.h>

#include "worker/collective/nccl_broadcast.h"
#include "worker/ext/private.h"

/* An open broadcast. Its limit uses the pause of the current call. */
struct open_broadcast {
    struct nccl_broadcast *broadcast;
    struct pause pause;
    struct deadline limit;
    uint64_t until_ns;
    bool failed;
};

#define BROADCAST "cellspan.broadcast"

static void end_broadcast(struct open_broadcast *o)
{
    nccl_broadcast_close(o->broadcast, !o->failed);
    o->broadcast = NULL;
}

/* Ends the broadcast with a limit of its own that can't be cancelled: the caller holds the
 * interpreter's lock, which a call's limit would take. */
static void discard(struct open_broadcast *o)
{
    o->failed = true;
    o->limit = deadline_in(0, NULL, NULL);
    end_broadcast(o);
    free(o);
}

/* Called when the capsule is freed without broadcast_close. */
static void broadcast_gone(PyObject *capsule)
{
    discard(PyCapsule_GetPointer(capsule, BROADCAST));
}

/* Releases the interpreter's lock for a call, whose limit then handles signals. The time limit
 * remains that of the whole broadcast. */
static void broadcast_resume(struct open_broadcast *o)
{
    o->limit = pause_begin(&o->pause, o->limit.seconds);
    o->limit.until_ns = o->until_ns;
}

static PyObject *broadcast_open_(PyObject *module, PyObject *args)
{
    struct collective *c = convey_collective(module);
    struct err err = { "" };
    struct open_broadcast *o;
    struct nccl_id id;
    struct comm *comm;
    PyObject *capsule;
    const char *bytes;
    Py_ssize_t n;
    unsigned rank, ranks, root;
    int device;
    double seconds;

    if (!PyArg_ParseTuple(args, "iy#IIId", &device, &bytes, &n, &rank, &ranks, &root, &seconds) ||
        gpu_libraries_nccl(c) < 0 || gpu_libraries_driver(c) < 0 ||
        gpu_libraries_id(bytes, n, &id) < 0)
        return NULL;
    if (!(o = calloc(1, sizeof *o)))
        return PyErr_NoMemory();
    o->limit = pause_begin(&o->pause, seconds);
    o->until_ns = o->limit.until_ns;
    if ((comm = comm_open(&c->comms, &c->nccl, &c->driver, device, &id, rank, ranks, &o->limit,
                          &err)))
        o->broadcast = nccl_broadcast_create(comm, rank, root, &o->limit, &err);
    if (pause_end(&o->pause) || !o->broadcast) {
        discard(o);
        return PyErr_Occurred() ? NULL : convey_fail(&err);
    }
    if (!(capsule = PyCapsule_New(o, BROADCAST, broadcast_gone)))
        discard(o);
    return capsule;
}

static PyObject *broadcast_bytes_(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct err err = { "" };
    struct open_broadcast *o;
    PyObject *capsule;
    unsigned long long offset, size, device;
    int fd, rc;

    if (!PyArg_ParseTuple(args, "OiKKK", &capsule, &fd, &offset, &size, &device) ||
        !(o = PyCapsule_GetPointer(capsule, BROADCAST)))
        return NULL;
    if (!o->broadcast || o->failed) {
        PyErr_SetString(PyExc_ValueError, "the broadcast is over");
        return NULL;
    }
    broadcast_resume(o);
    rc = nccl_broadcast_bytes(o->broadcast, fd, offset, size, device, &err);
    o->failed = rc < 0;
    if (pause_end(&o->pause))
        return NULL;
    if (rc < 0)
        return convey_fail(&err);
    Py_RETURN_NONE;
}

static PyObject *broadcast_close_(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct open_broadcast *o;
    PyObject *capsule;
    int well;

    if (!PyArg_ParseTuple(args, "Op", &capsule, &well) ||
        !(o = PyCapsule_GetPointer(capsule, BROADCAST)))
        return NULL;
    broadcast_resume(o);
    o->failed = o->failed || !well;
    end_broadcast(o);
    if (pause_end(&o->pause))
        return NULL;
    Py_RETURN_NONE;
}

PyMethodDef broadcasts_methods[] = {
    { "broadcast_open", broadcast_open_, METH_VARARGS,
      "broadcast_open(device, id, rank, ranks, root, seconds) -> a broadcast." },
    { "broadcast_bytes", broadcast_bytes_, METH_VARARGS,
      "broadcast_bytes(broadcast, fd, offset, size, device_pointer or 0)." },
    { "broadcast_close", broadcast_close_, METH_VARARGS, "broadcast_close(broadcast, well)." },
    { NULL, NULL, 0, NULL },
};
