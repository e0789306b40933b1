# SPDX-License-Identifier: BSD-3-Clause
"""cellspan: one notebook cell, many ranks.

`cellspan.rank()`, `cellspan.world_size()` and `cellspan.local_rank()` say where code runs; `cellspan.run(fn, *args, n=4)` and
`cellspan.group()` are the magics from Python. `cellspan.torch` and other modules have the names of packages that users know.
"""

import os as _os

# The modules that are named as other packages are in a folder of their own. So a program that has this folder on sys.path, such as
# one that runs a file of it, still imports the real packages.
__path__.append(_os.path.join(__path__[0], "_dropin"))

# The module of each name; imported on first use, since most workers never need them. The stub in ../cellspan-stubs has them, too: type
# checkers and editors see neither this table nor _dropin/.
_FROM = {
    "Group": "_api",
    "Handle": "_api",
    "RemoteError": "_worker.remote",
    "call": "_api",
    "distributed": "_distributed",
    "group": "_api",
    "local_rank": "_world",
    "map": "_map",
    "on_notice": "_steps",
    "rank": "_world",
    "run": "_api",
    "step": "_steps",
    "world_size": "_world",
}
__all__ = sorted(_FROM)
_MODULES = ("horovod", "maggy", "px", "tensorflow", "torch")  # of _dropin/; imported on first use, too


def __getattr__(name):
    __tracebackhide__ = True
    if name == "__version__":
        from ._link import VERSION

        return VERSION
    if name in _FROM:
        import importlib

        return getattr(importlib.import_module("." + _FROM[name], __name__), name)
    if name in _MODULES:
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'cellspan' has no attribute {name!r}")


def load_ipython_extension(ipython):
    """%load_ext cellspan in another kernel, or a list of extensions in this one. The magics belong to the kernel, so there is nothing to
    load."""
    import sys

    if "cellspan._worker.worker" not in sys.modules:
        from IPython.core.error import UsageError

        raise UsageError("cellspan: its magics need its own kernel: choose the kernel cellspan for this notebook")


def __dir__():
    return [*__all__, *_MODULES, "__version__"]
