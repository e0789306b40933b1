# SPDX-License-Identifier: BSD-3-Clause
"""A substitute for the module ipykernel.zmqshell: tqdm.auto and others check whether it is imported to recognise a notebook."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from importlib.machinery import PathFinder

NAME = "ipykernel.zmqshell"
_real = []  # the real module, once it was looked for; None: there is none


class _Module(types.ModuleType):
    """Replaces the module without importing ipykernel. When another name of it is used, the real module is imported, once: pickle looks for
    some names in each module."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module {NAME} has no attribute {name}")
        if not _real:
            self._import()
        if _real[0] is None:
            raise AttributeError(f"module {NAME} has no attribute {name}: ipykernel is not installed, or can't be imported")
        return getattr(_real[0], name)

    def _import(self):
        """sys.modules keeps its order, and has as many modules of this name as before: pickle may be going through it."""
        _real.append(None)  # what the import itself looks for here is not there yet
        try:
            package = importlib.import_module(NAME.rpartition(".")[0])
            spec = PathFinder.find_spec(NAME, getattr(package, "__path__", ()))
            module = importlib.util.module_from_spec(spec)
            sys.modules[NAME] = module
            spec.loader.exec_module(module)
            package.zmqshell, _real[0] = self, module
        except Exception:  # noqa: BLE001 - none is installed, or one that does not work with the other packages
            pass
        finally:
            sys.modules[NAME] = self


def install(shell_class):
    """Installs the substitute. isinstance(get_ipython(), ZMQInteractiveShell) is true, too."""
    module = _Module(NAME, __doc__)
    module.ZMQInteractiveShell = shell_class
    sys.modules.setdefault(NAME, module)
