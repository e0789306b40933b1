# SPDX-License-Identifier: BSD-3-Clause
"""What importlib.metadata knows of the user's own packages: the files beside them, or in site-packages for an editable install. A package
often asks for its own version while it is imported.
"""

from __future__ import annotations

import json
import os
import re

FILES = ("METADATA", "PKG-INFO", "entry_points.txt", "top_level.txt")
KINDS = (".dist-info", ".egg-info")
KEPT = {}  # {folder: (its time, {name of a module: folders of metadata})}


def in_folders(own, installed):
    """{top-level name: folders of metadata}. own: the user's folders on sys.path. installed: the others, where only editable installs
    count."""
    found = {}
    for folder, editable in [*((folder, False) for folder in own), *((folder, True) for folder in installed)]:
        for name, folders in _read(folder, editable).items():
            found.setdefault(name, []).extend(folders)
    return found


def files_of(folders):
    """The files of these folders of metadata that go."""
    return [path for folder in folders for path in (os.path.join(folder, name) for name in FILES) if os.path.isfile(path)]


def is_metadata(path):
    return os.path.dirname(path).endswith(KINDS)


def _read(folder, editable):
    try:
        time = os.stat(folder).st_mtime_ns
        if folder not in KEPT or KEPT[folder][0] != time:
            KEPT[folder] = time, _found(folder, editable)
    except OSError:
        return {}
    return KEPT[folder][1]


def _found(folder, editable):
    found = {}
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        if entry.endswith(KINDS) and os.path.isdir(path) and (not editable or _is_editable(path)):
            for name in _names(path, entry):
                found.setdefault(name, []).append(path)
    return found


def _is_editable(path):
    try:
        with open(os.path.join(path, "direct_url.json"), "rb") as file:
            return bool(json.load(file)["dir_info"]["editable"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _names(path, entry):
    """The top-level names of a distribution: as its top_level.txt says, else its own name."""
    try:
        with open(os.path.join(path, "top_level.txt"), "rb") as file:
            names = file.read(1 << 16).decode("utf-8", "replace").split()
    except OSError:
        names = []
    return names or [re.sub(r"[-.]+", "_", re.split(r"-\d|\.(?:dist|egg)-info", entry)[0])]
