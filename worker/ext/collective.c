#include "worker/ext/collective.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.h"
#include "worker/collective/cast.h"
#include "worker/collective/measure.h"
#include "worker/collective/mesh.h"
#include "worker/collective/nccl_transport.h"
#include "worker/collective/tcp.h"
#include "worker/ext/pause.h"

#define MESH "cellspan.mesh"

static struct collective *collective_of(PyObject *module)
{
    return PyModule_GetState(module);
}

static PyObject *fail(const struct err *err)
{
    PyErr_SetString(PyExc_OSError, err->text);
    return NULL;
}

/* --- lists in and out -----------------------------------------------------------------------------------------------
 */

/* A sequence of pairs of numbers; *out is the caller's to free. -1 with an exception. */
static int pairs_from(PyObject *list, struct mesh_way **out, size_t *n)
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

/* A sequence of numbers; *out is the caller's to free. -1 with an exception. */
static int numbers_from(PyObject *list, size_t most, uint64_t **out, size_t *n)
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

/* --- connections ----------------------------------------------------------------------------------------------------
 */

static struct mesh *mesh_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, MESH);
}

static void mesh_gone(PyObject *capsule)
{
    mesh_close(mesh_of(capsule));
}

static PyObject *open_mesh(PyObject *module, PyObject *args)
{
    struct err err = { "" };
    const char *address, *token;
    Py_ssize_t n;
    struct mesh *m;
    PyObject *capsule;

    (void)module;
    if (!PyArg_ParseTuple(args, "sy#", &address, &token, &n))
        return NULL;
    if (n != (Py_ssize_t)MESH_TOKEN) {
        PyErr_Format(PyExc_ValueError, "a token has %u bytes", MESH_TOKEN);
        return NULL;
    }
    if (!(m = mesh_open(address, (const uint8_t *)token, &err)))
        return fail(&err);
    if (!(capsule = PyCapsule_New(m, MESH, mesh_gone)))
        mesh_close(m);
    return capsule;
}

static PyObject *port(PyObject *module, PyObject *capsule)
{
    struct mesh *m = mesh_of(capsule);

    (void)module;
    return m ? Py_BuildValue("II", mesh_port(m), mesh_strangers(m)) : NULL;
}

static int peers_from(PyObject *list, struct mesh_peer **out, size_t *n)
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
        const char *where = NULL;
        const int good = pair && PyArg_ParseTuple(pair, "Is", &(*out)[i].rank, &where);

        if (good) {
            strncpy((*out)[i].where, where, MESH_WHERE - 1); /* what is cut is no address, and that is said */
            (*out)[i].where[MESH_WHERE - 1] = '\0';
        }
        Py_XDECREF(item);
        Py_XDECREF(pair);
        if (!good)
            return -1;
    }
    *n = (size_t)size;
    return 0;
}

static PyObject *peers_to(const struct mesh_peer *peers, size_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *one = Py_BuildValue("Iss", peers[i].rank, peers[i].error, peers[i].silent);

        if (!one) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, (Py_ssize_t)i, one); /* takes one */
    }
    return list;
}

static PyObject *connect_mesh(PyObject *module, PyObject *args)
{
    struct err err = { "" };
    struct mesh_peer *peers = NULL;
    struct mesh *m;
    struct pause pause;
    struct limit limit;
    PyObject *capsule, *list, *out = NULL;
    unsigned self, attempt;
    double seconds;
    size_t n = 0;
    int rc;

    (void)module;
    if (!PyArg_ParseTuple(args, "OIIOd", &capsule, &self, &attempt, &list, &seconds) || !(m = mesh_of(capsule)))
        return NULL;
    if (peers_from(list, &peers, &n) == 0) {
        limit = pause_begin(&pause, seconds);
        rc = mesh_connect(m, self, attempt, peers, n, &limit, &err);
        if (!pause_end(&pause))
            out = rc < 0 ? fail(&err) : peers_to(peers, n);
    }
    free(peers);
    return out;
}

/* --- checks ---------------------------------------------------------------------------------------------------------
 */

struct job {
    unsigned ops, n_sizes;
    const uint64_t *sizes;
    double budget;
    struct figure rows[COLL_OPS * MEASURE_SIZES_MAX];
    unsigned n_rows;
    struct err err;
};

/* Takes the transport (NULL: it could not be made, and job->err says why). No Python in here. */
static void job_run(struct job *job, struct transport *t, const struct limit *l)
{
    if (t && measure(t, job->ops, job->sizes, job->n_sizes, job->budget, l, job->rows, &job->n_rows, &job->err) < 0 &&
        !job->err.text[0])
        (void)err_set(&job->err, "failed");
    transport_destroy(t);
}

