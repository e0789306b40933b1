/* SPDX-License-Identifier: BSD-3-Clause */
/* step_count.c - the steps of a rank's cell (declared in private.h). */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>

#include "protocol/span_fields.h"
#include "worker/ext/private.h"

static struct {
    pthread_mutex_t lock; /* guards the rest */
    uint64_t cell, made;  /* the cell that came last, and its steps */
    bool asked;           /* the kernel knows `made`, or will: the next step waits for it */
} steps = { PTHREAD_MUTEX_INITIALIZER, 0, 0, false };

void steps_begin(uint64_t cell)
{
    pthread_mutex_lock(&steps.lock);
    steps.cell = cell;
    steps.made = 0;
    pthread_mutex_unlock(&steps.lock);
}

void steps_tell(int fd, uint64_t cell)
{
    struct span m = { .kind = SPAN_MET, .cell = cell, .v[F_MET_WHAT].u64 = MET_COUNT };
    struct pollfd room = { .fd = fd, .events = POLLOUT };
    struct buf out = BUF_INIT;
    struct err err = { "" };

    pthread_mutex_lock(&steps.lock);
    steps.asked = true;
    /* COUNT overtakes a RUN whose data is still on its way */
    m.v[F_MET_STEP].u64 = steps.cell == cell ? steps.made : 0;
    pthread_mutex_unlock(&steps.lock);
    if (span_encode(&m, &out, &err) == 0)
        while (packet_send(fd, out.p, out.n, -1, &err) > 0 &&
               (poll(&room, 1, -1) >= 0 || errno == EINTR))
            ;
    buf_release(&out);
}

void steps_over(void)
{
    pthread_mutex_lock(&steps.lock);
    steps.asked = false;
    pthread_mutex_unlock(&steps.lock);
}

void steps_forked(void)
{
    pthread_mutex_init(&steps.lock, NULL);
    steps.made = 0;
    steps.asked = false;
}

static PyObject *step(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    uint64_t number;

    pthread_mutex_lock(&steps.lock);
    steps.made++;
    number = steps.asked ? steps.made : 0;
    pthread_mutex_unlock(&steps.lock);
    return PyLong_FromUnsignedLongLong(number);
}

static PyObject *asked(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    bool is;

    pthread_mutex_lock(&steps.lock);
    is = steps.asked;
    pthread_mutex_unlock(&steps.lock);
    return PyBool_FromLong(is);
}

static PyObject *over(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    steps_over();
    Py_RETURN_NONE;
}

PyMethodDef steps_methods[] = {
    { "step", step, METH_NOARGS,
      "step() -> 0, or the number of this step of the cell, if the kernel has asked for it: then wait for its MEET." },
    { "steps_asked", asked, METH_NOARGS, "steps_asked() -> does step() return numbers?" },
    { "steps_over", over, METH_NOARGS, "The next step() returns 0 again." },
    { NULL, NULL, 0, NULL },
};
