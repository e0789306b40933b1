# SPDX-License-Identifier: BSD-3-Clause
"""Where work for a cluster runs, as TorchDistributor and the like want it: on the notebook's other machines, on what CELLSPAN_ON names,
on the notebook's Spark session, or here; and which GPUs there are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from . import _api, _link

LIST_LIMIT = 60  # seconds that the driver may take to list the GPUs


def gpus_here():
    """How many GPUs of this machine ranks may have, as cellspan-gpus lists them: those of CUDA_VISIBLE_DEVICES, or all."""
    place = _api.caller()
    if _api.is_far(place):
        return place.do("_cluster_place", "gpus_here")
    try:
        beside = os.path.dirname(os.readlink(f"/proc/{os.getppid()}/exe"))  # home's parent is the agent
        said = subprocess.run([os.path.join(beside, "cellspan-gpus")], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIST_LIMIT)
        return len(json.loads(said.stdout)["gpus"])
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        return cuda.device_count() if cuda is not None else 0


def place_of(on, say=False):
    """Where work runs that is to run on a cluster, as the option `on`: what is given; else where the notebook's ranks are (None); else
    what CELLSPAN_ON names; else the notebook's Spark session, if it has executors; else this machine (None). say: prints a line that says
    which, if nothing is given here."""
    if on is not None:
        return on
    place, line = _place_of_all(_api.group())
    if say:
        print("cellspan: " + line, file=sys.stderr)
    return place


def _place_of_all(group):
    """(place_of(None), its line)."""
    if group.on not in (None, "local"):
        return None, f"the ranks are on {group.on}, where the notebook's are"
    cluster = _cluster()
    if cluster is None:
        return None, 'the notebook has no other machines, so the ranks are on this one (on="ssh:host1,host2" names some)'
    if group.ranks():
        return None, f"the ranks are on this machine, where the notebook's are; after `%ranks stop` they are on {cluster[1]}"
    return cluster[0], f"the ranks are on {cluster[1]}"


def _cluster():
    """(the option `on`, how a line calls it) of the place where work for a cluster goes if nothing says another one; None: there is none."""
    named = _link.setting("CELLSPAN_ON")
    if named:
        return named, f"{named}, which CELLSPAN_ON names"
    master = _spark_master()
    if _has_executors(master):
        return "spark", f'the notebook\'s Spark session, {master} (on="local" is this machine, and CELLSPAN_ON names any other place)'
    return None


def _spark_master():
    """Of the notebook's session; "": it has none."""
    home = _api.caller()
    if _api.is_far(home):
        return home.do("_cluster_place", "_spark_master")
    from ._worker.spark_session import master

    return master()


def _has_executors(master):
    """Can ranks run on executors of such a session? local[4] has threads."""
    return bool(master) and not re.match(r"local(\[|$)", master)


def place_and_gpus(on, use_gpu, instead="use_gpu=False trains on processors"):
    """For work that is to run on a cluster: where it runs, as the option `on`, and the option `gpus`. Prints place_of()'s line.

    `gpus` makes a rank without a GPU an error, or is None where ranks have theirs already. RuntimeError: GPUs are wanted, and this
    machine has none.
    """
    __tracebackhide__ = True
    place = place_of(on, say=True)
    return place, gpus_of_place(place, instead) if use_gpu else None


def gpus_of_place(on, instead):
    """As place_and_gpus() with use_gpu, without its line. instead: what to do without GPUs, for the error's text."""
    __tracebackhide__ = True
    group = _api.group()
    if any(row.get("gpu") for row in group.ranks()):
        return None
    if (on or group.on) in (None, "local") and not gpus_here():
        raise RuntimeError(f"GPUs were unable to be found on this machine, so gpu usage is unavailable. ({instead})")
    return 1
