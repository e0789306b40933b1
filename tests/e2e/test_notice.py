# SPDX-License-Identifier: BSD-3-Clause
"""The machine will be gone soon: `cellspan notice`, cellspan.on_notice() and cellspan.step()."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile

import pytest
from client import values
from engines import HOST_TOOLS, Hosts, bring_up

TRAIN = """%%distribute -n 3 --gather
import cellspan, itertools, os, signal, time
def save():
    print("saved")
    saved.append(n)
saved = []
cellspan.on_notice(save)
print("begun")
for n in itertools.count(1):
    time.sleep(0.01 + 0.001 * cellspan.rank())
    cellspan.step()
    if saved:
        break
saved"""


def notice(nb, *options):
    done = subprocess.run(["cellspan", "notice", *options, str(nb.pid)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1 agent was told\n"), done


def told(nb, text):
    """Waits for a line that is shown under an earlier cell."""
    assert nb.until(lambda: any(text in cell.stderr for cell in nb.cells.values())), text


def test_ranks_meet_in_one_step(fresh):
    nb = fresh()
    cell = nb.start(TRAIN)
    nb.wait_ranks(cell, "begun", 3)
    notice(nb, "--seconds", "600", "--text", "spot")
    nb.wait(cell).assert_ok()
    steps = {step for step, in values(cell)}
    assert len(steps) == 1, "each has saved once, and all in one step: %s" % cell.value
    assert re.search(r"will be gone in \d+ s: spot\n", cell.stderr)
    assert "cellspan: the checkpoint is whole: save() has run on all 3 ranks, in step %d" % steps.pop() in cell.stderr
    notice(nb, "--seconds", "500", "--text", "again")
    told(nb, "s: again")
    assert values(nb.ok("%%distribute --gather\ncellspan.step()\nlen(saved)")) == [1, 1, 1], "another notice does not repeat it"
    cell = nb.run("%%distribute --grace 60s\nif cellspan.rank() == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(600)")
    cell.assert_error("RankDied")  # it was killed long before the machine goes
    assert "was to leave (again); the checkpoint is whole" in cell.reply["evalue"]


def test_a_function_that_comes_after_the_notice(fresh):
    nb = fresh()
    nb.ok("%%distribute -n 3\n1")
    notice(nb, "--seconds", "600", "--text", "spot")
    told(nb, "s: spot")
    cell = nb.ok(TRAIN)
    steps = {step for step, in values(cell)}
    assert len(steps) == 1 and "the checkpoint is whole: save() has run on all 3 ranks, in step %d" % steps.pop() in cell.stderr, cell.shown


def test_between_cells_it_runs_at_once(fresh):
    nb = fresh()
    nb.ok("%%distribute -n 2\nimport cellspan\n@cellspan.on_notice\ndef save():\n    print('here')\n    if cellspan.rank() == 1:\n"
          "        raise OSError('full')")
    notice(nb)
    told(nb, "the checkpoint is not whole: save() failed on rank 1: OSError: full")
    assert nb.until(lambda: any("[0] here" in cell.stdout for cell in nb.cells.values()))
    # Slurm may send a signal to all processes of a job
    assert nb.ok("%%distribute\nimport os, signal\nos.kill(os.getpid(), signal.SIGUSR1)\nos.kill(os.getpid(), signal.SIGUSR2)\n"
                 "cellspan.step()\nsignal.getsignal(signal.SIGUSR1) is signal.SIG_DFL").value == "True"


def test_an_interrupt_ends_the_wait(fresh):
    nb = fresh()
    nb.ok("import cellspan\ncellspan.on_notice(print)\ncellspan.step()")  # at home they do nothing
    cell = nb.start("%%distribute -n 2 --grace 60s\nimport cellspan, time\ncellspan.on_notice(lambda: print('saved'))\nprint('begun')\n"
                    "while cellspan.rank() == 0:\n    cellspan.step()\ntime.sleep(600)")
    nb.wait_ranks(cell, "begun", 2)
    notice(nb, "--seconds", "600")
    nb.wait_shown(cell, "will be gone in ")
    nb.control("interrupt_request")
    nb.wait(cell).assert_error("KeyboardInterrupt")
    assert "did not run: the cell failed" in cell.stderr and "saved" not in cell.stdout
    assert nb.ok("%%distribute\nfor _ in range(9):\n    cellspan.step()\n1").value == "1", "no step waits any more"


EARLY = """import os, signal
with open("/proc/self/cmdline", "rb") as file:
    if b"\\0zygote\\0" in file.read():
        for signo in (signal.SIGUSR1, signal.SIGUSR2):
            os.kill(os.getpid(), signo)
"""


def test_a_signal_in_the_first_moments_ends_no_process(fresh, tmp_path):
    """Python runs this file before anything of cellspan's."""
    (tmp_path / "sitecustomize.py").write_text(EARLY)
    nb = fresh(env={"PYTHONPATH": str(tmp_path)})
    assert nb.ok("%%%%distribute -n 2\nimport sys\nsys.modules['sitecustomize'].__file__ == %r" % str(tmp_path / "sitecustomize.py")).value == "True"
    # the ranks, and what they start, can get them
    assert nb.ok("%%distribute\nimport signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [])").value == "set()"


ENGINE = """#!/bin/sh
while [ "$1" != -- ]; do shift; done; shift
echo "nodes 1"
echo "node 0 spare"
exec 3<&0
CELLSPAN_AGENT=0 "$@" <&3 >&2 & agent=$!
trap 'kill $agent' TERM
cat %s
wait || wait
"""


