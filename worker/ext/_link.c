/* SPDX-License-Identifier: BSD-3-Clause */
/* _link.c - the extension module cellspan._link, for a worker's Python. This file has the table of
 * functions and converts Python's types; the other files of this folder do the work. */
#include "worker/ext/python.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"
#include "protocol/span_flags.h"
#include "worker/ext/collective.h"
#include "worker/ext/cond.h"
#include "worker/ext/private.h"
#include "worker/ext/find_waits.h"
#include "worker/ext/flusher.h"
#include "worker/ext/link.h"
#include "worker/link/stacks.h"

#define SPARE_NS NS_PER_S
#define SPARE_MS 5 /* between two tries */

struct state {
    struct collective collective; /* first: see collective.h */
    struct worker_link link;
    struct flusher flusher;
    struct side_queue subshell_queue;
    struct finds finds;
    struct packet_spare spare; /* for long messages that are sent */
    PyObject *flush;           /* a callable, or NULL */
    PyObject *subshells;       /* the same */
    PyObject *dead;            /* the exception LinkDead: this process has no agent (any more) */
};

static struct state *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

struct worker_link *own_link(PyObject *module)
{
    return &state_of(module)->link;
}

struct flusher *own_flusher(PyObject *module)
{
    return &state_of(module)->flusher;
}

/* ---- the flusher calls Python ---- */

/* Calls *what, a Python callable in the module state. The caller holds the interpreter's lock, so
 * that nobody replaces it meanwhile. */
static void call_python(PyObject *const *what)
{
    PyObject *r = *what ? PyObject_CallObject(*what, NULL) : NULL;

    if (!r)
        PyErr_Clear(); /* ignore it: the user may have closed or replaced the stream */
    Py_XDECREF(r);
}

static void flush_python(void *arg)
{
    const PyGILState_STATE gil = PyGILState_Ensure();

    thread_limits_due();
    call_python(&((struct state *)arg)->flush);
    PyGILState_Release(gil);
}

static void subshells_python(void *arg)
{
    const PyGILState_STATE gil = PyGILState_Ensure();

    call_python(&((struct state *)arg)->subshells);
    PyGILState_Release(gil);
}

/* ---- the debugger ---- */

static void *debug_python(void *arg)
{
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *module = PyImport_ImportModule("cellspan._worker.debugger");
    PyObject *r = module ? PyObject_CallMethod(module, "begin", NULL) : NULL;

    (void)arg;
    if (!r)
        PyErr_Print();
    Py_XDECREF(r);
    Py_XDECREF(module);
    PyGILState_Release(gil);
    return NULL;
}

/* Called by the I/O thread, which must not wait for Python: another thread starts the debugger. If
 * there is none, the kernel gets no answer, and says so. */
static void debug_begin(void *arg)
{
    pthread_t thread;

    (void)arg;
    if (thread_start(&thread, debug_python, NULL) == 0)
        pthread_detach(thread);
}

static PyObject *debug_message(PyObject *module, PyObject *args)
{
    struct state *s = state_of(module);
    struct packet p;
    PyObject *out;
    double seconds = 0;
    bool got;

    if (!PyArg_ParseTuple(args, "|d", &seconds))
        return NULL;
    Py_BEGIN_ALLOW_THREADS got = link_take_debug(&s->link, (uint64_t)(seconds * NS_PER_S), &p);
    Py_END_ALLOW_THREADS if (!got) Py_RETURN_NONE;
    out = convert_packet(&p);
    packet_release(&p);
    return out;
}

/* ---- starting and ending ---- */

static PyObject *start(PyObject *module, PyObject *args)
{
    struct state *s = state_of(module);
    struct err err = { "" };
    PyObject *flush = NULL;
    int fd;

    if (!PyArg_ParseTuple(args, "i|O", &fd, &flush))
        return NULL;
    if (link_start(&s->link, fd, &err) < 0)
        return convey_fail(&err);
    if (flush && flush != Py_None) {
        Py_INCREF(flush);
        Py_XDECREF(s->flush);
        s->flush = flush;
        if (flusher_start(&s->flusher, &err) < 0)
            return convey_fail(&err);
    }
    Py_RETURN_NONE;
}

