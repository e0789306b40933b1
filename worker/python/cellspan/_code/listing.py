# SPDX-License-Identifier: BSD-3-Clause
"""Which modules home finds in the user's own folders, and where. It reads folders and imports nothing, so any thread may ask.

The user's own folders are the entries of sys.path outside of Python's folders, site-packages and cellspan, and what the finders of
editable installs name (editables.py). A name counts if home would import it from there: what stands earlier on sys.path wins.
"""

from __future__ import annotations

import _imp
import contextlib
import functools
import importlib.machinery
import io
import os
import re
import sys
import sysconfig
import zipfile
from typing import NamedTuple

from .._base.modules import INSTALLED, names_of
from .._base.shadows import OURS

SUFFIXES = (*importlib.machinery.EXTENSION_SUFFIXES, *importlib.machinery.SOURCE_SUFFIXES, *importlib.machinery.BYTECODE_SUFFIXES)
INITS = tuple("__init__" + suffix for suffix in (".py", *(suffix for suffix in SUFFIXES if suffix != ".py")))
MODULE, PACKAGE, NAMESPACE = "module", "package", "namespace"
SKIPPED = frozenset(("__pycache__", "node_modules"))
ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")  # a folder with one of these is an environment of Python
NOT_IMPORTED = frozenset(("__init__", "__main__", "__mp_main__", "sitecustomize", "usercustomize"))  # each process has its own
MOST_NAMES = 20_000
MOST_BYTES = 512 << 10  # of the names as JSON
SCANNED = 64 << 10  # bytes at the beginning of an __init__.py that are looked through
JOINS = re.compile("extend_path|declare_namespace")  # functions that add all folders of a package's name to it


class Place(NamedTuple):
    """Where one name, or one part of a namespace package, is. path: a module's without suffix, a package's folder, or, if it is in a zip
    file, that file."""

    kind: str
    path: str
    root: str
    zipped: bool = False


class Listing:
    """places: {name: [Place, …]}; without any place, `unbuilt` says why. names, namespaces, redirects, incomplete: as in the part "code" of FOLLOW."""

    def __init__(self, places, redirects, unbuilt, rivals=frozenset()):
        """rivals: names that Python finds elsewhere, too."""
        self.places, self.unbuilt = places, unbuilt
        self._modules = -1  # how many of them add_imported() has seen
        self.metadata = {}  # {name: folders of what importlib.metadata reads}
        kept = _cut(places, rivals)
        self.incomplete = len(kept) < len(places)
        self.redirects = {name: path for name, path in redirects.items() if name.partition(".")[0] in kept}
        self.names = {name: self.roots(name) for name in kept if not self.is_namespace(name)}
        self.namespaces = {name: self.roots(name) for name in kept if self.is_namespace(name)}

    def add_imported(self, modules):
        """Adds what home has imported from a folder that is not on the search path any more. modules: sys.modules."""
        if len(modules) == self._modules:
            return
        self._modules = len(modules)
        for name, module in list(modules.items()):
            if "." not in name and name not in self.places and is_sendable(name):
                place = _place_of(name, names_of(module).get("__file__"))
                if place is not None:
                    self.places[name] = [place]
                    self.names[name] = [place.root]

    def roots(self, name):
        return list(dict.fromkeys(place.root for place in self.places[name]))

    def is_namespace(self, name):
        """Is it a package without __init__.py? Such a one comes after all else of its name."""
        return any(place.kind == NAMESPACE for place in self.places[name][:1])  # a package may have joined others to itself


def _place_of(name, file):
    """The Place of an imported module of the user's with this file, or None."""
    if not isinstance(file, str) or not os.path.isabs(file) or not os.path.isfile(file):
        return None
    folder, module = os.path.split(file)
    module = module_name(module)
    if module == "__init__":
        folder, module = os.path.split(folder)
    if module != name or is_foreign(folder) or not is_text(folder):
        return None
    path = os.path.join(folder, name)
    return Place(PACKAGE if os.path.isdir(path) and path == os.path.dirname(file) else MODULE, path, folder)


