/* SPDX-License-Identifier: BSD-3-Clause */
/* unshared.c - writes a pickle so that it does not depend on which equal texts are one object
 * (declared in private.h). Python interns the names in code, so after code was loaded again, other
 * texts are shared than before. */
#include "worker/ext/private.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The opcodes of pickle that matter here; see Lib/pickletools.py of CPython. */
enum {
    FRAME = 0x95,
    MEMOIZE = 0x94,
    BINGET = 'h',
    LONG_BINGET = 'j',
    TEXT = 0xff, /* ours: a text that was there before */
    SHORT_BINUNICODE = 0x8c,
    BINUNICODE = 'X',
    SHORT_BINBYTES = 'C',
    BINBYTES = 'B'
};

/* What the memo has under a number. */
struct memo {
    bool is_text;
    uint32_t number; /* among the different texts, or among all others */
};

struct unshared {
    struct memo *memo; /* owned, n of them */
    size_t n, room;
    uint32_t others;
    PyObject *texts; /* owned: the operation that makes a text -> its number */
    uint32_t text;   /* the number of the last one */
    struct buf out;
};

static uint64_t number_at(const unsigned char *p, size_t bytes)
{
    uint64_t v = 0;

    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* The arguments of an opcode: so many bytes; or, if `counted`, so many bytes with the number of
 * those that follow. false: no pickle of protocol 5 by Python's C code has it. */
static bool arguments_of(unsigned char op, size_t *bytes, bool *counted)
{
    static const char none[] = "(.012NQRabdelostu])}";
    static const struct {
        unsigned char op, bytes;
        bool counted;
    } rows[] = { { 0x80, 1, false },
                 { FRAME, 8, false },
                 { 'K', 1, false },
                 { 'M', 2, false },
                 { 'J', 4, false },
                 { 'G', 8, false },
                 { BINGET, 1, false },
                 { LONG_BINGET, 4, false },
                 { 0x82, 1, false },
                 { 0x83, 2, false },
                 { 0x84, 4, false },
                 { 0x8a, 1, true },
                 { 0x8b, 4, true },
                 { BINBYTES, 4, true },
                 { SHORT_BINBYTES, 1, true },
                 { BINUNICODE, 4, true },
                 { SHORT_BINUNICODE, 1, true },
                 { 0x8d, 8, true },
                 { 0x8e, 8, true },
                 { 0x96, 8, true } };

    *bytes = 0;
    *counted = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == op) {
            *bytes = rows[i].bytes;
            *counted = rows[i].counted;
            return true;
        }
    /* 0x81 and 0x85 to 0x94, 0x97, 0x98: objects, tuples, booleans, sets, the memo, buffers */
    return (op && op < 0x80 && strchr(none, op)) || op == 0x81 ||
           (op >= 0x85 && op <= 0x94 && op != 0x8a && op != 0x8b) || op == 0x97 || op == 0x98;
}

/* The size of the operation at p, with its arguments; 0: it is unknown, or cut off. */
static size_t size_at(const unsigned char *p, size_t left)
{
    size_t bytes;
    uint64_t more;
    bool counted;

    if (left == 0 || !arguments_of(*p, &bytes, &counted) || left - 1 < bytes)
        return 0;
    more = counted ? number_at(p + 1, bytes) : 0;
    return more <= left - 1 - bytes ? 1 + bytes + (size_t)more : 0;
}

static bool makes_text(unsigned char op)
{
    return op == SHORT_BINUNICODE || op == BINUNICODE || op == SHORT_BINBYTES || op == BINBYTES;
}

/* op: LONG_BINGET, or TEXT, which no pickle has. */
static int refer(struct unshared *u, unsigned char op, uint32_t number)
{
    unsigned char made[5] = { op };

    for (size_t i = 0; i < 4; i++)
        made[1 + i] = (unsigned char)(number >> (8 * i));
    return buf_add(&u->out, made, sizeof made);
}

/* Writes a text where it comes first, and refers to it from then on. -1: a Python exception. */
static int add_text(struct unshared *u, const unsigned char *p, size_t size)
{
    PyObject *key = PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)size), *number;
    int rc = -1;

    if (!key)
        return -1;
    if ((number = PyDict_GetItemWithError(u->texts, key))) {
        u->text = (uint32_t)PyLong_AsUnsignedLong(number);
        rc = refer(u, TEXT, u->text);
    } else if (!PyErr_Occurred()) {
        u->text = (uint32_t)PyDict_Size(u->texts);
        if ((number = PyLong_FromUnsignedLong(u->text))) {
            rc = PyDict_SetItem(u->texts, key, number) < 0 ? -1 : buf_add(&u->out, p, size);
            Py_DECREF(number);
        }
    }
    Py_DECREF(key);
    return rc;
}

static int memoize(struct unshared *u, bool is_text)
{
    if (u->n == u->room) {
        const size_t room = u->room ? 2 * u->room : 256;
        struct memo *more = realloc(u->memo, room * sizeof *more);

        if (!more)
            return -1;
        u->memo = more;
        u->room = room;
    }
    u->memo[u->n++] = (struct memo){ is_text, is_text ? u->text : u->others++ };
    return is_text ? 0 : buf_add(&u->out, "\x94", 1);
}

/* -1: memory is out; 1: there is no such number. */
static int get(struct unshared *u, uint64_t number)
{
    if (number >= u->n)
        return 1;
    return refer(u, u->memo[number].is_text ? TEXT : LONG_BINGET, u->memo[number].number);
}

/* -1: memory is out, or a Python exception; 1: the pickle has what is not known here. */
static int write_all(struct unshared *u, const unsigned char *p, size_t left)
{
    bool after_text = false; /* frames do not count */
    size_t size;
    int rc = 0;

    for (; rc == 0 && left; p += size, left -= size) {
        if ((size = size_at(p, left)) == 0)
            return 1;
        if (*p == FRAME)
            continue;
        if (*p == MEMOIZE)
            rc = memoize(u, after_text);
        else if (*p == BINGET || *p == LONG_BINGET)
            rc = get(u, number_at(p + 1, size - 1));
        else if (makes_text(*p))
            rc = add_text(u, p, size);
        else
            rc = buf_add(&u->out, p, size);
        after_text = makes_text(*p);
    }
    return rc;
}

static PyObject *unshared(PyObject *Py_UNUSED(module), PyObject *pickle)
{
    struct unshared u = { .out = BUF_INIT };
    PyObject *made = NULL;
    char *p;
    Py_ssize_t n;
    int rc;

    if (PyBytes_AsStringAndSize(pickle, &p, &n) < 0)
        return NULL;
    if (!(u.texts = PyDict_New()))
        return NULL;
    rc = write_all(&u, (const unsigned char *)p, (size_t)n);
    if (rc < 0)
        made = PyErr_Occurred() ? NULL : PyErr_NoMemory();
    else if (rc == 0)
        made = PyBytes_FromStringAndSize(u.out.p, (Py_ssize_t)u.out.n);
    else
        Py_INCREF(made = pickle);
    Py_DECREF(u.texts);
    free(u.memo);
    buf_release(&u.out);
    return made;
}

PyMethodDef unshared_methods[] = {
    { "unshared", unshared, METH_O,
      "unshared(pickle) -> bytes that are the same for equal texts whether these are one object or several. (No pickle any more.) A pickle "
      "of an unknown kind is returned as it is." },
    { NULL, NULL, 0, NULL },
};
