"""What a worker's process looks like before anything of the user's runs: environment, search path, crash reports."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import tempfile

from .. import _link

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")  # our own files begin with it
TRAITS = "CELLSPAN_IPYTHON_ARGS"  # kernel/arguments.h
traits = []  # the settings for IPython on the kernel's command line (--Class.trait=value), as they were given there
_runtime = ""  # a folder that only this user may enter, as the agent has it; "": there is none


def tidy():
    """Takes out of the environment what is there only for this process, and adds what a notebook's processes expect.

    The agent may have put the folder of this package on PYTHONPATH: the user's processes must not see it, and the
    user's own modules go first.
    """
    global _runtime
    env = os.environ
    _runtime = env.pop("CELLSPAN_RUNTIME", "")
    own = env.pop("CELLSPAN_PYTHONPATH", "")
    if own:
        rest = [p for p in env.get("PYTHONPATH", "").split(os.pathsep) if p and p != own]
        if rest:
            env["PYTHONPATH"] = os.pathsep.join(rest)
        else:
            env.pop("PYTHONPATH", None)
        sys.path[:] = [p for p in sys.path if p != own] + [own]
    try:
        traits[:] = [str(text) for text in json.loads(env.pop(TRAITS, "[]"))]
    except ValueError:
        pass
    env.pop("PYTHONUNBUFFERED", None)
    for name in ("PAGER", "GIT_PAGER"):
        env[name] = "cat"
    env.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")


def raw():
    """The environment as the operating system has it: what compares quickly with what it was before."""
    return dict(getattr(os.environ, "_data", os.environ))


def own_folder():
    """A new folder for this process's files, which nobody else may enter; the agent removes it with the process."""
    if not _runtime:
        return tempfile.mkdtemp(prefix="cellspan-rank-")
    path = os.path.join(_runtime, f"rank-{os.getpid()}")
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def colour():
    """For home, whose text is shown by programs that understand colours."""
    for name, value in (("TERM", "xterm-color"), ("CLICOLOR", "1"), ("FORCE_COLOR", "1"), ("CLICOLOR_FORCE", "1")):
        os.environ[name] = value


def coloured():
    """For ranks whose text is shown in a notebook: they have no terminal, and libraries would print without colours. What the
    user's environment says holds."""
    env = os.environ
    if not env.get("NO_COLOR"):
        for name in ("CLICOLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
            env.setdefault(name, "1")
    if env.get("TERM", "") in ("", "dumb", "unknown"):
        env["TERM"] = "xterm-256color"


def folder():
    """The working directory, or "" where it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


moved = ""  # where the ranks are instead of the notebook's folder, until they have said so


def leave_deleted():
    """Ranks of a notebook whose folder was deleted start in the user's home: IPython, oneMKL and others can't do without one."""
    global moved
    if folder():
        return
    home = os.path.expanduser("~")
    moved = home if os.path.isdir(home) else os.sep
    os.chdir(moved)


def expanded(folder):
    """A folder as people write it, where there is none of just that name: ~ and $NAME as this machine has them."""
    return folder if os.path.isdir(folder) else os.path.expandvars(os.path.expanduser(folder))


def told_moved():
    """A line that says where the ranks are, once; "" where there is nothing to say."""
    global moved
    here, moved = moved, ""
    return f"cellspan: the notebook's folder was deleted: the ranks are in {here} (--cwd DIR names another)" if here else ""


def search_path():
    """As a notebook's: modules of the current directory, wherever %cd goes. Called when ours are all imported: a user's
    logging.py must not be taken for Python's while a worker starts; see __main__.py."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, "")


def stacks(fd):
    """Stacks go to descriptor `fd`: on request (SIGRTMIN+3, needs no lock of Python's), and when the process crashes."""
    os.set_inheritable(fd, False)
    faulthandler.disable()  # a rank has the zygote's on; ours has to lie underneath, so that Python's stack comes first
    _link.stack(fd)
    faulthandler.enable(file=fd, all_threads=True)
    faulthandler.register(signal.SIGRTMIN + 3, file=fd, all_threads=True, chain=False)


def stack_descriptor():
    """The descriptor that the agent gave for stacks, or None."""
    text = os.environ.pop("CELLSPAN_STACK_FD", "")
    return int(text) if text.isdigit() else None