class Lister:
    """Keeps what it has read of folders until they change."""

    def __init__(self):
        self._read = {}  # {folder or archive: (its identity, {name: kind})}

    def listing(self, entries, redirected=None):
        """The Listing for these entries of sys.path. redirected: an editables.Redirected."""
        places, namespaces, taken, folders, rivals = {}, {}, set(), {}, set()
        if redirected is not None:
            _put_first(redirected.first, places, taken)
        for entry in absolute(entries):
            found = self.names_in(entry)
            if is_foreign(entry):
                taken.update(name for name, kind in found.items() if kind != NAMESPACE)
                rivals.update(found)
                continue
            for name, kind in found.items():
                place = self._place(entry, name, kind) if is_sendable(name) else None
                if place is not None and kind != MODULE:
                    folders.setdefault(name, []).append(place)
                if place is None or name in taken:
                    continue
                if kind == NAMESPACE:
                    namespaces.setdefault(name, []).append(place)
                else:
                    taken.add(name)
                    places[name] = [place]
        for name in [name for name, own in folders.items() if len(own) > 1 and name in places and _joins_folders(places[name][0])]:
            places[name] += [place for place in folders[name] if place.path != places[name][0].path]
        if redirected is not None:
            _put_first(redirected.last, places, taken)
            for name, found in redirected.portions.items():
                namespaces.setdefault(name, []).extend(place for place in found if place not in namespaces.get(name, ()))
        places.update({name: found for name, found in namespaces.items() if name not in taken})
        if redirected is None:
            return Listing(places, {}, {}, rivals)
        unbuilt = {name: why for name, why in redirected.unbuilt.items() if name not in places and is_sendable(name)}
        return Listing({**places, **dict.fromkeys(unbuilt, ())}, redirected.redirects_of(places), unbuilt, rivals)

    def folders(self, entries):
        """The user's own folders of these entries, and the folders in them that may become packages."""
        found = []
        for entry in absolute(entries):
            if not is_foreign(entry) and os.path.isdir(entry):
                found.append(entry)
                found += [os.path.join(entry, name) for name, kind in self.names_in(entry).items() if kind == NAMESPACE]
        return found

    def _place(self, entry, name, kind):
        archive = archive_of(entry)
        return Place(kind, archive or os.path.join(entry, name), entry, bool(archive))

    def names_in(self, entry):
        """{name: kind} of what Python finds in an entry of sys.path."""
        archive = archive_of(entry)
        try:
            now = os.stat(archive or entry)
            own = now.st_mtime_ns, now.st_ino, now.st_size
            old = self._read.get(entry)
            if old is None or old[0] != own:
                old = own, (_in_archive(archive, entry) if archive else _in_folder(entry))
                self._read[entry] = old
            elif not archive and not is_foreign(entry):
                _note_inits(entry, old[1])
            return old[1]
        except OSError:
            self._read.pop(entry, None)
            return {}


def absolute(entries):
    """Entries of sys.path as absolute paths; "" is the current folder. Without those whose names are not UTF-8."""
    found = []
    for entry in entries:
        if isinstance(entry, str):
            try:
                found.append(os.path.abspath(entry))
            except OSError:  # the current folder was deleted
                pass
    return [entry for entry in dict.fromkeys(found) if is_text(entry)]


def is_text(path):
    """Is it UTF-8? A path of other bytes can't be a name on a machine with another coding."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_foreign(path):
    """Is this an entry with Python's own modules, with installed ones or with cellspan?"""
    if is_installed(path) or path.startswith(_pythons()):
        return True
    return os.path.join(path, "").startswith(_pythons()) or os.path.basename(path) == "python%d%d.zip" % sys.version_info[:2]


def is_installed(path):
    """Is it in a folder for what is installed?"""
    return not INSTALLED.isdisjoint(path.split(os.sep))


def _pythons():
    global _folders
    if _folders is None:
        paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        paths.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        _folders = tuple(os.path.join(path, "") for path in paths if path)
    return _folders


_folders = None


