# SPDX-License-Identifier: BSD-3-Clause
"""Finders of the notebook's modules in a process on another machine. First stands before Python's own finder of files: home's project comes
before what this machine has of the same name. Last stands at the end, for what only a folder without __init__.py can be, and for
names that home could not list.

Home's code keeps home's paths: a loader gives them to the code of each module, so tracebacks, warnings, logging and the debugger show
the files that the user has. A module's __file__ is where its file is on this machine.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from importlib import machinery

from .entries import Unavailable, key_of

METADATA = (".dist-info/METADATA", ".egg-info/PKG-INFO")


class Project:
    """What home said about its project's names. bring(name, roots, digest, home): brings their files here; see tree.py."""

    def __init__(self, root, bring):
        """root: the tree's folder."""
        self.root = root
        self.on = False
        self.names, self.late, self.digests, self.at, self.more = {}, {}, {}, {}, False
        self.home = ""  # which process of home has said so
        self._bring = bring
        self.look = None  # called before a name is looked for: a process that a rank has started gets the rank's listing
        self.metadata = set()  # folders of this machine with what importlib.metadata knows of the names
        self._absent = set()  # names that home does not have, in this cell
        self._parts = {}  # {name of a package without __init__.py: (its __path__, the folders of this machine in it)}
        self._searched = threading.local()

    def take(self, listing):
        """listing: the part "code" of FOLLOW; None: no finder finds anything from now on."""
        self.on = listing is not None
        for name in ("names", "late", "digests", "at"):
            setattr(self, name, (listing or {}).get(name, {}))
        self.more, self.home = bool((listing or {}).get("more")), (listing or {}).get("home", "")
        self._absent.clear()

    def cell_begins(self):
        """Names that home did not have may be there now."""
        self._absent.clear()

    def roots(self, name):
        """The folders of home that have this name; () if it is not listed."""
        return self.names.get(name) or self.late.get(name) or ()

    def keys(self):
        """The keys of all listed names."""
        return {key_of(name, roots) for part in (self.names, self.late) for name, roots in part.items()}

    def entry(self, name):
        """The entry of a top-level name, brought here if need be. None: there is none."""
        if name in self._absent:
            return None
        found = self._bring(name, self.roots(name), self.digests.get(name, ""), self.home)
        if found is None:
            self._absent.add(name)
        elif not found["here"]:
            self.metadata.update(self.root + os.path.dirname(os.path.dirname(row[0])) for row in found["files"] if row[0].endswith(METADATA))
        return found

    def place(self, path, entry):
        """Where a file or folder of home is here."""
        return path if entry["here"] else self.root + path

    # ---- finders -----------------------------------------------------------------------------------------------------

    def first(self, name):
        __tracebackhide__ = True
        if self.look is not None:
            self.look()
        if name in self.at:
            return self._once(name, self._editable)
        if name in self.names:
            return self._once(name, self._found)
        if name in self.late:
            return self._once(name, self._beside)
        return None

    def last(self, name):
        __tracebackhide__ = True
        if "." in name or name in self.names or not (self.more or name in self.late):
            return None
        return self._once(name, self._found)

    def _once(self, name, find):
        """The finder's answer. Not while this thread looks for the same name already, as a finder does that asks all others."""
        __tracebackhide__ = True
        names = self._searched.__dict__.setdefault("names", set())
        if name in names:
            return None
        names.add(name)
        try:
            return find(name)
        except Unavailable as error:
            raise ModuleNotFoundError(f"No module named {name!r}: the notebook has it, but {error}", name=name) from None
        finally:
            names.discard(name)

    def _found(self, name):
        entry = self.entry(name)
        if entry is None:
            return None
        spec = machinery.PathFinder.find_spec(name, [self.place(root, entry) for root in entry["roots"]])
        return self._joined(name, spec, []) if spec is not None and spec.loader is None else spec

    def _beside(self, name):
        """A folder without __init__.py: all such folders are one package, those of this machine, too. A module or an ordinary package comes
        before it."""
        own = machinery.PathFinder.find_spec(name)
        if own is None or own.loader is not None:
            return None
        spec = self._found(name)
        return own if spec is None else self._joined(name, spec, list(own.submodule_search_locations))

    def _joined(self, name, spec, own):
        """Python's own list would be made again from sys.path."""
        folders, _ = self._parts.setdefault(name, ([], own))
        self._parts[name] = folders, own
        folders[:] = dict.fromkeys([*spec.submodule_search_locations, *own])
        made = machinery.ModuleSpec(name, None, is_package=True)
        made.submodule_search_locations = folders
        return made

    def renew(self, name):
        """A package without __init__.py has other folders now: its module, which may be imported, finds what is in them."""
        if name in self._parts and self.roots(name):
            _, own = self._parts[name]
            entry = self.entry(name)
            spec = entry and machinery.PathFinder.find_spec(name, [self.place(root, entry) for root in entry["roots"]])
            if spec is not None and spec.loader is None:
                self._joined(name, spec, own)

    def _editable(self, name):
        """A module whose file has another name or place than its import, by an editable install."""
        entry = self.entry(name.partition(".")[0])
        if entry is None:
            return None
        path = self.place(self.at[name], entry)
        if not os.path.isdir(path):
            return importlib.util.spec_from_file_location(name, path, loader=_loader_for(name, path, self.root))
        file = os.path.join(path, "__init__.py")
        if not os.path.exists(file):
            spec = machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [path]
            return spec
        return importlib.util.spec_from_file_location(name, file, loader=_loader_for(name, file, self.root), submodule_search_locations=[path])


