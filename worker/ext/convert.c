/* SPDX-License-Identifier: BSD-3-Clause */
/* convert.c - converts cellspan's messages to and from Python dicts (declared in private.h). */
#include "worker/ext/private.h"

#include <stdlib.h>
#include <string.h>

/* Owns what the message borrows, until it is encoded. */
struct held {
    PyObject *object[SPAN_FIELDS_MAX];
    struct slice *item[SPAN_FIELDS_MAX];
};

static void held_release(struct held *h)
{
    for (unsigned i = 0; i < SPAN_FIELDS_MAX; i++) {
        Py_XDECREF(h->object[i]);
        free(h->item[i]);
    }
}

/* Converts a str, bytes, or anything that bytes() accepts to a bytes object; a new reference. */
static PyObject *as_bytes(PyObject *v)
{
    PyObject *text;

    if (!PyUnicode_Check(v)) {
        if (PyLong_Check(v)) {
            PyErr_SetString(PyExc_TypeError, "a text was expected, not a number");
            return NULL;
        }
        return PyBytes_FromObject(v);
    }
    text = PyUnicode_AsUTF8String(v);
    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        text = PyUnicode_AsEncodedString(v, "utf-8", "replace");
    }
    return text;
}

static int borrow_bytes(PyObject *bytes, struct slice *out)
{
    char *p;
    Py_ssize_t n;

    if (PyBytes_AsStringAndSize(bytes, &p, &n) < 0)
        return -1;
    *out = slice_of(p, (size_t)n);
    return 0;
}

/* Converts a sequence of bytes-likes. *keep: a list of bytes objects; the slices borrow from it. */
static int list_items(PyObject *v, PyObject **keep, struct slice **item, struct span_list *out)
{
    const Py_ssize_t n = PySequence_Size(v);

    if (n < 0 || !(*keep = PyList_New(n)))
        return -1;
    if (n > 0 && !(*item = calloc((size_t)n, sizeof **item))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *one = PySequence_GetItem(v, i);
        PyObject *bytes = one ? as_bytes(one) : NULL;

        Py_XDECREF(one);
        if (!bytes || borrow_bytes(bytes, &(*item)[i]) < 0) {
            Py_XDECREF(bytes);
            return -1;
        }
        PyList_SetItem(*keep, i, bytes); /* takes bytes */
    }
    *out = (struct span_list){ *item, (size_t)n };
    return 0;
}

static int field_from(PyObject *v, const struct span_field *f, unsigned i, struct held *h,
                      union span_value *out)
{
    switch (f->type) {
    case SPAN_U64:
        out->u64 = PyLong_AsUnsignedLongLong(v);
        return PyErr_Occurred() ? -1 : 0;
    case SPAN_LIST:
        return list_items(v, &h->object[i], &h->item[i], &out->list);
    case SPAN_STR:
    case SPAN_BYTES:
        if (!(h->object[i] = as_bytes(v)))
            return -1;
        return borrow_bytes(h->object[i], &out->s);
    }
    return -1;
}

static int fields_from(PyObject *fields, const struct span_info *info, struct held *h,
                       struct span *m)
{
    for (unsigned i = 0; i < info->n; i++) {
        /* borrowed */
        PyObject *v = fields ? PyDict_GetItemString(fields, info->field[i].name) : NULL;

        if (!v || v == Py_None) {
            if (info->field[i].type == SPAN_STR || info->field[i].type == SPAN_BYTES)
                m->v[i].s = slice_text("");
            continue;
        }
        if (field_from(v, &info->field[i], i, h, &m->v[i]) < 0)
            return -1;
    }
    return 0;
}

int convert_encode(const char *kind, struct span *head, PyObject *fields, struct buf *out)
{
    const struct span_info *info = span_info_named(kind);
    struct held held = { { NULL }, { NULL } };
    struct err err = { "" };
    int rc;

    if (!info) {
        PyErr_Format(PyExc_ValueError, "there is no message of kind %s", kind);
        return -1;
    }
    head->kind = info->kind;
    memset(head->v, 0, sizeof head->v);
    rc = fields_from(fields, info, &held, head);
    if (rc == 0 && (rc = span_encode(head, out, &err)) < 0)
        PyErr_SetString(PyExc_ValueError, err.text);
    held_release(&held);
    return rc;
}

