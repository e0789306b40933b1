# SPDX-License-Identifier: BSD-3-Clause
"""%ranks in all forms, and the display below a cell that runs for a while."""

from __future__ import annotations

import _ctypes
import os
import re
import shutil
import signal
import socket
import threading
import uuid

import processes
import pytest
from client import KERNEL, Notebook, TooSlow, by_rank, is_status
from packages import needs

RANK = "import os, time\nrank = int(os.environ['RANK'])\n"


def status_of(cell):
    """The messages of the cell's status display."""
    return [m for m in cell.of("display_data", "update_display_data") if is_status(m)]


def until(nb, cell, hold, what, limit=60):
    try:
        return nb.wait(cell, limit, hold)
    except TooSlow as error:
        raise AssertionError("%s: %s" % (what, error)) from None


# ---- the table


def table_until(nb, hold):
    """The bundle of %ranks once hold() is true of its text: what a node has not told within a second is not in it."""
    shown = []

    def holds():
        shown.append(nb.ok("%ranks").displays[0])
        return hold(shown[-1]["text/plain"])

    assert processes.wait_until(holds, 60), shown[-1]["text/plain"]
    return shown[-1]


def test_the_table_tells_memory_in_text_html_and_python(nb):
    nb.rank_pids(2)
    bundle = table_until(nb, lambda text: re.search(r"\d [KMG]iB", text))
    assert "<table>" in bundle["text/html"]
    code = "import cellspan\nrows = cellspan.group().ranks()\n[row['memory'] > 1 << 20 and row['gpu'] is None for row in rows]"
    assert processes.wait_until(lambda: nb.ok(code).value == "[True, True]", 60), nb.ok("rows").value


# ---- the live status


def test_a_long_cell_shows_where_its_ranks_stand_and_ends_in_one_line(nb, tmp_path):
    nb.rank_pids(2)
    go = tmp_path / "go"
    code = "%%%%distribute -n 2\nimport os, time\nif os.environ['RANK'] == '1':\n    while not os.path.exists(%r):\n        time.sleep(0.05)\n'result'"
    cell = nb.start(code % str(go))
    stands = re.compile(r"rank 0 done \([^)]+\), as of 20[-\d]+ [:\d]+\nrank 1 running \d+:\d\d \([^)]+\)\n")
    until(nb, cell, lambda: len(status_of(cell)) >= 3 and stands.fullmatch(status_of(cell)[-1]["content"]["data"]["text/plain"]), "no status")
    first, *more = status_of(cell)
    assert first["msg_type"] == "display_data" and {m["msg_type"] for m in more} == {"update_display_data"}
    assert set(first["content"]["data"]) == {"text/html"}, "a client that updates no display is to print nothing"
    assert "rank 1 running" in more[-1]["content"]["data"]["text/html"]
    go.write_text("")
    nb.wait(cell).assert_ok()
    assert re.fullmatch(r"ranks 0-1 done in \d+:\d\d", cell.displays[0]["text/plain"]), cell.displays
    assert len(cell.displays) == 1 and cell.value == "'result'"
    assert len(status_of(cell)) <= cell.seconds + 1


def test_the_status_names_a_rank_whose_process_is_stopped(nb, gate):
    pids = nb.rank_pids(2)
    cell = nb.start("%%distribute -n 2\n" + gate.code)

    def says(pattern):
        return lambda: status_of(cell) and re.search(pattern, status_of(cell)[-1]["content"]["data"]["text/html"])

    until(nb, cell, says("ranks 0-1 running"), "no status")
    os.kill(pids[1], signal.SIGSTOP)
    try:
        until(nb, cell, says("\nrank 1 suspended"), "nobody says that it is stopped")
    finally:
        os.kill(pids[1], signal.SIGCONT)
    until(nb, cell, says("ranks 0-1 running"), "nobody says that it goes on")
    gate.open()
    nb.wait(cell).assert_ok()


def test_a_short_cell_shows_no_status(nb):
    nb.rank_pids(2)

    def short():
        cell = nb.ok("%%distribute -n 2\n1")
        assert cell.seconds >= 2 or not status_of(cell), cell.shown
        return cell.seconds < 2

    assert processes.wait_until(short, 60), "no cell was short"


