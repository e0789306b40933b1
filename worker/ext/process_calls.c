/* SPDX-License-Identifier: BSD-3-Clause */
/* process_calls.c - fork(), die_with_parent(), stack() and raise_in() of cellspan._link (declared
 * in private.h). */
#include "worker/ext/collective.h"
#include "worker/ext/private.h"

#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

/* As os.fork(), but without the warning of newer Pythons about threads: numpy's thread pool stops
 * itself before a fork. */
static PyObject *fork_(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    pid_t pid;

    PyOS_BeforeFork();
    pid = fork();
    if (pid == 0)
        PyOS_AfterFork_Child();
    else
        PyOS_AfterFork_Parent();
    return pid < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong((long)pid);
}

static PyObject *die_with_parent(PyObject *Py_UNUSED(module), PyObject *args)
{
    int signo;

    if (!PyArg_ParseTuple(args, "i", &signo))
        return NULL;
#ifdef __linux__
    if (prctl(PR_SET_PDEATHSIG, (unsigned long)signo) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
#endif
    Py_RETURN_NONE;
}

static PyObject *stack(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct err err = { "" };
    int fd;

    if (!PyArg_ParseTuple(args, "i", &fd))
        return NULL;
    if (crash_stack_install(fd, &err) < 0)
        return convey_fail(&err);
    Py_RETURN_NONE;
}

static PyObject *raise_in(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *exception;
    unsigned long thread;

    if (!PyArg_ParseTuple(args, "kO", &thread, &exception))
        return NULL;
    return PyBool_FromLong(PyThreadState_SetAsyncExc(thread, exception));
}

PyMethodDef process_methods[] = {
    { "fork", fork_, METH_NOARGS, "As os.fork(), without a warning about threads." },
    { "die_with_parent", die_with_parent, METH_VARARGS,
      "die_with_parent(signal): the system sends it when the parent ends (Linux)." },
    { "stack", stack, METH_VARARGS,
      "stack(fd): write the C stack to fd on a fatal signal. Call it before faulthandler.enable()." },
    { "raise_in", raise_in, METH_VARARGS,
      "raise_in(thread, exception): the thread raises it at its next step in Python." },
    { NULL, NULL, 0, NULL },
};
