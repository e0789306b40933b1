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

from .entries import UNKNOWN, Unavailable, key_of

PYTHONS = "python%d%d.zip" % sys.version_info[:2]  # is in each sys.path, and rarely there
LIBRARY = os.path.dirname(os.__file__)  # Python's own modules
OWN = getattr(sys, "stdlib_module_names", frozenset())  # their names, from Python 3.10 on
INSTALLED = frozenset(("site-packages", "dist-packages"))
METADATA = (".dist-info/METADATA", ".egg-info/PKG-INFO")


class Project:
    """What home said about its project's names; protocol/README.md says what the attributes mean (FOLLOW, `code`). See tree.py.

    bring(name, roots, digest, home): brings their files here. find_folder(folders): which names the first of these folders has that home has.
    """

    def __init__(self, root, bring, find_folder, began=()):
        """root: the tree's folder. began: entries of sys.path that no code of the user's has added."""
        self.root = root
        self.on = False
        self.added = AddedFolders(self, bring, find_folder, began)
        self.names, self.namespaces, self.digests, self.redirects, self.incomplete = {}, {}, {}, {}, False
        self.home = ""  # which process of home has said so
        self._bring = bring
        self.update = None  # called before a name is looked for: a process that a rank has started gets the rank's listing
        self.metadata = set()  # folders of this machine with what importlib.metadata knows of the names
        self._absent = set()  # names that home does not have, in this cell
        self._portions = {}  # {name of a package without __init__.py: (its __path__, the folders of this machine in it)}
        self._searched = threading.local()

    def take(self, listing):
        """listing: the part "code" of FOLLOW; None: no finder finds anything from now on."""
        self.on = listing is not None
        for name in ("names", "namespaces", "digests", "redirects"):
            setattr(self, name, (listing or {}).get(name, {}))
        self.incomplete, self.home = bool((listing or {}).get("incomplete")), (listing or {}).get("home", "")
        self.added.take(listing or {})
        self._absent.clear()

    def cell_begins(self):
        """Names and folders that home did not have may be there now."""
        self.forget_absent()
        self.added.forget()

    def forget_absent(self):
        self._absent.clear()

    def roots(self, name):
        """The folders of home that have this name; () if it is not listed."""
        return self.names.get(name) or self.namespaces.get(name) or ()

    def keys(self):
        """The keys of all listed names."""
        return {key_of(name, roots) for part in (self.names, self.namespaces) for name, roots in part.items()} | self.added.keys()

    def seen_from(self):
        """What decides, beside the files, which names home lists: its process, its folder, and those of its search path."""
        return (self.home, *self.added.homes())

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
        if self.update is not None:
            self.update()
        if name in self.redirects:
            return self._once(name, self._editable)
        spec = self._once(name, self.added.find)
        if spec is not None:
            return self.joined(name, spec, []) if spec.loader is None else spec
        if name in self.names:
            return self._once(name, self._found)
        if name in self.namespaces:
            return self._once(name, self._beside)
        return None

    def last(self, name):
        __tracebackhide__ = True
        if "." in name or name in self.names or not (self.incomplete or name in self.namespaces):
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
        if spec is None or spec.loader is not None:
            return self._with_all_folders(name, spec, entry)
        return self.joined(name, spec, [])

    def _with_all_folders(self, name, spec, entry):
        """A package that joins the folders of its name on sys.path, where this machine has none of home's."""
        own = None if spec is None else spec.submodule_search_locations
        if own is not None and len(entry["roots"]) > 1:
            folders = [os.path.join(self.place(root, entry), name) for root in entry["roots"]]
            own += [folder for folder in folders if folder not in own and os.path.isdir(folder)]
        return spec

    def _beside(self, name):
        """A folder without __init__.py: all such folders are one package, those of this machine, too. A module or an ordinary package comes
        before it."""
        own = machinery.PathFinder.find_spec(name)
        if own is None or own.loader is not None:
            return None
        spec = self._found(name)
        return own if spec is None else self.joined(name, spec, list(own.submodule_search_locations))

    def joined(self, name, spec, own):
        """Python's own list would be made again from sys.path."""
        folders, _ = self._portions.setdefault(name, ([], own))
        self._portions[name] = folders, own
        folders[:] = dict.fromkeys([*spec.submodule_search_locations, *own])
        made = machinery.ModuleSpec(name, None, is_package=True)
        made.submodule_search_locations = folders
        return made

    def renew(self, name):
        """A package without __init__.py has other folders now: its module, which may be imported, finds what is in them."""
        if name in self._portions and self.roots(name):
            _, own = self._portions[name]
            entry = self.entry(name)
            spec = entry and machinery.PathFinder.find_spec(name, [self.place(root, entry) for root in entry["roots"]])
            if spec is not None and spec.loader is None:
                self.joined(name, spec, own)

    def _editable(self, name):
        """A module whose file has another name or place than its import, by an editable install."""
        entry = self.entry(name.partition(".")[0])
        if entry is None:
            return None
        path = self.place(self.redirects[name], entry)
        if not os.path.isdir(path):
            return importlib.util.spec_from_file_location(name, path, loader=_loader_for(name, path, self.root))
        file = os.path.join(path, "__init__.py")
        if not os.path.exists(file):
            spec = machinery.ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [path]
            return spec
        return importlib.util.spec_from_file_location(name, file, loader=_loader_for(name, file, self.root), submodule_search_locations=[path])