/* (rows, error): what was measured before it failed is worth having. */
static PyObject *job_result(const struct job *job)
{
    PyObject *list = rows_to(job->rows, job->n_rows);

    return list ? Py_BuildValue("Ns", list, job->err.text) : NULL;
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

static PyObject *check_tcp(PyObject *module, PyObject *args)
{
    struct job job = { 0 };
    uint64_t *order = NULL, *sizes = NULL;
    struct mesh_way *closed = NULL;
    struct pause pause;
    struct limit limit;
    struct mesh *m;
    PyObject *capsule, *order_list, *size_list, *closed_list, *out = NULL;
    size_t ranks = 0, n_closed = 0, n_sizes = 0;
    unsigned at;
    double seconds;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOIIOddO", &capsule, &order_list, &at, &job.ops, &size_list, &job.budget, &seconds,
                          &closed_list) ||
        !(m = mesh_of(capsule)))
        return NULL;
    if (numbers_from(size_list, MEASURE_SIZES_MAX, &sizes, &n_sizes) < 0 ||
        numbers_from(order_list, MESH_PEERS_MAX, &order, &ranks) < 0 || pairs_from(closed_list, &closed, &n_closed) < 0)
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

/* --- GPUs -----------------------------------------------------------------------------------------------------------
 */

/* Loads the driver once. The first call makes CUDA of this process: never before a fork. */
static int need_driver(struct collective *c)
{
    struct err err = { "" };
    int rc;

    if (c->driver.library)
        return 0;
    Py_BEGIN_ALLOW_THREADS rc = driver_open(&c->driver, &err);
    Py_END_ALLOW_THREADS if (rc < 0) fail(&err);
    return rc;
}

static PyObject *driver(PyObject *module, PyObject *none)
{
    struct collective *c = collective_of(module);
    struct err err = { "" };
    int version = 0;

    (void)none;
    if (need_driver(c) < 0)
        return NULL;
    if (driver_check(&c->driver, c->driver.version(&version), "the driver's version", &err) < 0)
        return fail(&err);
    return PyLong_FromLong(version);
}

static PyObject *device_to(const struct driver *d, int index)
{
    struct err err = { "" };
    char name[256] = "", uuid[41] = "";
    cu_device device;

    if (driver_check(d, d->device(&device, index), "cuDeviceGet", &err) < 0 ||
        driver_check(d, d->name(name, sizeof name, device), "the GPU's name", &err) < 0 ||
        driver_uuid(d, device, uuid, &err) < 0)
        return fail(&err);
    return Py_BuildValue("ss", uuid, name);
}

static PyObject *devices(PyObject *module, PyObject *none)
{
    struct collective *c = collective_of(module);
    struct err err = { "" };
    PyObject *list;
    int n = 0;

    (void)none;
    if (need_driver(c) < 0)
        return NULL;
    if (driver_check(&c->driver, c->driver.count(&n), "the number of GPUs", &err) < 0)
        return fail(&err);
    list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *one = device_to(&c->driver, i);

        if (!one) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SetItem(list, i, one); /* takes one */
    }
    return list;
}

#define PLACES_MAX 8

static PyObject *load_nccl(PyObject *module, PyObject *args)
{
    struct collective *c = collective_of(module);
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
        Py_END_ALLOW_THREADS if (rc < 0) fail(&err);
    }
    Py_DECREF(tuple);
    return rc < 0 ? NULL : Py_BuildValue("is", c->nccl.version, c->nccl.path);
}

static int need_nccl(const struct collective *c)
{
    if (c->nccl.library)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "nccl_load() comes first");
    return -1;
}

