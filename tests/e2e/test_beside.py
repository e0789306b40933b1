# SPDX-License-Identifier: BSD-3-Clause
"""%%distribute --beside and launch(): a cell or a function in new processes beside the notebook's ranks, which end with it."""

from __future__ import annotations

import pytest
from client import by_rank, values
from processes import wait_until

BEFOREHAND = "torch._dynamo"  # as torch_users.py says
LAUNCH = "import cellspan, os, time\nfrom cellspan._jobs import launch\n"
KEPT = "%%distribute -n 2\nkept = 1\nimport os; mine = os.getpid(); os.environ['MINE'] = '1'"


@pytest.fixture
def two(nb):
    nb.ok(LAUNCH)
    nb.ok(KEPT)
    yield nb
    assert nb.ok("%%distribute --gather\n(kept, mine == os.getpid())").value == "[(1, True), (1, True)]"


def test_a_cell_finds_nothing_of_the_ranks_and_leaves_nothing(two):
    two.ok("x = [1]\ndel_me = 1")
    cell = two.ok("%%distribute -n 3 --beside --gather\nx.append(cellspan.rank())\nnew = 1\ndel del_me\n"
                  "(x, 'kept' in globals(), 'MINE' in os.environ, cellspan.world_size())")
    assert values(cell) == [([1, 0], False, False, 3), ([1, 1], False, False, 3), ([1, 2], False, False, 3)]
    assert two.ok("x, del_me").value == "([1], 1)" and two.run("new").ename == "NameError"
    assert two.ok("%%distribute\n('new' in globals(), x)").value == "(False, [1])"
    two.ok("x.append(5)")
    assert two.ok("%%distribute\nx").value == "[1, 5]"


def test_what_came_from_the_ranks_is_sent_and_their_changes_stay(two):
    two.ok("%%distribute\nimport numpy\ngrid = numpy.zeros(20000)\nsteps = 3")
    two.ok("%pull -r 0 grid steps")
    assert two.ok("%%distribute -n 2 --beside\ngrid[0] = 7\nsteps += 1\n(grid.sum(), steps)").value.replace("np.float64(7.0)", "7.0") == "(7.0, 4)"
    assert two.ok("%%distribute\n(float(grid.sum()), steps)").value == "(0.0, 3)"


def test_a_cell_may_await_and_a_function_may_run_a_loop(two):
    two.ok("import asyncio\nasync def soon(): await asyncio.sleep(0.01); return 5\ndef loops(): return asyncio.run(soon())")
    assert two.ok("%%distribute -n 2 --beside\nawait soon()").value == "5"
    assert two.ok("launch(loops, n=2)").value == "5"
    assert two.ok("launch(lambda: (lambda: 6)(), n=1)").value == "6"


def test_a_function_of_classes_of_the_notebook(two):
    two.ok("class Net:\n    def __init__(self, n): self.n = n\n    def grown(self): return Net(self.n + factor)\nfactor = 10\n"
           "def train(net, *, n, env): return net.grown() if int(os.environ['RANK']) == 0 else None")
    assert two.ok("made = launch(train, (Net(1),), {'n': 1, 'env': 2}, n=2)\n(type(made) is Net, made.n)").value == "(True, 11)"
    two.ok("factor = 20")
    assert two.ok("launch(train, (Net(1),), {'n': 1, 'env': 2}, n=2).n").value == "21"
    assert two.ok("launch(lambda: os.environ['RANK'], n=3, gather=True, env={'MODE': 'x'})").value == "['0', '1', '2']"
    assert two.ok("launch(lambda: os.environ['MODE'], n=1, env={'MODE': 'x'})").value == "'x'"


def test_a_value_of_any_size_comes_home(two):
    two.ok("import numpy\ndef large(): return numpy.ones(12 << 20)")
    assert two.ok("[int(v.sum()) >> 20 for v in launch(large, n=2, gather=True)]").value == "[12, 12]"
    assert two.ok("int(launch(large, reuse=True).sum()) >> 20").value == "12"
    two.ok("import torch\ndef wrapped():\n    import torch.distributed as dist; dist.init_process_group('gloo')\n"
           "    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))")
    assert "send the state_dict() of its module" in two.run("launch(wrapped, n=2)").assert_error("RuntimeError").reply["evalue"]
    assert "send the state_dict() of its module" in two.run("launch(lambda: (1, {'m': [wrapped()]}), n=2)").assert_error("RuntimeError").reply["evalue"]
    shown = two.ok("%%distribute -n 1 --beside\nimport threading\nthreading.Lock()").value
    assert "lock" in shown and "pull" not in shown


