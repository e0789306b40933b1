/* SPDX-License-Identifier: BSD-3-Clause */
/* cut.c - shuts down connections of this process, so that a collective that waits returns with an
 * error (declared in private.h). */
#include "worker/ext/private.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static uint64_t u64_at(const char *p)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 8; i++)
        v |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return v;
}

static bool listed(struct slice inodes, uint64_t inode)
{
    for (size_t at = 0; at + 8 <= inodes.n; at += 8) {
        if (u64_at(inodes.p + at) == inode)
            return true;
    }
    return false;
}

unsigned cut_sockets(struct slice inodes)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    unsigned n = 0;

    if (!dir && !(dir = opendir("/dev/fd")))
        return 0;
    while ((entry = readdir(dir))) {
        char *end;
        const long fd = strtol(entry->d_name, &end, 10);
        struct stat st;

        if (end == entry->d_name || *end || fstat((int)fd, &st) < 0 || !S_ISSOCK(st.st_mode))
            continue;
        if (listed(inodes, st.st_ino) && shutdown((int)fd, SHUT_RDWR) == 0)
            n++;
    }
    closedir(dir);
    return n;
}

/* ---- connections to torch's stores within this process ---- */

#define STORES_MAX 64u   /* an older one is forgotten */
#define ENDS_MAX   4096u /* sockets; others are left out */

static _Atomic uint16_t store_ports[STORES_MAX]; /* where this process has hosted some; 0: none */
static atomic_uint store_cuts;

static bool hosts_store_at(uint16_t port)
{
    bool found = false;

    for (size_t i = 0; port && i < STORES_MAX && !found; i++)
        found = store_ports[i] == port;
    return found;
}

static uint16_t port_of(const struct sockaddr_storage *of)
{
    return of->ss_family == AF_INET    ? ntohs(((const struct sockaddr_in *)of)->sin_port)
           : of->ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)of)->sin6_port)
                                       : 0;
}

struct store_end {
    int fd;
    uint16_t local, peer;
};

static bool is_connected(int fd, struct store_end *end)
{
    struct sockaddr_storage local, peer;
    socklen_t n = sizeof local, m = sizeof peer;

    memset(&local, 0, sizeof local);
    memset(&peer, 0, sizeof peer);
    if (getsockname(fd, (struct sockaddr *)&local, &n) < 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &m) < 0)
        return false;
    *end = (struct store_end){ fd, port_of(&local), port_of(&peer) };
    return end->local && end->peer;
}

static size_t find_ends(struct store_end *ends)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    size_t n = 0;

    if (!dir && !(dir = opendir("/dev/fd")))
        return 0;
    while (n < ENDS_MAX && (entry = readdir(dir))) {
        char *end;
        const long fd = strtol(entry->d_name, &end, 10);

        if (end != entry->d_name && !*end && is_connected((int)fd, &ends[n]))
            n += hosts_store_at(ends[n].local) || hosts_store_at(ends[n].peer);
    }
    closedir(dir);
    return n;
}

unsigned cut_own_stores(void)
{
    struct store_end *ends = calloc(ENDS_MAX, sizeof *ends);
    const size_t all = ends ? find_ends(ends) : 0;
    unsigned n = 0;

    for (size_t i = 0; i < all; i++)
        for (size_t k = 0; k < all; k++)
            if (ends[i].peer == ends[k].local && ends[i].local == ends[k].peer &&
                hosts_store_at(ends[i].peer) && shutdown(ends[i].fd, SHUT_RDWR) == 0)
                n++;
    free(ends);
    store_cuts += n > 0;
    return n;
}

static PyObject *hosts_store(PyObject *Py_UNUSED(module), PyObject *number)
{
    static size_t noted; /* Python's lock guards it */
    const long port = PyLong_AsLong(number);

    if (port == -1 && PyErr_Occurred())
        return NULL;
    if (port > 0 && port <= UINT16_MAX && !hosts_store_at((uint16_t)port))
        store_ports[noted++ % STORES_MAX] = (uint16_t)port;
    Py_RETURN_NONE;
}

static PyObject *cut_stores(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyLong_FromUnsignedLong(store_cuts);
}

PyMethodDef cut_methods[] = {
    { "hosts_store", hosts_store, METH_O,
      "hosts_store(port): this process hosts a TCPStore there. If a cell does not end, the process's own connections to it are cut." },
    { "cut_stores", cut_stores, METH_NOARGS,
      "cut_stores() -> how often connections to stores that this process hosts were cut." },
    { NULL, NULL, 0, NULL },
};