class First:
    """An entry of sys.meta_path."""

    def __init__(self, project):
        self._project = project

    def find_spec(self, name, path=None, target=None):
        __tracebackhide__ = True
        project = self._project
        return project.first(name) if (project.on or project.look) and (path is None or name in project.at) else None

    def find_distributions(self, context=None):
        from importlib.metadata import DistributionFinder, MetadataPathFinder  # slow to import, and rarely needed

        if not self._project.on or "path" in getattr(context, "__dict__", {}):  # somebody looks in folders of his own
            return iter(())
        name = getattr(context, "name", None)
        return MetadataPathFinder.find_distributions(DistributionFinder.Context(name=name, path=sorted(self._project.metadata)))


class Last:
    """An entry of sys.meta_path."""

    def __init__(self, project):
        self._project = project

    def find_spec(self, name, path=None, target=None):
        __tracebackhide__ = True
        return self._project.last(name) if self._project.on and path is None else None


def install(project):
    """From now on this process finds the project's modules."""
    Loader.root = project.root
    compiled = machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES
    bytecode = machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES
    finder = machinery.FileFinder.path_hook(compiled, (Loader, machinery.SOURCE_SUFFIXES), bytecode)

    def hook(path):
        if not path.startswith(project.root + os.sep):
            raise ImportError("another folder")
        return finder(path)

    sys.path_hooks.insert(0, hook)
    at = [n for n, one in enumerate(sys.meta_path) if one is machinery.PathFinder]
    sys.meta_path.insert(at[0] if at else len(sys.meta_path), First(project))
    sys.meta_path.append(Last(project))


# ---- home's paths ----------------------------------------------------------------------------------------------------


class Loader(machinery.SourceFileLoader):
    """Loads a module of the tree. For what compiles the file it has home's path, so that the code has. None of these functions is under way
    while the module runs, or fails: Python shows no frames of an import then, but it would show ours."""

    root = ""

    def get_filename(self, name=None):
        return home_path(self.path)

    def path_stats(self, path):
        """Python calls this first when it loads the module."""
        self._note_lines(path)
        return super().path_stats(self._here(path))

    def get_data(self, path):
        return super().get_data(self._here(path))

    def set_data(self, path, data, *, _mode=0o666):
        super().set_data(self._here(path), data, _mode=_mode)

    def _here(self, path):
        """Where the file, or its bytecode, is on this machine."""
        if path.startswith(self.root + os.sep):
            return path
        if path.endswith(tuple(machinery.BYTECODE_SUFFIXES)):
            return importlib.util.cache_from_source(self.path)
        return self.root + path if path.startswith(os.path.dirname(home_path(self.path)) + os.sep) else path

    def _note_lines(self, path):
        lines = sys.modules.get("linecache")
        if lines is None or path == self.path:
            return
        lines.cache.pop(path, None)
        if os.path.exists(path):  # another file, whose lines would be shown
            text = self.get_source(self.name)
            lines.cache[path] = len(text), None, text.splitlines(True), path
        else:
            lines.lazycache(path, {"__name__": self.name, "__loader__": self})


def home_path(path):
    """Where home has a file of the tree; the path itself for another one."""
    root = Loader.root
    return path[len(root) :] if root and path.startswith(root + os.sep) else path


def path_here(path):
    """Where a file of home is on this machine: in the tree, if that has it."""
    own = Loader.root + path
    return own if Loader.root and os.path.exists(own) else path


def _loader_for(name, path, root):
    """None: Python's own."""
    return Loader(name, path) if path.startswith(root + os.sep) and path.endswith(".py") else None
