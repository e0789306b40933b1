# SPDX-License-Identifier: BSD-3-Clause
from typing import Any

from ._views import Client as Client
from ._views import Cluster as Cluster
from ._views import DirectView as DirectView
from ._views import LoadBalancedView as LoadBalancedView
from ._views import NoEnginesRegistered as NoEnginesRegistered
from ._result import AsyncResult as AsyncResult
from ._result import TaskResult as TaskResult
from ._result import TimeoutError as TimeoutError
from .._worker.remote import RemoteError as RemoteError

AsyncMapResult = TaskResult
CompositeError = RemoteError

__all__ = [
    "AsyncMapResult", "AsyncResult", "Client", "Cluster", "CompositeError", "DirectView", "LoadBalancedView", "NoEnginesRegistered",
    "RemoteError", "TaskResult", "TimeoutError", "bind_kernel",
]

def bind_kernel(**options: Any) -> None: ...
def load_ipython_extension(shell: object) -> None: ...
def unload_ipython_extension(shell: object) -> None: ...
