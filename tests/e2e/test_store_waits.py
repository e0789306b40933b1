# SPDX-License-Identifier: BSD-3-Clause
"""A rank that waits for others in torch's store, where signals end nothing, ends with its cell and keeps its variables."""

from __future__ import annotations

import re

import pytest
from packages import needs

needs("torch")

HEAD = "import os, socket, torch.distributed as dist\nrank = int(os.environ['RANK'])\n"
FAILS = "if rank == %d:\n    1 / 0\n"
# what: (options, which rank fails, what the other one waits in)
WAITS = {
    "init": ("", 1, "dist.init_process_group('gloo')"),
    "init, host failed": ("", 0, "dist.init_process_group('gloo')"),
    "tcp": ("", 1, "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:%d' % port, rank=rank, world_size=2)"),
    "tcp, host failed": ("", 0, "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:%d' % port, rank=rank, world_size=2)"),
    "by hand": ("", 1, "dist.TCPStore('127.0.0.1', port, 2, rank == 0)"),
    "by hand, host failed": ("", 0, "dist.TCPStore('127.0.0.1', port, 2, rank == 0)"),
    "barrier": (" --init gloo", 1, "dist.barrier()"),
    "barrier, host failed": (" --init gloo", 0, "dist.barrier()"),
    "monitored": (" --init gloo", 1, "dist.monitored_barrier()"),
    "monitored, host failed": (" --init gloo", 0, "dist.monitored_barrier()"),
    "new group": (" --init gloo", 1, "dist.new_group([0, 1])"),
    "new group, host failed": (" --init gloo", 0, "dist.new_group([0, 1])"),
    "get": (" --init gloo", 1, "dist.distributed_c10d._get_default_store().get('nobody sets it')"),
    "get, host failed": (" --init gloo", 0, "dist.distributed_c10d._get_default_store().get('nobody sets it')"),
}


@pytest.mark.limit(200)
@pytest.mark.parametrize("what", WAITS)
def test_the_rank_that_waits_keeps_its_variables(nb, what):
    options, fails, waits = WAITS[what]
    nb.ok("%ranks stop")
    nb.ok("import socket\nwith socket.create_server(('127.0.0.1', 0)) as free:\n    port = free.getsockname()[1]")
    nb.ok("%%distribute -n 2\nkept = 'here'\n" + HEAD, limit=120)
    failed = nb.run("%%distribute" + options + "\nport\n" + HEAD + FAILS % fails + waits, limit=100).assert_error("ZeroDivisionError")
    assert "killed" not in failed.shown, failed.shown
    assert "frame #" not in failed.shown, failed.shown
    assert nb.ok("%%distribute --gather\nkept").value == "['here', 'here']"
    again = nb.ok("%%distribute --init gloo\nimport torch\nx = torch.ones(1)\ndist.all_reduce(x)\nassert x.item() == 2", limit=60)
    assert "frame #" not in again.shown, again.shown


@pytest.mark.limit(200)
def test_many_ranks_and_an_interrupt(nb):
    nb.ok("%ranks stop")
    nb.ok("%%distribute -n 4\nkept = 'here'\n" + HEAD, limit=120)
    failed = nb.run("%%distribute\n" + FAILS % 2 + "dist.init_process_group('gloo')", limit=100).assert_error("ZeroDivisionError")
    assert "killed" not in failed.shown and "frame #" not in failed.shown, failed.shown
    waits = nb.start("%%distribute\nif rank == 2:\n    import time\n    time.sleep(600)\ndist.init_process_group('gloo')")
    nb.wait(waits, 60, lambda: "running" in waits.shown)
    nb.control("interrupt_request")
    assert "killed" not in nb.wait(waits, 60).assert_error("KeyboardInterrupt").shown
    nb.ok("%%distribute\ndist.init_process_group('gloo')\ndist.barrier()", limit=60)
    assert nb.ok("%%distribute --gather\nkept").value == str(["here"] * 4)


CAME = "if rank == 2:\n    while store.add('came', 0) < 2:\n        pass\n    1 / 0\nstore.add('came', 1)\n"


