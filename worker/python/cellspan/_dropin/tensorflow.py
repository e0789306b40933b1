# SPDX-License-Identifier: BSD-3-Clause
"""MirroredStrategyRunner, with the interface of spark-tensorflow-distributor 1.0 (spark_tensorflow_distributor), on cellspan's ranks."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import sys

from ._dropin_api import (
    Exchange,
    OwnNames,
    caller,
    check_call,
    current_home,
    directory,
    gpus_here,
    is_far,
    launch,
    place_and_gpus,
    send_load,
    serving,
    this_rank,
    whole,
)

__all__ = ["MirroredStrategyRunner"]
__dir__ = directory(globals())


class MirroredStrategyRunner:
    """Trains with TensorFlow's MultiWorkerMirroredStrategy on several processes.

    num_slots: the number of GPUs in all, each with a process of its own; without use_gpu the number of processes. local_mode: one
    process on this machine, with num_slots GPUs. use_custom_strategy: the function makes its own strategy. gpu_resource_name: Spark's,
    not looked at. on: where, as in cellspan.run(); reuse: on the notebook's ranks, which stay; else in fresh processes.

    ValueError: num_slots is no positive number. RuntimeError: use_gpu without GPUs.
    """

    def __init__(self, *, num_slots, local_mode=False, use_gpu=True, gpu_resource_name="gpu", use_custom_strategy=False, on=None, reuse=False):
        __tracebackhide__ = True
        self._logger = _logger(type(self).__name__)
        if whole(num_slots) is None:
            raise TypeError(f"num_slots={num_slots!r}: it is a number of GPUs or processes")
        num_slots = whole(num_slots)
        if num_slots <= 0:
            raise ValueError(f"num_slots is set to {num_slots} but cannot be less than or equal to 0.")
        if local_mode and on not in (None, "local"):
            raise ValueError(f"local_mode=True is this machine: leave out on={on!r}, or local_mode")
        self._num_slots, self._local_mode, self._use_gpu = num_slots, local_mode, use_gpu
        self._gpu_resource_name, self._use_custom_strategy = gpu_resource_name, use_custom_strategy
        self._on, self._reuse = on, reuse
        self._logger.info("Doing GPU training..." if use_gpu else "Doing CPU training...")
        if not local_mode:
            self._logger.info("Will run with %d tasks.", self.get_num_tasks())

    def get_num_tasks(self):
        """The number of processes."""
        return 1 if self._local_mode else self._num_slots

    def run(self, train_fn, **kwargs):
        """Calls train_fn(**kwargs) in each process, in the scope of a strategy unless use_custom_strategy is set, and returns the value
        of rank 0.

        ValueError: local_mode with more GPUs than there are, or with several processes. ModuleNotFoundError: a rank has no TensorFlow.
        Raises the exception of the first rank that fails.
        """
        __tracebackhide__ = True
        check_call(train_fn, (), kwargs)
        place = self._place()
        self._logger.info("Distributed training in progress...")
        options = dict(place, no_gpu=not self._use_gpu, reuse=self._reuse)
        given = train_fn, kwargs, not self._use_custom_strategy
        home = caller()
        with OwnNames("num_slots", "use_gpu=True", "use_gpu=False"):
            value = home.do("tensorflow", "_launch", given, options) if is_far(home) else _launch(given, options)
        self._logger.info("Training with %d slots is complete!", self._num_slots)
        return value

    def _place(self):
        """{option: value} for launch(): where, and on which processors."""
        __tracebackhide__ = True
        if not self._local_mode:
            on, gpus = place_and_gpus(self._on, self._use_gpu)
            own = ("1,own" if gpus else "own") if self._use_gpu else None  # the strategy takes every GPU that a process sees
            return {"n": self._num_slots, "on": on, "gpus": own}
        if not self._use_gpu:
            if self._num_slots > 1:
                raise ValueError("Cannot run with more than 1 CPU machine in local mode. Try setting num_slots to 1.")
            return {"n": 1, "on": "local"}
        available = gpus_here()
        if self._num_slots > available:
            raise ValueError(f"{self._num_slots} slots were requested for local training with GPU training but only {available} GPUs were available.")
        return {"n": 1, "on": "local", "gpus": f"{self._num_slots},own"}


def _logger(name):
    logger = logging.getLogger(name)
    if not logger.handlers and not logging.getLogger().handlers:
        logger.setLevel(logging.INFO)
        logger.addHandler(logging.StreamHandler(sys.stderr))
    return logger


class _Endpoints:
    """At home: gets the address and port of each rank, and hands the list to all."""

    def __init__(self, home):
        self._home = home
        self._known = {}  # rank: its endpoint

    def take(self, cell, rank, head, data):
        self._known[rank] = head["endpoint"]
        if len(self._known) == head["world"]:
            for one in self._known:
                send_load(self._home, cell, one, {"workers": [self._known[k] for k in sorted(self._known)]})

    def stop(self, error):
        """Interrupted: the ranks are, too."""


# ---- on the ranks -----------------------------------------------------------------------------------------------------


def _launch(given, options):
    """Calls the function on the ranks, which ask home for each other's endpoints."""
    __tracebackhide__ = True
    home = current_home()
    with serving(home, _Endpoints(home)) as of:
        return launch(_train, (of, *given), **options)


def _train(of, fn, kwargs, wraps):
    """Sets TF_CONFIG, and calls the function."""
    __tracebackhide__ = True
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with contextlib.closing(_port()) as free:
        endpoint = _endpoint(*free.getsockname()[:2])
        with Exchange(this_rank(), of) as to_home:
            to_home.send(endpoint=endpoint, world=world)
            head, _ = to_home.receive()
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": head["workers"]}, "task": {"type": "worker", "index": rank}})
    try:
        if not wraps:
            return fn(**kwargs)
        with _strategy().scope():
            return fn(**kwargs)
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise ModuleNotFoundError(
            "MirroredStrategyRunner needs TensorFlow on the ranks: pip install tensorflow, or tensorflow-cpu", name="tensorflow"
        ) from error


def _endpoint(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _port():
    """A socket that holds a free port, at the address by which other ranks reach this machine."""
    master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    family, _, _, _, address = socket.getaddrinfo(*master, type=socket.SOCK_DGRAM)[0]
    with contextlib.closing(socket.socket(family, socket.SOCK_DGRAM)) as way:
        way.connect(address)  # sends nothing; it only chooses the own address
        own = way.getsockname()[0]
    held = socket.socket(family, socket.SOCK_STREAM)
    held.bind((own, 0))
    return held


def _strategy():
    __tracebackhide__ = True
    import tensorflow as tf

    make = getattr(tf.distribute, "MultiWorkerMirroredStrategy", None) or tf.distribute.experimental.MultiWorkerMirroredStrategy
    return make()
