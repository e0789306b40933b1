# SPDX-License-Identifier: BSD-3-Clause
from typing import Any

from ._px import Client as Client
from ._px import Cluster as Cluster
from ._px import DirectView as DirectView
from ._px import LoadBalancedView as LoadBalancedView
from ._px import NoEnginesRegistered as NoEnginesRegistered
from ._pxresult import AsyncResult as AsyncResult
from ._pxresult import TaskResult as TaskResult
from ._pxresult import TimeoutError as TimeoutError
from ._worker.remote import RemoteError as RemoteError

AsyncMapResult = TaskResult
CompositeError = RemoteError

__all__ = [
    "AsyncMapResult", "AsyncResult", "Client", "Cluster", "CompositeError", "DirectView", "LoadBalancedView", "NoEnginesRegistered",
    "RemoteError", "TaskResult", "TimeoutError", "bind_kernel",
]

def bind_kernel(**options: Any) -> None: ...
def load_ipython_extension(shell: object) -> None: ...
def unload_ipython_extension(shell: object) -> None: ...
