# SPDX-License-Identifier: BSD-3-Clause
"""@cellspan.distributed, with the interface of the decorator of databricks-sdk-air 0.1 (databricks.air.distributed)."""

from __future__ import annotations

import functools
import numbers
import re
import sys

from . import _api
from ._base.whole import whole
from ._cluster_place import gpus_of_place
from ._jobs import launch
from ._option_errors import OwnNames

TIMEOUT = 10800  # seconds, as there
KEEP = object()  # with_overrides(): keep the value
NODE = re.compile(r"GPU_(\d+)x\w+")


def distributed(
    num_accelerators=None,
    accelerator_type=None,
    remote=False,
    timeout=TIMEOUT,
    *,
    gpus=None,
    gpu_type=None,
    n=None,
    on=None,
    gpus_per_rank=None,
    reuse=False,
):
    """A decorator: f.distributed(*args, **kwargs) runs f on several processes, and returns the list of their values by rank.

    num_accelerators (or its old name gpus): the number of processes, each of which gets a GPU. n: the number of processes, which need
    no GPU. accelerator_type: such as "GPU_8xH100"; it stands for 8 processes if no number is given; gpu_type is not looked at. timeout:
    seconds, None for no limit. on: where, as in cellspan.run(), in place of remote. gpus_per_rank: GPUs of each process. reuse: on
    the notebook's ranks, which stay; else in fresh processes.

    A direct call f() is a RuntimeError; f.func is the function itself. ValueError: a value makes no sense, or two contradict each
    other.
    """
    __tracebackhide__ = True
    if callable(num_accelerators):
        raise TypeError("@cellspan.distributed needs its parentheses: @cellspan.distributed(n=2)")
    settings = {
        "num_accelerators": num_accelerators, "accelerator_type": accelerator_type, "remote": remote, "timeout": timeout,
        "gpus": gpus, "gpu_type": gpu_type, "n": n, "on": on, "gpus_per_rank": gpus_per_rank, "reuse": reuse,
    }
    _options(settings)
    _check_on(on)
    return lambda func: DistributedFunction(func, settings)


class DistributedFunction:
    """A function with the decorator. func: the function itself."""

    def __init__(self, func, settings):
        __tracebackhide__ = True
        if not callable(func):
            raise TypeError(f"@cellspan.distributed is for a function, not {type(func).__name__}")
        functools.update_wrapper(self, func)
        self.func = func
        self._settings = settings
        self._has_gpus = False  # looked for, and found, by an earlier call

    def __call__(self, *args, **kwargs):
        __tracebackhide__ = True
        name = getattr(self.func, "__name__", "f")
        raise RuntimeError(
            f"Function `{name}` is decorated with `@distributed` and cannot be called directly. Use `{name}.distributed(...)` to run "
            f"it on ranks or `{name}.func(...)` to call the original function."
        )

    def distributed(self, *args, **kwargs):
        """Calls the function with these arguments in each process: the list of values, by rank. Raises the exception of the first
        rank that fails, or TimeoutError. RuntimeError: each process is to get a GPU, and there is none."""
        __tracebackhide__ = True
        options = _options(self._settings)
        if options["gpus"] and not self._has_gpus:
            gpus_of_place(options["on"], _without_gpus(options))
            self._has_gpus = True
        with _own_names(self._settings, options):
            return launch(self.func, args, kwargs, gather=True, **options)

    def with_overrides(
        self, num_accelerators=KEEP, accelerator_type=KEEP, remote=KEEP, timeout=KEEP, *, gpus=KEEP, gpu_type=KEEP, n=KEEP, on=KEEP,
        gpus_per_rank=KEEP, reuse=KEEP,
    ):
        """The same function with other settings. A new number of processes replaces the old one, whichever name it had."""
        __tracebackhide__ = True
        given = {
            "num_accelerators": num_accelerators, "accelerator_type": accelerator_type, "remote": remote, "timeout": timeout,
            "gpus": gpus, "gpu_type": gpu_type, "n": n, "on": on, "gpus_per_rank": gpus_per_rank, "reuse": reuse,
        }
        given = {name: value for name, value in given.items() if value is not KEEP}
        settings = dict(self._settings)
        if any(given.get(name) is not None for name in _COUNTS):
            settings.update(dict.fromkeys(_COUNTS), accelerator_type=None)
        settings.update(given)
        _options(settings)
        _check_on(settings["on"])
        return DistributedFunction(self.func, settings)

    def __repr__(self):
        given = (f"{name}={value!r}" for name, value in self._settings.items() if value not in (None, False))
        return f"DistributedFunction({', '.join(given)}, func={getattr(self.func, '__name__', self.func)})"


def _check_on(on):
    """ValueError: there is no such engine. Only home is asked: ranks and forked processes decorate functions, too, and call none."""
    __tracebackhide__ = True
    home = getattr(sys.modules.get("cellspan._worker.home"), "current", None)
    try:
        if home is not None:
            home.may_call()
    except RuntimeError:
        return
    if home is not None:
        _api.check_on(home, on)


def _without_gpus(options):
    return f"use @cellspan.distributed(n={options['n'] or 2}) to run on processors"


def _own_names(settings, options):
    """Errors about launch()'s options name these."""
    given = {name: settings[name] for name in ("gpus_per_rank", *_COUNTS, "accelerator_type") if settings[name] is not None}
    count = next((name for name in _COUNTS if name in given), "n")
    gpus = next((f"{name}={value!r}" for name, value in given.items()), "gpus")
    return OwnNames(count, gpus, without_gpus=_without_gpus(options))


_COUNTS = ("num_accelerators", "gpus", "n")


def _options(settings):
    """launch()'s options. Raises ValueError."""
    __tracebackhide__ = True
    if settings["remote"]:
        raise ValueError("remote=True: say where, such as on='ssh:host1,host2' or on='slurm:--nodes=2'")
    timeout = settings["timeout"]
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, numbers.Real) or not timeout > 0):
        raise ValueError(f"timeout={timeout!r}: it is a number of seconds above 0, or None")
    counts = {name: whole(settings[name]) for name in _COUNTS if settings[name] is not None}
    for name, count in counts.items():
        if count is None or count < 1:
            raise ValueError(f"{name}={settings[name]!r}: it is a number of processes, 1 or more")
    if len(counts) > 1:
        raise ValueError(f"{' and '.join(counts)} are the same number: give one of them")
    count, kind = next(iter(counts.values()), None), settings["accelerator_type"]
    wants_gpus = "n" not in counts and (bool(counts) or kind is not None)
    if kind is not None:
        match = NODE.fullmatch(getattr(kind, "value", str(kind)))
        if not match:
            raise ValueError(f"accelerator_type={kind!r}: it has the form 'GPU_8xH100'")
        count = count or int(match.group(1))
    per_rank = settings["gpus_per_rank"]
    if per_rank is None and wants_gpus:
        per_rank = 1
    return {"n": count, "on": settings["on"], "gpus": per_rank, "timeout": timeout, "reuse": settings["reuse"]}