@pytest.mark.limit(200)
def test_frames_of_connections_that_were_cut_are_only_in_the_logs(nb):
    nb.ok("%ranks stop")
    nb.ok("%%distribute -n 3 --init gloo\n" + HEAD + "store = dist.distributed_c10d._get_default_store()", limit=120)
    failed = nb.run("%%distribute\n" + CAME + "store.get('nobody sets it')", limit=100).assert_error("ZeroDivisionError")
    assert "frame #" not in failed.shown, failed.shown
    logs = nb.ok("%%ranks logs --cell %d" % failed.reply["execution_count"]).shown
    assert ("[c10d]" in failed.shown) == ("frame #" in logs), logs  # neither, if the interrupt was there before the wait


@pytest.mark.limit(200)
@pytest.mark.parametrize("rank, says, advises", [(0, "waiting for clients", "not all 2 ranks of this world have come"),
                                                 (1, "while trying to connect to", "one rank must make the store there, with is_master=True")])
def test_a_time_limit_holds(nb, rank, says, advises):
    nb.ok("%ranks stop")
    nb.ok("import socket\nwith socket.create_server(('127.0.0.1', 0)) as free:\n    port = free.getsockname()[1]")
    nb.ok("%%distribute -n 2\nfrom datetime import timedelta\n" + HEAD, limit=120)
    late = nb.run("%%%%distribute -r %d\ndist.TCPStore('127.0.0.1', port, 2, rank == 0, timedelta(seconds=1))" % rank, limit=100)
    assert late.ename in ("DistStoreError", "DistNetworkError", "RuntimeError"), late.shown
    assert says in late.error["evalue"] and advises in late.error["evalue"], late.shown
    assert "store_waits" not in late.traceback, late.traceback


@pytest.mark.limit(200)
@pytest.mark.parametrize("waits", ["dist.barrier()", "dist.init_process_group('gloo')"])
def test_a_cell_without_the_others_says_soon_for_whom_it_waits(nb, waits):
    nb.ok("%ranks stop")
    nb.ok("%%distribute -n 3" + (" --init gloo" if "barrier" in waits else "") + "\n" + HEAD, limit=120)
    cell = nb.start("%%distribute -r 1\n" + waits)
    nb.wait(cell, 100, lambda: re.search(r"for \d+ s rank 1 waited in", cell.shown))
    assert "ranks 0,2 don't run this cell. All ranks of a process group must call it: interrupt" in cell.shown, cell.shown
    assert "store_waits" not in cell.shown and "threading" not in cell.shown, cell.shown
    nb.control("interrupt_request")
    nb.wait(cell, 60).assert_error("KeyboardInterrupt")


@pytest.mark.limit(120)
def test_a_store_of_ones_own_that_was_cut_is_to_be_made_again(nb):
    nb.ok("%ranks stop")
    nb.ok("import socket\nwith socket.create_server(('127.0.0.1', 0)) as free:\n    port = free.getsockname()[1]")
    nb.ok("%%distribute -n 2\n" + HEAD + "store = dist.TCPStore('127.0.0.1', port, 2, rank == 0)", limit=120)
    nb.run("%%distribute\n" + FAILS % 1 + "store.get('never')", limit=60).assert_error("ZeroDivisionError")
    cell = nb.run("%%distribute\nstore.set('a', 'b')", limit=60).assert_error("DistNetworkError")
    assert "failed, which cut the connections between ranks: make the TCPStore again" in cell.error["evalue"], cell.shown


EARLY = """
import atexit, os, sys, time
from torch.distributed.rendezvous import rendezvous
store, rank, size = next(rendezvous("env://"))
if rank == 0:
    atexit.register(open, sys.argv[1] + "/ended", "w")
    store.set("word", "heard")
else:
    store.get("word")
    while "ended" not in os.listdir(sys.argv[1]):  # rank 0's last handler has run
        time.sleep(0.02)
    time.sleep(0.5)
    print(store.get("word").decode(), store.add("number", 7))
"""


@pytest.mark.limit(200)
@pytest.mark.parametrize("way", ["script", "beside"])
def test_the_store_outlives_a_rank_0_that_ends_first(nb, tmp_path, way):
    """With torchrun, whose agent hosts the store, this works."""
    (tmp_path / "early.py").write_text(EARLY)
    line = "%%distribute -n 2 %s %s" % (tmp_path / "early.py", tmp_path)
    if way == "beside":
        line = "%%distribute --beside -n 2\n" + EARLY.replace("sys.argv[1]", repr(str(tmp_path)))
    assert nb.ok(line, limit=150).stdout == "[1] heard 7\n"