static PyObject *quiet(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct state *s = state_of(module);

    Py_BEGIN_ALLOW_THREADS flusher_stop(&s->flusher);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *stop(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct state *s = state_of(module);

    Py_BEGIN_ALLOW_THREADS flusher_stop(&s->flusher);
    link_stop(&s->link);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *alive(PyObject *module, PyObject *Py_UNUSED(none))
{
    return PyBool_FromLong(state_of(module)->link.fd >= 0);
}

static PyObject *fileno_(PyObject *module, PyObject *Py_UNUSED(none))
{
    return PyLong_FromLong(state_of(module)->link.wake[0]);
}

/* ---- messages ---- */

static PyObject *recv_(PyObject *module, PyObject *args)
{
    struct state *s = state_of(module);
    struct packet p;
    PyObject *out;
    int part = LINK_ALL;

    if (!PyArg_ParseTuple(args, "|i", &part))
        return NULL;
    if (s->link.fd < 0 || !(part == LINK_SUBSHELLS ? side_queue_take(&s->subshell_queue, &p)
                                                   : link_take(&s->link, (enum link_part)part, &p)))
        Py_RETURN_NONE;
    out = convert_packet(&p);
    packet_release(&p);
    return out;
}

static PyObject *wait_(PyObject *module, PyObject *args)
{
    struct state *s = state_of(module);
    double seconds = -1;
    int rc;

    if (!PyArg_ParseTuple(args, "|d", &seconds))
        return NULL;
    if (s->link.fd < 0) {
        PyErr_SetString(s->dead, "this process is not a worker of cellspan");
        return NULL;
    }
    rc = pause_for(s->link.wake[0], POLLIN, seconds);
    return rc < 0 ? NULL : PyBool_FromLong(rc);
}

static PyObject *sleep_(PyObject *module, PyObject *args)
{
    struct state *s = state_of(module);
    unsigned long long seen;
    double seconds;

    if (!PyArg_ParseTuple(args, "Kd", &seen, &seconds))
        return NULL;
    Py_BEGIN_ALLOW_THREADS seen = link_sleep(&s->link, seen, (uint64_t)(seconds * NS_PER_S));
    Py_END_ALLOW_THREADS return PyLong_FromUnsignedLongLong(seen);
}

static PyObject *wake(PyObject *module, PyObject *Py_UNUSED(none))
{
    link_wake(&state_of(module)->link);
    Py_RETURN_NONE;
}

int own_send(PyObject *module, const struct buf *b, int blob_fd)
{
    struct state *s = state_of(module);
    uint64_t until_ns = 0;

    if (s->link.fd < 0) {
        PyErr_SetString(
            s->dead,
            "this process has no link to cellspan: it was forked from a worker, or is none");
        return -1;
    }
    for (;;) {
        struct err err = { "" };
        bool again;
        int rc;

        if (b->n >= PACKET_INLINE_MAX)
            packet_spare_give(&s->spare);
        Py_BEGIN_ALLOW_THREADS errno = 0;
        rc = packet_send(s->link.fd, b->p, b->n, blob_fd, &err);
        /* another thread may have taken the spare descriptor, for a file that it reads */
        again = rc < 0 && (errno == EMFILE || errno == ENFILE) &&
                (until_ns == 0 || clock_now(&clock_system) < until_ns);
        if (again && until_ns == 0)
            until_ns = clock_now(&clock_system) + SPARE_NS;
        if (again)
            (void)poll(NULL, 0, SPARE_MS);
        Py_END_ALLOW_THREADS packet_spare_keep(&s->spare);
        if (rc == 0)
            return 0;
        if (again)
            continue;
        if (rc < 0) {
            PyErr_SetString(s->dead, err.text);
            return -1;
        }
        if (pause_for(s->link.fd, POLLOUT, -1) < 0)
            return -1;
    }
}

static PyObject *send_(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *const names[] = { "kind", "cell", "fields", "blob", "fd", "size", NULL };
    struct buf out = BUF_INIT;
    struct span head;
    PyObject *fields = NULL;
    const char *kind;
    unsigned long long cell = 0, blob = 0, size = 0;
    int fd = -1, rc;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|KO!KiK", (char **)names, &kind, &cell,
                                     &PyDict_Type, &fields, &blob, &fd, &size))
        return NULL;
    head = (struct span){ .cell = cell, .blob = blob, .blob_size = size };
    rc = convert_encode(kind, &head, fields, &out);
    if (rc == 0)
        rc = own_send(module, &out, blob && size ? fd : -1);
    buf_release(&out);
    if (rc < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- subshells ---- */

static PyObject *subshells(PyObject *module, PyObject *take)
{
    struct state *s = state_of(module);
    PyObject *before = s->subshells;

    Py_INCREF(take);
    s->subshells = take;
    Py_XDECREF(before);
    side_queue_ready(&s->subshell_queue);
    Py_RETURN_NONE;
}

static PyObject *busy(PyObject *module, PyObject *on)
{
    struct state *s = state_of(module);
    const int is = PyObject_IsTrue(on);

    if (is < 0)
        return NULL;
    if (is)
        flusher_begin(&s->flusher);
    else
        flusher_end(&s->flusher);
    Py_RETURN_NONE;
}

/* ---- a cell's begin and end ---- */

static PyObject *begin(PyObject *module, PyObject *args)
{
    struct state *s = state_of(module);
    unsigned long long cell;

    if (!PyArg_ParseTuple(args, "K", &cell))
        return NULL;
    if (link_begin(&s->link, cell) < 0) {
        PyErr_Format(PyExc_RuntimeError, "more than %d cells at once", (int)LINK_CELLS_MAX);
        return NULL;
    }
    flusher_begin(&s->flusher);
    return PyLong_FromUnsignedLongLong(link_debugs(&s->link));
}

static PyObject *hold(PyObject *module, PyObject *args)
{
    int yields = 0;

    if (!PyArg_ParseTuple(args, "|p", &yields))
        return NULL;
    link_hold(&state_of(module)->link, yields);
    (void)getppid(); /* a signal that was sent before is delivered when a system call returns */
    if (PyErr_CheckSignals() < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *held(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(link_held(&state_of(module)->link));
}

static PyObject *release(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    link_release(&state_of(module)->link);
    Py_RETURN_NONE;
}

/* After this, no interrupt of the cell can arrive. One that was already sent is discarded here. */
static PyObject *end(PyObject *module, PyObject *args)
{
    struct state *s = state_of(module);
    unsigned long long cell;
    bool late = false;

    if (!PyArg_ParseTuple(args, "K", &cell))
        return NULL;
    flusher_end(&s->flusher);
    if (link_end(&s->link, cell)) {
        (void)getppid(); /* a pending signal is delivered when a system call returns */
        while (PyErr_CheckSignals() < 0) {
            PyErr_Clear();
            late = true;
        }
    }
    return PyBool_FromLong(late);
}

/* ---- text before displays ---- */

/* Waits for the agent's answer in steps, because a signal does not wake pthread_cond_wait. */
static int wait_synced(struct state *s, uint64_t nth)
{
    bool done = false;

    while (!done) {
        Py_BEGIN_ALLOW_THREADS const struct timespec until = cond_time(20 * NS_PER_MS);

        pthread_mutex_lock(&s->link.lock);
        if (s->link.syncs_seen < nth)
            pthread_cond_timedwait(&s->link.news, &s->link.lock, &until);
        done = s->link.syncs_seen >= nth;
        pthread_mutex_unlock(&s->link.lock);
        Py_END_ALLOW_THREADS if (!done && PyErr_CheckSignals() < 0) return -1;
    }
    return 0;
}

static PyObject *sync_(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct state *s = state_of(module);
    struct buf out = BUF_INIT;
    struct span head = { .cell = 0 };
    uint64_t nth;
    int rc;

    if (s->link.fd < 0 || (!fd_waiting(1) && !fd_waiting(2)))
        Py_RETURN_NONE;
    rc = convert_encode("SYNC", &head, NULL, &out);
    if (rc == 0 && (rc = own_send(module, &out, -1)) == 0) {
        pthread_mutex_lock(&s->link.lock);
        nth = ++s->link.syncs_sent;
        pthread_mutex_unlock(&s->link.lock);
        rc = wait_synced(s, nth);
    }
    buf_release(&out);
    if (rc < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- processes ---- */

static PyObject *before_fork(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct state *s = state_of(module);

    Py_BEGIN_ALLOW_THREADS flusher_hold(&s->flusher);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *after_fork_parent(PyObject *module, PyObject *Py_UNUSED(none))
{
    flusher_release(&state_of(module)->flusher);
    Py_RETURN_NONE;
}

static PyObject *after_fork_child(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct state *s = state_of(module);

    collective_forked(&s->collective);
    link_forked(&s->link);
    side_queue_forked(&s->subshell_queue);
    finds_forked(&s->finds);
    live_stacks_forked();
    steps_forked();
    thread_limits_forked();
    flusher_forked(&s->flusher);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "start", start, METH_VARARGS,
      "start(fd, flush=None): take the socket to the agent; flush() is called every 50 ms while a cell runs." },
    { "quiet", quiet, METH_NOARGS, "Flush by timer no more: Python is about to end." },
    { "stop", stop, METH_NOARGS, "Close the link; the process lives on without." },
    { "alive", alive, METH_NOARGS,
      "Is there a link? Not in a process that was forked from a worker." },
    { "fileno", fileno_, METH_NOARGS, "A descriptor that is readable while recv() has something." },
    { "recv", recv_, METH_VARARGS,
      "recv(part=ALL): the oldest message as (kind, cell, worker, blob, fd, size, fields), or None; fd is the caller's. "
      "part, for threads other than the main one: ANSWERS; CALLS: also what home serves while a call waits; SUBSHELLS: only what "
      "is for subshells, which no other part has." },
    { "subshells", subshells, METH_O,
      "subshells(take): take() is called, by a thread that Python does not know, when there is something for subshells." },
    { "busy", busy, METH_O,
      "busy(true): from now on there is a flush every 50 ms, until busy(false)." },
    { "sleep", sleep_, METH_VARARGS,
      "sleep(seen, seconds) -> how many messages have come: waits while that is `seen`. For threads other than the main one." },
    { "wake", wake, METH_NOARGS, "Wakes those who sleep()." },
    { "debug_message", debug_message, METH_VARARGS,
      "debug_message(seconds=0) -> the oldest message for the debugger, as recv(), or None." },
    { "wait", wait_, METH_VARARGS,
      "wait(seconds=-1) -> is there a message? Signals' handlers run, and may raise." },
    { "send", (PyCFunction)(void (*)(void))send_, METH_VARARGS | METH_KEYWORDS,
      "send(kind, cell=0, fields={}, blob=0, fd=-1, size=0): whole, or not at all when a signal's handler raises." },
    { "begin", begin, METH_VARARGS,
      "begin(cell) -> how many messages have come for the debugger. From now an interrupt of the cell is a SIGINT." },
    { "hold", hold, METH_VARARGS,
      "hold(yields=False): the main thread gets no SIGINT for an interrupt until release(), which then sends it. yields: a second interrupt, a "
      "second later, is sent at once." },
    { "held", held, METH_NOARGS,
      "held(): is an interrupt held here? Always in another thread than the main one, which gets none." },
    { "release", release, METH_NOARGS, "release(): see hold()." },
    { "end", end, METH_VARARGS, "end(cell) -> was an interrupt swallowed that came too late?" },
    { "sync", sync_, METH_NOARGS,
      "Return when the agent has taken all text that is in the pipes." },
    { "before_fork", before_fork, METH_NOARGS, "For os.register_at_fork." },
    { "after_fork_parent", after_fork_parent, METH_NOARGS, "For os.register_at_fork." },
    { "after_fork_child", after_fork_child, METH_NOARGS,
      "For os.register_at_fork: the child has no link." },
    { NULL, NULL, 0, NULL },
};

#define ADD_FLAG(kind, field, name, value)                                                         \
    if (PyModule_AddIntConstant(module, #name, value) < 0)                                         \
        return -1;
#define ADD_PART(name)                                                                             \
    if (PyModule_AddIntConstant(module, #name, LINK_##name) < 0)                                   \
        return -1;
#define ADD_ZYGOTE_TAG(name, value)                                                                \
    if (PyModule_AddIntConstant(module, "ZYGOTE_" #name, value) < 0)                               \
        return -1;

static int exec_module(PyObject *module)
{
    PyMethodDef *const all[] = { convert_methods, cut_methods,         find_methods,
                                 import_methods,  live_stacks_methods, steps_methods,
                                 magics_methods,  memory_methods,      names_methods,
                                 process_methods, watched_methods,     shared_methods,
                                 unshared_methods };
    struct state *s = state_of(module);
    struct err err = { "" };

    s->spare.fd = -1;
    if (link_init(&s->link, &err) < 0 ||
        side_queue_init(&s->subshell_queue, subshells_python, s, &err) < 0 ||
        finds_init(&s->finds, &err) < 0 || flusher_init(&s->flusher, flush_python, s, &err) < 0) {
        convey_fail(&err);
        return -1;
    }
    if (collective_add(module, &s->collective) < 0 || limits_add(module) < 0 ||
        PyModule_AddIntConstant(module, "STACKS_SIGNAL", STACKS_SIGNAL) < 0)
        return -1;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (PyModule_AddFunctions(module, all[i]) < 0)
            return -1;
    SPAN_FLAGS(ADD_FLAG)
    LINK_PARTS(ADD_PART)
    ZYGOTE_TAGS(ADD_ZYGOTE_TAG)
    s->link.abort = collective_abort;
    s->link.abort_arg = &s->collective;
    s->link.debug = debug_begin;
    s->link.stacks = live_stacks_ask;
    s->link.subshells = &s->subshell_queue;
    s->link.finds = &s->finds;
    s->dead = PyErr_NewException("cellspan._link.LinkDead", PyExc_RuntimeError, NULL);
    return s->dead ? PyObject_SetAttrString(module, "LinkDead", s->dead) : -1;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    struct state *s = state_of(module);

    if (!s)
        return 0;
    Py_VISIT(s->flush);
    Py_VISIT(s->subshells);
    Py_VISIT(s->finds.take);
    Py_VISIT(s->dead);
    return 0;
}

static int clear(PyObject *module)
{
    struct state *s = state_of(module);

    if (!s)
        return 0;
    Py_CLEAR(s->flush);
    Py_CLEAR(s->subshells);
    Py_CLEAR(s->finds.take);
    Py_CLEAR(s->dead);
    return 0;
}

static PyModuleDef_Slot slots[] = {
    { Py_mod_exec, (void *)exec_module },
    { 0, NULL },
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "cellspan._link",
    .m_doc = "A worker's link to its agent, and other things that Python can't do.",
    .m_size = sizeof(struct state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC PyInit__link(void);
PyMODINIT_FUNC PyInit__link(void)
{
    return PyModuleDef_Init(&definition);
}
