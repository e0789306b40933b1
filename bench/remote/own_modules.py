#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what it takes to bring the notebook's own modules to hosts that do not have its folder.

    python bench/remote/own_modules.py [--hosts N] [--modules M] [--mib S] [--repeat R] [--samples W] [--rate 1gbit] [--in-place] [--prefix DIR]

Brings up N hosts (tests/engines/hosts.sh: root, network namespaces) on which the project's folder is empty, and limits their links:

    first   a cell on one rank of each host that imports a package of M modules, S MiB together: its time, and the bytes that left the
            notebook's machine meanwhile, beside the size of the files; how often a rank asks home and waits for the answer (a round
            trip), and how many questions of all ranks reach home: the kernel passes equal ones on once
    again   the same cell in a group without the modules' bytes to send: only what Python itself takes to import them there
    edit    one module is written anew; how long the next cell takes, in which all ranks use it
    warm    a cell that uses the modules, with --no-code and without it, in turns, in one group

With --in-place the hosts have the project's folder, as on a shared file system, and use its files there: nothing is sent.

The processors of all hosts are this machine's.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "tests", "e2e"), os.path.join(HERE, "..")]  # in this order: both have an engines.py
sys.dont_write_bytecode = True

import common  # noqa: E402
import engines  # noqa: E402

ROUND = 10  # samples of one side before the other's
FOLDERS = 20  # of the package


def write_package(folder, modules, size):
    """A package whose modules hold random text, so that nothing makes it smaller on its way. Returns the bytes of its files."""
    draw, total = random.Random(1), 0
    each = size // modules
    for k in range(modules):
        inside = os.path.join(folder, "bulk", "part%d" % (k % FOLDERS))
        os.makedirs(inside, exist_ok=True)
        text = "# %s\nvalue = %d\n" % (draw.randbytes(max(1, each // 2)).hex(), k)
        with open(os.path.join(inside, "m%d.py" % k), "w") as file:
            total += file.write(text)
    names = ", ".join("part%d.m%d" % (k % FOLDERS, k) for k in range(modules))
    with open(os.path.join(folder, "bulk", "__init__.py"), "w") as file:
        total += file.write("import importlib\ndef total():\n    return sum(importlib.import_module('bulk.' + name).value for name in %r.split(', '))\n" % names)
    return total


def sent_by_notebook(hosts):
    with open("/sys/class/net/%s-br/statistics/tx_bytes" % hosts.prefix) as file:
        return int(file.read())


# what a rank asks is counted before it leaves, and at home what comes
COUNT = """
from cellspan._code.tree import Tree
asked, ask = [], Tree._ask
def noted(tree, what, question):
    asked.append(what)
    return ask(tree, what, question)
Tree._ask = noted
"""
COUNT_HERE = """
from cellspan._code import code_home
came, answer = [], code_home.answer
def noted(what, content):
    came.append(what)
    return answer(what, content)
code_home.answer = noted
"""


def timed(kernel, code):
    begin = time.perf_counter()
    cell = kernel.must(code, 300)
    return time.perf_counter() - begin, cell


def measure(hosts, folder, modules, samples, in_place):
    """{name: seconds, or bytes}."""
    found = {}
    on = "%%distribute -n {} --on ssh:{}".format(len(hosts.names), ",".join(hosts.names))
    use = "\nimport bulk\nassert bulk.total() == %d" % (modules * (modules - 1) // 2)
    with common.Kernel("cellspan") as kernel:
        kernel.must("import os\nos.chdir(%r)" % folder)
        kernel.must(COUNT_HERE)
        kernel.must(on + COUNT, 300)
        before = sent_by_notebook(hosts)
        found["first"], _ = timed(kernel, "%%distribute" + use)
        found["bytes"] = sent_by_notebook(hosts) - before
        where = kernel.must("%%distribute --gather --into places\nbulk.__file__", 300) and kernel.must("print(*places)").output.split()
        if (where[0] == os.path.join(folder, "bulk", "__init__.py")) != in_place:
            sys.exit("ranks have imported " + where[0])
        kernel.must("%%distribute --gather --into counts\nlen(asked)", 300)
        counts = kernel.must("print(max(counts), sum(counts), len(came))").output
        found["trips"], found["asked"], found["came"] = map(int, counts.split())
        kernel.must("%ranks restart", 300)
        found["again"], _ = timed(kernel, "%%distribute" + use)
        with open(os.path.join(folder, "bulk", "extra.py"), "w") as file:
            file.write("value = 1\n")
        kernel.must("%%distribute\nimport bulk.extra, importlib\nassert bulk.extra.value == 1")
        with open(os.path.join(folder, "bulk", "extra.py"), "w") as file:
            file.write("value = 22\n")
        found["edit"], _ = timed(kernel, "%%distribute\nimportlib.reload(bulk.extra)\nassert bulk.extra.value == 22")
        taken = {"": [], " --no-code": []}
        for option in taken:
            for _ in range(ROUND):
                kernel.must("%%distribute" + option + "\nbulk.extra.value")
        while len(taken[""]) < samples:
            for option in taken:  # the first cell of a round tells ranks of the change
                kernel.must("%%distribute" + option + "\nbulk.extra.value")
                taken[option] += [timed(kernel, "%%distribute" + option + "\nbulk.extra.value")[0] for _ in range(ROUND)]
        found["warm"], found["without"] = statistics.median(taken[""]), statistics.median(taken[" --no-code"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("--modules", type=int, default=1000)
    parser.add_argument("--mib", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--rate", default="1gbit", help="as tc writes it")
    parser.add_argument("--in-place", action="store_true", help="the hosts have the folder, too")
    parser.add_argument("--prefix", help="where `cellspan install --prefix DIR` wrote the kernel to")
    args = parser.parse_args()
    why = engines.missing(engines.HOST_TOOLS)
    if why:
        sys.exit(why)
    common.use_prefix(args.prefix)
    folder = os.path.realpath(tempfile.mkdtemp(prefix="cellspan-modules-"))
    size = write_package(folder, args.modules, args.mib << 20)
    runs = []
    try:
        with engines.Hosts(args.hosts, private=[] if args.in_place else [folder]) as hosts:
            os.environ.update(hosts.variables())
            for host in hosts.names:
                hosts.rate(host, args.rate)
                hosts.rate_to(host, args.rate)
            for _ in range(args.repeat):
                runs.append(measure(hosts, folder, args.modules, args.samples, args.in_place))
                print({name: round(value, 4) for name, value in runs[-1].items()}, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    print("%d modules, %.1f MiB, to %d hosts: %.1f MiB left the notebook's machine, %.2f of the files" % (
        args.modules + 1, size / 2**20, args.hosts, middle["bytes"] / 2**20, middle["bytes"] / size))
    print("a rank asked home %d times at most, all together %d times; %d questions came to home" % (middle["trips"], middle["asked"], middle["came"]))
    print("the first cell %.2f s, of which Python's imports take %.2f s; an edit is in use after %.3f s" % (
        middle["first"], middle["again"], middle["edit"]))
    print("a warm cell: %.2f ms, with --no-code %.2f ms: %.3fx" % (middle["warm"] * 1e3, middle["without"] * 1e3, middle["warm"] / middle["without"]))


if __name__ == "__main__":
    main()
