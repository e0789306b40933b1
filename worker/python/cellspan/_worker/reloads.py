# SPDX-License-Identifier: BSD-3-Clause
"""The user's modules whose files change while ranks live. Ranks load them again if home did, or if `%autoreload` is on at home; for
others they print a line. Modules in Python's own folders and in site-packages are not the user's. A file has changed if it has other
bytes: one that was only copied or touched has another time, and a module that is loaded again loses its state.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.machinery
import os
import platform
import stat
import sys

from .._base.errors import in_words
from .._base.modules import is_users_file, names_of

AUTORELOAD = "IPython.extensions.autoreload"
BLOCK = 1 << 20  # bytes of a file that are read at once
_reload = importlib.reload

# ---- at home ---------------------------------------------------------------------------------------------------------


class Log:
    """The modules that home has loaded again, in home's order: one may import from another."""

    LENGTH = 1000

    def __init__(self):
        self.process = os.urandom(8).hex()  # another home's count begins anew
        self.count = 0  # of all reloads
        self.entries = []  # (the count after it, name)

    def add(self, name):
        self.count += 1
        if self.entries and self.entries[-1][1] == name:
            self.entries.pop()
        self.entries.append((self.count, name))
        if len(self.entries) > self.LENGTH:
            last = {module: count for count, module in self.entries}
            del self.entries[next((at for at, (count, module) in enumerate(self.entries) if last[module] != count), 0)]

    def report(self):
        """For ranks; {}: home has loaded nothing again."""
        return {"process": self.process, "entries": self.entries} if self.entries else {}


class Watch:
    """Records which modules home has loaded again, and whether its `%autoreload` is on."""

    def __init__(self, shell):
        self._shell = shell
        self.reloaded = reloaded = Log()

        @functools.wraps(_reload)
        def reload(module):
            __tracebackhide__ = True
            again = _reload(module)
            if sys._getframe(1).f_globals.get("__name__") != AUTORELOAD:  # ranks run %autoreload themselves
                reloaded.add(again.__name__)
            return again

        importlib.reload = reload

    def autoreload(self):
        """Which modules home's `%autoreload` must check; None: it is off."""
        return autoreload_of(self._shell)


def autoreload_of(shell):
    """None: this shell's `%autoreload` is off. Else which modules it must check, for `Imported.reload_changed`."""
    magics = shell.magics_manager.registry.get("AutoreloadMagics")
    reloader = getattr(magics, "_reloader", None)
    if reloader is None or not reloader.enabled:
        return None
    return {
        "only": None if reloader.check_all else sorted(reloader.modules),
        "skip": sorted(reloader.skip_modules),
        "objects": bool(getattr(reloader, "autoload_obj", False)),
    }


def _checks(how, name):
    """how: of autoreload_of(). Does it check this module?"""
    return (how["only"] is None or name in how["only"]) and name not in how["skip"]


# ---- at home and on a rank -------------------------------------------------------------------------------------------


class Imported:
    """The user's modules of this process, and what their files were when they were imported."""

    def __init__(self):
        self._seen = set()  # all names in sys.modules
        self._last = None  # the last of them
        self._own = {}  # name: (the spec by which it was loaded, its file, the file's time, its hash)
        self._changed = {}  # name: the time of its file, which has other bytes
        self._reported = {}  # name: the file's time that was last reported
        self.file_now = lambda path: path  # the file that would be imported now in place of this one
        self._old_objects = {}  # for IPython's superreload()
        self.autoreload = None  # as of autoreload_of(): what this process loads again by itself before its next cell

    def note(self):
        """Records the modules that were imported, or loaded again, since the last call."""
        self.note_new()
        for name, (spec, *_) in list(self._own.items()):
            if names_of(sys.modules.get(name)).get("__spec__") is not spec:  # gone, or loaded again
                del self._own[name]
                self._take(name)

    def note_new(self):
        """Records the modules that were imported since the last call."""
        last = next(reversed(sys.modules), None)
        if len(sys.modules) != len(self._seen) or last != self._last:  # one may have taken the place of another
            now = set(sys.modules)
            for name in now - self._seen:
                self._take(name)
            self._seen, self._last = now, last  # last: what raised, as there was no memory, is recorded by the next call

    def is_older(self, name):
        """Has this module's file changed since this process imported it, so that the next cell will still see the older one?"""
        if self.autoreload is not None and _checks(self.autoreload, name):
            return False
        known = self._own.get(name)
        if known is None or names_of(sys.modules.get(name)).get("__spec__") is not known[0]:
            self._take(name)
            return False
        return self._has_changed(name)

    def _has_changed(self, name):
        spec, path, time, digest = self._own[name]
        file = self.file_now(path)
        now = _time_of(file)
        if now in (time, None):
            return False
        if self._changed.get(name) != now:
            if digest and _state_of(file)[1] == digest:
                self._own[name] = spec, path, now, digest
                return False
            self._changed[name] = now
        return True

    def _take(self, name):
        names = names_of(sys.modules.get(name))
        spec, path = names.get("__spec__"), names.get("__file__")
        if spec is not None and isinstance(path, str) and is_users_file(path):
            self._own[name] = spec, path, *(_at_import.pop(path, None) or _state_of(path))

    def has(self, name):
        """Is this module imported, and the user's?"""
        self.note()
        return name in self._own

    def newer(self):
        """Names of modules whose files have changed since they were imported, in the order in which `%autoreload` looks at them."""
        self.note()
        names = [name for name in list(self._own) if self._has_changed(name)]
        return names if len(names) < 2 else [name for name in list(sys.modules) if name in names]

    def reload_changed(self, how, shell):
        """Does what `%autoreload` does before a cell. Returns lines for the user about failures."""
        failures = []
        for name in self.newer():
            if not _checks(how, name):
                continue
            spec, path, *_ = self._own[name]
            self._own[name] = spec, path, *_state_of(self.file_now(path))  # so that it is tried only once, even if it fails
            try:
                self._reload(sys.modules[name], shell if how["objects"] else None)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - from the user's module; the old one stays
                failures.append(f"%autoreload of {name} failed: {in_words(error)}")
        return failures

    def _reload(self, module, shell):
        from IPython.extensions.autoreload import superreload

        if shell is None:
            superreload(module, _reload, self._old_objects)
        else:
            superreload(module, _reload, self._old_objects, shell)

    def unsaid(self, shell, is_homes=lambda path: True):
        """A line for each module whose file has changed since it was imported, once for each change. None for those that this rank's own
        `%autoreload` loads again, as the cell begins. is_homes(path): can home have this file?"""
        newer = self.newer()
        if not newer:
            return []
        lines, own = [], autoreload_of(shell)
        for name in newer:
            if own is not None and _checks(own, name):
                continue
            path = self._own[name][1]
            if self._reported.get(name) != self._changed[name]:
                from .._code.finders import home_path

                self._reported[name] = self._changed[name]
                at_home = is_homes(path)
                shown, where = (home_path(path), " or %autoreload 2 at home") if at_home else (f"{path} on {platform.node()}", " in a cell on ranks")
                lines.append(f"{shown} is newer than what ranks have imported: importlib.reload({name}){where} loads it again")
        return lines


