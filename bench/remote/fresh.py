#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures the first cell on a host that has never had cellspan.

    python bench/remote/fresh.py --wheel WHEEL [--repeat N] [--rate 1gbit]

Brings up a host (tests/engines/hosts.sh: root, network namespaces) that sees neither this installation nor this user's cache, over a
link of the given rate. In each repeat, one kernel after the other runs `%%distribute -n 1 --on ssh:h1` with `pass`:

    bare    cellspan, of the wheel, is sent there with the packages that ranks need, to a Python that has none
    sent    cellspan is sent there, to this Python, which has them
    kept    it is there since the cell before
    here    one rank of this machine, for comparison
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "tests", "e2e"), os.path.join(HERE, "..")]  # in this order: both have an engines.py
sys.dont_write_bytecode = True

import common  # noqa: E402
import engines  # noqa: E402

CACHE = pathlib.Path.home() / ".cache"


def first(options):
    """Seconds that a notebook's first distributed cell takes."""
    with common.Kernel("cellspan") as kernel:
        kernel.must("1")
        begin = time.perf_counter()
        kernel.must("%%distribute -n 1 " + options + "\npass")
        return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", required=True, help="the file that packaging/wheel wrote")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--rate", default="1gbit", help="of the link, each way, as tc writes it")
    args = parser.parse_args()
    why = engines.missing(engines.HOST_TOOLS)
    if why:
        sys.exit(why)
    prefix = pathlib.Path(os.path.realpath(shutil.which("cellspan"))).parents[1]
    os.environ["CELLSPAN_WHEELS"] = os.path.dirname(os.path.abspath(args.wheel))
    values = {"bare": [], "sent": [], "kept": [], "here": []}
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, engines.Hosts(1, private=(str(prefix), str(CACHE))) as hosts:
        os.environ.update(hosts.variables())
        hosts.rate("h1", args.rate)
        hosts.rate_to("h1", args.rate)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        for _ in range(args.repeat):
            hosts.exec("h1", "rm", "-rf", str(CACHE / "cellspan"))
            os.environ["CELLSPAN_REMOTE_PYTHON"] = os.path.join(folder, "bin", "python")
            values["bare"].append(first("--on ssh:h1"))
            del os.environ["CELLSPAN_REMOTE_PYTHON"]
            hosts.exec("h1", "rm", "-rf", str(CACHE / "cellspan"))
            values["sent"].append(first("--on ssh:h1"))
            values["kept"].append(first("--on ssh:h1"))
            values["here"].append(first("--on local"))
            print({name: round(seconds[-1], 2) for name, seconds in values.items()}, "s", flush=True)
    middle = {name: statistics.median(seconds) for name, seconds in values.items()}
    print("first cell on a host, %s: %.2f s with cellspan and packages sent, %.2f s with cellspan sent, %.2f s where it is, %.2f s here" % (
        args.rate, middle["bare"], middle["sent"], middle["kept"], middle["here"]))


if __name__ == "__main__":
    main()
