# SPDX-License-Identifier: BSD-3-Clause
"""Processes that are forked from the test and meet as ranks do, for the tests of cellspan.horovod.torch."""

from __future__ import annotations

import os
import pickle
import random
import socket
import sys
import threading
import traceback

import torch

import cellspan.horovod.torch as hvd

torch.set_num_threads(1)  # processes are forked from this one, and threads of OpenMP do not survive a fork
LIMIT = 120  # seconds


def free_port():
    """A TCP port below those from which the system takes the ports of connections."""
    while True:
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", random.SystemRandom().randrange(12000, 20000)))
            except OSError:
                continue
            return taken.getsockname()[1]


def world(n, function, *args, init=True):
    """Calls function(rank, *args) in n processes, after hvd.init(). Their values by rank; an exception of theirs as text."""
    port = free_port()
    pipes, children = [], []
    for rank in range(n):
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(here)
            _child(there, rank, n, port, function, args, init)
        os.close(there)
        pipes.append(here)
        children.append(child)
    killer = threading.Timer(LIMIT, lambda: [os.kill(child, 9) for child in children])
    killer.start()
    texts = []
    for here, child in zip(pipes, children):
        with os.fdopen(here, "rb") as file:
            texts.append(file.read())
    killer.cancel()
    for child in children:
        os.waitpid(child, 0)
    return [pickle.loads(text) if text else "it died" for text in texts]


def _child(there, rank, n, port, function, args, init):
    local = {"RANK": rank, "WORLD_SIZE": n, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": n, "GROUP_RANK": 0}
    os.environ.update({name: str(value) for name, value in local.items()}, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    try:
        if init:
            hvd.init()
        value = function(rank, *args)
        if init:
            hvd.shutdown()
    except BaseException as error:  # noqa: BLE001 - it travels as text
        value = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    sys.stderr.flush()
    with os.fdopen(there, "wb") as file:
        file.write(pickle.dumps(value))
    os._exit(0)


def lists(value):
    """Tensors as lists, since a pickled tensor needs the process that made it."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [lists(one) for one in value] if isinstance(value, (list, tuple)) else value