static PyObject *nccl_id(PyObject *module, PyObject *none)
{
    struct collective *c = collective_of(module);
    struct err err = { "" };
    struct nccl_id id;
    int rc;

    (void)none;
    if (need_nccl(c) < 0 || need_driver(c) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = nccl_check(&c->nccl, NULL, c->nccl.get_id(&id), "ncclGetUniqueId", &err);
    Py_END_ALLOW_THREADS return rc < 0 ? fail(&err) : PyBytes_FromStringAndSize(id.bytes, sizeof id.bytes);
}

static int id_from(const char *p, Py_ssize_t n, struct nccl_id *id)
{
    if (n != (Py_ssize_t)sizeof id->bytes) {
        PyErr_Format(PyExc_ValueError, "an id has %u bytes", NCCL_ID);
        return -1;
    }
    memcpy(id->bytes, p, sizeof id->bytes);
    return 0;
}

static struct transport *gpu_ring(struct collective *c, int device, const struct nccl_id *id, unsigned rank,
                                  unsigned ranks, const struct limit *l, struct err *err)
{
    struct comm *comm = comm_open(&c->comms, &c->nccl, &c->driver, device, id, rank, ranks, l, err);

    return comm ? nccl_transport_create(comm, rank, ranks, l, err) : NULL;
}

static PyObject *check_nccl(PyObject *module, PyObject *args)
{
    struct collective *c = collective_of(module);
    struct job job = { 0 };
    struct nccl_id id;
    struct pause pause;
    struct limit limit;
    PyObject *size_list, *out = NULL;
    uint64_t *sizes = NULL;
    const char *bytes;
    Py_ssize_t n;
    size_t n_sizes = 0;
    unsigned rank, ranks;
    int device;
    double seconds;

    if (!PyArg_ParseTuple(args, "iy#IIIOdd", &device, &bytes, &n, &rank, &ranks, &job.ops, &size_list, &job.budget,
                          &seconds) ||
        need_nccl(c) < 0 || need_driver(c) < 0 || id_from(bytes, n, &id) < 0)
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

/* A few bytes from one end of a connection to the other. */
static PyObject *pass(PyObject *module, PyObject *args)
{
    const struct stream_end nobody = { -1, 0 };
    struct stream_end peer = { -1, 0 };
    struct err err = { "" };
    struct mesh_way *closed = NULL;
    struct pause pause;
    struct limit limit;
    struct mesh *m;
    PyObject *capsule, *closed_list;
    const char *bytes;
    char room[1024];
    Py_ssize_t n;
    size_t n_closed = 0;
    unsigned self;
    int gives, rc = 0;
    double seconds;

    (void)module;
    if (!PyArg_ParseTuple(args, "OIIpy#dO", &capsule, &self, &peer.rank, &gives, &bytes, &n, &seconds, &closed_list) ||
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
    return rc < 0 ? fail(&err) : PyBytes_FromStringAndSize(room, n);
}

/* --- casts ----------------------------------------------------------------------------------------------------------
 */

/* What one open cast needs. Its limit holds the pause of the call that is under way. */
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

static void cast_gone(PyObject *capsule)
{
    struct open_cast *o = PyCapsule_GetPointer(capsule, CAST);

    o->failed = true; /* nobody closed it */
    o->limit = limit_in(0, NULL, NULL);
    end_cast(o);
    free(o);
}

/* Between the lock's release and its taking the limit looks at signals; its end stays that of the whole cast. */
static void cast_resume(struct open_cast *o)
{
    o->limit = pause_begin(&o->pause, o->limit.seconds);
    o->limit.until_ns = o->until_ns;
}

static PyObject *cast_open_(PyObject *module, PyObject *args)
{
    struct collective *c = collective_of(module);
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

    if (!PyArg_ParseTuple(args, "iy#IIId", &device, &bytes, &n, &rank, &ranks, &root, &seconds) || need_nccl(c) < 0 ||
        need_driver(c) < 0 || id_from(bytes, n, &id) < 0)
        return NULL;
    if (!(o = calloc(1, sizeof *o)))
        return PyErr_NoMemory();
    o->limit = pause_begin(&o->pause, seconds);
    o->until_ns = o->limit.until_ns;
    if ((comm = comm_open(&c->comms, &c->nccl, &c->driver, device, &id, rank, ranks, &o->limit, &err)))
        o->cast = cast_create(comm, rank, root, &o->limit, &err);
    if (pause_end(&o->pause) || !o->cast) {
        o->failed = true;
        o->limit = limit_in(0, NULL, NULL);
        end_cast(o);
        free(o);
        return PyErr_Occurred() ? NULL : fail(&err);
    }
    if (!(capsule = PyCapsule_New(o, CAST, cast_gone))) {
        end_cast(o);
        free(o);
    }
    return capsule;
}

static PyObject *cast_bytes_(PyObject *module, PyObject *args)
{
    struct err err = { "" };
    struct open_cast *o;
    PyObject *capsule;
    unsigned long long offset, size, device;
    int fd, rc;

    (void)module;
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
        return fail(&err);
    Py_RETURN_NONE;
}

static PyObject *cast_close_(PyObject *module, PyObject *args)
{
    struct open_cast *o;
    PyObject *capsule;
    int well;

    (void)module;
    if (!PyArg_ParseTuple(args, "Op", &capsule, &well) || !(o = PyCapsule_GetPointer(capsule, CAST)))
        return NULL;
    cast_resume(o);
    o->failed = o->failed || !well;
    end_cast(o);
    if (pause_end(&o->pause))
        return NULL;
    Py_RETURN_NONE;
}

/* --- aborts ---------------------------------------------------------------------------------------------------------
 */

void collective_abort(void *collective)
{
    struct collective *c = collective;
    ssize_t n = 1;

    comms_abort(&c->comms);
    if (c->aborted[1] >= 0)
        n = write(c->aborted[1], "a", 1);
    (void)n; /* a full pipe says it already */
}

void collective_forked(struct collective *c)
{
    comms_forked(&c->comms);
    for (int i = 0; i < 2; i++)
        fd_close(&c->aborted[i]);
}

static PyObject *abort_fd(PyObject *module, PyObject *none)
{
    struct collective *c = collective_of(module);

    (void)none;
    if (c->aborted[0] < 0 && (fd_pipe(c->aborted) < 0 || fd_nonblock(c->aborted[1], true) < 0))
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromLong(c->aborted[0]);
}

static PyObject *abort_now(PyObject *module, PyObject *none)
{
    (void)none;
    Py_BEGIN_ALLOW_THREADS collective_abort(collective_of(module));
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

/* --- addresses ------------------------------------------------------------------------------------------------------
 */

static PyObject *address_to(const struct ifaddrs *i)
{
    char text[INET6_ADDRSTRLEN];
    const void *bytes = NULL;

    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
        return NULL;
    if (i->ifa_addr->sa_family == AF_INET)
        bytes = &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
    else if (i->ifa_addr->sa_family == AF_INET6)
        bytes = &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr;
    if (!bytes || !inet_ntop(i->ifa_addr->sa_family, bytes, text, sizeof text))
        return NULL;
    return Py_BuildValue("ss", i->ifa_name, text);
}

static PyObject *addresses(PyObject *module, PyObject *none)
{
    struct ifaddrs *all;
    PyObject *list;

    (void)module;
    (void)none;
    if (getifaddrs(&all) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    list = PyList_New(0);
    for (const struct ifaddrs *i = all; list && i; i = i->ifa_next) {
        PyObject *one = address_to(i);

        if (one && PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    freeifaddrs(all);
    if (list && PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

static PyObject *drop(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    struct mesh *m;
    unsigned rank;

    (void)module;
    if (!PyArg_ParseTuple(args, "OI", &capsule, &rank) || !(m = mesh_of(capsule)))
        return NULL;
    mesh_drop(m, rank);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "mesh_open", open_mesh, METH_VARARGS,
      "mesh_open(address, token) -> listens there for the other ranks of a check, until the object goes." },
    { "mesh_port", port, METH_O, "mesh_port(mesh) -> (port, connections that were turned away)." },
    { "mesh_connect", connect_mesh, METH_VARARGS,
      "mesh_connect(mesh, self, attempt, [(rank, 'address:port')], seconds) -> [(rank, why not to it, why not from "
      "it)]." },
    { "mesh_drop", drop, METH_VARARGS, "mesh_drop(mesh, rank): close the connections to it." },
    { "check_tcp", check_tcp, METH_VARARGS,
      "check_tcp(mesh, [rank], at, ops, sizes, budget, seconds, [(from, to)]) -> (rows, error)." },
    { "mesh_pass", pass, METH_VARARGS,
      "mesh_pass(mesh, self, rank, gives, bytes, seconds, [(from, to)]) -> the bytes, or as many of the other's." },
    { "cuda_driver", driver, METH_NOARGS,
      "cuda_driver() -> its version, 12040 for 12.4; OSError where there is none." },
    { "cuda_devices", devices, METH_NOARGS, "cuda_devices() -> [(uuid, name)]." },
    { "nccl_load", load_nccl, METH_VARARGS, "nccl_load([path]) -> (version, path); OSError where there is none." },
    { "nccl_id", nccl_id, METH_NOARGS, "nccl_id() -> bytes that the ranks of one communicator are to share." },
    { "check_nccl", check_nccl, METH_VARARGS,
      "check_nccl(device, id, rank, ranks, ops, sizes, budget, seconds) -> (rows, error)." },
    { "cast_open", cast_open_, METH_VARARGS, "cast_open(device, id, rank, ranks, root, seconds) -> a cast." },
    { "cast_bytes", cast_bytes_, METH_VARARGS, "cast_bytes(cast, fd, offset, size, device_pointer or 0)." },
    { "cast_close", cast_close_, METH_VARARGS, "cast_close(cast, well)." },
    { "abort_fd", abort_fd, METH_NOARGS,
      "abort_fd() -> a descriptor that has a byte for each time that a rank has failed." },
    { "abort_now", abort_now, METH_NOARGS, "abort_now(): as the agent asks for it." },
    { "addresses", addresses, METH_NOARGS, "addresses() -> [(interface, address)] of interfaces that are up." },
    { NULL, NULL, 0, NULL },
};

int collective_add(PyObject *module, struct collective *c)
{
    struct err err = { "" };

    c->aborted[0] = c->aborted[1] = -1;
    if (comms_init(&c->comms, &err) < 0) {
        fail(&err);
        return -1;
    }
    if (PyModule_AddStringConstant(module, "VERSION", CELLSPAN_VERSION) < 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
