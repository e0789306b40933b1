# SPDX-License-Identifier: BSD-3-Clause
"""Files of the notebook's folder that have the name of another module, such as ctypes.py.

The folder comes first on the search path, as in Python. But where cellspan itself needs a module, a file there must not take its place:
foreign code would run, or cells would fail. For these modules the folder is passed over.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
import sys

from .errors import text_of
from .modules import names_of

# Modules of Python and of others that cellspan imports, often not before they are needed
OURS = frozenset(
    "IPython _imp _signal _thread ast asyncio atexit base64 bisect builtins cloudpickle codecs codeop collections comm concurrent contextlib "
    "contextvars copy copyreg ctypes dataclasses datetime difflib dis enum errno faulthandler fcntl fnmatch functools gc getpass glob hashlib "
    "importlib inspect io itertools json linecache logging math mmap multiprocessing numbers operator os pathlib pickle pickletools pkgutil "
    "platform pprint queue random re resource runpy secrets select selectors shlex shutil signal site socket stat string struct subprocess sys "
    "sysconfig tempfile threading time tokenize traceback traitlets types typing urllib uuid warnings weakref zipfile zlib cellspan".split()
)
NAMED = (
    r"module '(\w+)[\w.]*' has no attribute",
    r"cannot import name '\w+' from (?:partially initialized module )?'(\w+)",
    r"No module named '[\w.]+'; '(\w+)' is not a package",
)

_folders = []


def watch(folder):
    """The folder ("": the current one) is on the search path from now on."""
    _folders.append(folder)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _places():
    """The absolute paths of the folders."""
    found = []
    for folder in _folders:
        try:
            found.append(os.path.realpath(folder or os.getcwd()))
        except OSError:  # it was deleted
            pass
    return found


def hiding(name):
    """The file of the notebook's folder that has the module's name; None: there is none."""
    for place in _places():
        for end in (name + ".py", os.path.join(name, "__init__.py")):
            path = os.path.join(place, end)
            if os.path.isfile(path):
                return path
    return None


def _elsewhere(name):
    """The spec of the module without these folders, or None."""
    if name in sys.builtin_module_names:
        return importlib.machinery.BuiltinImporter.find_spec(name)
    places = _places()
    return importlib.machinery.PathFinder.find_spec(name, [p for p in sys.path if p and os.path.realpath(p) not in places])


class _Finder:
    """An entry of sys.meta_path."""

    def find_spec(self, name, path=None, target=None):
        return _elsewhere(name) if path is None and name in OURS and hiding(name) else None


_finder = _Finder()


def hints(error):
    """A line below an error that a file with the name of another module has caused, as a list."""
    if not isinstance(error, (ImportError, AttributeError)):
        return []
    text = text_of(error)
    for name in [found.group(1) for found in (re.search(pattern, text) for pattern in NAMED) if found]:
        path = hiding(name)
        loaded = names_of(sys.modules.get(name)).get("__file__") or ""
        if path is None or name not in sys.modules:
            continue
        if os.path.realpath(loaded) != os.path.realpath(path):
            return [f"{path} is not imported: another module {name} is loaded already. Rename the file to import it"]
        if _elsewhere(name) is not None:
            return [f"{path} hides another module {name}, which others import: rename the file, and restart the kernel"]
    return []