def is_sendable(name):
    """Can a rank import it from home? What cellspan needs itself, and what Python finds before it looks at sys.path, it can't."""
    return name not in NOT_IMPORTED and name not in OURS and name not in sys.builtin_module_names and not _imp.is_frozen(name)


def is_environment(folder):
    """Is it a virtual environment, or one of conda?"""
    return any(os.path.exists(os.path.join(folder, name)) for name in ENVIRONMENTS)


def has_init(folder):
    return any(os.path.isfile(os.path.join(folder, name)) for name in INITS)


def module_name(file):
    """The name of the module that a file of this name is; "": it is none."""
    for suffix in SUFFIXES:
        if file.endswith(suffix):
            return file[: -len(suffix)]
    return ""


def _in_folder(folder):
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if "." in name:
                module = module_name(name)
                if module and "." not in module and found.get(module) != PACKAGE and entry.is_file():
                    found[module] = MODULE  # which may be no identifier: importlib.import_module("01_load") finds it
            elif name not in SKIPPED and entry.is_dir():
                kind = _kind(entry.path)
                if kind == PACKAGE or (kind == NAMESPACE and name.isidentifier() and name not in found):
                    found[name] = kind
    return found


def _kind(folder):
    return PACKAGE if has_init(folder) else "" if is_environment(folder) else NAMESPACE


def _note_inits(folder, found):
    """Folders without __init__.py may have got one, which does not change the folder around them."""
    for name, kind in found.items():
        if kind == NAMESPACE and os.path.isfile(os.path.join(folder, name, "__init__.py")):
            found[name] = PACKAGE


def archive_of(entry):
    """The file of an entry that is a zip file or a folder in one; "": it is neither."""
    path = entry
    while path and not os.path.isdir(path):
        if os.path.isfile(path):
            return path
        path, _, last = path.rpartition(os.sep)
        if not last:
            break
    return ""


def _in_archive(archive, entry):
    found, inner = {}, entry[len(archive) :].strip(os.sep)
    try:
        with zipfile.ZipFile(archive) as file:
            paths = file.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return found
    start = inner.replace(os.sep, "/") + "/" if inner else ""
    for path in paths:
        if not path.startswith(start):
            continue
        name, below, rest = path[len(start) :].partition("/")
        module = name if below else module_name(name)
        if not module.isidentifier():
            continue
        kind = MODULE if not below else PACKAGE if rest in INITS else NAMESPACE
        if kind == PACKAGE or module not in found or (kind == MODULE and found[module] == NAMESPACE):
            found[module] = kind
    return found


def _put_first(wanted, places, taken):
    for name, place in wanted.items():
        if name not in taken and is_sendable(name):
            taken.add(name)
            places[name] = [place]


def _joins_folders(place):
    """Is it a package that adds all folders of its name to its own? Python had this before it had folders without __init__.py."""
    if place.kind != PACKAGE or place.zipped:
        return False
    try:
        with open(os.path.join(place.path, "__init__.py"), "rb") as file:
            text = file.read(SCANNED)
    except OSError:
        return False
    return _calls_a_join(text)


@functools.lru_cache(maxsize=64)
def _calls_a_join(text):
    """Is such a function called, under its name or another one? What strings and comments say does not count. As far as it can be read, since
    it may be the beginning of a file."""
    if not JOINS.search(text.decode("latin-1")):
        return False
    import tokenize

    names, before, last = set(), "", ""
    with contextlib.suppress(tokenize.TokenError, SyntaxError, ValueError):
        for token in tokenize.tokenize(io.BytesIO(text).readline):
            if token.string == "(" and before != "def" and (last in names or JOINS.fullmatch(last)):
                return True
            if last == "as" and JOINS.fullmatch(before):
                names.add(token.string)
            before, last = last, token.string
    return False


def _cut(places, rivals):
    """As many of these names as FOLLOW may have: first those that Python would find elsewhere without it."""
    size, kept = 0, []
    for name, own in sorted(places.items(), key=lambda row: row[0] not in rivals):
        size += len(name) + sum(len(place.root) + 4 for place in own) + 8
        if len(kept) >= MOST_NAMES or size > MOST_BYTES:
            break
        kept.append(name)
    return kept