def test_one_line_is_left_of_a_failed_cell_and_says_who_failed(nb, gate):
    nb.rank_pids(2)
    cell = nb.start("%%distribute -n 2\n" + RANK + "if rank == 0:\n    time.sleep(1000)\n" + gate.code + "1 / 0")
    until(nb, cell, lambda: status_of(cell), "no status")
    gate.open()
    nb.wait(cell).assert_error("ZeroDivisionError")
    assert re.fullmatch(r"rank 0 interrupted, rank 1 failed in \d+:\d\d", cell.displays[0]["text/plain"]), cell.displays


def test_a_stored_notebook_has_the_last_status_alone(gate):
    import nbformat
    from nbclient import NotebookClient

    class Watching(NotebookClient):
        """Lets the cell go on when its status was updated."""

        def process_message(self, message, cell, cell_index):
            if message["msg_type"] == "update_display_data" and cell_index == 1:
                gate.open()
            return super().process_message(message, cell, cell_index)

    marker = uuid.uuid4().hex
    cells = [nbformat.v4.new_code_cell("%%distribute -n 2\npass"), nbformat.v4.new_code_cell("%%distribute -n 2\n" + gate.code)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    try:
        Watching(notebook, kernel_name=KERNEL, timeout=100).execute(env=dict(os.environ, **{processes.MARKER: marker}))
    finally:
        left = processes.gone(marker)
        processes.kill_all(marker)
    assert not left, left
    outputs = notebook.cells[1].outputs
    assert [o.output_type for o in outputs] == ["display_data"], outputs
    assert re.fullmatch(r"ranks 0-1 done in \d+:\d\d", outputs[0].data["text/plain"]), outputs
    nbformat.validate(notebook)


def test_the_table_comes_while_ranks_run_a_cell(nb, gate):
    nb.ok("%%distribute -n 2\npass")
    cell = nb.start("%%distribute\n" + gate.code)
    table = nb.ok("%ranks")
    assert not cell.ended and re.search(r"group default: 2 ranks", table.shown), table.shown
    gate.open()
    nb.wait(cell)
    assert cell.reply["status"] == "ok" and cell.reply["execution_count"] + 1 == table.reply["execution_count"]


def test_the_table_comes_while_home_runs_a_cell(nb, gate):
    nb.ok("%%distribute -n 2\npass")
    cell = nb.start(gate.code)
    table = nb.ok("%ranks")
    assert not cell.ended and re.search(r"group default: 2 ranks", table.shown), table.shown
    gate.open()
    nb.wait(cell)
    assert cell.reply["status"] == "ok" and cell.reply["execution_count"] + 1 == table.reply["execution_count"]


def test_the_table_tells_which_rank_keeps_a_processor_busy(nb):
    nb.ok("%%distribute -n 2\nimport cellspan, subprocess, sys\nif cellspan.rank():\n    child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])")
    try:
        table_until(nb, lambda text: (lambda used: len(used) == 2 and used[1] > used[0])(list(map(int, re.findall(r"iB +(\d+) %", text)))))
    finally:
        nb.ok("%%distribute -r 1\nchild.kill()\nchild.wait()")


@pytest.mark.parametrize("page", [True, False])
def test_good_news_is_not_red_on_a_page(page):
    notebook = Notebook(env={"JPY_SESSION_NAME": "x.ipynb"} if page else {})
    try:
        for news in ("there are no ranks to stop", "ranks 0-1: stopped"):
            cell = notebook.ok("%ranks stop")
            assert (cell.stdout, cell.stderr) == (("", "cellspan: %s\n" % news)[:: -1 if page else 1]), news
            notebook.ok("%%distribute -n 2\npass")
    finally:
        notebook.close()


def test_the_status_can_be_switched_off():
    notebook = Notebook(env={"CELLSPAN_STATUS": "off"})
    try:
        notebook.ok("%%distribute -n 2\npass")
        assert not status_of(notebook.ok("%%distribute -n 2\nimport time; time.sleep(3)"))
    finally:
        notebook.close()


def test_a_setting_that_cannot_be_read_is_named_in_the_first_cell():
    notebook = Notebook(env={"CELLSPAN_STATUS": "of", "CELLSPAN_START_TIMOUT": "5"})
    try:
        said = notebook.ok("1").stderr
        assert said == ("CELLSPAN_STATUS=of: off or on is wanted; on is used\n"
                        "CELLSPAN_START_TIMOUT: there is no such setting; did you mean CELLSPAN_START_TIMEOUT?\n"), said
        assert not notebook.ok("%%distribute -n 1\n1").stderr
    finally:
        notebook.close()


# ---- where


def where_until(nb, *patterns, options="", limit=60):
    """What `%ranks where` shows, each time, until it matches every pattern: a rank whose line is here may still be on its
    way from print, and one that is slow to answer is shown without its stack."""
    shown = []

    def matches():
        shown.append(nb.ok("%ranks where " + options).stdout)
        return all(re.search(pattern, shown[-1], re.M) for pattern in patterns)

    assert processes.wait_until(matches, limit), shown[-1]
    return shown


@pytest.mark.limit(300)
def test_where_names_the_rank_that_the_others_wait_for(nb):
    needs("torch")
    nb.rank_pids(4)
    code = (
        "%%distribute -n 4 --init gloo\n" + RANK + "import torch, torch.distributed as dist\n"
        "def load_data():\n    time.sleep(600)\nprint('begun', flush=True)\n"
        "if rank == 3:\n    load_data()\ndist.all_reduce(torch.ones(1))"
    )
    cell = nb.start(code)
    nb.wait_ranks(cell, "begun", limit=120)
    where = where_until(nb, r"^\[0-2\] all_reduce", r"^\[3\] load_data")[-1]
    assert not cell.ended, "the cell ended before it was asked"
    assert "called in line 10 of cell" in where and "/rank.py" not in where, where
    count = nb.ok("%ranks where").reply["execution_count"]
    waiting = nb.start("'queued'")
    looks = where_until(nb, r"^\[3\] load_data", options="-r 3")
    assert "all_reduce" not in looks[-1], looks[-1]
    assert nb.ok("%ranks where").reply["execution_count"] == count + len(looks) + 1 and not waiting.ended
    nb.control("interrupt_request")
    nb.wait(cell, 60).assert_error("KeyboardInterrupt")
    nb.wait(waiting)
    assert "idle" in nb.ok("%ranks where").stdout


RAS = """NCCL version 2.24.3 compiled with CUDA 12.4

Communicators... (0.00s)
=============

Group     Comms      Nodes     Ranks     Ranks     Ranks   Status  Errors
    #  in group   per comm  per node  per comm  in group
    0         1          1         2         2         2  RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different AllReduce operation counts
  3 ranks have launched up to operation 64
  Rank 1 has launched up to operation 60 -- GPU 1 managed by process 11 on node here
"""


class Ras(threading.Thread):
    """What NCCL's RAS threads are to those who ask them: hears the version and the question, answers, hangs up."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.asked = 0
        self.start()

    def run(self):
        while True:
            try:
                one, _ = self.socket.accept()
            except OSError:
                return
            with one, one.makefile("rwb") as stream:
                stream.readline()
                stream.write(b"SERVER PROTOCOL 2\n")
                stream.flush()
                assert stream.readline() == b"TIMEOUT 1\n"
                stream.write(b"OK\n")
                stream.flush()
                stream.readline()
                stream.write(RAS.encode())
                self.asked += 1


def test_where_asks_nccl_once_how_far_the_ranks_are(tmp_path):
    """A file of NCCL's name is enough for the agent to ask what a double of its RAS answers."""
    ras = Ras()
    shutil.copy(_ctypes.__file__, tmp_path / "libnccl.so.2")
    notebook = Notebook(env={"NCCL_RAS_ADDR": ras.address})
    try:
        cell = notebook.start(
            "%%%%distribute -n 2\nimport ctypes, time\n_ = ctypes.CDLL(%r)\nprint('begun', flush=True)\ntime.sleep(600)" % str(tmp_path / "libnccl.so.2")
        )
        notebook.wait_ranks(cell, "begun", 2)
        said = "NCCL #0-0 (78db921d1c117b4a): 3 ranks launched 64 AllReduce; rank 1 launched 60 AllReduce"
        shown = []

        def told_once():
            before = ras.asked
            shown.append(notebook.ok("%ranks where").stdout)
            return ras.asked == before + 1 and shown[-1].startswith("[0-1] ") and said in shown[-1]

        assert processes.wait_until(told_once, 60), (ras.asked, shown)
        assert ras.asked <= len(shown) and all(text.count(said) <= 1 for text in shown), (ras.asked, shown)
        notebook.control("interrupt_request")
        notebook.wait(cell, 60)
    finally:
        notebook.close()
        ras.socket.close()


# Rank 0 answers as its job's RAS threads would.
JOB = """%%%%distribute -n 2
import ctypes, os, socket, threading, time
nccl = ctypes.CDLL(%r)
def answer(server):
    while True:
        with server.accept()[0].makefile('rwb') as stream:
            for words in (b'SERVER PROTOCOL 2\\n', b'OK\\n', %r):
                stream.readline()
                stream.write(words)
                stream.flush()
if os.environ['RANK'] == '0':
    host, port = os.environ['NCCL_RAS_ADDR'].split(':')
    threading.Thread(target=answer, args=(socket.create_server((host, int(port))),), daemon=True).start()
print('begun', os.environ['NCCL_RAS_ADDR'], flush=True)
time.sleep(600)
"""


def test_two_notebooks_ask_the_nccl_of_their_own_jobs(nb, tmp_path):
    """Each has a port of its own, so both jobs can be asked while both run."""
    shutil.copy(_ctypes.__file__, tmp_path / "libnccl.so.2")
    other = Notebook()
    try:
        jobs = [(nb, 60), (other, 3)]
        cells = [book.start(JOB % (str(tmp_path / "libnccl.so.2"), RAS.replace("operation 60", "operation %d" % behind).encode())) for book, behind in jobs]
        ports = set()
        for (book, _), cell in zip(jobs, cells):
            book.wait(cell, 60, lambda cell=cell: len(re.findall(r"begun localhost:\d+", cell.stdout)) == 2 or "[0-1] begun" in cell.stdout)
            ports.update(re.findall(r"begun localhost:(\d+)", cell.stdout))
        assert len(ports) == 2, [cell.stdout for cell in cells]
        for book, behind in jobs:
            shown = []
            assert processes.wait_until(lambda book=book: shown.append(book.ok("%ranks where").stdout) or "NCCL #0-0" in shown[-1], 60), shown[-1]
            assert "rank 1 launched %d AllReduce" % behind in shown[-1], shown[-1]
        for (book, _), cell in zip(jobs, cells):
            book.control("interrupt_request")
            book.wait(cell, 60)
    finally:
        other.close()


def test_where_of_a_rank_that_is_not_there_is_a_usage_error(nb):
    nb.rank_pids(2)
    cell = nb.run("%ranks where -r 4000").assert_error("UsageError")
    assert "4000" in cell.traceback


@pytest.fixture(scope="module")
def kernel_with_notices():
    """Its ranks wait for 2 s before that is told. They have imported what DistributedDataParallel needs, as torch_users.py says."""
    needs("torch")
    notebook = Notebook(env={"CELLSPAN_HANG_NOTICE": "2", "CELLSPAN_PRELOAD": "torch._dynamo"})
    yield notebook
    notebook.close()
    assert not notebook.left


@pytest.fixture
def noticing(kernel_with_notices):
    kernel_with_notices.ok("%ranks stop")
    return kernel_with_notices


@pytest.mark.limit(300)
def test_ranks_that_wait_for_another_are_told_about_it(noticing):
    notebook = noticing
    notebook.ok("%%distribute -n 2 --init gloo\nimport torch, torch.distributed as dist\ndist.barrier()", limit=120)
    cell = notebook.start(
        "%%distribute -n 2 --init gloo\n" + RANK + "if rank == 1:\n    time.sleep(600)\ndist.all_reduce(torch.ones(1))"
    )
    notebook.wait(cell, 100, lambda: "waited in all_reduce" in cell.stderr)
    assert "rank 0 waited in" in cell.stderr and "but rank 1 is" in cell.stderr, cell.stderr
    notebook.control("interrupt_request")
    notebook.wait(cell, 60).assert_error("KeyboardInterrupt")
    assert cell.stderr.count("waited in") == 1


@pytest.mark.limit(300)
def test_ranks_that_wait_for_one_that_has_ended_the_cell_do_not_wait_for_ever(noticing):
    """As when shards are uneven: rank 1 has fewer batches. DDP's collectives are launched by C++."""
    notebook = noticing
    train = ("%%%%distribute -n 3 --init gloo\nimport torch, torch.distributed as dist\n"
             "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))\n"
             "for _ in range(3 + %s):\n    model(torch.ones(4)).sum().backward()\nkept = 7\n")
    notebook.ok(train % "0", limit=120)
    pids = notebook.rank_pids(3)
    cell = notebook.run(train % "(dist.get_rank() != 1)", limit=120).assert_error("TimeoutError")
    assert "ranks 0,2 waited in _engine_run_backward" in cell.stderr and "the cell fails when they have waited for 10 s" in cell.stderr, cell.stderr
    assert "rank 1 ended the cell without that collective" in cell.error["evalue"], cell.error
    assert notebook.ok(train % "0" + "kept, dist.get_world_size()", limit=120).value == "(7, 3)"
    assert notebook.rank_pids(3) == pids


@pytest.mark.limit(300)
def test_ranks_that_get_an_answer_late_are_not_ended(noticing):
    """torch counts send and recv, so rank 0 has launched more than rank 1, which has ended the cell; and a long backward() is no wait."""
    notebook = noticing
    cell = notebook.ok(
        "%%distribute -n 3 --init gloo\nimport time, torch, torch.distributed as dist\nrank, one = dist.get_rank(), torch.ones(1)\n"
        "class Slow(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x * 1\n"
        "    @staticmethod\n    def backward(ctx, grad):\n        time.sleep(14)\n        return grad\n"
        "if rank == 0:\n    dist.send(one, 2)\n    dist.recv(one, 2)\nif rank == 2:\n    dist.recv(one, 0)\n"
        "    Slow.apply(torch.ones(1, requires_grad=True)).sum().backward()\n    dist.send(one, 0)\nprint('there')", limit=120)
    assert by_rank(cell.stdout) == by_rank("[0-2] there\n"), cell.stdout


@pytest.mark.limit(300)
def test_a_crash_is_reported_while_stacks_are_asked_for(fresh):
    notebook = fresh(env={"CELLSPAN_HANG_NOTICE": "2"})
    crash = "import ctypes, time\nend = time.monotonic() + %s\nwhile time.monotonic() < end:\n    pass\nctypes.string_at(8)"
    for seconds in (1.2, 2.7):
        cell = notebook.run("%%distribute -n 2\n" + crash % seconds, limit=60).assert_error("RankDied")
        assert "string_at" in cell.traceback and "C stack" in cell.traceback, cell.traceback
    cell = notebook.run("%%distribute -n 2\nimport ctypes\nctypes.PyDLL(None).usleep(2500000)\n"
                        "ctypes.PyDLL(None).memset(8, 0, 8)", limit=60).assert_error("RankDied")
    assert "line 4 in <module>" in cell.traceback and "C stack" in cell.traceback, cell.traceback


# ---- check


@pytest.mark.limit(300)
def test_check_measures_every_pair_and_the_world(nb):
    pids = nb.rank_pids(4)
    cell = nb.ok("%ranks check", limit=200)
    nodes, pairs, world = [d["text/plain"] for d in cell.displays]
    assert "python" in nodes and "clock" in nodes and "differs" not in nodes, nodes
    assert pairs.startswith("6 pairs of ranks over tcp") and "dead" not in pairs and "closed" not in pairs, pairs
    for op in ("all_reduce", "broadcast", "send_recv"):
        assert re.search(r"^%s +\d+ +[\d.]+ +[\d.]+ +[\d.]+ +0$" % op, world, re.M), world
    assert all("<table>" in d["text/html"] for d in cell.displays)
    assert nb.rank_pids(4) == pids, "the ranks live"


def test_check_of_some_ranks(nb):
    nb.rank_pids(4)
    cell = nb.ok("%ranks check -r 1,2", limit=150)
    assert cell.displays[1]["text/plain"].startswith("1 pair of ranks"), cell.shown


def ports_of(pids):
    """The TCP ports at which these processes listen."""
    inodes = set()
    for pid in pids:
        for name in os.listdir("/proc/%d/fd" % pid):
            try:
                inodes.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink("/proc/%d/fd/%s" % (pid, name))))
            except OSError:
                pass
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes}


