/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.c - within(), why(), mask(), unmask(), raise_in() and limit_held() of cellspan._link, and
 * thread_limits_due() (declared in private.h). */
#include <string.h>

#include "base/clock.h"
#include "base/process.h"
#include "worker/ext/flusher.h"
#include "worker/ext/link.h"
#include "worker/ext/private.h"

#define LIMIT_MOST 86400.0 /* seconds */

/* When so many seconds from now are over. */
static uint64_t end_of(double seconds)
{
    const double bounded = seconds > 0 ? (seconds < LIMIT_MOST ? seconds : LIMIT_MOST) : 0;

    return clock_now(&clock_system) + (uint64_t)(bounded * (double)NS_PER_S);
}

/* ---- threads other than the main one, which get no signals ---- */

/* A limit, or a part of a thread's code that no interrupt ends. Whoever looks at one holds the
 * interpreter's lock, so what a thread raises in another is either before a step here or after. */
struct thread_limit {
    unsigned long thread; /* 0: free */
    uint64_t until_ns;    /* 0: no limit */
    PyObject *late;       /* what is raised then; borrowed, for as long as the limit lasts */
    bool raised;          /* it was, perhaps not yet seen by the thread */
    PyObject *noted;      /* an interrupt that came; borrowed: a class of Python's own */
};

static struct thread_limit limits[THREAD_LIMITS_MAX]; /* of a thread's, the inner one is behind */

/* The innermost one of the thread, or NULL. */
static struct thread_limit *limit_of(unsigned long thread)
{
    for (size_t i = THREAD_LIMITS_MAX; i > 0; i--)
        if (limits[i - 1].thread == thread)
            return &limits[i - 1];
    return NULL;
}

/* NULL: there are too many. */
static struct thread_limit *limit_begin(uint64_t until_ns, PyObject *late)
{
    const unsigned long self = PyThread_get_thread_ident();
    const struct thread_limit *outer = limit_of(self);
    size_t i = outer ? (size_t)(outer - limits) + 1 : 0;

    while (i < THREAD_LIMITS_MAX && limits[i].thread)
        i++;
    if (i == THREAD_LIMITS_MAX)
        return NULL;
    limits[i] = (struct thread_limit){ .thread = self, .until_ns = until_ns, .late = late };
    return &limits[i];
}

/* Ends the calling thread's limit. After that `late` is not raised. Returns the interrupt that was
 * noted, or NULL. */
static PyObject *limit_end(struct thread_limit *t)
{
    PyObject *noted = t->noted;

    if (t->raised)
        (void)PyThreadState_SetAsyncExc(t->thread, NULL);
    memset(t, 0, sizeof *t);
    return noted;
}

static int raise_or_note(unsigned long thread, PyObject *exception)
{
    struct thread_limit *t = limit_of(thread);

    if (!t)
        return PyThreadState_SetAsyncExc(thread, exception);
    t->noted = exception;
    return 1;
}

void thread_limits_due(void)
{
    const uint64_t now = clock_now(&clock_system);

    for (size_t i = 0; i < THREAD_LIMITS_MAX; i++) {
        struct thread_limit *t = &limits[i];

        if (!t->thread || !t->until_ns || now < t->until_ns)
            continue;
        t->until_ns = now + LINK_AGAIN_MS * NS_PER_MS;
        t->raised = true;
        (void)PyThreadState_SetAsyncExc(t->thread, t->late);
    }
}

void thread_limits_forked(void)
{
    const unsigned long self = PyThread_get_thread_ident();

    for (size_t i = 0; i < THREAD_LIMITS_MAX; i++)
        if (limits[i].thread != self)
            memset(&limits[i], 0, sizeof limits[i]);
}

static PyObject *within_in_thread(PyObject *module, uint64_t until_ns, PyObject *late,
                                  PyObject *call, PyObject *rest, PyObject *named)
{
    struct thread_limit *t = limit_begin(until_ns, late);
    const unsigned long self = PyThread_get_thread_ident();
    PyObject *out, *noted;

    if (!t)
        return PyObject_Call(call, rest, named);
    flusher_begin(own_flusher(module));
    out = PyObject_Call(call, rest, named);
    flusher_end(own_flusher(module));
    if ((noted = limit_end(t)))
        (void)raise_or_note(self, noted);
    return out;
}

static PyObject *mask(PyObject *module, PyObject *Py_UNUSED(none))
{
    const struct thread_limit *t = link_is_main(own_link(module)) ? NULL : limit_begin(0, NULL);

    return PyLong_FromLong(t ? (long)(t - limits) : -1);
}

static PyObject *unmask(PyObject *Py_UNUSED(module), PyObject *args)
{
    int which;

    if (!PyArg_ParseTuple(args, "i", &which))
        return NULL;
    if (which < 0 || which >= THREAD_LIMITS_MAX ||
        limits[which].thread != PyThread_get_thread_ident())
        Py_RETURN_FALSE;
    return PyBool_FromLong(limit_end(&limits[which]) != NULL);
}

static PyObject *raise_in(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *exception;
    unsigned long thread;

    if (!PyArg_ParseTuple(args, "kO", &thread, &exception))
        return NULL;
    return PyBool_FromLong(raise_or_note(thread, exception));
}

/* ---- all threads ---- */

static PyObject *within(PyObject *module, PyObject *args)
{
    struct worker_link *l = own_link(module);
    PyObject *late, *call, *rest, *named, *out;
    double seconds;
    uint64_t before;

    if (!PyArg_ParseTuple(args, "dOOO!O!", &seconds, &late, &call, &PyTuple_Type, &rest,
                          &PyDict_Type, &named))
        return NULL;
    if (!link_is_main(l))
        return within_in_thread(module, end_of(seconds), late, call, rest, named);
    /* Python's handlers don't run between these steps, so what one raises is raised in the call. */
    before = link_limit(l, end_of(seconds));
    out = PyObject_Call(call, rest, named);
    (void)link_limit(l, before);
    return out;
}

static PyObject *why(PyObject *module, PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLong(link_why(own_link(module)));
}

static PyObject *held(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    char text[200];

    (void)limit_held(text, sizeof text);
    return PyUnicode_FromString(text);
}

static PyMethodDef methods[] = {
    { "within", within, METH_VARARGS,
      "within(seconds, late, call, args, kwargs) -> call's value. When the time is over, the main thread gets a SIGINT, and again every "
      "0.2 s. Another thread gets the exception `late` at its next step in Python instead." },
    { "mask", mask, METH_NOARGS,
      "mask() -> a number for unmask(). Until then raise_in() is only noted for this thread. The main thread has a handler for that." },
    { "unmask", unmask, METH_VARARGS, "unmask(number) -> was an exception noted?" },
    { "raise_in", raise_in, METH_VARARGS,
      "raise_in(thread, exception): the thread, another one than the main one, raises it at its next step in Python." },
    { "why", why, METH_NOARGS,
      "why() -> for a handler of SIGINT, which of these it was since the last call: INTERRUPT, and LATE (the time is over) or OVER (it "
      "was, but within() has returned)." },
    { "limit_held", held, METH_NOARGS,
      "limit_held() -> which limit keeps this process from starting a process or a thread, or from getting memory; \"\": none that is "
      "known." },
    { NULL, NULL, 0, NULL },
};

int limits_add(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "INTERRUPT", LINK_INTERRUPT) < 0 ||
        PyModule_AddIntConstant(module, "LATE", LINK_LATE) < 0 ||
        PyModule_AddIntConstant(module, "OVER", LINK_OVER) < 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
