# SPDX-License-Identifier: BSD-3-Clause
"""Processes that multiprocessing starts as new Pythons know the notebook's functions, classes and variables."""

from __future__ import annotations


import pytest
from client import ANSI, rank_values, values
from packages import needs

WAYS = ("spawn", "forkserver")
DEFINED = '''
import multiprocessing as mp, os
from concurrent.futures import ProcessPoolExecutor
FACTOR = {"by": 10}
class Point:
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return type(other) is type(self) and other.x == self.x
def scaled(point):
    return Point(helped(point.x))
def helped(x):
    return x * FACTOR["by"]
'''
POOL = '''
def pooled(way):
    with mp.get_context(way).Pool(2) as pool:
        points = pool.map(scaled, [Point(1), Point(2)])
    with ProcessPoolExecutor(1, mp_context=mp.get_context(way)) as executor:
        points.append(executor.submit(scaled, Point(3)).result())
    return points == [Point(10), Point(20), Point(30)]
'''
MP_SPAWN = '''
import torch, torch.multiprocessing as tmp, torch.distributed as dist
def train(rank, size, port, shared):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    total = torch.ones(1) * (rank + 1)
    dist.all_reduce(total)
    shared[rank] = total.item() * FACTOR["by"]
    dist.destroy_process_group()
def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
def spawned():
    shared = torch.zeros(2).share_memory_()
    tmp.spawn(train, args=(2, free_port(), shared), nprocs=2, join=True)
    return shared.tolist()
'''
LOADER = '''
from torch.utils.data import DataLoader, Dataset
class Squares(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.tensor(helped(i))
def together(items):
    return Point(torch.stack(items).tolist())
def loaded(way):
    loader = DataLoader(Squares(), batch_size=2, num_workers=1, collate_fn=together, multiprocessing_context=way)
    return [batch.x for batch in loader]
'''


def last(cell):
    return cell.traceback.splitlines()[-1]


@pytest.mark.limit(400)
@pytest.mark.parametrize("way", WAYS)
def test_what_the_notebook_defined_travels_both_ways(fresh, way):
    nb = fresh()
    nb.ok("cells = 0")
    nb.ok("cells += 1" + DEFINED + POOL)
    assert nb.ok(f"pooled('{way}'), cells", limit=200).value == "(True, 1)"
    assert rank_values(nb, f"pooled('{way}')", 2) == [True] * 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("file", ["nb.ipynb", "gone.py"])
def test_a_notebook_may_define_its_file(fresh, tmp_path, way, file):
    (tmp_path / "nb.ipynb").write_text('{"cells": null}')
    nb = fresh(cwd=str(tmp_path))
    nb.ok(f"__file__ = {file!r}" + DEFINED + POOL)
    assert nb.ok(f"pooled('{way}')", limit=200).value == "True"
    assert rank_values(nb, f"pooled('{way}')", 2) == [True] * 2


@pytest.mark.clients
@pytest.mark.limit(400)
def test_torch_spawns_functions_of_the_notebook(fresh):
    needs("torch")
    nb = fresh()
    nb.ok(DEFINED + MP_SPAWN, limit=200)
    assert values(nb.ok("spawned()", limit=200)) == [30.0, 30.0]
    nb.ok(LOADER)
    for way in WAYS:
        assert values(nb.ok(f"loaded('{way}')", limit=200)) == [[0, 10], [20, 30]]
    assert rank_values(nb, "loaded('forkserver')", 2) == [[[0, 10], [20, 30]]] * 2


def test_a_process_of_the_notebook_starts_others(fresh):
    nb = fresh()
    nb.ok(DEFINED + "def outer(queue):\n    with mp.get_context('spawn').Pool(1) as pool:\n        queue.put(pool.map(scaled, [Point(7)]))")
    nb.ok("context = mp.get_context('forkserver')\nqueue = context.Queue()\nprocess = context.Process(target=outer, args=(queue,))\nprocess.start()")
    assert nb.ok("got = queue.get(timeout=100)\nprocess.join()\ngot == [Point(70)], process.exitcode", limit=200).value == "(True, 0)"


def test_a_large_array_is_there_without_another_copy_in_a_pipe(fresh):
    needs("numpy")
    nb = fresh()
    nb.ok(DEFINED + "import numpy as np\ntable = np.arange(4_000_000)\ndef total(queue):\n    queue.put(int(table.sum()))")
    begin = "for _ in range(4):\n    process = context.Process(target=total, args=(queue,))\n    process.start()\n    print(queue.get(timeout=100) == table.sum())\n    process.join()\n    print(len(os.listdir('/proc/self/fd')))"
    nb.ok("context = mp.get_context('spawn')\nqueue = context.Queue()")
    lines = nb.ok(begin, limit=200).stdout.split()
    open_files = [int(count) for count in lines[1::2]]
    assert lines[::2] == ["True"] * 4 and open_files[-1] <= max(open_files[:2]), lines


