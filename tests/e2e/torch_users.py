# SPDX-License-Identifier: BSD-3-Clause
"""Which tests use torch or numpy: those in whose text it stands, or in that of a function, fixture or text of the same file that they
name. Who uses a package that imports numpy uses numpy.

Kernels import torch beforehand, where it is installed, and so does each of their machines: that takes a processor a second or two. numpy
takes a quarter of a second, on ranks and at home together. Those of tests that never use them don't. Tests of what starts with every
rank, with torch imported, have the word in their text. The mark `only_names` is for those that have the word and use nothing.

A rank's first optimizer or DistributedDataParallel imports torch._dynamo: that takes a processor more than a second, on each rank.
The kernel that tests of a file share does that once where the file has BEFOREHAND = "torch._dynamo".
"""

from __future__ import annotations

import inspect
import pathlib
import re
import types

TORCH = r"(?<!cellspan\.)(?<!-)\btorch\b"  # not torchrun, nor a test's name that has the word; cellspan.torch imports no torch, nor does -torch
WORDS = {"torch": re.compile(TORCH), "numpy": re.compile(
    TORCH + r"|(?<!-)numpy|\bnp\b|cupy|horovod|jax|lightning|matplotlib|pandas|plotly|plt|scipy|sklearn|tensorflow")}


def mentions(function, word, seen=None):
    """Whether the word is in the function's text, or in what the function names of its file's."""
    seen = set() if seen is None else seen
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType) or function in seen:
        return False
    seen.add(function)
    if word.search(inspect.getsource(function)):
        return True
    values = [function.__globals__.get(name) for name in names(function.__code__)]
    return any(mentions(value, word, seen) if callable(value) else word.search(repr(value)) for value in values if not inspect.ismodule(value))


def names(code):
    found = set(code.co_names)
    for const in code.co_consts:
        if inspect.iscode(const):
            found |= names(const)
    return found


def used_by_text(text):
    """The packages of WORDS whose words stand in it."""
    return {package for package, word in WORDS.items() if word.search(text)}


def used_by_file(path):
    """Those that tests of a file use."""
    return used_by_text(pathlib.Path(path).read_text(encoding="utf-8"))


def used_by_sharing(request):
    """Those that the tests use that share the kernel of the fixture's file."""
    return set().union(*(used_by_test(item) for item in request.session.items
                         if item.path == request.path and request.fixturename in item.fixturenames))


def used_by_test(item):
    """Those that a test uses."""
    if item.get_closest_marker("only_names"):
        return set()
    fixtures = [definition.func for name in item.fixturenames for definition in item._fixtureinfo.name2fixturedefs.get(name, ())
                if definition.func.__module__ == item.module.__name__]
    given = item.callspec.params if hasattr(item, "callspec") else ""
    text = "%s %s" % (item.fixturenames, given)
    return {package for package in used_by_file(item.path)
            if WORDS[package].search(text) or any(mentions(function, WORDS[package]) for function in (item.function, *fixtures))}


def beforehand(patch, used, modules=""):
    """What kernels that are started from now on import: of the packages of WORDS those that are used, and these modules."""
    named = ",".join(filter(None, [*("-" + package for package in WORDS if package not in used), modules]))
    if named:
        patch.setenv("CELLSPAN_PRELOAD", named)
    else:
        patch.delenv("CELLSPAN_PRELOAD", raising=False)