class AddedFolders:
    """Folders that this process has put on its sys.path, and home has not: `dirname(__file__) + "/lib"`, "../src"."""

    def __init__(self, project, bring, find_folder, began):
        self._project, self._bring, self._find_folder = project, bring, find_folder
        self._began = {entry for entry in sys.path if os.path.isdir(entry) or os.path.basename(entry) == PYTHONS}.union(began)
        self._here, self._homes = "", frozenset()  # home's folder, and those of its own that it lists
        self._digests = {}  # {(name, folder): digest} of modules that are here, or on another machine
        self._known = {}  # {candidates: (the folder, names in it, its states)}; see Tree.find_folder()

    def take(self, listing):
        self._here, self._homes = listing.get("here", ""), frozenset(listing.get("folders", ()))
        self._digests = {(name, folder): digest for name, folder, digest in listing.get("added", ())}
        states_now = listing.get("states", {})
        for candidates, (_, _, states) in list(self._known.items()):
            if states is None or any(states_now.get(folder) != state for folder, state in states.items()):
                del self._known[candidates]

    def homes(self):
        return self._here, self._homes

    def forget(self):
        """A cell begins: what home tells no changes of may be another one now."""
        self._known = {candidates: row for candidates, row in self._known.items() if row[2] is not None}

    def digests(self):
        """[(name, folder, digest), …]."""
        return [(*key, digest) for key, digest in self._digests.items()]

    def keys(self):
        return {key_of(name, (folder,)) for name, folder in self._digests}

    def find(self, name):
        """The spec of a module that is in such a folder at home, or that this machine has before it on sys.path. None: there is none."""
        if not self._project.on:  # also in a process that follows its rank, which asks in any case
            return None
        path, first = list(sys.path), None
        before = path.index(LIBRARY) if name in OWN and LIBRARY in path else len(path)
        for at, entry in enumerate(path[:before]):  # what comes later can't have it
            folder = self._with(name, entry)
            if folder:
                found = self._bring(name, (folder,), self._digests.get((name, folder), UNKNOWN), self._project.home)
                if found is not None:
                    path[at], first = self._project.place(folder, found), at if first is None else first
                    _forget_cached(path[at])
        if first is None or (name in self._project.names and self._homes_come_before(first)):
            return None
        return machinery.PathFinder.find_spec(name, path)

    def _with(self, name, entry):
        """The folder of home that this entry of sys.path means, if it has the name; ""."""
        candidates = self._meant(entry) if isinstance(entry, str) else ()
        if not candidates or candidates[0] in self._homes:
            return ""
        if candidates not in self._known:
            self._known[candidates] = "", (), None  # also if the question fails: each import would wait for it
            try:
                said = self._find_folder(candidates)
                self._known[candidates] = said.get("folder", ""), {*said.get("names", ()), *said.get("namespaces", ())}, said.get("states")
            except Unavailable:
                pass
        folder, names, _ = self._known[candidates]
        return folder if name in names else ""

    def _meant(self, entry):
        """The folders of home that an entry of sys.path may mean; the first that home has counts."""
        if entry.startswith(self._project.root + os.sep):
            return (os.path.normpath(home_path(entry)),)
        if not entry or entry in self._began or not INSTALLED.isdisjoint(entry.split(os.sep)):
            return ()
        if not os.path.isabs(entry):
            return (os.path.normpath(os.path.join(self._here, entry)),) if self._here else ()
        own, here = os.path.normpath(entry), _cwd()
        if not here or not self._here or os.path.isdir(own):
            return (own,)
        return tuple(dict.fromkeys((own, os.path.normpath(os.path.join(self._here, os.path.relpath(own, here))))))  # os.path.abspath("../src")

    def _homes_come_before(self, place):
        """Does the notebook's or the script's own folder stand before this place of sys.path? What this machine has, too, comes after it."""
        here = _cwd()
        if not sys.path[place].startswith(self._project.root) and os.path.isdir(sys.path[place]):
            return True
        return any(not entry or entry == here or home_path(entry) in self._homes for entry in sys.path[:place] if isinstance(entry, str))


def _cwd():
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


def _forget_cached(folder):
    """Files have come into this folder, which Python may have looked at before."""
    finder = sys.path_importer_cache.get(folder)
    if hasattr(finder, "invalidate_caches"):
        finder.invalidate_caches()
    else:
        sys.path_importer_cache.pop(folder, None)


class First:
    """An entry of sys.meta_path."""

    def __init__(self, project):
        self._project = project

    def find_spec(self, name, path=None, target=None):
        __tracebackhide__ = True
        project = self._project
        return project.first(name) if (project.on or project.update) and (path is None or name in project.redirects) else None

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
        self.note_lines(path)
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

    def note_lines(self, path):
        lines = sys.modules.get("linecache")
        if lines is None or path == self.path:
            return
        lines.cache.pop(path, None)
        if os.path.exists(path):  # another file, whose lines would be shown
            text = self.get_source(self.name)
            lines.cache[path] = len(text), None, text.splitlines(True), path
        else:
            lines.lazycache(path, {"__name__": self.name, "__loader__": self})


def for_main(path):
    """(the loader of a script, the path that its code has)."""
    shown = home_path(path)
    if shown == path:
        return machinery.SourceFileLoader("__main__", path), path
    loader = Loader("__main__", path)
    loader.note_lines(shown)
    return loader, shown


def home_path(path):
    """Where home has a file of the tree; the path itself for another one."""
    root = Loader.root
    return path[len(root) :] if root and path.startswith(root + os.sep) else path


def with_home_paths(text):
    """A text about files of the tree, for people."""
    return text.replace(Loader.root + os.sep, os.sep) if Loader.root else text


def path_here(path):
    """Where a file of home is on this machine: in the tree, if that has it."""
    own = Loader.root + path
    return own if Loader.root and os.path.exists(own) else path


def _loader_for(name, path, root):
    """None: Python's own."""
    return Loader(name, path) if path.startswith(root + os.sep) and path.endswith(".py") else None
