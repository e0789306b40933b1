/* SPDX-License-Identifier: BSD-3-Clause */
/* memory_compare.c - compares memory without reading pages that have not changed (declared in
 * private.h). */
#include "worker/ext/private.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* /proc/self/pagemap has a number for each page; Documentation/admin-guide/mm/pagemap.rst of Linux
 * describes its bits. */
#define PAGES_AT_ONCE 1024
#define PAGE_PRESENT  (UINT64_C(1) << 63)
#define PAGE_SWAPPED  (UINT64_C(1) << 62)
#define PAGE_OF_FILE  (UINT64_C(1) << 61)

struct memory {
    uintptr_t start, end; /* addresses; end is exclusive */
};

/* This function is in the stable ABI since 3.2, but older headers mark it as deprecated and newer
 * ones don't declare it. Py_buffer is in the stable ABI only since 3.11. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
extern int PyObject_AsReadBuffer(PyObject *object, const void **p, Py_ssize_t *n);

static int bytes_of(PyObject *object, const void **p, Py_ssize_t *n)
{
    return PyObject_AsReadBuffer(object, p, n);
}
#pragma GCC diagnostic pop

static PyObject *equal(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *a, *b;
    const void *pa, *pb;
    Py_ssize_t na, nb;
    bool same = false;

    if (!PyArg_ParseTuple(args, "OO", &a, &b) || bytes_of(a, &pa, &na) < 0 ||
        bytes_of(b, &pb, &nb) < 0)
        return NULL;
    if (na == nb) {
        Py_BEGIN_ALLOW_THREADS same = na == 0 || memcmp(pa, pb, (size_t)na) == 0;
        Py_END_ALLOW_THREADS
    }
    return PyBool_FromLong(same);
}

static PyObject *address(PyObject *Py_UNUSED(module), PyObject *buffer)
{
    const void *p;
    Py_ssize_t n;

    if (bytes_of(buffer, &p, &n) < 0)
        return NULL;
    return PyLong_FromVoidPtr((void *)(uintptr_t)p);
}

/* Python's mmap keeps a descriptor for each mapping of a file (before 3.13, always). So it makes an
 * empty mapping, and this puts the file's pages there. */
static PyObject *map_over(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *mapping;
    const void *p;
    Py_ssize_t n;
    int fd;

    if (!PyArg_ParseTuple(args, "Oi", &mapping, &fd) || bytes_of(mapping, &p, &n) < 0)
        return NULL;
    if ((uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE) != 0) {
        PyErr_SetString(PyExc_ValueError, "this is no mapping");
        return NULL;
    }
    if (mmap((void *)(uintptr_t)p, (size_t)n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
             0) == MAP_FAILED)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

/* Has this process written the page? If not, it is still the file's page, or was never touched. */
static bool is_written(uint64_t page)
{
    return (page & PAGE_SWAPPED) || ((page & PAGE_PRESENT) && !(page & PAGE_OF_FILE));
}

/* Appends (start, length) of the part of these pages that belongs to the memory; start counts from
 * the memory's first byte. */
static int add_range(PyObject *list, struct memory m, uintptr_t from, uintptr_t to)
{
    PyObject *pair;
    int rc;

    from = from < m.start ? m.start : from;
    to = to < m.end ? to : m.end;
    pair = Py_BuildValue("(nn)", (Py_ssize_t)(from - m.start), (Py_ssize_t)(to - from));
    rc = pair ? PyList_Append(list, pair) : -1;
    Py_XDECREF(pair);
    return rc;
}

/* 0: appended the ranges that this process has written; 1: the system does not tell; -1 with an
 * exception. */
static int list_written(int pagemap, struct memory m, PyObject *list)
{
    const uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), last = (m.end - 1) / size;
    uint64_t page[PAGES_AT_ONCE];
    uintptr_t begun = 0; /* start of the current range; 0: none */

    for (uintptr_t at = m.start / size; at <= last;) {
        const size_t want = last - at < PAGES_AT_ONCE ? (size_t)(last - at) + 1 : PAGES_AT_ONCE;
        const ssize_t n = pread(pagemap, page, want * sizeof page[0], (off_t)(at * sizeof page[0]));

        if (n < (ssize_t)sizeof page[0])
            return 1;
        for (size_t k = 0; k < (size_t)n / sizeof page[0]; k++, at++) {
            if (is_written(page[k])) {
                begun = begun ? begun : at * size;
                continue;
            }
            if (begun && add_range(list, m, begun, at * size) < 0)
                return -1;
            begun = 0;
        }
    }
    return begun ? add_range(list, m, begun, m.end) : 0;
}

static PyObject *written(PyObject *Py_UNUSED(module), PyObject *buffer)
{
    const void *p;
    Py_ssize_t n;
    struct memory m;
    PyObject *list;
    int pagemap, rc;

    if (bytes_of(buffer, &p, &n) < 0 || !(list = PyList_New(0)))
        return NULL;
    m.start = (uintptr_t)p;
    m.end = m.start + (uintptr_t)n;
    if (n == 0)
        return list;
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    rc = pagemap < 0 ? 1 : list_written(pagemap, m, list);
    if (pagemap >= 0)
        close(pagemap);
    if (rc == 0)
        return list;
    Py_DECREF(list);
    if (rc < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyMethodDef memory_methods[] = {
    { "equal", equal, METH_VARARGS, "equal(a, b): do two buffers hold the same bytes?" },
    { "address", address, METH_O, "address(buffer) -> of its first byte." },
    { "map_over", map_over, METH_VARARGS,
      "map_over(mapping, fd): maps a file, private and writable, where Python has made a mapping of memory. It takes no descriptor." },
    { "written", written, METH_O,
      "written(buffer) -> [(start, length), ...] in bytes: what of a private mapping of a file this process has written, in whole pages;"
      " None: the system does not tell (Linux alone does)." },
    { NULL, NULL, 0, NULL },
};
