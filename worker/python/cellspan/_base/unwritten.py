# SPDX-License-Identifier: BSD-3-Clause
"""Modules of one folder are imported without leaving bytecode beside them. Bytecode that is there is used."""

from __future__ import annotations

import importlib.machinery as machinery
import sys


class _Loader(machinery.SourceFileLoader):
    def set_data(self, path, data, *, _mode=0o666):
        """Python calls this to write bytecode."""


_finder = machinery.FileFinder.path_hook(
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES), (_Loader, machinery.SOURCE_SUFFIXES)
)


def install(folder):
    """From now on, this holds for modules below `folder`."""

    def is_below(path):
        return (path + "/").startswith(folder + "/")

    def hook(path):
        if not is_below(path):
            raise ImportError("another folder")
        return _finder(path)

    sys.path_hooks.insert(0, hook)
    for path in [path for path in sys.path_importer_cache if is_below(path)]:
        del sys.path_importer_cache[path]
