"""cellspan: one notebook cell, many ranks.

`cellspan.rank()`, `cellspan.world_size()` and `cellspan.local_rank()` say where code runs; `cellspan.run(fn, *args, n=4)` and
`cellspan.group()` are the magics from Python.
"""

_FROM = {  # the module of each name; imported on first use, since most workers never need them
    "RemoteError": "_worker.remote",
    "call": "_api",
    "group": "_api",
    "local_rank": "_world",
    "rank": "_world",
    "run": "_api",
    "world_size": "_world",
}
__all__ = sorted(_FROM)


def __getattr__(name):
    if name == "__version__":
        from ._link import VERSION

        return VERSION
    if name in _FROM:
        import importlib

        return getattr(importlib.import_module("." + _FROM[name], __name__), name)
    raise AttributeError(f"module 'cellspan' has no attribute {name!r}")


def __dir__():
    return [*__all__, "__version__"]
