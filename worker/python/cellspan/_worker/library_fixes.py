# SPDX-License-Identifier: BSD-3-Clause
"""Helps libraries that find out themselves where they run, and would be wrong on ranks."""

from __future__ import annotations

import functools
import os
import sys
from collections import ChainMap

from .._base import versions
from .._base.imports import when_imported
from . import accelerate_state, cpp_builds, mpi, spawned, torch_rendezvous


def meet():
    """Call it in a rank, before the user's code runs."""
    cpp_builds.meet()
    versions.watch()
    when_imported("jax._src.clusters.cluster", _join_jax)
    mpi.watch()
    when_imported("accelerate.launchers", _refuse_launcher)
    when_imported("hydra._internal.utils", _lead_hydra)
    for package in ("lightning.pytorch", "pytorch_lightning"):
        module = package + ".trainer.trainer"
        when_imported(module, functools.partial(_watch_lightning, module, "Trainer", "fit"))
    for package in ("lightning.fabric", "lightning_fabric"):
        module = package + ".fabric"
        when_imported(module, functools.partial(_watch_lightning, module, "Fabric", "setup"))


def meet_in_notebook():
    """The same for ranks whose output is shown in a notebook."""
    when_imported("rich.console", _widen_rich)
    accelerate_state.watch()
    spawned.watch(sys.modules["__main__"].__dict__)


def _widen_rich():
    """Sets rich's width and height to its own defaults for a notebook. COLUMNS in the environment would also work, but it would cut
    the lines of ps and other commands that are run from here."""
    console = sys.modules["rich.console"]
    size = {
        "COLUMNS": os.environ.get("JUPYTER_COLUMNS") or str(getattr(console, "JUPYTER_DEFAULT_COLUMNS", 115)),
        "LINES": os.environ.get("JUPYTER_LINES") or str(getattr(console, "JUPYTER_DEFAULT_LINES", 100)),
    }
    if getattr(console.Console, "_environ", None) is os.environ:  # another version of rich has shorter lines
        console.Console._environ = ChainMap(os.environ, size)


def _join_jax():
    """Registers a cluster for jax.distributed.initialize(), which asks each known cluster in order whether it is present. This one
    comes before Slurm's, which would use Slurm's variables instead of the ranks'."""
    cluster = sys.modules["jax._src.clusters.cluster"]

    class CellspanCluster(cluster.ClusterEnv):
        name = "cellspan"

        @classmethod
        def is_env_present(cls):
            return all(os.environ.get(n) for n in ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"))

        @classmethod
        def get_coordinator_address(cls, timeout_secs=None, override_coordinator_port=None):
            address = os.environ["JAX_COORDINATOR_ADDRESS"]
            if override_coordinator_port:
                address = f"{address.rpartition(':')[0]}:{override_coordinator_port}"
            return address

        @classmethod
        def get_process_count(cls):
            return int(os.environ["JAX_NUM_PROCESSES"])

        @classmethod
        def get_process_id(cls):
            return int(os.environ["JAX_PROCESS_ID"])

    known = getattr(cluster.ClusterEnv, "_cluster_types", None)
    if isinstance(known, list) and CellspanCluster in known:  # another version of JAX may keep them elsewhere
        known.remove(CellspanCluster)
        known.insert(0, CellspanCluster)


def _lead_hydra():
    """Hydra looks for its configuration beside the file that it finds in a frame, which has home's path also on another machine."""
    module = sys.modules["hydra._internal.utils"]
    for name, frames in (("detect_calling_file_or_module_from_task_function", 0), ("detect_calling_file_or_module_from_stack_frame", 1)):
        detect = getattr(module, name, None)
        if detect is not None:
            setattr(module, name, _leading_here(detect, frames))


def _leading_here(detect, frames):
    """frames: how many that stand between the caller and `detect` this one must add to its argument, which counts frames."""

    @functools.wraps(detect)
    def detected(found_by):
        from .._code.finders import path_here

        file, *rest = found = detect(found_by + frames if frames else found_by)
        return (path_here(file), *rest) if isinstance(file, str) else found

    return detected


def _refuse_launcher():
    """Accelerate's notebook_launcher: each rank would start processes of its own, all at one port."""
    module = sys.modules["accelerate.launchers"]
    launch = getattr(module, "notebook_launcher", None)
    if launch is None:
        return

    @functools.wraps(launch)
    def notebook_launcher(function, args=(), num_processes=None, *rest, **given):
        __tracebackhide__ = True
        if os.environ.get("WORLD_SIZE", "1") != "1" and (num_processes or 1) > 1:
            name = getattr(function, "__name__", "the function")
            raise RuntimeError(f"notebook_launcher(num_processes={num_processes}): {torch_rendezvous.ALREADY}: call {name}() itself in the cell")
        return launch(function, args, num_processes, *rest, **given)

    module.notebook_launcher = notebook_launcher


def _watch_lightning(module, name, method):
    """Warns where Lightning's Trainer or Fabric uses one process, as with strategy="auto" without GPUs: each rank would train the
    same alone, on all data."""
    kind = getattr(sys.modules[module], name, None)
    inner = getattr(kind, method, None)
    if inner is None:
        return

    @functools.wraps(inner)
    def watched(self, *args, **given):
        __tracebackhide__ = True
        size = os.environ.get("WORLD_SIZE", "1")
        if size != "1" and getattr(self, "world_size", 0) == 1:
            local = os.environ.get("LOCAL_WORLD_SIZE", size)
            nodes = int(size) // int(local) if size.isdigit() and local.isdigit() else 1
            print(
                f"cellspan: each of these {size} ranks trains alone, on all data: this {name} uses one process. For one training on all "
                f"ranks: {name}(strategy=\"ddp\", devices={local}, num_nodes={nodes})",
                file=sys.stderr,
            )
        return inner(self, *args, **given)

    setattr(kind, method, watched)
