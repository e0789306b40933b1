# SPDX-License-Identifier: BSD-3-Clause
"""`python -m cellspan._worker home|zygote FD`: started by agents. FD is the socket to the agent. Agents start it so that the current
folder is not on the search path: see spawn_process.c. It is added when all our modules are imported."""

from __future__ import annotations

import contextlib
import gc
import os
import sys

SENT = os.path.join(os.path.abspath(__file__ + "/../../../.."), "packages")
"""What was sent to a machine whose Python lacks what we import (_install/payload.py)."""


def say_version():
    """Another machine may have another Python, which is why this one can't start. The kernel's rank_events.c knows how the line begins."""
    import platform

    print("cellspan: this is Python " + platform.python_version(), file=sys.stderr)


def say_others():
    """Names the machine's own packages in other versions than those that were sent, which may need these."""
    from importlib import metadata

    others = {}
    for sent in metadata.distributions(path=[SENT]):
        name = sent.metadata["Name"]
        own = next(iter(metadata.distributions(name=name, path=[path for path in sys.path if path != SENT])), None)
        if own and own.version != sent.version:
            others[name] = f"{name} {own.version} ({sent.version} was sent)"
    if others:
        print(f"cellspan: {sys.executable} has {', '.join(others.values())}; if that is why, run there: "
              f"{sys.executable} -m pip install --upgrade {' '.join(others)}", file=sys.stderr)


def tell(*error):
    """Of an error before it is ready."""
    sys.__excepthook__(*error)
    if isinstance(error[1], (ImportError, AttributeError)):
        with contextlib.suppress(Exception):  # what is told of a broken package may be broken, too
            say_others()
    say_version()


def main(argv):
    """Runs until the agent ends it."""
    if len(argv) != 3 or argv[1] not in ("home", "zygote") or not argv[2].isdigit():
        sys.exit("usage: python -m cellspan._worker home|zygote FD (started by cellspan-agent, not by hand)")
    if argv[1] == "zygote":
        sys.excepthook = tell
    gc.disable()  # what imports make is kept, so looking for garbage meanwhile is a sixth of their time: begin.begin_collecting()
    if os.path.isdir(SENT):
        sys.path.append(SENT)  # its own packages come first
    if os.environ.pop("CELLSPAN_NO_BYTECODE", ""):  # the agent sets both; other modules' bytecode may be written
        from cellspan._base import unwritten

        del os.environ["PYTHONDONTWRITEBYTECODE"]
        sys.dont_write_bytecode = False
        unwritten.install(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    try:
        if argv[1] == "home":
            from cellspan._worker import home as role
        else:
            from cellspan._worker import zygote as role
    except ModuleNotFoundError as error:
        from cellspan import _link

        needs = _link.needs()
        if error.name not in (*needs, "traitlets"):  # the last: IPython's
            raise
        if argv[1] == "zygote":
            say_version()
        packages = " ".join(f'"{package}"' for package in needs.values())
        sys.exit(f"{sys.executable} has no {error.name}: install it there ({sys.executable} -m pip install {packages})")
    role.main(int(argv[2]))


if __name__ == "__main__":
    main(sys.argv)