def test_what_cannot_travel_is_said(clean):
    nb = clean
    nb.ok(DEFINED + "import threading\nguard = threading.Lock()\nbig = bytes(20 << 20)\ndef guarded(x):\n    with guard:\n        return x\ndef sized(x):\n    return len(big)")
    cell = nb.run("mp.get_context('spawn').Process(target=lambda: 1).start()")
    assert "cellspan.run(f, n=2)" in last(cell) and "%%distribute" in last(cell)
    cell = nb.ok("process = mp.get_context('spawn').Process(target=guarded, args=(1,))\nprocess.start()\nprocess.join()")
    assert "guard, which guarded reads, was not sent" in cell.stderr and "NameError" in cell.stderr
    cell = nb.run("with mp.get_context('spawn').Pool(1) as pool:\n    pool.map(sized, [1])")
    assert cell.reply["ename"] == "NameError" and "big (20.0 MiB)" in last(cell) and "as an argument" in last(cell)
    cell = nb.run("with mp.get_context('spawn').Pool(1) as pool:\n    pool.map(lambda x: x, [1])")
    assert "cellspan.run(f, n=2)" in last(cell)


POOLS = {
    "pool": ("import multiprocessing as mp\npool = mp.get_context('spawn').Pool(1)\npool.map(abs, [1])", "pool.map(scaled_later, [2])"),
    "forkserver": ("import multiprocessing as mp\npool = mp.get_context('forkserver').Pool(1)\npool.map(abs, [1])", "pool.map(scaled_later, [2])"),
    "executor": (
        "import multiprocessing as mp\nfrom concurrent.futures import ProcessPoolExecutor\n"
        "pool = ProcessPoolExecutor(1, mp_context=mp.get_context('spawn'))\nlist(pool.map(abs, [1]))",
        "list(pool.map(scaled_later, [2]))",
    ),
}


def failed(nb, options, use, name):
    """The cell fails so at home, or on each rank in turn: if both fail at once, one that on a busy machine is 200 ms late is interrupted,
    and its pool's processes with it, as by Ctrl-C in a terminal. An executor never works again then."""
    for text in ["%%distribute -n 2 -r 0\n", "%%distribute -n 2 -r 1\n"] if options else [""]:
        cell = nb.run(text + use, limit=100).assert_error(name)
    return cell


@pytest.mark.limit(300)
@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("options", ["", "%%distribute -n 2\n"], ids=["home", "ranks"])
def test_what_came_after_the_pool_is_said(clean, kind, options):
    nb = clean
    begin, use = POOLS[kind]
    nb.ok(options + "def scaled_later(x):\n    return x * factor_later\n" + begin, limit=100)
    nb.ok(options + "factor_later = 10")
    told = failed(nb, options, use, "NameError").traceback
    line = next((line for line in told.splitlines() if line.startswith("factor_later is here, but not in the process")), "")
    assert "assign it before the pool or the process begins, or give it to the function as an argument" in line, told
    nb.ok(options + "def defined_later(x):\n    return x\nclass Later:\n    pass")
    cell = failed(nb, options, use.replace("scaled_later", "defined_later"), "AttributeError")
    assert "Can't get attribute 'defined_later'" in cell.error["evalue"] and "\ndefine it before the pool or the process begins. " in cell.traceback, cell.traceback
    nb.ok(options + use.replace("scaled_later", "abs"), limit=100)  # the pool is not broken, and waits for nothing
    if kind == "executor":
        cell = failed(nb, options, "list(pool.map(str, [Later()]))", "BrokenProcessPool")
        assert "(define it before the pool or the process begins)" in cell.stderr, cell.shown
    nb.ok(options + begin, limit=100)
    nb.ok(options + use, limit=100)
    told = nb.run(options + "exec('factor_later', {})").assert_error("NameError").traceback
    assert "process of multiprocessing" not in told, "no process has raised it"


def test_what_is_advised_helps(fresh):
    nb = fresh()
    nb.ok("import multiprocessing as mp, threading\nctx = mp.get_context('spawn')\nguard, shared = threading.Lock(), ctx.Lock()\n"
          "def guarded(x):\n    with guard:\n        return x\ndef sharing(x):\n    with shared:\n        print('got', x, flush=True)\n"
          "def started(f):\n    process = ctx.Process(target=f, args=(1,))\n    process.start()\n    process.join()")
    advice = "processes share a lock of multiprocessing"
    cell = nb.ok("started(guarded)")
    assert advice in cell.stderr and "as an argument" not in cell.stderr, cell.shown
    assert advice in last(nb.run("with ctx.Pool(1) as pool:\n    pool.map(guarded, [1])"))
    assert "got 1" in nb.ok("started(sharing)").stdout
    nb.ok("notes = open('/dev/null')\ndef noting(x):\n    return notes")
    assert last(nb.run("with ctx.Pool(1) as pool:\n    pool.map(noting, [1])")).endswith("make it in the function that they run")
    nb.ok("from torch.utils.data import DistributedSampler\nsampler = DistributedSampler([1, 2], num_replicas=1, rank=0)\ndef sampling(x):\n    return sampler")
    cell = nb.ok("started(sampling)")
    assert "the world in which it was made: make it in the function that it runs" in cell.stderr and "distributed cell" not in cell.stderr, cell.shown
    assert "distributed cell" not in last(nb.run("with ctx.Pool(1) as pool:\n    pool.map(sampling, [1])"))


def test_a_process_that_ends_while_it_loads_shows_no_frame_of_ours(clean):
    nb = clean
    nb.ok("import multiprocessing as mp\nclass Bad:\n    def __reduce__(self):\n        return loads, ()\ndef loads():\n    raise KeyboardInterrupt\n"
          "bad = Bad()\ndef reads():\n    return bad")
    cell = nb.ok("process = mp.get_context('spawn').Process(target=reads)\nprocess.start()\nprocess.join()")
    said = ANSI.sub("", cell.stderr)  # Python 3.14 has colours there
    assert "in loads" in said and "cellspan/_" not in said, cell.shown