@pytest.fixture
def spare(tmp_path):
    """(The environment for an engine `spare`, which starts one agent here; a fifo from which it takes its lines)."""
    lines, engine = tmp_path / "lines", tmp_path / "cellspan-launch-spare"
    os.mkfifo(lines)
    engine.write_text(ENGINE % lines)
    engine.chmod(0o755)
    return {"PATH": "%s:%s" % (tmp_path, os.environ["PATH"])}, lines


def test_an_engine_tells_of_it(fresh, spare):
    env, lines = spare
    nb = fresh(env=env)
    cell = nb.start(TRAIN.replace("-n 3", "-n 2 --on spare"))
    nb.wait_ranks(cell, "begun", 2)
    with open(lines, "w", encoding="utf-8") as file:
        file.write("ends 300\n")
        file.flush()
        nb.wait_shown(cell, ", ends in 0:0")
        file.write("notice 0 600 the price rose\n")
    nb.wait(cell).assert_ok()
    assert re.search(r"cellspan: spare will be gone in \d+ s: the price rose\n", cell.stderr)
    assert len({step for step, in values(cell)}) == 1 and "the checkpoint is whole" in cell.stderr


@pytest.mark.parametrize("does, why", [
    ("time.sleep(600)", "save() had not ended on ranks 0-1"),
    ("0 / (1 - cellspan.rank())", "save() failed on rank 1: ZeroDivisionError: division by zero"),
])
def test_the_machine_goes_before_the_checkpoint_is_whole(fresh, spare, does, why):
    """fn is too slow, or raises."""
    env, lines = spare
    nb = fresh(env=env)
    cell = nb.start("%%distribute -n 2 --on spare\nimport cellspan, time\n@cellspan.on_notice\ndef save():\n    print('saves', flush=True)\n    "
                    + does + "\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.02)\n    cellspan.step()")
    nb.wait_ranks(cell, "begun", 2)
    with open(lines, "w", encoding="utf-8") as file:
        file.write("notice 0 600 the price rose\n")
        file.flush()
        nb.wait_ranks(cell, "saves", 2)
        if "/" in does:
            nb.wait_shown(cell, "cellspan: the checkpoint is not whole: " + why)
        file.write("gone 0 it was powered off\n")
    nb.wait(cell).assert_error("MachineLeaves")
    assert "spare was to leave (the price rose); the checkpoint is not whole: " + why in cell.error["evalue"], cell.shown


def test_a_rank_that_comes_too_late(fresh, gate):
    """Rank 1 does not call step() in half of the time."""
    nb = fresh()
    cell = nb.start("%%distribute -n 2 --gather\nimport cellspan, os, time\nran, n = [], 0\ncellspan.on_notice(lambda: ran.append(n))\n"
                    "print('begun', flush=True)\nwhile not os.path.exists(" + repr(str(gate.path)) + "):\n    time.sleep(0.02)\n"
                    "    if cellspan.rank() == 0:\n        cellspan.step()\nfor _ in range(9):\n    cellspan.step()\nran")
    nb.wait_ranks(cell, "begun", 2)
    notice(nb, "--seconds", "20", "--text", "spot")
    nb.wait_shown(cell, "did not run: ")
    assert "<lambda>() did not run: rank 1 had not called cellspan.step() within half of the time" in cell.stderr, cell.shown
    gate.open()
    assert values(nb.wait(cell).assert_ok()) == [[], []], "all go on, and it does not run later"


def test_another_notice_in_the_same_cell_does_not_repeat_it(fresh, gate):
    nb = fresh()
    cell = nb.start(TRAIN.replace("    if saved:\n", "    if os.path.exists(%r):\n" % str(gate.path)))
    nb.wait_ranks(cell, "begun", 3)
    notice(nb, "--seconds", "600", "--text", "spot")
    nb.wait_shown(cell, "cellspan: the checkpoint is whole: ")
    notice(nb, "--seconds", "500", "--text", "again")
    nb.wait_shown(cell, " s: again")
    gate.open()
    assert {len(steps) for steps in values(nb.wait(cell).assert_ok())} == {1}, cell.shown


@pytest.fixture
def apart(monkeypatch):
    """Two hosts that share no /tmp, where each agent has its socket. The files of these hosts are elsewhere."""
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")
    yield from bring_up(lambda: Hosts(2, private=("/tmp",)), HOST_TOOLS)


def test_a_hook_on_another_host(fresh, apart):
    nb = fresh(env=apart.variables())
    cell = nb.start(TRAIN.replace("-n 3", "-n 4 --on ssh:h1,h2"))
    nb.wait_ranks(cell, "begun", 4)
    said = apart.exec("h2", shutil.which("cellspan"), "notice", "--seconds", "600", "--text", "spot").stdout
    assert said == "1 agent was told\n"
    nb.wait(cell).assert_ok()
    assert re.findall(r"cellspan: (.*) will be gone in \d+ s: spot\n", cell.stderr) == ["h2"], cell.shown
    (step,) = {step for step, in values(cell)}
    assert "cellspan: the checkpoint is whole: save() has run on all 4 ranks, in step %d" % step in cell.stderr, cell.shown


def test_nobody_is_told():
    done = subprocess.run(["cellspan", "notice", "1"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "cellspan notice: nothing of cellspan's runs here as this user with the pid 1\n")
    done = subprocess.run(["cellspan", "notice", "--seconds", "soon"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "cellspan notice: --seconds soon: a number is wanted, from 0 to 86400\n")
