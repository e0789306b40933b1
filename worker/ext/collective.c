/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/ext/collective.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/process.h"

void collective_abort(void *collective)
{
    struct collective *c = collective;
    ssize_t n = 1;

    comms_abort(&c->comms);
    if (c->aborted[1] >= 0)
        n = write(c->aborted[1], "a", 1);
    (void)n; /* if the pipe is full, the thread is already awake */
}

void collective_forked(struct collective *c)
{
    comms_forked(&c->comms);
    for (int i = 0; i < 2; i++)
        fd_close(&c->aborted[i]);
}

static PyObject *abort_fd(PyObject *module, PyObject *Py_UNUSED(none))
{
    struct collective *c = convey_collective(module);

    if (c->aborted[0] < 0 && (fd_pipe(c->aborted) < 0 || fd_nonblock(c->aborted[1], true) < 0))
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromLong(c->aborted[0]);
}

static PyObject *abort_now(PyObject *module, PyObject *Py_UNUSED(none))
{
    Py_BEGIN_ALLOW_THREADS collective_abort(convey_collective(module));
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

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

static PyObject *addresses(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    struct ifaddrs *all;
    PyObject *list;

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

static PyMethodDef methods[] = {
    { "abort_fd", abort_fd, METH_NOARGS,
      "abort_fd() -> a descriptor that has a byte for each time that a rank has failed." },
    { "abort_now", abort_now, METH_NOARGS, "abort_now(): as the agent asks for it." },
    { "addresses", addresses, METH_NOARGS,
      "addresses() -> [(interface, address)] of interfaces that are up." },
    { NULL, NULL, 0, NULL },
};

int collective_add(PyObject *module, struct collective *c)
{
    struct err err = { "" };

    c->aborted[0] = c->aborted[1] = -1;
    if (comms_init(&c->comms, &err) < 0) {
        convey_fail(&err);
        return -1;
    }
    if (PyModule_AddStringConstant(module, "VERSION", CELLSPAN_VERSION) < 0)
        return -1;
    if (PyModule_AddFunctions(module, meshes_methods) < 0 ||
        PyModule_AddFunctions(module, gpu_libraries_methods) < 0 ||
        PyModule_AddFunctions(module, broadcasts_methods) < 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
