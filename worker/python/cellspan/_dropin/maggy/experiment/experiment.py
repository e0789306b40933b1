# SPDX-License-Identifier: BSD-3-Clause
"""lagom(): starts a training, and averages what its ranks return."""

from __future__ import annotations

import inspect
import threading
import time

from ..._dropin_api import directory, launch, place_of
from .. import _rank
from ..config import LagomConfig, TorchDistributedConfig

__all__ = ["lagom"]
__dir__ = directory(globals())

GIVEN = ("module", "dataset", "train_set", "test_set", "hparams", "reporter")

_running = threading.Lock()


def lagom(train_fn, config, *, n=None, on=None, reuse=False):
    """Calls train_fn on every rank, and returns {"test result": the mean of their values, "results": the list by rank}.

    train_fn gets those of these arguments that it has: module, dataset, train_set, test_set, hparams, reporter. It returns a
    number, a tensor with one element, or a dict of these; of dicts, each value is averaged. If it has called
    reporter.broadcast(), the dict also has "broadcast": the list of (step, metric) of each rank. n: the number of ranks (None:
    as in %distribute); on: where, as in cellspan.run(); reuse: on the notebook's ranks instead of fresh processes.

    RuntimeError: an experiment is running already. TypeError: config is no TorchDistributedConfig; train_fn does not take
    `module`, or needs an argument that there is not. ReturnTypeError, a TypeError: train_fn returned something else. ValueError:
    a dataset has fewer samples than there are ranks; DeepSpeed with reuse. An exception of train_fn is raised again.
    """
    __tracebackhide__ = True
    if not _running.acquire(blocking=False):
        raise RuntimeError("An experiment is currently running.")
    try:
        return _lagom(train_fn, config, {"n": n, "on": on, "reuse": reuse})
    finally:
        _running.release()


def _lagom(train_fn, config, where):
    __tracebackhide__ = True
    if not isinstance(config, TorchDistributedConfig):
        raise TypeError(f"Invalid config type! {_described(config)}")
    config.check()
    if config.backend == "deepspeed" and where["reuse"]:
        raise ValueError("backend='deepspeed' needs fresh processes, since DeepSpeed can be initialised only once: leave out reuse=True")
    wanted = wanted_by(train_fn)
    start = time.monotonic()
    job = {name: getattr(config, name) for name in ("module", "hparams", *_sets(wanted))}
    settings = {name: getattr(config, name) for name in _rank.SETTINGS}
    job.update(train_fn=train_fn, wanted=wanted, settings=settings)
    where["on"] = place_of(where["on"], say=True)
    ranks = launch(_rank.lagom, (), job, gather=True, **where)
    values = [value for value, _ in ranks]
    result = {"test result": _mean(values), "results": values}
    if any(history for _, history in ranks):
        result["broadcast"] = [history for _, history in ranks]
    print("Final average test loss:", _shown(result["test result"]))
    seconds = round(time.monotonic() - start)
    print(f"Finished experiment. Total run time: {seconds // 3600} hours, {seconds // 60 % 60} minutes, {seconds % 60} seconds")
    return result


def wanted_by(train_fn):
    """The names of train_fn's arguments, all of which are in GIVEN. TypeError: there are others, or `module` is not among them."""
    __tracebackhide__ = True
    if not callable(train_fn):
        raise TypeError(f"lagom() needs a training function, not {type(train_fn).__name__}")
    name = getattr(train_fn, "__name__", type(train_fn).__name__)
    wanted = []
    for argument in inspect.signature(train_fn).parameters.values():
        if argument.kind is argument.VAR_KEYWORD:
            wanted += [other for other in GIVEN if other not in wanted]
        elif argument.name in GIVEN and argument.kind is not argument.POSITIONAL_ONLY:
            wanted.append(argument.name)
        elif argument.default is argument.empty and argument.kind is not argument.VAR_POSITIONAL:
            raise TypeError(f"{name}() needs {argument.name!r}, which lagom() does not have. It passes these, by name: "
                            f"{', '.join(GIVEN)}; other values go into hparams")
    if "module" not in wanted:
        raise TypeError(f"{name}() does not take 'module': each rank would train a module of its own. Make the model in it "
                        "by calling module(...)")
    return wanted


def _sets(wanted):
    """The attributes of the configuration that hold the datasets, unless no dataset is wanted."""
    sets = ("dataset", "train_set", "test_set")
    return sets if any(name in wanted for name in sets) else ()


def _described(config):
    if isinstance(config, type) and issubclass(config, LagomConfig):
        return f"{config.__name__} is a class; make a configuration: {config.__name__}(...)"
    kind = type(config)
    ours = "cellspan.maggy.config.TorchDistributedConfig"
    return f"LagomConfig is expected to be of type {ours}, but is of type {kind.__module__}.{kind.__qualname__}"


def _mean(values):
    __tracebackhide__ = True
    kinds = {tuple(value) if isinstance(value, dict) else "a number" for value in values}
    if len(kinds) > 1:
        raise ValueError(f"the ranks returned different things: {', '.join(map(str, kinds))}; return the same keys on each")
    if not isinstance(values[0], dict):
        return sum(values) / len(values)
    return {key: sum(value[key] for value in values) / len(values) for key in values[0]}


def _shown(mean):
    if isinstance(mean, dict):
        return ", ".join(f"{key} {value:.3f}" for key, value in mean.items())
    return f"{mean:.3f}"
