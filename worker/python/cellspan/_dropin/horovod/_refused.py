# SPDX-License-Identifier: BSD-3-Clause
"""What Horovod has and this module has not: each is refused by its name, with what to use."""

from __future__ import annotations

import types

MIRRORED = ("cellspan.tensorflow.MirroredStrategyRunner with tf.distribute, Keras's own callbacks, and in the place of LogCallback "
            "one of your own that calls log_to_driver()")
INSTEAD = {
    "Adasum": "use op=hvd.Average and scale the learning rate by hvd.size()",
    "ProcessSet": "use torch.distributed.new_group() for collectives among some of the ranks",
    "add_process_set": "use torch.distributed.new_group() for collectives among some of the ranks",
    "remove_process_set": "use torch.distributed.new_group() for collectives among some of the ranks",
    "process_set=...": "use torch.distributed.new_group() for collectives among some of the ranks",
    "init(process_sets=...)": "use torch.distributed.new_group() for collectives among some of the ranks",
    "init(comm=...)": "choose the ranks of the whole run with -n or -r, or with HorovodRunner(np=...)",
    "start_timeline": "use torch.profiler",
    "stop_timeline": "use torch.profiler",
    "mpi_threads_supported": "there is no MPI: hvd.mpi_built() is False",
    "elastic": "save checkpoints, and run the cell again when a rank was lost: new ranks take its place",
    "tensorflow": f"use {MIRRORED}",
    "keras": f"use {MIRRORED}",
    "mxnet": "use torch, with cellspan.horovod.torch",
    "spark": "use cellspan.run(fn, n=4, gather=True), or cellspan.horovod.HorovodRunner",
    "ray": "use cellspan.run(fn, n=4, gather=True), or cellspan.horovod.HorovodRunner",
    "run": "use cellspan.run(fn, n=4, gather=True)",
    "runner": "use cellspan.run(fn, n=4, gather=True)",
}


def words(name):
    """The sentence that refuses a name."""
    return f"cellspan.horovod has no {name}: {INSTEAD[name]} (or install Horovod and set CELLSPAN_HOROVOD=real)"


def missing(module):
    """The error for the import of a module that Horovod has, but not we; None if it is neither's.

    Its name is horovod: so `from cellspan.horovod import tensorflow` raises it too. Python drops it if it has the submodule's name.
    """
    parts = [part for part in module.split(".") if part in INSTEAD]
    return ModuleNotFoundError(words(parts[0]), name="horovod") if parts else None


def refuse(name):
    """Raises NotImplementedError, with what to use instead."""
    raise NotImplementedError(words(name))


def function(name):
    """A function that is refused when it is called."""

    def refused(*args, **kwargs):
        refuse(name)

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"Refused: {INSTEAD[name]}."
    return refused


# pickle asks each module for the names of some objects, and goes on at an AttributeError only.
_NoAttribute = type("NotImplementedError", (NotImplementedError, AttributeError), {})


class Part(types.ModuleType):
    """A submodule that can be imported and whose names are refused."""

    def __init__(self, fullname, name):
        super().__init__(fullname, f"Refused: {INSTEAD[name]}.")
        self.__dict__["_name"] = name

    def __getattr__(self, attribute):
        __tracebackhide__ = True
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise _NoAttribute(f"{attribute}: {words(self._name)}")
