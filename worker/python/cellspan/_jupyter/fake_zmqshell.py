# SPDX-License-Identifier: BSD-3-Clause
"""A substitute for the module ipykernel.zmqshell: tqdm.auto and others check whether it is imported to recognise a notebook."""

from __future__ import annotations

import importlib
import sys
import types

NAME = "ipykernel.zmqshell"


class _Module(types.ModuleType):
    """Replaces the module without importing ipykernel. When another name of it is used, the real module is imported."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module {NAME} has no attribute {name}")
        sys.modules.pop(NAME, None)
        try:
            return getattr(importlib.import_module(NAME), name)
        except ImportError:
            raise AttributeError(f"module {NAME} has no attribute {name}: ipykernel is not installed") from None
        finally:
            sys.modules[NAME] = self


def install(shell_class):
    """Installs the substitute. isinstance(get_ipython(), ZMQInteractiveShell) is true, too."""
    module = _Module(NAME, __doc__)
    module.ZMQInteractiveShell = shell_class
    sys.modules.setdefault(NAME, module)
