# SPDX-License-Identifier: BSD-3-Clause
"""Which tests use torch: those in whose text it stands, or in that of a function, fixture or text of the same file that they name.

Kernels import torch beforehand, where it is installed, and so does each of their machines: that takes a processor a second or two.
Those of tests that never use it don't. Tests of what starts with every rank, with torch imported, have the word in their text.

A rank's first optimizer or DistributedDataParallel imports torch._dynamo: that takes a processor more than a second, on each rank.
The kernel that tests of a file share does that once where the file has BEFOREHAND = "torch._dynamo".
"""

from __future__ import annotations

import inspect
import pathlib
import re
import types

WORD = re.compile("torch(?!run)")  # a launcher that is named in a text is not used


def mentions(function, seen=None):
    """Whether the word is in the function's text, or in what the function names of its file's."""
    seen = set() if seen is None else seen
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType) or function in seen:
        return False
    seen.add(function)
    if WORD.search(inspect.getsource(function)):
        return True
    values = [function.__globals__.get(name) for name in names(function.__code__)]
    return any(mentions(value, seen) if callable(value) else WORD.search(repr(value)) for value in values if not inspect.ismodule(value))


def names(code):
    found = set(code.co_names)
    for const in code.co_consts:
        if inspect.iscode(const):
            found |= names(const)
    return found


def file_uses_torch(request):
    return bool(WORD.search(pathlib.Path(request.path).read_text(encoding="utf-8")))


def uses_torch(request):
    """The test of a fixture's request."""
    if not file_uses_torch(request):
        return False
    item = request.node
    fixtures = [definition.func for name in item.fixturenames for definition in item._fixtureinfo.name2fixturedefs.get(name, ())
                if definition.func.__module__ == item.module.__name__]
    given = item.callspec.params if hasattr(item, "callspec") else ""
    return bool(WORD.search("%s %s" % (item.fixturenames, given))) or any(map(mentions, [item.function, *fixtures]))


def beforehand(patch, torch, modules=""):
    """What kernels that are started from now on import: torch or not, and these modules."""
    named = ",".join(filter(None, ["" if torch else "-torch", modules]))
    if named:
        patch.setenv("CELLSPAN_PRELOAD", named)
    else:
        patch.delenv("CELLSPAN_PRELOAD", raising=False)
