# SPDX-License-Identifier: BSD-3-Clause
"""ipyparallel's magics and views on cellspan's ranks: `%load_ext cellspan.px`, or `import cellspan.px as ipp`.

The interface is that of ipyparallel 9's documentation. cellspan's own forms are shorter: %%distribute, cellspan.map, cellspan.group().
"""

from __future__ import annotations

import sys

from .. import RemoteError
from .._dropin_api import NO_CLIENTS, current_home, directory, is_on_rank
from ._views import Client, Cluster, DirectView, LoadBalancedView, NoEnginesRegistered
from ._result import AsyncResult, TaskResult, TimeoutError

AsyncMapResult = TaskResult
CompositeError = RemoteError  # here the exception of the first rank that failed is raised

__all__ = [
    "AsyncMapResult",
    "AsyncResult",
    "Client",
    "Cluster",
    "CompositeError",
    "DirectView",
    "LoadBalancedView",
    "NoEnginesRegistered",
    "RemoteError",
    "TaskResult",
    "TimeoutError",
    "bind_kernel",
]
__dir__ = directory(globals())

_INSTEAD = {  # names of ipyparallel that are not here: what to use
    "Reference": "name the variable in a %%px cell, or pull() it",
    "depend": "choose the ranks by a view, such as client[::2]",
    "interactive": "functions of the notebook use the variables of the rank in any case: leave the decorator out",
    "register_joblib_backend": "use cellspan.map",
    "require": "import the module in the function, or in a %%px cell",
}


def bind_kernel(**options):
    """Prints a line: a rank has no clients of its own, unlike an engine of ipyparallel after this call."""
    print(f"cellspan: bind_kernel(): {NO_CLIENTS}", file=sys.stderr)


def __getattr__(name):
    __tracebackhide__ = True
    if name in _INSTEAD:
        raise AttributeError(f"cellspan.px has no {name}: {_INSTEAD[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell):
    """%load_ext cellspan.px. Ranks load home's extensions, too: there it does nothing."""
    if is_on_rank():
        return
    from ._magics import register

    register(current_home())


def unload_ipython_extension(shell):
    """%unload_ext cellspan.px"""
    if is_on_rank():
        return
    from ._magics import unregister

    unregister(current_home())
