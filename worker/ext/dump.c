/* dump.c - writes the stacks of a worker that goes on, on request (declared in parts.h). Python's
 * faulthandler reads the frames of all threads. That is safe only while no thread of Python runs:
 * else a frame's memory can be given back meanwhile, and the read is a fault. So a thread takes
 * Python's lock first. If C code keeps the lock, the agent sends a signal; then nobody runs Python,
 * as a rule, and a fault ends the dump and not the worker. */
#include "worker/ext/parts.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "worker/link/stacks.h"

#define N_FAULTS 2

/* A signal handler has no argument of ours, so these must be global variables. */
static PyObject *dump;                   /* owned; writes the stacks; call it with Python's lock */
static void (*dump_unlocked)(int signo); /* faulthandler's handler of the signal */
static volatile sig_atomic_t runs;       /* on_request() does, in the thread `dumper` */
static pthread_t dumper;
static sigjmp_buf back;
static const int faults[N_FAULTS] = { SIGSEGV, SIGBUS };
static struct sigaction handled_before[N_FAULTS];

/* ---- with Python's lock ---- */

static void *dump_main(void *arg)
{
    const uint64_t *late_ns = arg;
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *r;

    /* If it is late, the signal has been sent, and this would be a second answer. */
    if (dump && clock_now(&clock_system) < *late_ns) {
        if (!(r = PyObject_CallObject(dump, NULL)))
            PyErr_Clear();
        Py_XDECREF(r);
    }
    PyGILState_Release(gil);
    free(arg);
    return NULL;
}

void dump_ask(void)
{
    uint64_t *late_ns = malloc(sizeof *late_ns);
    pthread_t thread;

    if (!late_ns)
        return;
    *late_ns = clock_now(&clock_system) + STACKS_LOCK_NS;
    if (thread_start(&thread, dump_main, late_ns) == 0)
        pthread_detach(thread);
    else
        free(late_ns);
}

/* ---- by a signal ---- */

static void restore_handlers(void)
{
    for (size_t i = 0; i < N_FAULTS; i++)
        sigaction(faults[i], &handled_before[i], NULL);
}

/* A fault of another thread is none of ours: the handlers from before get it. */
static void on_fault(int signo)
{
    if (pthread_equal(pthread_self(), dumper))
        siglongjmp(back, 1);
    restore_handlers();
    raise(signo);
}

static void on_request(int signo)
{
    const struct sigaction act = { .sa_handler = on_fault, .sa_flags = SA_NODEFER | SA_ONSTACK };
    const int before = errno;

    if (runs)
        return;
    runs = 1;
    dumper = pthread_self();
    for (size_t i = 0; i < N_FAULTS; i++)
        sigaction(faults[i], &act, &handled_before[i]);
    if (sigsetjmp(back, 1) == 0)
        dump_unlocked(signo);
    restore_handlers();
    runs = 0;
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
    dump_unlocked = act.sa_handler;
    act.sa_handler = on_request;
    return sigaction(signo, &act, NULL);
}

static PyObject *on_stacks(PyObject *Py_UNUSED(module), PyObject *f)
{
    PyObject *old = dump;

    if (STACKS_SIGNAL && wrap_handler(STACKS_SIGNAL) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_INCREF(f);
    dump = f;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

PyMethodDef dump_methods[] = {
    { "on_stacks", on_stacks, METH_O,
      "on_stacks(f): when the agent asks for stacks, call f in a thread that has Python's lock. Call it after "
      "faulthandler.register(STACKS_SIGNAL): from now a fault in its handler does not end this process." },
    { NULL, NULL, 0, NULL },
};
