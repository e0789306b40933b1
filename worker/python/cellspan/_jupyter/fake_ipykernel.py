# SPDX-License-Identifier: BSD-3-Clause
"""A substitute for the module ipykernel, for requests of a client that the user does not see. VS Code asks in one whether
ipykernel.__version__ is at least 6, and has no debugger otherwise.

Only the text of such a request can import it, and it is gone when the request is over. So libraries that look for ipykernel find
what is true: the real one, or none."""

from __future__ import annotations

import sys
import types
from importlib.machinery import ModuleSpec

NAME = "ipykernel"
VERSION = (6, 30, 0)  # of the protocol and the debugger's messages that the kernel has


class Finder:
    """Comes last in sys.meta_path, so a real ipykernel is found before it."""

    def __init__(self, home):
        self._home = home
        self._shell = home.shell

    def find_spec(self, name, path=None, target=None):
        if name != NAME or not self._is_asked():
            return None
        self._shell.events.register("post_execute", self._take_back)
        return ModuleSpec(name, self)

    def _is_asked(self):
        """Is a request being served that is not recorded in the history, and does its own text have the import?"""
        cell, frame = self._home.cell, sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        return cell is not None and not cell.store_history and frame is not None and frame.f_globals is self._shell.user_ns

    def create_module(self, spec):
        module = types.ModuleType(NAME, __doc__)
        module.__version__, module.version_info = ".".join(map(str, VERSION)), VERSION
        return module

    def exec_module(self, module):
        pass

    def _take_back(self):
        self._shell.events.unregister("post_execute", self._take_back)
        module = sys.modules.get(NAME)
        if getattr(module, "__loader__", None) is not self:
            return
        del sys.modules[NAME]
        for name in [name for name, value in self._shell.user_ns.items() if value is module]:
            del self._shell.user_ns[name]


def install(home):
    """Installs the finder for home's shell."""
    sys.meta_path.append(Finder(home))
