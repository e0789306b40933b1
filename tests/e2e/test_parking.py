# SPDX-License-Identifier: BSD-3-Clause
"""Idle ranks are parked: they leave their GPUs to others, and the next cell brings them back. On doubles of the driver's libraries."""

from __future__ import annotations

import os
import re
import signal

import processes
import pytest
from client import values
from test_gpus import Machine, doubles, gpus, refused  # noqa: F401  (fixtures)
from test_notice import notice

LINE = "no cell has run for 3 s, so ranks 0-1 are parked: their 2 GPUs are free for others; the next cell on ranks brings them back"
RUNNING, LOCKED, AWAY = 0, 1, 2


class Cards:
    """The doubles' machine with two GPUs, on which processes of ranks are."""

    def __init__(self, machine):
        self.machine = machine
        self.pids = []
        self.present()

    def present(self, *facts, mib=100):
        """Each rank has so many MiB on its GPU, and the driver does what the facts say."""
        self.machine.set("count 2", "memory 0 0", "memory 1 0", *("process %d %d %d" % (k, pid, mib) for k, pid in enumerate(self.pids)), *facts)

    def states(self):
        """Where the driver has each rank's process."""
        file, last = self.machine.file.with_name(self.machine.file.name + ".states"), {}
        for line in file.read_text().splitlines() if file.exists() else ():
            pid, state, _ = map(int, line.split())
            last[pid] = state
        return [last.get(pid, RUNNING) for pid in self.pids]


@pytest.fixture
def cards(gpus):  # noqa: F811
    return Cards(gpus)


@pytest.fixture
def book(cards, fresh, doubles):  # noqa: F811
    """Makes notebooks there, whose ranks are parked after 3 s."""

    def make(**more):
        return fresh(env={**cards.machine.environment, "CELLSPAN_CUDA_LIBRARY": doubles["libcuda.so"], "CELLSPAN_GPU_IDLE_RELEASE": "3s",
                          "CELLSPAN_GPU_IDLE": "park", **more})

    return make


def use(nb, cards, *facts, mib=100):
    """Two ranks that have x, each on its GPU. Gives the cell, below which what becomes of them is shown."""
    cards.pids = values(nb.ok("%%distribute -n 2 --gather\nimport os\nx = int(os.environ['RANK']) + 40\nos.getpid()"))
    cell = nb.start("%%distribute\npass")
    cards.present(*facts, mib=mib)
    nb.wait(cell).assert_ok()
    return cell


def park(nb, cards):
    cell = use(nb, cards)
    nb.wait_shown(cell, LINE)
    assert cards.states() == [AWAY, AWAY]


def of_ranks(nb, expression="x"):
    return values(nb.ok("%%%%distribute --gather\n%s" % expression))


def test_the_next_cell_has_all_variables(book, cards, cellspan):
    one, two = book(), book(CELLSPAN_GPU_IDLE_RELEASE="off")
    park(one, cards)
    assert re.search(r"^ +0 +parked ", one.ok("%ranks").displays[0]["text/plain"], re.M)
    code, out, err = cellspan("ps", **cards.machine.environment)
    assert code == 0 and re.search(r"^%d .* 2 \(parked\) .* 0 " % one.pid, out, re.M), out + err
    two.ok("%%distribute -n 1\n1")
    said = one.run("%%distribute --wait 2s\nx").assert_error("RankNotStarted").error["evalue"]
    assert "ranks 0-1 stay parked, with their variables" in said and re.search(r"waited for 2 s, and GPU [01] \(.*\) is held by ", said), said
    assert one.ok("y = 5\ny").value == "5" and cards.states() == [AWAY, AWAY], "a cell at home needs no ranks"
    two.ok("%ranks stop")
    cell = one.ok("%%distribute --gather\nx, os.getpid()")
    assert values(cell) == list(zip((40, 41), cards.pids)) and "parked ranks come back to their GPUs" in cell.shown, cell.shown
    assert cards.states() == [RUNNING, RUNNING]
    refused(two.run("%%distribute -n 1\n1"), "0 free of 2")
    one.wait_shown(cell, LINE)
    assert of_ranks(one) == [40, 41], "also the second time"


