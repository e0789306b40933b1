/* SPDX-License-Identifier: BSD-3-Clause */
/* magics.c - the tables of the magics as Python values, so that Python has no list of its own. */
#include "worker/ext/python.h"

#include "magics/option.h"
#include "worker/ext/private.h"

/* Appends what `item` is, or fails if that is NULL. Takes item. */
static int add(PyObject *list, PyObject *item)
{
    const int rc = item ? PyList_Append(list, item) : -1;

    Py_XDECREF(item);
    return rc;
}

static PyObject *words(const char *const *word)
{
    PyObject *list = PyList_New(0);

    for (; list && word && *word; word++)
        if (add(list, PyUnicode_FromString(*word)) < 0)
            Py_CLEAR(list);
    return list;
}

static bool is_name(const struct option *o)
{
    return o->kind == OPTION_NAME || o->kind == OPTION_NAMES;
}

static PyObject *option(const struct magic *m, const struct option *o)
{
    return Py_BuildValue("{s:s, s:s, s:s, s:N, s:O, s:O, s:O}", "name", o->name, "argument",
                         o->argument, "value", o->value, "words", words(o->words), "is_name",
                         is_name(o) ? Py_True : Py_False, "cell",
                         m->cell && option_fits(o, true) ? Py_True : Py_False, "line",
                         option_fits(o, false) ? Py_True : Py_False);
}

static PyObject *options(const struct magic *m)
{
    PyObject *list = PyList_New(0);

    for (const struct option *o = m->options; list && !option_is_last(o); o++)
        if (o->name && o->kind != OPTION_HELP && add(list, option(m, o)) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *magics(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    static const char *const names[] = { "", "home", "ranks" }; /* enum names, in its order */
    PyObject *list = PyList_New(0);
    const struct magic *m;

    for (size_t i = 0; list && (m = magic_get(i)); i++)
        if (add(list, Py_BuildValue("{s:s, s:O, s:s, s:N}", "name", m->name, "cell",
                                    m->cell ? Py_True : Py_False, "names", names[m->names],
                                    "options", options(m))) < 0)
            Py_CLEAR(list);
    return list;
}

PyMethodDef magics_methods[] = {
    { "magics", magics, METH_NOARGS,
      "magics() -> the kernel's magics: {name, cell: is there a %%name?, names: whose variables its words name, \"home\", \"ranks\" or "
      "\"\", options: [{name, argument: its name in Python or None, value: what it takes or None, words, is_name: is that a variable's name?, "
      "cell: fits %%, line: fits %}]}." },
    { NULL, NULL, 0, NULL },
};
