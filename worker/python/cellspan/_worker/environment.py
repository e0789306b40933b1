# SPDX-License-Identifier: BSD-3-Clause
"""Sets up a worker's process before the user's code runs: environment, search path."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import sys
import tempfile

from .. import _link
from .._base import shadows

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")  # the prefix of our own files' paths
TRAITS = "CELLSPAN_IPYTHON_ARGS"  # kernel/kernel.h
SCRIPT_MAX = 2 << 20  # characters of a script that is sent with its cell
traits = []  # IPython's settings on the kernel's command line (--Class.trait=value), unchanged
_runtime = ""  # the agent's folder, which only this user may enter; "": there is none


def runtime():
    """The agent's folder, which only this user may enter; "": there is none."""
    return _runtime


def tidy():
    """Removes variables that are only for this process from the environment, and adds those that notebooks' processes expect.

    The agent may have put the folder of this package on PYTHONPATH: the user's processes must not see it, and the
    user's own modules must be found first.
    """
    global _runtime
    env = os.environ
    _runtime = env.pop("CELLSPAN_RUNTIME", "")
    own = env.pop("CELLSPAN_PYTHONPATH", "")
    if own:
        theirs, _, last = env.get("PYTHONPATH", "").rpartition(os.pathsep)
        if last == own and theirs:
            env["PYTHONPATH"] = theirs
        elif last == own:
            env.pop("PYTHONPATH", None)
        sys.path[:] = [p for p in sys.path if p != own] + [own]
    try:
        traits[:] = [str(text) for text in json.loads(env.pop(TRAITS, "[]"))]
    except ValueError:
        pass
    for name in ("PAGER", "GIT_PAGER"):
        env[name] = "cat"
    if not env.get("MPLBACKEND"):
        env["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"


def raw():
    """The environment as bytes, which is fast to compare with an earlier one."""
    return dict(_data())


def is_still(before):
    """Is the environment what it was when raw() returned `before`?"""
    return _data() == before


def _data():
    return getattr(os.environ, "_data", os.environ)


def put_back(before):
    """Makes the environment what it was when raw() returned `before`."""
    decoded = {os.fsdecode(name): os.fsdecode(value) for name, value in before.items()}
    for name in [name for name in os.environ if name not in decoded]:
        del os.environ[name]
    os.environ.update({name: value for name, value in decoded.items() if os.environ.get(name) != value})


def make_folder():
    """In the zygote, or at home: if the agent could not make a folder for workers' files, makes one. Returns a function that removes it."""
    global _runtime
    if _runtime:
        return lambda: None
    _runtime = tempfile.mkdtemp(prefix="cellspan-workers-")
    return functools.partial(shutil.rmtree, _runtime, ignore_errors=True)


def own_folder(role):
    """The folder for files of this process, which is "home" or a "rank". Nobody else may enter it. The agent removes it when the process
    has ended, however it did."""
    path = os.path.join(_runtime, f"{role}-{os.getpid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def colour():
    """Turns on colours at home: the clients that show its text support them."""
    for name, value in (("TERM", "xterm-color"), ("CLICOLOR", "1"), ("FORCE_COLOR", "1"), ("CLICOLOR_FORCE", "1")):
        os.environ[name] = value


def coloured():
    """Turns on colours on ranks whose text is shown in a notebook: they have no terminal, so libraries would print without. The
    user's own settings are kept."""
    env = os.environ
    if not env.get("NO_COLOR"):
        for name in ("CLICOLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
            env.setdefault(name, "1")
    if env.get("TERM", "") in ("", "dumb", "unknown"):
        env["TERM"] = "xterm-256color"


def folder():
    """The current folder, or "" if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


_start = folder()  # where this process began: ranks of this machine begin there, too


def refuse_missing(cwd, script):
    """At home: raises the UsageError that ranks of this machine would raise if there is no such folder or script. Empty: none is named."""
    from IPython.core.error import UsageError

    if not os.path.isdir(_start):
        return
    place = os.path.join(_start, cwd)
    place = place if os.path.isdir(place) else os.path.join(_start, os.path.expandvars(os.path.expanduser(cwd)))
    try:
        os.stat(os.path.join(place, ""))
    except OSError as error:
        raise UsageError(f"--cwd {cwd}: {error.strerror}") from None
    if script and not os.path.exists(os.path.join(place, script)):
        raise UsageError(f"{script}: no such file (the ranks would be in {os.path.normpath(place)})")


def refuse_lacking(paths):
    """Raises a UsageError if home has no such file or folder, for a --with that sends nothing."""
    from IPython.core.error import UsageError

    for path in paths:
        try:
            os.stat(path if os.path.exists(path) else os.path.expanduser(path))
        except OSError as error:
            raise UsageError(f"--with {path}: {error.strerror}") from None


moved = ""  # the folder of the ranks if the notebook's was deleted, until told_moved() has reported it


def leave_deleted():
    """If the notebook's folder was deleted, its ranks start in the user's home folder, since IPython, oneMKL and others need one."""
    global moved
    if folder():
        return
    home = os.path.expanduser("~")
    moved = home if os.path.isdir(home) else os.sep
    os.chdir(moved)


def expanded(folder):
    """A folder as people write it, where there is none of just that name: ~ and $NAME as this machine has them."""
    return folder if os.path.isdir(folder) else os.path.expandvars(os.path.expanduser(folder))


def report_moved():
    """A line that says, once, where the ranks are; "" if there is nothing to say."""
    global moved
    here, moved = moved, ""
    return f"cellspan: the notebook's folder was deleted: the ranks are in {here} (--cwd DIR names another)" if here else ""


def search_path():
    """Adds the current folder, as for a notebook, also after %cd. Call it when all our modules are imported: while a worker starts,
    a user's logging.py must not replace Python's; see __main__.py."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, "")
        shadows.watch("")


def script_text(path):
    """The text of a script, for ranks that may not have the file; "" if it is not text, can't be read or is too long."""
    try:
        with open(expanded(os.path.dirname(path) or ".") + "/" + os.path.basename(path), encoding="utf-8") as file:
            text = file.read(SCRIPT_MAX + 1)
    except (OSError, ValueError):
        return ""
    return text if len(text) <= SCRIPT_MAX else ""


def language_info():
    """The language_info of notebooks."""
    version = sys.version_info
    return {
        "name": "python",
        "version": ".".join(map(str, version[:3])),
        "mimetype": "text/x-python",
        "file_extension": ".py",
        "pygments_lexer": "ipython3",
        "codemirror_mode": {"name": "ipython", "version": version[0]},
        "nbconvert_exporter": "python",
    }
