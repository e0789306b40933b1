# SPDX-License-Identifier: BSD-3-Clause
"""Calls a function when a module is first imported by anybody. So our support for a module that is slow to import and seldom
used costs nothing until it is used. And imports that no interrupt divides."""

from __future__ import annotations

import importlib
import sys
import threading

from .. import _link


class _Watcher:
    """An entry of sys.meta_path that sees the names of all imports; the other entries find the modules."""

    def __init__(self):
        self.wanted = {}  # {name: [(call before its code runs or None, call after it, call if that fails or None)]}
        self.before = {}
        self._searched = threading.local()  # .names: those that this thread searches for: another entry of sys.meta_path may ask for the same name

    def find_spec(self, name, path=None, target=None):
        if name in self.before:
            self.before.pop(name)()
        names = self._searched.__dict__.setdefault("names", set())
        if name not in self.wanted or name in names:
            return None
        names.add(name)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if finder is not self and find is not None else None
                if spec is not None:
                    return _watched(spec)
        finally:
            names.discard(name)
        return None


class _Loader:
    """The module's own loader, within the two calls that are wanted when it runs."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        name = module.__spec__.name
        module.__spec__.loader = module.__loader__ = self._loader
        calls = _watcher.wanted.pop(name, [])
        try:
            for before, _, _ in calls:
                if before is not None:
                    before()
            self._loader.exec_module(module)
        except BaseException:  # the next import begins anew
            if calls:
                _watcher.wanted[name] = calls
            for _, _, failed in calls:
                if failed is not None:
                    failed()
            raise
        for _, after, _ in calls:
            after()


def _watched(spec):
    if spec.loader is not None and hasattr(spec.loader, "exec_module"):
        spec.loader = _Loader(spec.loader)
    return spec


_watcher = _Watcher()


def when_imported(name, call, before=None, failed=None):
    """Calls call() when `name` is imported; at once if it already is. before() is called when its code is about to run, and failed() if
    it then raises an exception, or before() has: the next import begins anew. Several calls may be wanted for one name; each is made once."""
    if name in sys.modules:
        call()
        return
    calls = _watcher.wanted.setdefault(name, [])
    if (before, call, failed) not in calls:
        calls.append((before, call, failed))
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)


def before_import(name, call):
    """Calls call() when `name` is about to be imported for the first time; not if it already is."""
    if name not in sys.modules:
        _watcher.before[name] = call
        if _watcher not in sys.meta_path:
            sys.meta_path.insert(0, _watcher)


def whole(name):
    """The module, imported if need be. An interrupt waits until it is there: C code such as torch's can't begin again what was broken
    off, and the process would crash later, in another cell."""
    if name in sys.modules or _link.held():
        return importlib.import_module(name)
    _link.hold()
    try:
        return importlib.import_module(name)
    finally:
        _link.release()
