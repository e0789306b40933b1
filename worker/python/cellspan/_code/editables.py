# SPDX-License-Identifier: BSD-3-Clause
"""Where the finders of editable installs lead. Each build tool writes another one; what they know is read from them, and none of them
is asked to find anything, since some build or import to answer.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys

from .listing import MODULE, NAMESPACE, PACKAGE, Place, has_init, module_name


class Redirected:
    """first, last: {name: Place} of finders before and behind that of sys.path. portions: {name: [Place, …]} of namespace packages.
    redirects: {dotted name: path} of what has another name, or stands elsewhere, than its package says. unbuilt: {name: why it is not known}."""

    def __init__(self):
        self.first, self.last, self.portions, self.redirects, self.unbuilt = {}, {}, {}, {}, {}

    def redirects_of(self, places):
        """`redirects` of the packages and modules that are there because of a finder."""
        mine = {**self.last, **self.first}
        tops = {name for name, place in mine.items() if list(places.get(name, ())) == [place]}
        return {name: path for name, path in self.redirects.items() if name.partition(".")[0] in tops}


def redirected(finders):
    """The Redirected of sys.meta_path."""
    found, into = Redirected(), "first"
    for finder in list(finders):
        if finder is importlib.machinery.PathFinder:
            into = "last"
            continue
        for read in READERS:
            try:
                paths = read(finder, found)
                if paths:
                    _add(found, getattr(found, into), paths)
                    break
            except Exception:  # noqa: BLE001 - a finder that only looks like one of these
                pass
    return found


def _add(found, into, paths):
    """paths: {dotted name: a module's file, a package's folder or its __init__.py}."""
    folders = {}  # {package: its folder}
    for name in sorted(paths, key=lambda name: name.count(".")):
        place = _place(paths[name])
        if place is None:
            continue
        parent, _, last = name.rpartition(".")
        if place.kind == PACKAGE:
            folders[name] = place.path
        if not parent:
            into[name] = place
            if os.path.basename(place.path) != name:
                found.redirects[name] = _path(place)
        elif folders.get(parent, "") != os.path.dirname(place.path) or os.path.basename(place.path) != last:
            found.redirects[name] = _path(place)


def _place(path):
    """The Place of a module's file with or without its suffix, or of a package's folder or its __init__.py."""
    folder, file = os.path.split(path)
    if module_name(file) == "__init__":
        path = folder
    if has_init(path):
        return Place(PACKAGE, path, os.path.dirname(path))
    if module_name(file) and os.path.isfile(path):
        return Place(MODULE, os.path.join(folder, module_name(file)), folder)
    return Place(MODULE, path, folder) if _path(Place(MODULE, path, folder)) else None


def _path(place):
    if place.kind == PACKAGE:
        return place.path
    return next((place.path + suffix for suffix in _suffixes() if os.path.isfile(place.path + suffix)), "")


def _suffixes():
    return importlib.machinery.EXTENSION_SUFFIXES + importlib.machinery.SOURCE_SUFFIXES


# ---- what build tools write ------------------------------------------------------------------------------------------


def _setuptools(finder, found):
    """`__editable___NAME_finder`: MAPPING and NAMESPACES of its module."""
    module = vars(sys.modules[getattr(finder, "__module__", "") or ""])
    mapping = module.get("MAPPING")
    if not isinstance(mapping, dict) or not str(module.get("__name__")).startswith("__editable__"):
        return None
    for name, paths in (module.get("NAMESPACES") or {}).items():
        if "." not in name:
            known = [Place(NAMESPACE, path, os.path.dirname(path)) for path in paths if os.path.isdir(path) and os.path.basename(path) == name]
            found.portions.setdefault(name, []).extend(known)
    return mapping


def _editables(finder, found):
    """The package editables, which hatch and pdm use: `_redirections`."""
    known = getattr(finder, "_redirections", None)
    return known if isinstance(known, dict) else None


def _scikit_build(finder, found):
    """scikit-build-core: sources, and what was built into the wheel."""
    sources, built = getattr(finder, "known_source_files", None), getattr(finder, "known_wheel_files", None)
    if not isinstance(sources, dict) or not isinstance(built, dict):
        return None
    base = os.path.dirname(getattr(finder, "path", None) or getattr(sys.modules[type(finder).__module__], "__file__", ""))
    return {**{name: os.path.join(base, path) for name, path in built.items()}, **sources}


def _meson(finder, found):
    """meson-python, which builds when something is imported, and knows the files only then."""
    names, rebuild = getattr(finder, "_top_level_modules", None), getattr(finder, "_rebuild", None)
    if names is None or rebuild is None:
        return None
    if not rebuild.cache_info().currsize:
        found.unbuilt.update(dict.fromkeys(names, "meson-python builds it when it is imported: import it at home first"))
        return None
    return dict(_leaves(rebuild(), ()))


def _leaves(tree, above):
    for name, value in tree.items():
        if isinstance(value, str):
            module = module_name(name)
            if module:
                yield ".".join(above if module == "__init__" else (*above, module)), value
        else:
            yield from _leaves(value, (*above, name))


READERS = (_setuptools, _editables, _scikit_build, _meson)
