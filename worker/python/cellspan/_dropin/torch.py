"""TorchDistributor, with the interface of pyspark.ml.torch.distributor (pyspark 3.4 and later), on cellspan's ranks."""

from __future__ import annotations

from ._jobs import launch

__all__ = ["TorchDistributor"]


class TorchDistributor:
    """Runs training functions on several processes.

    num_processes: how many; local_mode and use_gpu: as in pyspark. on: where, as in cellspan.run(); reuse: on the notebook's
    ranks instead of fresh processes. The interface is that of pyspark's documentation.
    """

    def __init__(self, num_processes=1, local_mode=True, use_gpu=True, *, on=None, reuse=False):
        self.num_processes = num_processes
        self.local_mode = local_mode
        self.use_gpu = use_gpu
        self.on = on
        self.reuse = reuse

    def run(self, train_object, *args, **kwargs):
        """Calls train_object(*args, **kwargs) in each process, and returns the value of rank 0."""
        __tracebackhide__ = True
        return launch(train_object, args, kwargs, n=self.num_processes, on=self.on, no_gpu=not self.use_gpu, reuse=self.reuse)