def test_errors_are_those_of_run(two):
    count = two.ok("def fails(x):\n    return 1 / x").reply["execution_count"]
    cell = two.ok("try: launch(fails, (0,), n=2)\nexcept ZeroDivisionError as e: print(isinstance(e, cellspan.RemoteError), e)")
    assert cell.stdout == "True division by zero\n"
    cell = two.run("launch(fails, (0,), n=2)").assert_error("ZeroDivisionError")
    assert f"Cell In[{count}], line 2, in fails(x)" in cell.traceback and cell.traceback.count("Cell In") == 1, cell.traceback
    assert "missing" in two.run("launch(fails, n=2)").assert_error("TypeError").reply["evalue"]
    assert "can't be sent" in two.run("import threading\nlaunch(fails, (threading.Lock(),), n=2)").assert_error("TypeError").reply["evalue"]
    assert "--beside and --fresh" in two.run("%%distribute --beside --fresh\n1").assert_error("UsageError").reply["evalue"]
    assert two.run("launch(os._exit, (0,), n=2)").assert_error("RankDied")


def test_ends_as_a_process_ends(two):
    cell = two.ok("def ends():\n    import atexit, threading\n    atexit.register(print, 'flushed')\n"
                  "    threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()\n    return 1\nlaunch(ends, n=2)")
    assert cell.value == "1" and by_rank(cell.stdout) == {rank: ["thread", "flushed"] for rank in range(2)}, cell.shown


def test_an_interrupt_ends_it_alone(two):
    cell = two.start("def waits():\n    print('waits', flush=True)\n    time.sleep(600)\nlaunch(waits, n=2)")
    two.wait_shown(cell, "waits")
    assert two.until(lambda: "waits" in two.ok("%ranks where").stdout), "no stack came"
    two.control("interrupt_request")
    two.wait(cell)
    assert cell.ename == "KeyboardInterrupt"


def test_the_table_of_ranks_has_them_while_they_run(two):
    sub = two.control("create_subshell_request")["subshell_id"]
    cell = two.start("def waits():\n    print('waits', flush=True)\n    time.sleep(600)\nlaunch(waits, n=3)")
    two.wait_shown(cell, "waits")

    def at_once(code):
        return two.send("execute_request", {"code": code, "silent": False, "store_history": True}, header={"subshell_id": sub})

    table = two.wait(at_once("%ranks")).assert_ok()
    group, beside = table.shown.split("beside it, in cell")
    assert "group default: 2 ranks" in group and group.count("idle") == 2 and ": 3 ranks" in beside and beside.count("running") == 3, table.shown
    rows = two.wait(at_once("[(r['rank'], r['state']) for r in cellspan.group().ranks(beside=True)], cellspan.group().size")).assert_ok()
    assert rows.value == "([(0, 'running'), (1, 'running'), (2, 'running')], 2)"
    assert not cell.ended
    two.control("interrupt_request")
    two.wait(cell)
    two.control("delete_subshell_request", {"subshell_id": sub})
    assert "beside it" not in two.ok("%ranks").shown and two.ok("cellspan.group().ranks(beside=True)").value == "[]"


def test_the_first_line_comes_soon(two):
    """Within a second, or, on a busy machine, before a new interpreter has imported what ranks have imported."""
    two.ok("import subprocess, sys\ndef first(then):\n    return time.time() - then\nlaunch(first, (0,), n=2)\n"
           "def slowly():\n    then = time.time()\n    subprocess.run([sys.executable, '-c', 'import IPython'], check=True)\n"
           "    return time.time() - then")
    took = []

    def soon():
        took.append(values(two.ok("max(launch(first, (time.time(),), n=2, gather=True)), slowly()")))
        return took[-1][0] < max(1, took[-1][1])

    assert wait_until(soon, 60), took


def test_without_ranks_and_from_a_thread(fresh):
    nb = fresh()
    nb.ok(LAUNCH)
    assert nb.ok("launch(cellspan.world_size, n=3, gather=True)").value == "[3, 3, 3]"
    assert nb.ok("cellspan.group().size").value == "0"
    nb.ok("import asyncio\nout = []\ndef slow(): time.sleep(1); return 'done'\n"
          "def one(): out.append(launch(slow, n=1))\n"
          "await asyncio.gather(asyncio.to_thread(one), asyncio.to_thread(one))")
    assert values(nb.ok("out")) == ["done", "done"]
