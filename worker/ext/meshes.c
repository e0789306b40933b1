/* SPDX-License-Identifier: BSD-3-Clause */
/* meshes.c - the Python interface of mesh.h: connections between the ranks of a check. */
#include "worker/ext/collective.h"

#include <stdlib.h>
#include <string.h>

#include "worker/ext/private.h"

#define MESH "cellspan.mesh"

static struct mesh *mesh_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, MESH);
}

static void mesh_gone(PyObject *capsule)
{
    mesh_close(mesh_of(capsule));
}

static PyObject *open_mesh(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct err err = { "" };
    const char *address, *token;
    Py_ssize_t n;
    struct mesh *m;
    PyObject *capsule;

    if (!PyArg_ParseTuple(args, "sy#", &address, &token, &n))
        return NULL;
    if (n != (Py_ssize_t)MESH_TOKEN) {
        PyErr_Format(PyExc_ValueError, "a token has %u bytes", MESH_TOKEN);
        return NULL;
    }
    if (!(m = mesh_open(address, (const uint8_t *)token, &err)))
        return convey_fail(&err);
    if (!(capsule = PyCapsule_New(m, MESH, mesh_gone)))
        mesh_close(m);
    return capsule;
}

static PyObject *port(PyObject *Py_UNUSED(module), PyObject *capsule)
{
    struct mesh *m = mesh_of(capsule);

    return m ? PyLong_FromUnsignedLong(mesh_port(m)) : NULL;
}

static PyObject *strangers(PyObject *Py_UNUSED(module), PyObject *capsule)
{
    struct mesh *m = mesh_of(capsule);

    return m ? PyLong_FromUnsignedLong(mesh_strangers(m)) : NULL;
}

static int peer_from(PyObject *tuple, void *one)
{
    struct mesh_peer *peer = one;
    const char *where;

    if (!PyArg_ParseTuple(tuple, "Is", &peer->rank, &where))
        return -1;
    /* a text that is cut off is not an address and gives an error later; the rest is zero */
    strncpy(peer->where, where, MESH_WHERE - 1);
    return 0;
}

static PyObject *peer_to(const void *peers, size_t i)
{
    const struct mesh_peer *peer = (const struct mesh_peer *)peers + i;

    return Py_BuildValue("Iss", peer->rank, peer->error, peer->silent);
}

static PyObject *connect_mesh(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct err err = { "" };
    void *peers = NULL;
    struct mesh *m;
    struct pause pause;
    struct deadline limit;
    PyObject *capsule, *list, *out = NULL;
    unsigned self, attempt;
    double seconds;
    size_t n = 0;
    int rc;

    if (!PyArg_ParseTuple(args, "OIIOd", &capsule, &self, &attempt, &list, &seconds) ||
        !(m = mesh_of(capsule)))
        return NULL;
    if (tuples_from(list, sizeof(struct mesh_peer), peer_from, &peers, &n) == 0) {
        limit = pause_begin(&pause, seconds);
        rc = mesh_connect(m, self, attempt, peers, n, &limit, &err);
        if (!pause_end(&pause))
            out = rc < 0 ? convey_fail(&err) : list_of(n, peer_to, peers);
    }
    free(peers);
    return out;
}

static struct transport *ring(struct mesh *m, const uint64_t *order, unsigned ranks, unsigned at,
                              const struct mesh_way *closed, size_t n_closed, struct err *err)
{
    const unsigned self = (unsigned)order[at];
    struct stream_end previous = { -1, (unsigned)order[(at + ranks - 1) % ranks] };
    struct stream_end next = { -1, (unsigned)order[(at + 1) % ranks] };

    if (ranks > 1) {
        previous.fd = mesh_to(m, self, previous.rank, closed, n_closed);
        next.fd = mesh_to(m, self, next.rank, closed, n_closed);
    }
    return tcp_create(at, ranks, previous, next, err);
}

