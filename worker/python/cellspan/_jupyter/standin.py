"""What libraries look for to know a notebook: tqdm.auto and others ask whether ipykernel.zmqshell was imported."""

from __future__ import annotations

import importlib
import sys
import types

NAME = "ipykernel.zmqshell"


class _Module(types.ModuleType):
    """Stands where the module would be, without ipykernel's imports; for other names than ours it gives way to it."""

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
    """Makes home a notebook for those who look so; isinstance(get_ipython(), ZMQInteractiveShell) holds as well."""
    module = _Module(NAME, __doc__)
    module.ZMQInteractiveShell = shell_class
    sys.modules.setdefault(NAME, module)
