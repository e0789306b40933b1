/* casts.c - the Python interface of cast.h: ncclBroadcast of a parcel. */
#include "worker/ext/collective.h"

#include <stdlib.h>

#include "worker/collective/cast.h"
#include "worker/ext/parts.h"

/* An open cast. Its limit uses the pause of the current call. */
struct open_cast {
    struct cast *cast;
    struct pause pause;
    struct limit limit;
    uint64_t until_ns;
    bool failed;
};

#define CAST "cellspan.cast"

static void end_cast(struct open_cast *o)
{
    cast_close(o->cast, !o->failed);
    o->cast = NULL;
}

/* Ends the cast with a limit of its own that can't be cancelled: the caller holds the interpreter's
 * lock, which a call's limit would take. */
static void discard(struct open_cast *o)
{
    o->failed = true;
    o->limit = limit_in(0, NULL, NULL);
    end_cast(o);
    free(o);
}

/* Called when the capsule is freed without cast_close. */
static void cast_gone(PyObject *capsule)
{
    discard(PyCapsule_GetPointer(capsule, CAST));
}

/* Releases the interpreter's lock for a call, whose limit then handles signals. The time limit
 * remains that of the whole cast. */
static void cast_resume(struct open_cast *o)
{
    o->limit = pause_begin(&o->pause, o->limit.seconds);
    o->limit.until_ns = o->until_ns;
}

static PyObject *cast_open_(PyObject *module, PyObject *args)
{
    struct collective *c = convey_collective(module);
    struct err err = { "" };
    struct open_cast *o;
    struct nccl_id id;
    struct comm *comm;
    PyObject *capsule;
    const char *bytes;
    Py_ssize_t n;
    unsigned rank, ranks, root;
    int device;
    double seconds;

    if (!PyArg_ParseTuple(args, "iy#IIId", &device, &bytes, &n, &rank, &ranks, &root, &seconds) ||
        gpus_need_nccl(c) < 0 || gpus_need_driver(c) < 0 || gpus_id(bytes, n, &id) < 0)
        return NULL;
    if (!(o = calloc(1, sizeof *o)))
        return PyErr_NoMemory();
    o->limit = pause_begin(&o->pause, seconds);
    o->until_ns = o->limit.until_ns;
    if ((comm = comm_open(&c->comms, &c->nccl, &c->driver, device, &id, rank, ranks, &o->limit,
                          &err)))
        o->cast = cast_create(comm, rank, root, &o->limit, &err);
    if (pause_end(&o->pause) || !o->cast) {
        discard(o);
        return PyErr_Occurred() ? NULL : convey_fail(&err);
    }
    if (!(capsule = PyCapsule_New(o, CAST, cast_gone)))
        discard(o);
    return capsule;
}

static PyObject *cast_bytes_(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct err err = { "" };
    struct open_cast *o;
    PyObject *capsule;
    unsigned long long offset, size, device;
    int fd, rc;

    if (!PyArg_ParseTuple(args, "OiKKK", &capsule, &fd, &offset, &size, &device) ||
        !(o = PyCapsule_GetPointer(capsule, CAST)))
        return NULL;
    if (!o->cast || o->failed) {
        PyErr_SetString(PyExc_ValueError, "the cast is over");
        return NULL;
    }
    cast_resume(o);
    rc = cast_bytes(o->cast, fd, offset, size, device, &err);
    o->failed = rc < 0;
    if (pause_end(&o->pause))
        return NULL;
    if (rc < 0)
        return convey_fail(&err);
    Py_RETURN_NONE;
}

static PyObject *cast_close_(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct open_cast *o;
    PyObject *capsule;
    int well;

    if (!PyArg_ParseTuple(args, "Op", &capsule, &well) ||
        !(o = PyCapsule_GetPointer(capsule, CAST)))
        return NULL;
    cast_resume(o);
    o->failed = o->failed || !well;
    end_cast(o);
    if (pause_end(&o->pause))
        return NULL;
    Py_RETURN_NONE;
}

PyMethodDef casts_methods[] = {
    { "cast_open", cast_open_, METH_VARARGS,
      "cast_open(device, id, rank, ranks, root, seconds) -> a cast." },
    { "cast_bytes", cast_bytes_, METH_VARARGS,
      "cast_bytes(cast, fd, offset, size, device_pointer or 0)." },
    { "cast_close", cast_close_, METH_VARARGS, "cast_close(cast, well)." },
    { NULL, NULL, 0, NULL },
};