def test_strangers_at_the_port_of_a_check_are_logged(tmp_path):
    """Its ports are open to all while it lasts: who comes uninvited is told, also when he says nothing."""
    log = tmp_path / "log"
    nb = Notebook(env={"CELLSPAN_LOG": "warn:%s" % log})
    try:
        pids = nb.rank_pids(2)
        for _ in range(20):  # whoever knocks has to be quick
            cell, known, guests = nb.start("%ranks check"), set(), []
            while not cell.ended:
                for port in ports_of(pids) - known:
                    known.add(port)
                    try:
                        guests.append(socket.create_connection(("127.0.0.1", port), 5))
                    except OSError:
                        pass
                nb.turn(0.005)
            cell.assert_ok()
            for guest in guests:
                guest.close()
            if guests and "did not know the check's token" in log.read_text():
                return
        raise AssertionError(log.read_text())
    finally:
        nb.close()


def test_a_check_can_be_interrupted_and_the_next_cell_works(nb):
    nb.rank_pids(4)
    cell = nb.start("%ranks check")
    until(nb, cell, lambda: len(cell.displays) >= 1 or cell.ended, "no facts", 60)
    if not cell.ended:
        nb.control("interrupt_request")
    nb.wait(cell)
    assert cell.status == "ok" or cell.ename == "KeyboardInterrupt", cell.shown
    assert nb.ok("%%distribute -n 4 --gather\nimport os\nint(os.environ['RANK'])").value == "[0, 1, 2, 3]"