PyObject *list_of(size_t n, PyObject *(*one)(const void *rows, size_t i), const void *rows)
{
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = one(rows, i);

        if (item)
            PyList_SetItem(list, (Py_ssize_t)i, item); /* takes it */
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *bytes_to(const void *items, size_t i)
{
    const struct slice item = ((const struct slice *)items)[i];

    return PyBytes_FromStringAndSize(item.p, (Py_ssize_t)item.n);
}

static PyObject *field_to(const struct span_field *f, const union span_value *v)
{
    switch (f->type) {
    case SPAN_U64:
        return PyLong_FromUnsignedLongLong(v->u64);
    case SPAN_STR:
        return PyUnicode_DecodeUTF8(v->s.p, (Py_ssize_t)v->s.n, "replace");
    case SPAN_BYTES:
        return PyBytes_FromStringAndSize(v->s.p, (Py_ssize_t)v->s.n);
    case SPAN_LIST:
        return list_of(v->list.n, bytes_to, v->list.item);
    }
    Py_RETURN_NONE;
}

static PyObject *fields_to(const struct span *m)
{
    const struct span_info *info = span_info(m->kind);
    PyObject *out = PyDict_New();

    for (unsigned i = 0; out && info && i < info->n; i++) {
        PyObject *v = field_to(&info->field[i], &m->v[i]);

        if (!v || PyDict_SetItemString(out, info->field[i].name, v) < 0)
            Py_CLEAR(out);
        Py_XDECREF(v);
    }
    return out;
}

PyObject *convert_packet(struct packet *p)
{
    struct span m;
    struct err err = { "" };
    PyObject *fields, *out = NULL;

    if (span_decode(&m, p->p, p->n, &err) < 0) {
        PyErr_SetString(PyExc_ValueError, err.text);
        return NULL;
    }
    if ((fields = fields_to(&m)))
        out = Py_BuildValue("sKIKiKN", span_info(m.kind)->name, (unsigned long long)m.cell,
                            (unsigned)m.worker, (unsigned long long)m.blob, p->blob_fd,
                            (unsigned long long)m.blob_size, fields);
    if (out)
        (void)packet_take_blob(p);
    span_release(&m);
    return out;
}

/* ---- what Python calls ---- */

static PyObject *encode(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *const names[] = { "kind", "cell", "fields", "worker", "blob", "size", NULL };
    struct buf out = BUF_INIT;
    struct span head;
    PyObject *fields = NULL, *bytes;
    const char *kind;
    unsigned long long cell = 0, blob = 0, size = 0;
    unsigned worker = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|KO!IKK", (char **)names, &kind, &cell,
                                     &PyDict_Type, &fields, &worker, &blob, &size))
        return NULL;
    head = (struct span){ .worker = worker, .cell = cell, .blob = blob, .blob_size = size };
    bytes = convert_encode(kind, &head, fields, &out) < 0
                ? NULL
                : PyBytes_FromStringAndSize(out.p, (Py_ssize_t)out.n);
    buf_release(&out);
    return bytes;
}

static PyObject *decode(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct packet p = PACKET_INIT;
    PyObject *bytes;
    char *at;
    Py_ssize_t n;

    if (!PyArg_ParseTuple(args, "S", &bytes) || PyBytes_AsStringAndSize(bytes, &at, &n) < 0)
        return NULL;
    p.p = at; /* borrowed, so don't release p */
    p.n = (size_t)n;
    return convert_packet(&p);
}

static PyObject *call_kinds(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *names = PyList_New(0);

    for (unsigned kind = 0; names && kind <= UINT8_MAX; kind++) {
        const struct span_info *info = span_info(kind);
        PyObject *name;

        if (!info || info->thread != SPAN_THREAD_CALLING)
            continue;
        name = PyUnicode_FromString(info->name);
        if (!name || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

PyMethodDef convert_methods[] = {
    { "encode", (PyCFunction)(void (*)(void))encode, METH_VARARGS | METH_KEYWORDS,
      "encode(kind, cell=0, fields={}, worker=0, blob=0, size=0) -> the message's bytes." },
    { "decode", decode, METH_VARARGS, "decode(bytes) -> what recv() gives, without a descriptor." },
    { "call_kinds", call_kinds, METH_NOARGS,
      "call_kinds() -> the kinds of messages that home serves while a call waits for its end." },
    { NULL, NULL, 0, NULL },
};
