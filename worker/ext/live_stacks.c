/* SPDX-License-Identifier: BSD-3-Clause */
/* live_stacks.c - writes the stacks of a worker that goes on, on request (declared in private.h).
 * Python's faulthandler reads the frames of all threads. That is safe only while no thread of
 * Python runs: else a frame's memory can be given back meanwhile, and the read is a fault. So a
 * thread takes Python's lock first. If C code keeps the lock, the agent sends a signal. Then a copy
 * of the process writes the stacks: a fault ends only the copy. */
#include "worker/ext/private.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "base/clock.h"
#include "base/process.h"
#include "worker/link/stacks.h"

#define COPY_S 2 /* a copy may take this long; it needs a millisecond */

/* A signal handler has no argument of ours, so these must be global variables. */
static int stacks_fd = -1;
static PyObject *prepare;                 /* owned; what is written after the stacks */
static PyObject *write_stacks;            /* owned; both are used and replaced with Python's lock */
static void (*write_unlocked)(int signo); /* faulthandler's handler of the signal */
static atomic_bool thread_waits;          /* for Python's lock: one thread is enough */
static _Atomic uint64_t until_ns;         /* when it gives up; 0: there is no question */

/* ---- with Python's lock ---- */

static PyObject *call(PyObject *f)
{
    PyObject *r;

    Py_INCREF(f);
    if (!(r = PyObject_CallObject(f, NULL)))
        PyErr_Clear();
    Py_DECREF(f);
    return r;
}

/* From the first byte to the last the lock is not released, and no bytecode runs: the agent takes
 * an answer as complete when nothing comes for a moment. */
static void answer(void)
{
    PyObject *more = call(prepare), *r = call(write_stacks);
    char *p;
    Py_ssize_t n;

    if (more && PyBytes_AsStringAndSize(more, &p, &n) == 0 && write(stacks_fd, p, (size_t)n) < 0)
        errno = 0; /* the agent has gone, or reads nothing: then nobody misses it */
    PyErr_Clear();
    Py_XDECREF(more);
    Py_XDECREF(r);
}

static void *wait_and_answer(void *Py_UNUSED(arg))
{
    const PyGILState_STATE gil = PyGILState_Ensure();
    const uint64_t until = atomic_exchange(&until_ns, 0);

    atomic_store(&thread_waits, false);
    /* If it is late, the signal has been sent, and this would be a second answer. */
    if (prepare && clock_now(&clock_system) < until)
        answer();
    PyGILState_Release(gil);
    return NULL;
}

void live_stacks_ask(uint64_t until)
{
    pthread_t thread;

    atomic_store(&until_ns, until);
    if (atomic_exchange(&thread_waits, true))
        return;
    if (thread_start(&thread, wait_and_answer, NULL) == 0)
        pthread_detach(thread);
    else
        atomic_store(&thread_waits, false);
}

void live_stacks_forked(void)
{
    atomic_store(&thread_waits, false);
}

/* ---- by a signal ---- */

/* A copy of this process with this thread only. On Linux its end is no SIGCHLD, and wait() of the
 * user's code does not see it. */
#ifdef __linux__
#define COPY_WAIT (int)__WCLONE
static pid_t copy_process(void)
{
    return (pid_t)syscall(SYS_clone, 0UL, 0UL, 0UL, 0UL, 0UL);
}
#else
#define COPY_WAIT 0
static pid_t copy_process(void)
{
    return fork();
}
#endif

static void write_and_exit(int signo)
{
    static const int ends[] = { SIGSEGV, SIGBUS, SIGALRM };
    const struct sigaction standard = { .sa_handler = SIG_DFL };
    const struct rlimit none = { 0, 0 };
    sigset_t some;

    sigemptyset(&some);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        sigaction(ends[i], &standard, NULL);
        sigaddset(&some, ends[i]);
    }
    sigprocmask(SIG_UNBLOCK, &some, NULL);
    setrlimit(RLIMIT_CORE, &none);
    alarm(COPY_S);
    write_unlocked(signo);
    _exit(0);
}

static void on_request(int signo)
{
    static const char none[] = "(no copy of this process could be made, to read its stacks)\n";
    const int before = errno;
    const pid_t pid = copy_process();

    if (pid == 0)
        write_and_exit(signo);
    if (pid < 0 && write(stacks_fd, none, sizeof none - 1) < 0)
        errno = 0; /* as above */
    while (pid > 0 && waitpid(pid, NULL, COPY_WAIT) < 0 && errno == EINTR)
        ;
    errno = before;
}

/* Calls faulthandler's handler of the signal from ours. */
static int wrap_handler(int signo)
{
    struct sigaction act;

    if (sigaction(signo, NULL, &act) < 0)
        return -1;
    if (act.sa_handler == on_request) /* a rank is a fork of the zygote, which has called this */
        return 0;
    if (act.sa_flags & SA_SIGINFO || act.sa_handler == SIG_DFL || act.sa_handler == SIG_IGN) {
        errno = EINVAL;
        return -1;
    }
    write_unlocked = act.sa_handler;
    act.sa_handler = on_request;
    return sigaction(signo, &act, NULL);
}

static void replace(PyObject **old, PyObject *f)
{
    PyObject *before = *old;

    Py_INCREF(f);
    *old = f;
    Py_XDECREF(before);
}

static PyObject *on_stacks(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *first, *second;
    int fd;

    if (!PyArg_ParseTuple(args, "iOO", &fd, &first, &second))
        return NULL;
    if (STACKS_SIGNAL && wrap_handler(STACKS_SIGNAL) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    stacks_fd = fd;
    replace(&prepare, first);
    replace(&write_stacks, second);
    Py_RETURN_NONE;
}

PyMethodDef live_stacks_methods[] = {
    { "on_stacks", on_stacks, METH_VARARGS,
      "on_stacks(fd, prepare, dump): when the agent asks for stacks, a thread that has Python's lock calls prepare() -> bytes, then "
      "dump(), which writes to fd, and writes the bytes. Call it after faulthandler.register(STACKS_SIGNAL): from now a copy of the "
      "process runs its handler." },
    { NULL, NULL, 0, NULL },
};