def test_what_the_error_names_helps(book, cards):
    one, two = book(), book(CELLSPAN_GPU_IDLE_RELEASE="off")
    for how in ("--no-gpu", "--share"):
        park(one, cards)
        two.ok("%%distribute -n 1\n1")
        said = one.run("%%distribute --wait 1s\nx").assert_error("RankNotStarted").error["evalue"]
        assert "With --fresh and one of --no-gpu, --share and --wait it ends them and starts new ranks" in said, said
        assert values(one.ok("%%%%distribute --fresh %s --gather\nglobals().get('x')" % how)) == [None, None]
        one.ok("%ranks stop")
        two.ok("%ranks stop")
    park(one, cards)
    two.ok("%%distribute -n 1\n1")
    cell = one.start("%%distribute --fresh --wait 5min --gather\nglobals().get('x')")
    one.wait_shown(cell, "1st in the queue")
    two.ok("%ranks stop")
    assert values(one.wait(cell).assert_ok()) == [None, None]


def test_a_cell_queues_for_the_gpus_of_its_parked_ranks(book, cards):
    """Each GPU goes to who has waited for it for longest; nobody is kept off one that he could use."""
    one, two, three = book(), book(CELLSPAN_GPU_IDLE_RELEASE="off"), book(CELLSPAN_GPU_IDLE_RELEASE="off")
    park(one, cards)
    two.ok("%%distribute -n 1\n1")
    back = one.start("%%distribute --gather\nx")
    one.wait_shown(back, "waits for 2 GPUs: 1st in the queue, for at most 24 h: its ranks are parked, and GPU 0 (")
    refused(three.run("%%distribute -n 1\n1"), "0 free of 2", "who waits for it")
    later = three.start("%%distribute -n 1 --wait 5min\n1")
    three.wait_shown(later, "2nd in the queue")
    two.ok("%ranks stop")
    assert values(one.wait(back).assert_ok()) == [40, 41]
    one.wait_shown(back, LINE)
    three.wait(later).assert_ok()
    three.ok("%ranks stop")
    assert of_ranks(one) == [40, 41], "no place is left"


def test_parked_ranks_come_back_behind_those_who_wait(book, cards):
    one, two, three = book(), book(CELLSPAN_GPU_IDLE_RELEASE="off"), book(CELLSPAN_GPU_IDLE_RELEASE="off")
    park(one, cards)
    two.ok("%%distribute -n 1\n1")
    first = three.start("%%distribute -n 2 --wait 5min\n1")
    three.wait_shown(first, "waits for 2 GPUs: 1st in the queue")
    back = one.start("%%distribute --gather\nx")
    one.wait_shown(back, "waits for 2 GPUs: 2nd in the queue")
    two.ok("%ranks stop")
    three.wait(first).assert_ok()
    one.control("interrupt_request")
    one.wait(back).assert_error("KeyboardInterrupt")
    three.ok("%ranks stop")
    assert of_ranks(one) == [40, 41]


def move(nb, cards):
    """Ranks that are leaving their GPUs, and take long. Gives the cell."""
    cell = use(nb, cards, "hang cuCheckpointProcessCheckpoint 5000")
    assert processes.wait_until(lambda: cards.states() != [RUNNING, RUNNING], 60)
    return cell


def test_a_notice_brings_back_ranks_that_are_leaving(book, cards):
    nb = book()
    cell = move(nb, cards)
    cards.present()
    notice(nb, "--seconds", "600", "--text", "spot")
    nb.wait_shown(cell, LINE)
    assert nb.until(lambda: cards.states() == [RUNNING, RUNNING]), cards.states()


def test_ranks_of_which_nothing_is_known_are_not_parked(book, cards):
    one, two = book(), book(CELLSPAN_GPU_IDLE_RELEASE="off")
    cell = move(one, cards)
    cards.present("fail cuInit 100")
    [asker] = processes.named(one.marker, "cellspan-gpus --serve")
    os.kill(asker, signal.SIGKILL)
    one.wait_shown(cell, "so ranks 0-1 have ended")
    assert "are parked" not in cell.shown, cell.shown
    assert processes.wait_until(lambda: not any(map(processes.alive, cards.pids)), 60)
    cards.present()
    two.ok("%%distribute -n 2 --wait 1min\n1")


