# SPDX-License-Identifier: BSD-3-Clause
"""The machine will be gone soon: `cellspan notice`, cellspan.on_notice() and cellspan.step()."""

from __future__ import annotations

import os
import re
import subprocess

from client import values

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


def test_an_engine_tells_of_it(fresh, tmp_path):
    lines, engine = tmp_path / "lines", tmp_path / "cellspan-launch-spare"
    os.mkfifo(lines)
    engine.write_text(ENGINE % lines)
    engine.chmod(0o755)
    nb = fresh(env={"PATH": "%s:%s" % (tmp_path, os.environ["PATH"])})
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


def test_nobody_is_told():
    done = subprocess.run(["cellspan", "notice", "1"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "cellspan notice: nothing of cellspan's runs here as this user with the pid 1\n")
    done = subprocess.run(["cellspan", "notice", "--seconds", "soon"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "cellspan notice: --seconds soon: a number is wanted, from 0 to 86400\n")