static PyObject *check_tcp(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct collective_job job = { 0 };
    uint64_t *order = NULL, *sizes = NULL;
    struct mesh_way *closed = NULL;
    struct pause pause;
    struct deadline limit;
    struct mesh *m;
    PyObject *capsule, *order_list, *size_list, *closed_list, *out = NULL;
    size_t ranks = 0, n_closed = 0, n_sizes = 0;
    unsigned at;
    double seconds;

    if (!PyArg_ParseTuple(args, "OOIIOddO", &capsule, &order_list, &at, &job.ops, &size_list,
                          &job.budget, &seconds, &closed_list) ||
        !(m = mesh_of(capsule)))
        return NULL;
    if (numbers_from(size_list, MEASURE_SIZES_MAX, &sizes, &n_sizes) < 0 ||
        numbers_from(order_list, MESH_PEERS_MAX, &order, &ranks) < 0 ||
        pairs_from(closed_list, &closed, &n_closed) < 0)
        goto done;
    if (at >= ranks) {
        PyErr_SetString(PyExc_ValueError, "this rank is none of the world's");
        goto done;
    }
    job.sizes = sizes;
    job.n_sizes = (unsigned)n_sizes;
    limit = pause_begin(&pause, seconds);
    job_run(&job, ring(m, order, (unsigned)ranks, at, closed, n_closed, &job.err), &limit);
    if (!pause_end(&pause))
        out = job_result(&job);
done:
    free(order);
    free(sizes);
    free(closed);
    return out;
}

/* Sends a few bytes to the other end of a connection, or receives them. */
static PyObject *pass(PyObject *Py_UNUSED(module), PyObject *args)
{
    const struct stream_end nobody = { -1, 0 };
    struct stream_end peer = { -1, 0 };
    struct err err = { "" };
    struct mesh_way *closed = NULL;
    struct pause pause;
    struct deadline limit;
    struct mesh *m;
    PyObject *capsule, *closed_list;
    const char *bytes;
    char room[1024];
    Py_ssize_t n;
    size_t n_closed = 0;
    unsigned self;
    int gives, rc = 0;
    double seconds;

    if (!PyArg_ParseTuple(args, "OIIpy#dO", &capsule, &self, &peer.rank, &gives, &bytes, &n,
                          &seconds, &closed_list) ||
        !(m = mesh_of(capsule)))
        return NULL;
    if (n > (Py_ssize_t)sizeof room) {
        PyErr_SetString(PyExc_ValueError, "too many bytes");
        return NULL;
    }
    if (pairs_from(closed_list, &closed, &n_closed) < 0) {
        free(closed);
        return NULL;
    }
    peer.fd = mesh_to(m, self, peer.rank, closed, n_closed);
    free(closed);
    memcpy(room, bytes, (size_t)n);
    limit = pause_begin(&pause, seconds);
    if (gives)
        rc = stream_exchange(peer, room, (size_t)n, nobody, NULL, 0, &limit, &err);
    else
        rc = stream_exchange(nobody, NULL, 0, peer, room, (size_t)n, &limit, &err);
    if (pause_end(&pause))
        return NULL;
    return rc < 0 ? convey_fail(&err) : PyBytes_FromStringAndSize(room, n);
}

static PyObject *drop(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *capsule;
    struct mesh *m;
    unsigned rank;

    if (!PyArg_ParseTuple(args, "OI", &capsule, &rank) || !(m = mesh_of(capsule)))
        return NULL;
    mesh_drop(m, rank);
    Py_RETURN_NONE;
}

PyMethodDef meshes_methods[] = {
    { "mesh_open", open_mesh, METH_VARARGS,
      "mesh_open(address, token) -> listens there for the other ranks of a check, until the object goes." },
    { "mesh_port", port, METH_O, "mesh_port(mesh) -> its port." },
    { "mesh_strangers", strangers, METH_O,
      "mesh_strangers(mesh) -> how many connections were turned away, when all are met." },
    { "mesh_connect", connect_mesh, METH_VARARGS,
      "mesh_connect(mesh, self, attempt, [(rank, 'address:port')], seconds) -> [(rank, why not to it, why not from "
      "it)]." },
    { "mesh_drop", drop, METH_VARARGS, "mesh_drop(mesh, rank): close the connections to it." },
    { "mesh_pass", pass, METH_VARARGS,
      "mesh_pass(mesh, self, rank, gives, bytes, seconds, [(from, to)]) -> the bytes, or as many of the other's." },
    { "check_tcp", check_tcp, METH_VARARGS,
      "check_tcp(mesh, [rank], at, ops, sizes, budget, seconds, [(from, to)]) -> (rows, error)." },
    { NULL, NULL, 0, NULL },
};