class HomesReloads:
    """A rank's side of home's reloads. A module that can't be loaded again here is tried again before each cell."""

    def __init__(self, imported):
        self._imported = imported
        self._process, self._count = "", 0  # home's, of the last reload that came
        self._due = []  # names, in home's order
        self._failed = {}  # name: the spec that the module has since it could not be loaded

    def take(self, report):
        """report: Log.report(). Loads those modules again that are imported and the user's. Raises the first exception, after all were tried."""
        process, entries = report.get("process", ""), report.get("entries", ())
        known = self._count if process == self._process else 0
        self._process, self._count = process, entries[-1][0] if entries else 0
        new = [name for count, name in entries if count > known]
        if not new:
            return
        self._due = [name for name in self._unfinished() if name not in new] + _first_and_last(new)
        for name in new:
            self._failed.pop(name, None)
        errors = self._load()
        for name in new:
            if name in errors:
                raise errors[name]

    def try_again(self):
        """Returns lines for the user about modules that still can't be loaded."""
        if not self._due and not self._failed:
            return []
        self._due = self._unfinished()
        return [f"ranks can't load {name} again, as home has: {in_words(error)}" for name, error in self._load().items()] if self._due else []

    def _unfinished(self):
        """Names that an interrupt has left, and those that failed."""
        return [*self._due, *(name for name in self._failed if name not in self._due)]

    def _load(self):
        """Loads the modules that are due. Returns {name: exception} of those that failed last. An interrupt leaves the others due."""
        errors = {}
        while self._due:
            name = self._due[0]
            if self._is_wanted(name):
                self._failed.pop(name, None)
                errors.pop(name, None)
                try:
                    _reload(sys.modules[name])
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # noqa: BLE001 - from the user's module; those after it may not need it
                    errors[name], self._failed[name] = error, _spec_of(name)
            else:
                self._failed.pop(name, None)
            del self._due[0]
        self._imported.note()
        return errors

    def _is_wanted(self, name):
        """Not if the user has loaded it again since it failed."""
        if name in self._failed:
            return name in sys.modules and _spec_of(name) is self._failed[name]
        return self._imported.has(name)


def _first_and_last(names):
    """Each name at most twice: with its first load others find it new, and with its last one it finds others new."""
    first, last = {}, {name: at for at, name in enumerate(names)}
    for at, name in enumerate(names):
        first.setdefault(name, at)
    return [name for at, name in enumerate(names) if at in (first[name], last[name])]


def _spec_of(name):
    return names_of(sys.modules.get(name)).get("__spec__")


def _time_of(path):
    """A file's modification time; None: there is no such file."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _opened(path, flags):
    return os.open(path, flags | os.O_NONBLOCK)  # it may be a pipe by now


def _state_of(path):
    """(a file's time, its hash). The hash is "" if the file can't be read, or changes meanwhile. The file is opened first: NFS may tell an
    earlier time of one that is not open."""
    made, time = hashlib.sha256(), None
    try:
        with open(path, "rb", buffering=0, opener=_opened) as file:
            found = os.fstat(file.fileno())
            time = found.st_mtime_ns
            if not stat.S_ISREG(found.st_mode):
                return time, ""
            for block in iter(lambda: file.read(BLOCK), b""):
                made.update(block)
            return time, made.hexdigest() if os.fstat(file.fileno()).st_mtime_ns == time else ""
    except OSError:
        return _time_of(path) if time is None else time, ""


# ---- what files were as they were imported, since they may change before the cell ends -------------------------------

_at_import = {}  # path: as of _state_of()
_path_stats = importlib.machinery.SourceFileLoader.path_stats


def watch_imports():
    """Notes the state of each of the user's files as it is imported."""
    importlib.machinery.SourceFileLoader.path_stats = _noted_stats


@functools.wraps(_path_stats)
def _noted_stats(loader, path):
    """Python's loader calls it just before it reads the file."""
    if is_users_file(path):
        _at_import[path] = _state_of(path)
    return _path_stats(loader, path)


imported = Imported()  # this process's; ranks inherit the zygote's
