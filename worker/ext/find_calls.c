/* SPDX-License-Identifier: BSD-3-Clause */
/* find_calls.c - find(), finds() and next_find() of cellspan._link (declared in private.h). */
#include "worker/ext/private.h"

#include <errno.h>
#include <sys/mman.h>

#include "protocol/span_fields.h"
#include "worker/ext/find_waits.h"
#include "worker/ext/link.h"

#define POLL_NS   (20 * NS_PER_MS) /* a signal does not end a wait, so it is checked for so often */
#define FIND_S    10.0             /* until home begins to answer */
#define FIND_MOST 86400.0          /* seconds */
/* While home is at work, it says so more often. It does not if something keeps the interpreter's
 * lock from the thread that answers. */
#define WORK_S 60.0

/* ---- a rank asks ---- */

static uint64_t ns_of(double seconds)
{
    return (uint64_t)((seconds > 0 ? (seconds < FIND_MOST ? seconds : FIND_MOST) : 0) *
                      (double)NS_PER_S);
}

/* It is late only after a second read: a process that was stopped has not read yet what came
 * meanwhile. */
static int wait_found(struct finds *f, const struct find_wait *w, double seconds)
{
    const uint64_t began = clock_now(&clock_system);
    unsigned late = 0;

    while (late < 2) {
        enum find_news news;

        Py_BEGIN_ALLOW_THREADS news = finds_wait(f, w, POLL_NS, began + ns_of(seconds));
        Py_END_ALLOW_THREADS if (PyErr_CheckSignals() < 0) return -1;
        if (news == FIND_DONE)
            return 0;
        late = news == FIND_LATE ? late + 1 : 0;
    }
    PyErr_Format(PyExc_TimeoutError, "home has not answered for %d s",
                 (int)((clock_now(&clock_system) - began) / NS_PER_S));
    return -1;
}

/* The bytes of a blob, which stay where they are. Takes no descriptor. */
static PyObject *memory_of(int fd, uint64_t size)
{
    PyObject *module = PyImport_ImportModule("mmap"), *memory = NULL;

    if (module)
        memory = PyObject_CallMethod(module, "mmap", "inii", fd, (Py_ssize_t)size, MAP_PRIVATE,
                                     PROT_READ);
    Py_XDECREF(module);
    return memory;
}

static PyObject *answer_of(const struct packet *p)
{
    struct err err = { "" };
    PyObject *memory, *out = NULL;
    struct span m;

    if (!p->p)
        return PyErr_NoMemory();
    if (span_decode(&m, p->p, p->n, &err) < 0) {
        PyErr_SetString(PyExc_ValueError, err.text);
        return NULL;
    }
    if (p->blob_fd < 0 && m.blob_size > 0) {
        errno = EMFILE;
        PyErr_SetFromErrno(PyExc_OSError);
    } else if (p->blob_fd < 0)
        out = Py_BuildValue("s#O", m.v[F_FOUND_CONTENT].s.p, (Py_ssize_t)m.v[F_FOUND_CONTENT].s.n,
                            Py_None);
    else if ((memory = memory_of(p->blob_fd, m.blob_size)))
        out = Py_BuildValue("s#N", m.v[F_FOUND_CONTENT].s.p, (Py_ssize_t)m.v[F_FOUND_CONTENT].s.n,
                            memory);
    span_release(&m);
    return out;
}

static int send_find(PyObject *module, const struct find_wait *w)
{
    struct span m = { .kind = SPAN_FIND };
    struct buf out = BUF_INIT;
    struct err err = { "" };
    int rc;

    m.v[F_FIND_WHAT].s = w->what;
    m.v[F_FIND_QUESTION].s = w->question;
    if ((rc = span_encode(&m, &out, &err)) < 0)
        PyErr_SetString(PyExc_ValueError, err.text);
    else
        rc = own_send(module, &out, -1);
    buf_release(&out);
    return rc;
}

static PyObject *find(PyObject *module, PyObject *args)
{
    struct finds *f = own_link(module)->finds;
    struct find_wait w = { .found = PACKET_INIT };
    const char *what, *question;
    Py_ssize_t what_n, question_n;
    double seconds = FIND_S, more = WORK_S;
    PyObject *out = NULL;

    if (!PyArg_ParseTuple(args, "s#s#|dd", &what, &what_n, &question, &question_n, &seconds, &more))
        return NULL;
    w.what = slice_of(what, (size_t)what_n);
    w.question = slice_of(question, (size_t)question_n);
    w.work_ns = ns_of(more);
    finds_begin(f, &w);
    if (send_find(module, &w) == 0 && wait_found(f, &w, seconds) == 0)
        out = answer_of(&w.found);
    finds_end(f, &w);
    packet_release(&w.found);
    return out;
}

/* ---- home answers ---- */

/* Called in a thread that Python does not know. */
static void call_take(void *arg)
{
    const struct finds *f = arg;
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *r = PyObject_CallObject(f->take, NULL);

    if (!r)
        PyErr_Print();
    Py_XDECREF(r);
    PyGILState_Release(gil);
}

static PyObject *finds(PyObject *module, PyObject *take)
{
    struct finds *f = own_link(module)->finds;
    PyObject *before = f->take;

    Py_INCREF(take);
    f->take = take;
    Py_XDECREF(before);
    f->queue.call = call_take;
    f->queue.arg = f;
    side_queue_ready(&f->queue);
    Py_RETURN_NONE;
}

static PyObject *next_find(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct packet p;
    PyObject *out;

    if (!side_queue_take(&own_link(module)->finds->queue, &p))
        Py_RETURN_NONE;
    out = convert_packet(&p);
    packet_release(&p);
    return out;
}

PyMethodDef find_methods[] = {
    { "find", find, METH_VARARGS,
      "find(what, question, seconds=10, more=60) -> (content, memory or None): home's answer to a question about the notebook's code, from any "
      "thread. TimeoutError: home has not begun to answer, or has not said for `more` seconds that it is at work; LinkDead: this process has no link." },
    { "finds", finds, METH_O,
      "finds(take): take() is called, by a thread that Python does not know, when home is to answer." },
    { "next_find", next_find, METH_NOARGS,
      "next_find() -> the oldest question for home, as recv(), or None." },
    { NULL, NULL, 0, NULL },
};