# ---- over hosts


@pytest.fixture
def on_two(hosts):
    notebook = Notebook(env=hosts.variables())
    try:
        notebook.ok("%%distribute --on ssh:h1,h2 -n 4\n" + RANK, limit=150)
        yield notebook
    finally:
        notebook.close()
    assert hosts.left() == []


@pytest.mark.limit(500)
def test_ranks_of_other_hosts_are_told_apart_and_a_closed_way_is_named(on_two, hosts, tmp_path):
    nb = on_two
    told = table_until(nb, lambda text: all(re.search(r"[KMG]iB", row) for row in text.splitlines()[2:]))  # by the hosts' agents
    rows = told["text/plain"].splitlines()[2:]
    assert [re.split(r" +", row.strip())[2] for row in rows] == ["h1", "h1", "h2", "h2"], rows
    done = tmp_path / "done"
    cell = nb.start("%%%%distribute\nprint('begun', flush=True)\nwhile not os.path.exists(%r): time.sleep(0.1)" % str(done))
    nb.wait_ranks(cell, "begun")
    where_until(nb, r"^\[0-3\] <module>, line 3 of cell")
    until(nb, cell, lambda: cell.displays, "no status")
    done.touch()
    assert "ranks 0-3 done in" in nb.wait(cell).assert_ok().displays[0]["text/plain"]
    nodes, pairs, world = [d["text/plain"] for d in nb.ok("%ranks check", limit=200).displays]
    assert re.search(r"^h1 +0-1 ", nodes, re.M) and re.search(r"^h2 +2-3 ", nodes, re.M) and "differs" not in nodes, nodes
    assert "4 between nodes" in pairs and "2 within nodes" in pairs and "dead" not in pairs, pairs
    assert "all_reduce" in world
    hosts.exec("h2", "iptables", "-I", "INPUT", "-s", hosts.address("h1"), "-j", "DROP")
    try:
        cell = nb.run("%ranks check", limit=200).assert_error("LinkError")
    finally:
        hosts.exec("h2", "iptables", "-D", "INPUT", "-s", hosts.address("h1"), "-j", "DROP")
    assert "(h1, h2)" in cell.traceback and "closed: from rank" in cell.shown, cell.shown
    assert "dead: ranks 0 and 1" not in cell.shown and "dead: ranks 2 and 3" not in cell.shown, cell.shown
    assert nb.ok("%%distribute --gather\nrank", limit=60).value == "[0, 1, 2, 3]"
