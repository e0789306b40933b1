"""A rank that runs one script, as `python script.py` or `python -m module` would, and ends with it.

It is forked for that, beside the ranks of the notebook: nothing that they hold is there, and nothing that the script leaves
behind reaches them.
"""

from __future__ import annotations

import atexit
import builtins
import importlib.machinery
import importlib.util
import io
import os
import pkgutil
import random
import runpy
import sys
import tempfile
import threading
import types

from .. import _link
from .rank import Rank
from .worker import loads


class ScriptRank(Rank):
    """Takes one RUN."""

    FOLLOWS_IPYTHON = False
    ENDS_BY_SIGNAL = True  # SIGTERM and SIGHUP are the script's, as Python leaves them

    def serve(self):
        """Without a loop of ours: the script may want its own."""
        while True:
            try:
                _link.wait()
                self._readable()
            except _link.LinkDead:
                os._exit(1)
            except KeyboardInterrupt:
                pass  # of a cell that was over

    def seed(self):
        """As in a new process: other numbers in each run, and not those of the process that this one was forked from."""
        random.seed()
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()

    def search_path(self):
        """The script's own folder comes first; see _find()."""

    def begin(self, cell, fields):
        argv, text = loads(fields["argv"]) or [""], fields["code"]
        cell.code = ""
        cell.instead = lambda: self._script(argv, text)
        sys.stdin = _stdin(self, cell)

    def _script(self, argv, text):
        """text: the file's, for where it is not."""
        __tracebackhide__ = True
        if text and argv[0] != "-m" and not os.path.exists(argv[0]):
            with tempfile.TemporaryDirectory(prefix="script-", dir=self._folder) as place:
                path = os.path.join(place, os.path.basename(argv[0]))
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                return self._script([path, *argv[1:]], "")
        _find(argv)
        try:
            _run(argv)
        except SystemExit as end:
            if end.code is not None and end.code != 0:
                if not isinstance(end.code, int):
                    print(end.code, file=sys.stderr)
                raise
        finally:
            _end()

    def _done(self, cell):
        super()._done(cell)
        os._exit(0 if cell.error is None else 1)


def _find(argv):
    """Puts first on the search path what Python would put there. UsageError in one line: there is no such script."""
    __tracebackhide__ = True
    from IPython.core.error import UsageError

    module = argv[0] == "-m"
    if not module and not os.path.exists(argv[0]):
        raise UsageError(f"{argv[0]}: no such file (the ranks are in {os.getcwd()})")
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.realpath(argv[0])))
    if not module:
        return
    try:
        found = importlib.util.find_spec(argv[1])
    except ImportError:
        found = None
    except ValueError:
        return
    if found is None:
        raise UsageError(f"-m {argv[1]}: no such module")


def _run(argv):
    """In a __main__ of its own, which stays: what runs at the end looks for it, and so do pickles."""
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
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _end():
    """As Python ends: it waits for threads, then handlers of atexit run."""
    threading._shutdown()
    atexit._run_exitfuncs()


class _Asked(io.RawIOBase):
    """Standard input of rank 0: lines that the client has."""

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
    """At its end at once where there is nothing to be read."""
    if not (cell.allow_stdin and cell.flags & _link.RUN_PIPED):
        return open(os.devnull, encoding="utf-8")
    return io.TextIOWrapper(io.BufferedReader(_Asked(rank)), encoding="utf-8", errors="surrogateescape")