def test_a_rank_that_is_lost_is_named(book, cards):
    nb = book()
    park(nb, cards)
    cards.present("cuCheckpointProcessRestore %d -1" % cards.pids[1])
    cell = nb.run("%%distribute\nx").assert_error("RankDied")
    assert "rank 1 could not come back to the GPUs (rank 1: its GPU memory could not be restored" in cell.error["evalue"], cell.error["evalue"]
    assert "its variables are lost" in cell.error["evalue"], cell.error["evalue"]
    assert processes.wait_until(lambda: not processes.alive(cards.pids[1]), 60)
    cards.present()
    cell = nb.run("%%distribute --gather\nglobals().get('x')")
    assert "rank 1 is new: its variables are gone" in cell.shown and values(cell) == [40, None], cell.shown


def test_gpus_without_room_lose_nothing(book, cards):
    nb = book()
    park(nb, cards)
    cards.present("cuCheckpointProcessRestore %d 2" % cards.pids[1])
    cell = nb.run("%%distribute\nx").assert_error("RuntimeError")
    assert "ranks 0-1 stay parked" in cell.error["evalue"], cell.error["evalue"]
    assert cards.states() == [AWAY, AWAY]
    cards.present()
    assert of_ranks(nb) == [40, 41]


@pytest.mark.parametrize(("facts", "mib", "why"), [
    (["fail cuCheckpointProcessLock 600"], 100, "rank 0: it could not be locked: CUDA error 600"),
    (["fail cuCheckpointProcessCheckpoint 801"], 100, "rank 0: its GPU memory could not be moved: CUDA error 801"),
    (["fail cuInit 100"], 100, "no CUDA-capable device is detected"),
    ([], 10**8, "GiB of memory, and "),
], ids=["lock", "checkpoint", "driver", "memory"])
def test_ranks_that_can_not_leave_end_or_stay(book, cards, facts, mib, why):
    nb = book()
    cell = use(nb, cards, *facts, mib=mib)
    nb.wait_shown(cell, "no cell has run for 3 s, and ranks 0-1 can't be parked (")
    assert why in cell.shown and "so ranks 0-1 have ended, and 2 GPUs are free for others" in cell.shown, cell.shown
    nb.ok("%ranks stop")
    nb = book(CELLSPAN_GPU_IDLE="park-or-keep")
    cell = use(nb, cards, *facts, mib=mib)
    nb.wait_shown(cell, "so they keep their 2 GPUs (CELLSPAN_GPU_IDLE)")
    assert why in cell.shown and cards.states() == [RUNNING, RUNNING], cell.shown
    assert of_ranks(nb) == [40, 41]


def test_parked_ranks_end_like_others(book, cards):
    nb = book()
    park(nb, cards)
    nb.ok("%ranks stop")
    assert processes.wait_until(lambda: not any(map(processes.alive, cards.pids)), 60)
    park(nb, cards)
    cell = nb.run("%%distribute -n 2 --fresh --gather\nglobals().get('x')")
    assert values(cell.assert_ok()) == [None, None]
    park(nb, cards)
    os.kill(nb.pid, signal.SIGKILL)
    assert processes.wait_until(lambda: not any(map(processes.alive, cards.pids)), 60), "a killed kernel leaves none"


def test_an_interrupt_ends_a_cell_that_waits(book, cards):
    nb = book()
    park(nb, cards)
    cards.present("hang cuCheckpointProcessRestore 1500")
    cell = nb.start("%%distribute\nx")
    nb.wait_shown(cell, "parked ranks come back")
    nb.control("interrupt_request")
    nb.wait(cell).assert_error("KeyboardInterrupt")
    assert of_ranks(nb) == [40, 41] and cards.states() == [RUNNING, RUNNING]


def test_nothing_is_parked_where_nobody_else_gets_the_gpus(book, cards, tmp_path):
    log = tmp_path / "log"
    book(KUBERNETES_SERVICE_HOST="10.0.0.1", CELLSPAN_LOG="info:%s" % log).ok("1")
    assert "give up their GPUs" not in log.read_text()
    book(CELLSPAN_GPU_IDLE="keep", CELLSPAN_LOG="info:%s" % log).ok("1")
    assert "give up their GPUs" not in log.read_text()
    book(CELLSPAN_LOG="info:%s" % log).ok("1")
    assert "give up their GPUs" in log.read_text()
