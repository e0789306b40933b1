"""Libraries that find out by themselves where they run, and need help with it on ranks."""

from __future__ import annotations

import os
import sys
from collections import ChainMap

from .._base.imports import when_imported


def meet():
    """In a rank, before anything of the user's runs."""
    when_imported("jax._src.clusters.cluster", _join_jax)
    when_imported("mpi4py.MPI", _warn_of_mpi)


def meet_in_notebook():
    """The same for what is shown in a notebook."""
    when_imported("rich.console", _widen_rich)


def _widen_rich():
    """As wide and high as rich takes a notebook to be. COLUMNS in the environment would do it too, but it cuts the lines of
    ps and others that are run from here."""
    console = sys.modules["rich.console"]
    size = {
        "COLUMNS": os.environ.get("JUPYTER_COLUMNS") or str(getattr(console, "JUPYTER_DEFAULT_COLUMNS", 115)),
        "LINES": os.environ.get("JUPYTER_LINES") or str(getattr(console, "JUPYTER_DEFAULT_LINES", 100)),
    }
    if getattr(console.Console, "_environ", None) is os.environ:  # else another rich: its lines are shorter
        console.Console._environ = ChainMap(os.environ, size)


def _join_jax():
    """jax.distributed.initialize() asks each known cluster, in the order of their classes, whether it is there. This one comes
    first, before Slurm's, which would take its own variables for those of the ranks."""
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

    known = cluster.ClusterEnv._cluster_types
    known.remove(CellspanCluster)
    known.insert(0, CellspanCluster)


def _warn_of_mpi():
    """MPI knows of the ranks only what its own launcher tells it."""
    world = getattr(sys.modules["mpi4py.MPI"], "COMM_WORLD", None)
    size = os.environ.get("WORLD_SIZE", "1")
    if world is not None and world.Get_size() == 1 and size != "1":
        print(
            f"cellspan: for MPI each of these {size} ranks is rank 0 of 1, since no MPI launcher started them: use torch.distributed "
            "(--init), or start the program with mpirun",
            file=sys.stderr,
        )
