/* SPDX-License-Identifier: BSD-3-Clause */
/* library_imports.c - hold_imports() and let_import() of cellspan._link (declared in private.h).
 *
 * A library whose import is broken off stays half imported: its modules that were done are not run
 * again. So two functions of Python's import are replaced that run only for modules which are not
 * in sys.modules: _find_and_load, where an import begins and ends, and _load_unlocked, which knows
 * where the module comes from. From the first module of a library until the end of the import
 * statement (or call) that wanted it, the link holds an interrupt. */
#include "worker/ext/link.h"
#include "worker/ext/private.h"

/* Of the innermost _find_and_load. It calls itself for the packages that a module is in. */
struct import_level {
    unsigned loads;  /* as `loads` was when it began */
    unsigned wanted; /* the depth of what is not such a call: code wanted that import */
};

/* All of it is the main thread's. */
static struct {
    PyObject *find, *load; /* Python's own functions */
    PyObject *folders;     /* a tuple: paths of libraries begin with one of these */
    struct worker_link *link;
    struct import_level level;
    unsigned depth;   /* how many _find_and_load are in each other */
    unsigned loads;   /* how many _load_unlocked are */
    unsigned held_at; /* the depth of the _find_and_load at whose end the hold ends; 0: none */
} imports;

static const char *const installed[] = { "/site-packages/", "/dist-packages/" };

/* 1: it is, 0: it is not, -1: a Python exception. */
static int has(PyObject *path, const char *part)
{
    PyObject *text = PyUnicode_FromString(part);
    const int found = text ? PyUnicode_Contains(path, text) : -1;

    Py_XDECREF(text);
    return found;
}

static int is_path_of_library(PyObject *path)
{
    int is = 0;

    for (Py_ssize_t i = 0; is == 0 && i < PyTuple_Size(imports.folders); i++)
        is = (int)PyUnicode_Tailmatch(path, PyTuple_GetItem(imports.folders, i), 0, PY_SSIZE_T_MAX,
                                      -1);
    for (size_t i = 0; is == 0 && i < sizeof installed / sizeof *installed; i++)
        is = has(path, installed[i]);
    return is;
}

static bool is_library(PyObject *args)
{
    PyObject *spec = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;
    PyObject *origin = spec ? PyObject_GetAttrString(spec, "origin") : NULL;
    int is = origin && PyUnicode_Check(origin) ? is_path_of_library(origin) : 0;

    Py_XDECREF(origin);
    if (!spec || !origin || is < 0)
        PyErr_Clear();
    return is > 0;
}

/* Python counts the calls of the functions here, too: without them, imports may be as deep in each
 * other as they are in Python. */
static PyObject *call_own(PyObject *own, PyObject *args, PyObject *named)
{
    PyObject *out;

    Py_LeaveRecursiveCall();
    out = PyObject_Call(own, args, named);
    if (Py_EnterRecursiveCall(""))
        Py_CLEAR(out);
    return out;
}

/* Until the outermost import of a library has ended. An interrupt that was sent before ends it
 * before its first module runs: -1. */
static int hold(PyObject *args)
{
    if (imports.held_at || !imports.depth || !is_library(args))
        return 0;
    imports.held_at = imports.level.wanted;
    link_import(imports.link, true);
    return PyErr_CheckSignals();
}

/* The interrupt is raised where the import stands. If the import has failed by itself, the
 * interrupt comes where that error is handled. */
static PyObject *let(PyObject *out)
{
    imports.held_at = 0;
    link_import(imports.link, false);
    if (out && PyErr_CheckSignals() < 0)
        Py_CLEAR(out);
    return out;
}

static PyObject *load_unlocked(PyObject *Py_UNUSED(module), PyObject *args, PyObject *named)
{
    PyObject *out;

    if (!link_is_main(imports.link))
        return call_own(imports.load, args, named);
    if (hold(args) < 0)
        return NULL;
    imports.loads++;
    out = call_own(imports.load, args, named);
    imports.loads--;
    return out;
}

static PyObject *find_and_load(PyObject *Py_UNUSED(module), PyObject *args, PyObject *named)
{
    const struct import_level outer = imports.level;
    PyObject *out;

    if (!link_is_main(imports.link))
        return call_own(imports.find, args, named);
    if (imports.depth++ == 0 || imports.loads > outer.loads)
        imports.level.wanted = imports.depth;
    imports.level.loads = imports.loads;
    out = call_own(imports.find, args, named);
    imports.level = outer;
    return imports.held_at >= imports.depth-- ? let(out) : out;
}

#define REPLACE(name)                                                                              \
    { "_" #name, (PyCFunction)(void (*)(void))name, METH_VARARGS | METH_KEYWORDS, NULL }
static PyMethodDef replaced[] = { REPLACE(find_and_load), REPLACE(load_unlocked) };

/* Python's own function, whose place `def` takes. NULL without an exception: it has none. */
static PyObject *replace(PyObject *module, PyMethodDef *def)
{
    PyObject *own = PyObject_GetAttrString(module, def->ml_name), *name = NULL, *ours = NULL;

    if (!own) {
        PyErr_Clear();
        return NULL;
    }
    if ((name = PyObject_GetAttrString(own, "__module__")))
        ours = PyCFunction_NewEx(def, NULL, name);
    if (!ours || PyObject_SetAttrString(module, def->ml_name, ours) < 0)
        Py_CLEAR(own);
    Py_XDECREF(name);
    Py_XDECREF(ours);
    return own;
}

static PyObject *hold_imports(PyObject *module, PyObject *folders)
{
    PyObject *bootstrap = NULL;

    if (!PyTuple_Check(folders)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of folders");
        return NULL;
    }
    if (imports.folders || !(bootstrap = PyImport_ImportModule("_frozen_importlib")))
        goto out;
    Py_INCREF(folders);
    imports.folders = folders;
    imports.link = own_link(module);
    /* In this order: before there is _find_and_load, _load_unlocked holds nothing. */
    if ((imports.load = replace(bootstrap, &replaced[1])))
        imports.find = replace(bootstrap, &replaced[0]);
out:
    Py_XDECREF(bootstrap);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *let_import(PyObject *module, PyObject *Py_UNUSED(none))
{
    link_import(own_link(module), false);
    Py_RETURN_NONE;
}

PyMethodDef import_methods[] = {
    { "hold_imports", hold_imports, METH_O,
      "hold_imports(folders): from now on an interrupt waits while a module of a library is imported on the main thread, and is raised where the "
      "import stands: of what is in site-packages, or has a path that begins as one of `folders`." },
    { "let_import", let_import, METH_NOARGS,
      "let_import(): from now on an interrupt does not wait for the import that runs." },
    { NULL, NULL, 0, NULL },
};
