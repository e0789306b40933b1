# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that end with what they run: a script, as `python script.py` or `python -m module` would run it, or a cell with --beside.

They are forked for it, in addition to the notebook's ranks: it does not see their variables, and leaves nothing in them.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import importlib.machinery
import importlib.util
import io
import os
import pkgutil
import runpy
import signal
import sys
import tempfile
import threading
import types

from .. import _link
from .._base import shadows
from .._base.errors import in_one_line
from . import store_waits
from .rank import Rank
from .worker import loads


class PassingRank(Rank):
    """A rank that executes one RUN and ends."""

    PASSES = True

    def serve(self):
        """Waits for messages without an event loop, since the code may need its own. Only a cell with await gets ours."""
        while True:
            try:
                _link.wait()
                self._readable()
                if self.running is not None:
                    self.loop.serve()
            except _link.LinkDead:
                os._exit(1)
            except KeyboardInterrupt:
                pass  # for a cell that is over

    def _done(self, cell):
        # The kernel ends with SIGTERM what is left of the run. It must not call a handler of the code, which is over.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL if store_waits.hosts() else signal.SIG_IGN)
        super()._done(cell)
        store_waits.stay()
        os._exit(0 if cell.error is None else 1)


class BesideRank(PassingRank):
    """A rank of a cell with --beside, which runs the notebook's code."""

    def _done(self, cell):
        if not cell.interrupted:
            _, error = self.attempt(cell.number, _run_exit_handlers)
            if error is not None and cell.error is None:
                cell.error = in_one_line(error)
        super()._done(cell)


class ScriptRank(PassingRank):
    """Executes one RUN with RUN_SCRIPT."""

    FOLLOWS_IPYTHON = False
    ENDS_BY_SIGNAL = True  # SIGTERM and SIGHUP have Python's default action, for the script

    def search_path(self):
        """The script's own folder comes first; see find()."""

    def begin(self, cell, fields):
        argv, text = loads(fields["argv"]) or [""], fields["code"]
        cell.code = ""
        cell.instead = functools.partial(self._script, argv, text)
        sys.stdin = _stdin(self, cell)

    def _script(self, argv, text):
        """Runs the script. text: the file's text, if neither the file came here nor is it here."""
        __tracebackhide__ = True
        came, folder = self._follower.script(argv[0]) or ("", "")
        if came:
            argv = [came, *argv[1:]]
        elif text and argv[0] != "-m" and not os.path.exists(argv[0]):
            with tempfile.TemporaryDirectory(prefix="script-", dir=self._folder) as place:
                path = os.path.join(place, os.path.basename(argv[0]))
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                return self._script([path, *argv[1:]], "")
        find(argv, folder)
        try:
            run_file(argv)
        except SystemExit as end:
            if end.code is not None and end.code != 0:  # if it is a text, the cell's error shows it
                raise
        finally:
            _run_exit_handlers()


def find(argv, folder=""):
    """Puts the folder on the search path that Python would put there, or this one. Raises UsageError, one line, if there is no such script."""
    __tracebackhide__ = True
    from IPython.core.error import UsageError

    module = argv[0] == "-m"
    if not module and not os.path.exists(argv[0]):
        raise UsageError(f"{argv[0]}: no such file (the ranks are in {os.getcwd()})")
    inside = None if module else pkgutil.get_importer(argv[0])  # of a folder or an archive, which Python runs by its __main__.py
    if inside is not None and inside.find_spec("__main__") is None:
        raise UsageError(f"{argv[0]}: there is no __main__.py in it: name a script")
    if not module and _is_binary(argv[0]):
        raise UsageError(f"{argv[0]}: this is no Python script, for it has null bytes. cellspan runs Python scripts, not programs")
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder or (os.getcwd() if module else os.path.dirname(os.path.realpath(argv[0]))))
        shadows.watch(sys.path[0])
    if not module:
        return
    try:
        found = importlib.util.find_spec(argv[1])
    except ImportError:
        found = None
    except ValueError:
        return
    if found is None:
        raise UsageError(f"-m {argv[1]}: no such module: install it, or give --cwd its folder")
    if found.submodule_search_locations is not None and not _has_main(argv[1]):
        raise UsageError(f"-m {argv[1]}: it is a package without __main__.py: name one of its modules, as in -m {argv[1]}.NAME")


def _has_main(package):
    """Has it a __main__? True if nobody can tell, since the package can't be imported: running it raises the error."""
    try:
        return importlib.util.find_spec(package + ".__main__") is not None
    except Exception:  # noqa: BLE001 - of the package
        return True


def _is_binary(path):
    """Is it a program, whose first line has null bytes? compile() would not name it. Folders, archives and .pyc files are run otherwise."""
    if not os.path.isfile(path) or path.endswith(".pyc") or pkgutil.get_importer(path) is not None:
        return False
    try:
        with io.open_code(os.path.abspath(path)) as file:
            return b"\0" in file.readline(4096)
    except OSError:  # run_file() raises it
        return False


def run_file(argv):
    """Runs it in a new __main__, which is kept: exit handlers and pickles may need it."""
    __tracebackhide__ = True
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__builtins__ = builtins
    if argv[0] == "-m":
        sys.argv = argv[1:]
        runpy._run_module_as_main(argv[1])
        return
    path = os.path.abspath(argv[0])
    sys.argv = list(argv)
    if path.endswith(".pyc") or pkgutil.get_importer(path) is not None:
        runpy.run_path(path, run_name="__main__")
        return
    main.__file__ = path
    main.__cached__ = None
    finders = sys.modules.get("cellspan._code.finders")  # which ranks on other machines have
    main.__loader__, shown = finders.for_main(path) if finders else (importlib.machinery.SourceFileLoader("__main__", path), path)
    with io.open_code(path) as file:
        code = compile(file.read(), shown, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _run_exit_handlers():
    """Does what Python does at its end: waits for threads, then runs handlers of atexit."""
    threading._shutdown()
    atexit._run_exitfuncs()


class _Asked(io.RawIOBase):
    """Standard input of rank 0: asks the client for lines."""

    def __init__(self, rank):
        self.rank = rank
        self.rest = b""

    def readable(self):
        return True

    def readinto(self, space):
        if not self.rest:
            try:
                self.rest = self.rank.ask("", False).encode("utf-8", "surrogateescape") + b"\n"
            except EOFError:
                return 0
        n = min(len(space), len(self.rest))
        space[:n], self.rest = self.rest[:n], self.rest[n:]
        return n


def _stdin(rank, cell):
    """The script's standard input; empty unless it may ask the client."""
    if not (cell.allow_stdin and cell.flags & _link.RUN_PIPED):
        return open(os.devnull, encoding="utf-8")
    return io.TextIOWrapper(io.BufferedReader(_Asked(rank)), encoding="utf-8", errors="surrogateescape")
