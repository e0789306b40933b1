"""launch(): runs a function on ranks for the modules of _dropin/, either in fresh processes or on the notebook's ranks."""

from __future__ import annotations

from . import _api


def launch(
    fn,
    args=(),
    kwargs=None,
    *,
    n=None,
    on=None,
    gpus=None,
    no_gpu=False,
    env=None,
    reuse=False,
    gather=False,
    timeout=None,
):
    """Calls fn(*args, **kwargs) on n ranks. Returns rank 0's value, or with gather=True the list of all ranks' values.

    n: world size (None: as in %distribute); on: where, as in cellspan.run(); gpus: for each rank; no_gpu: ranks see none; env:
    {name: text}; timeout: seconds. reuse: on the notebook's ranks, which stay; else in fresh processes.

    Raises the exception of the first rank that fails, which is also a RemoteError (see _worker/remote.py). TypeError, before
    anything runs: the function or an argument can't be sent, or the arguments do not fit the function.
    """
    __tracebackhide__ = True
    options = {"on": on, "gpus": gpus, "env": env, "gather": gather, "timeout": timeout}
    if reuse:
        return _api.call(fn, args, kwargs, n=n, no_gpu=no_gpu, **options)
    return _api.beside(fn, args, kwargs, **{"nproc": n, "no-gpu": no_gpu}, **options)
