"""cellspan: one notebook cell, many ranks.

`cellspan.run(fn, *args, n=4)` and `cellspan.group()` are the magics from Python.
"""

__all__ = ["group", "run"]


def __getattr__(name):
    if name in __all__:  # what most workers never use is not imported with them
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module 'cellspan' has no attribute {name!r}")
