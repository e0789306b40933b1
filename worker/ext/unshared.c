/* unshared.c - writes a pickle so that it does not depend on which equal texts are one object
 * (declared in parts.h). Python interns the names in code, so after code was loaded again, other
 * texts are shared than before. */
#include "worker/ext/parts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 256u /* bytes; longer texts stay references: few are interned */

/* The opcodes of pickle that matter here; see Lib/pickletools.py of CPython. */
enum {
    FRAME = 0x95,
    MEMOIZE = 0x94,
    BINGET = 'h',
    LONG_BINGET = 'j',
    SHORT_BINUNICODE = 0x8c,
    BINUNICODE = 'X',
    SHORT_BINBYTES = 'C',
    BINBYTES = 'B'
};

/* What the memo has under a number. */
struct memo {
    const unsigned char *text; /* the whole operation, if it is a short text; else NULL */
    size_t size;               /* of it */
    uint32_t number;           /* else: among those that are no short texts */
};

struct unshared {
    struct memo *memo; /* owned, n of them */
    size_t n, room;
    uint32_t others;
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

static bool is_short_text(const unsigned char *p, size_t size)
{
    return (*p == SHORT_BINUNICODE || *p == BINUNICODE || *p == SHORT_BINBYTES || *p == BINBYTES) &&
           size <= TEXT_MAX;
}

static int memoize(struct unshared *u, const unsigned char *before, size_t size)
{
    const bool text = size && is_short_text(before, size);

    if (u->n == u->room) {
        const size_t room = u->room ? 2 * u->room : 256;
        struct memo *more = realloc(u->memo, room * sizeof *more);

        if (!more)
            return -1;
        u->memo = more;
        u->room = room;
    }
    u->memo[u->n++] = (struct memo){ text ? before : NULL, text ? size : 0,
                                     text ? 0 : u->others++ };
    return text ? 0 : buf_add(&u->out, "\x94", 1);
}

/* -1: memory is out; 1: there is no such number. */
static int get(struct unshared *u, uint64_t number)
{
    const struct memo *m;
    unsigned char op[5] = { LONG_BINGET };

    if (number >= u->n)
        return 1;
    m = &u->memo[number];
    if (m->text)
        return buf_add(&u->out, m->text, m->size);
    for (size_t i = 0; i < 4; i++)
        op[1 + i] = (unsigned char)(m->number >> (8 * i));
    return buf_add(&u->out, op, sizeof op);
}

/* -1: memory is out; 1: the pickle has what is not known here. */
static int write_all(struct unshared *u, const unsigned char *p, size_t left)
{
    const unsigned char *before = p; /* the operation before this one; frames are none */
    size_t before_size = 0, size;
    int rc = 0;

    for (; rc == 0 && left; p += size, left -= size) {
        if ((size = size_at(p, left)) == 0)
            return 1;
        if (*p == FRAME)
            continue;
        if (*p == MEMOIZE)
            rc = memoize(u, before, before_size);
        else if (*p == BINGET || *p == LONG_BINGET)
            rc = get(u, number_at(p + 1, size - 1));
        else
            rc = buf_add(&u->out, p, size);
        before = p;
        before_size = size;
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
    rc = write_all(&u, (const unsigned char *)p, (size_t)n);
    if (rc < 0)
        made = PyErr_NoMemory();
    else if (rc == 0)
        made = PyBytes_FromStringAndSize(u.out.p, (Py_ssize_t)u.out.n);
    else
        Py_INCREF(made = pickle);
    free(u.memo);
    buf_release(&u.out);
    return made;
}

PyMethodDef unshared_methods[] = {
    { "unshared", unshared, METH_O,
      "unshared(pickle) -> bytes, in which each short text is written wherever it stands, in place of a reference. A pickle of an unknown "
      "kind is returned as it is." },
    { NULL, NULL, 0, NULL },
};
