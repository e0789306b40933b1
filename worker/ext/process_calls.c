/* SPDX-License-Identifier: BSD-3-Clause */
/* process_calls.c - fork(), die_with_parent(), stack(), stdio() and closed() of cellspan._link
 * (declared in private.h). */
#include "worker/ext/collective.h"
#include "worker/ext/flusher.h"
#include "worker/ext/private.h"

#include <fcntl.h>
#include <signal.h>
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

static PyObject *stdio(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    if (!flusher_stdio_waits())
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS flusher_stdio();
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *closed(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    const bool out = fcntl(STDOUT_FILENO, F_GETFD) < 0, err = fcntl(STDERR_FILENO, F_GETFD) < 0;

    if (out && err)
        return Py_BuildValue("(ii)", STDOUT_FILENO, STDERR_FILENO);
    return out   ? Py_BuildValue("(i)", STDOUT_FILENO)
           : err ? Py_BuildValue("(i)", STDERR_FILENO)
                 : PyTuple_New(0);
}

static void nothing(int signo)
{
    (void)signo;
}

/* Not SIG_IGN, which the programs that the user's code starts would inherit, and which its own
 * handlers would find. */
static PyObject *outlive(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
    sigset_t held;

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGUSR1, &action, NULL);
    (void)sigaction(SIGUSR2, &action, NULL);
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGUSR1);
    (void)sigaddset(&held, SIGUSR2);
    (void)pthread_sigmask(SIG_UNBLOCK, &held,
                          NULL); /* the agent has started us with them blocked */
    Py_RETURN_NONE;
}

PyMethodDef process_methods[] = {
    { "fork", fork_, METH_NOARGS, "As os.fork(), without a warning about threads." },
    { "die_with_parent", die_with_parent, METH_VARARGS,
      "die_with_parent(signal): the system sends it when the parent ends (Linux)." },
    { "stack", stack, METH_VARARGS,
      "stack(fd): write the C stack to fd on a fatal signal. Call it before faulthandler.enable()." },
    { "stdio", stdio, METH_NOARGS, "Flush C's stdout." },
    { "closed", closed, METH_NOARGS,
      "closed() -> those of the descriptors 1 and 2 that are not open." },
    { "outlive", outlive, METH_NOARGS,
      "SIGUSR1 and SIGUSR2 do nothing from now on, also in forks, unless Python gets a handler." },
    { NULL, NULL, 0, NULL },
};
