# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on the nodes of a real Slurm: jobs that are made and used, the queue, refusals, ends of jobs, and an empty queue at the end."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import processes
import pytest
from client import by_rank, values
from engines import SLURM_TOOLS, Slurm, bring_up
from packages import needs
from processes import wait_until
from test_no_start import nvml  # noqa: F401  (a fixture)

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
SOON = 120  # seconds; far off, to catch what hangs
TELL = "import os\n' '.join(os.environ[n] for n in ('SLURMD_NODENAME', 'RANK', 'LOCAL_RANK', 'GROUP_RANK', 'GROUP_WORLD_SIZE'))"


@pytest.fixture
def idle(slurm):
    """The cluster, with an empty queue before and after."""
    slurm.run("scancel", "--user", "root")
    assert wait_until(lambda: not slurm.queue() and slurm.idle(), SOON), slurm.run("sinfo", "-N") + slurm.run("squeue")
    yield slurm
    assert wait_until(lambda: not slurm.queue(), SOON), slurm.queue()


@pytest.fixture
def notebook(idle, fresh):
    """Makes notebooks that reach Slurm; when the test is over they are closed, and the queue must be empty then."""
    made = []

    def make(**env):
        made.append(fresh(env=dict(idle.variables(), **env)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def job_of(slurm):
    (line,) = slurm.queue()
    return line.split()[0]


def begin(nb, on, n=4):
    """A cell that all its ranks have begun, in a group where `kept` is bound."""
    nb.ok("%%%%distribute -n %d --on %s\nimport os, sys, time\nkept = rank = int(os.environ['RANK'])" % (n, on), limit=150)
    return nb.wait_ranks(nb.start("%%distribute\nprint('begun', flush=True)\ntime.sleep(1000)"), "begun", n, SOON)


def batch(idle, tmp_path, options, command, limit=150):
    """Runs a command in a job; gives what it said (both streams) and its status, the job's number first."""
    said = idle.run("sbatch", "--output=out", *options, "--wrap", command + "; echo status $?", cwd=str(tmp_path))
    (job,) = re.findall(r"Submitted batch job (\d+)", said)
    out = tmp_path / "out"
    assert wait_until(lambda: out.exists() and re.search(r"^status \d+\n", out.read_text(), re.M), limit), idle.queue()
    return job, out.read_text()


# -- jobs


def test_a_job_is_made_and_ends_with_the_ranks(notebook, idle):
    nb = notebook()
    there = values(nb.ok("%%distribute -n 4 --on slurm:--nodes=2 --gather\n" + TELL, limit=150))
    assert [line.split()[1:] for line in there] == [["0", "0", "0", "2"], ["1", "1", "0", "2"], ["2", "0", "1", "2"], ["3", "1", "1", "2"]]
    nodes = [line.split()[0] for line in there]
    assert nodes[0] == nodes[1] != nodes[2] == nodes[3]
    assert len(idle.queue()) == 1 and "cellspan" in idle.queue()[0] and " RUNNING " in idle.queue()[0]
    nb.ok("factor = 3")
    assert values(nb.ok("%%distribute --gather\nint(os.environ['RANK']) * factor")) == [0, 3, 6, 9]
    nb.ok_folded("%%distribute\nprint('alike')", "[0-3] alike\n")
    nb.ok("%ranks stop")
    assert wait_until(lambda: not idle.queue(), SOON), idle.queue()
    assert values(nb.ok("%%distribute --on 'slurm:--nodes=1 --nodelist=n3' -n 2 --gather\n" + TELL, limit=150)) == ["n3 0 0 0 1", "n3 1 1 0 1"]
    nb.close()
    assert nb.left == [] and wait_until(lambda: not idle.queue(), SOON), idle.queue()


def test_inside_a_job_its_own_nodes_are_taken(idle, tmp_path):
    (tmp_path / "train.py").write_text("import os\nprint(os.environ['SLURMD_NODENAME'], os.environ['GROUP_RANK'], os.environ['SLURM_JOB_ID'])\n")
    command = "%s run -n 4 --on slurm --python %s train.py" % (shutil.which("cellspan"), sys.executable)
    job, said = batch(idle, tmp_path, ("--nodes=2", "--exclusive", "--nodelist=n2,n4"), command)
    assert by_rank(said) == {0: ["n2 0 " + job], 1: ["n2 0 " + job], 2: ["n4 1 " + job], 3: ["n4 1 " + job]}, said
    assert [line for line in said.splitlines() if not line.startswith("[")] == ["status 0"], said


@pytest.mark.clients
@pytest.mark.limit(360)
def test_the_example_runs_in_a_job_without_being_told_of_it(idle, torch, jupyter_env, tmp_path, monkeypatch):
    import nbformat

    needs("sklearn", "papermill")
    monkeypatch.setenv(processes.MARKER, jupyter_env[processes.MARKER])
    log = tmp_path / "log"  # of kernel and agents: Slurm tells of an agent's end only its status
    monkeypatch.setenv("CELLSPAN_LOG", "info:%s" % log)
    job, said = batch(idle, tmp_path, ("--nodes=2", "--nodelist=n1,n3"),
                      "%s -m papermill %s done.ipynb -p on slurm" % (sys.executable, EXAMPLES / "two_nodes.ipynb"), 300)
    assert "status 0" in said, said + (log.read_text() if log.exists() else "")
    assert wait_until(lambda: not idle.queue(), SOON), idle.queue()
    notebook = nbformat.read(str(tmp_path / "done.ipynb"), 4)
    said = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "number 1 on node 0" in said and "number 1 on node 1" in said and "unseen digits" in said


def test_in_a_job_whose_nodes_have_uneven_gpus(idle, tmp_path):
    (tmp_path / "train.py").write_text("import os\nprint(os.environ['SLURMD_NODENAME'], os.environ['CUDA_VISIBLE_DEVICES'])\n")
    command = "%s run -n 2 --on slurm --python %s train.py" % (shutil.which("cellspan"), sys.executable)
    job, said = batch(idle, tmp_path, ("--nodes=2", "--gpus=3"), command)
    assert "the nodes of job %s have from 1 to 2 GPUs, of which a step of Slurm's takes as many on each: 1" % job in said
    assert sorted(re.findall(r"^\[\d\] n\d (.*)", said, re.M)) == ["0", "0"] and "status 0" in said, said


def test_nodes_of_one_job_may_be_uneven(notebook, idle):
    nb = notebook()
    there = values(nb.ok("%%distribute -n 3 --on slurm:--nodes=2 --gather\n" + TELL, limit=150))
    assert sorted(line.split()[1:4] for line in there) == [["0", "0", "0"], ["1", "1", "0"], ["2", "0", "1"]], there


def test_gpus_are_those_that_slurm_gives(notebook, idle, nvml, tmp_path):  # noqa: F811
    gpus = tmp_path / "gpus"
    gpus.write_text("count 2\n")
    nb = notebook(CELLSPAN_NVML_LIBRARY=nvml, CELLSPAN_DOUBLE_GPUS=str(gpus), CELLSPAN_GPU_LEASES=str(tmp_path / "leases"))
    on = "--on 'slurm:--nodes=1 --gres=gpu:1'"
    cell = nb.ok("%%%%distribute -n gpu %s --gather\nimport os\nos.environ['CUDA_VISIBLE_DEVICES'], os.environ['WORLD_SIZE']" % on, limit=150)
    ((gpu, world),) = values(cell)
    assert gpu in ("0", "1") and world == "1"
    cell = nb.run("%%%%distribute -n 2 %s --fresh\n1" % on, limit=150).assert_error("UsageError")
    assert re.search(r"there is 1 GPU \(n\d: 1\) for 2 ranks", cell.traceback), cell.shown


@pytest.mark.clients
@pytest.mark.limit(300)
def test_the_example_runs_over_slurm(idle, torch, jupyter_env, tmp_path):
    import nbformat

    needs("sklearn", "papermill")
    done = subprocess.run(
        [sys.executable, "-m", "papermill", str(EXAMPLES / "two_nodes.ipynb"), str(tmp_path / "done.ipynb"), "-p", "on", "slurm:--nodes=2"],
        env=dict(jupyter_env, **idle.variables()), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    notebook = nbformat.read(str(tmp_path / "done.ipynb"), 4)
    said = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "number 0 on node 0" in said and "number 1 on node 1" in said and "unseen digits" in said


# -- the queue


def test_the_wait_is_shown_and_ends(notebook, idle):
    said = idle.run("sbatch", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1000")
    (filler,) = re.findall(r"Submitted batch job (\d+)", said)
    assert wait_until(lambda: any(" RUNNING " in line for line in idle.queue()), SOON)
    nb = notebook()
    cell = nb.start("%%distribute -n 2 --on slurm:--nodes=2\nimport os\nos.environ['WORLD_SIZE']")
    nb.wait(cell, SOON, lambda: re.search(r"job \d+ waits in the queue: (Resources|Priority)", cell.shown))
    idle.run("scancel", filler)
    assert nb.wait(cell, SOON).assert_ok().value == "'2'"


def test_an_interrupt_takes_the_job_out_of_the_queue(notebook, idle):
    idle.run("sbatch", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1000")
    assert wait_until(lambda: any(" RUNNING " in line for line in idle.queue()), SOON)
    nb = notebook()
    cell = nb.start("%%distribute -n 2 --on slurm:--nodes=2\n1")
    nb.wait_shown(cell, "waits in the queue", SOON)
    assert len(idle.queue()) == 2
    nb.control("interrupt_request")
    nb.wait(cell, SOON).assert_error("KeyboardInterrupt")
    assert wait_until(lambda: len(idle.queue()) == 1, SOON), idle.queue()
    idle.run("scancel", "--user", "root")
    assert nb.ok("%%distribute -n 1 --on local\n'here'").value == "'here'"


def test_more_than_the_nodes_have_waits_and_says_what_that_means(notebook, idle):
    nb = notebook()
    cell = nb.start("%%distribute -n 200 --on slurm:--nodes=2\n1")
    nb.wait_shown(cell, "waits in the queue: PartitionConfig: no nodes of the partition can run this", SOON)
    nb.control("interrupt_request")
    nb.wait(cell, SOON).assert_error("KeyboardInterrupt")
    assert wait_until(lambda: not idle.queue(), SOON), idle.queue()


@pytest.mark.parametrize("spec, words", [
    ("--partition=nope", "invalid partition specified: nope"), ("--nodes=9", "can't start as it was asked for"), ("--ntasks=3", "--ntasks=3 can't be used here"),
])
def test_a_refusal_is_slurms_own(notebook, idle, spec, words):
    nb = notebook()
    cell = nb.run("%%%%distribute -n 2 --on slurm:%s\n1" % spec, limit=SOON).assert_error("EngineError")
    assert words in cell.error["evalue"], cell.shown
    assert nb.ok("%%distribute -n 1 --on local\n'here'").value == "'here'"


def test_options_reach_slurm(notebook, idle):
    nb = notebook()
    nb.ok("%%distribute -n 2 --on 'slurm:--partition=main -N2 --time=1:02:00 --gres=gpu:1 --job-name=\"my job\" --comment=fast'\n1", limit=150)
    job = idle.run("scontrol", "show", "job", job_of(idle))
    for words in ("JobName=my job", "Partition=main", "TimeLimit=01:02:00", "NumNodes=2", "gpu:1", "Comment=fast"):
        assert words in job, job


@pytest.fixture
def without_gpus():
    """A cluster of one node that has no GPU."""
    yield from bring_up(lambda: Slurm(nodes=1, gpus=0), SLURM_TOOLS)


def test_gpus_of_a_cluster_that_has_none(fresh, without_gpus):
    nb = fresh(env=without_gpus.variables())
    for option in ("--gres=gpu:2", "--gpus=2", "--gpus-per-node=2"):
        cell = nb.run("%%%%distribute -n 2 --on slurm:%s\n1" % option, limit=SOON).assert_error("EngineError")
        assert "srun: error: Invalid generic resource (gres) specification" in cell.error["evalue"], cell.shown
    cell = nb.run("%%distribute -n gpu --on slurm\n1", limit=150).assert_error("UsageError")
    assert "there is no GPU on n1" in cell.error["evalue"], cell.shown
    assert nb.ok("%%distribute -n 1 --on local --fresh\n'here'").value == "'here'"


def test_without_slurm_it_is_said(fresh, tmp_path):
    (tmp_path / "bin").mkdir()
    path = [folder for folder in os.environ["PATH"].split(":") if not os.path.exists(os.path.join(folder, "srun"))]
    nb = fresh(env={"PATH": ":".join(path + [str(tmp_path / "bin")])})
    cell = nb.run("%%distribute -n 2 --on slurm\n1").assert_error("EngineError")
    assert "Slurm is not here" in cell.error["evalue"], cell.shown


# -- ends


TRAIN = ("import cellspan, itertools, time\nsaved = []\n@cellspan.on_notice\ndef save():\n    saved.append(n)\nprint('begun', flush=True)\n"
         "for n in itertools.count(1):\n    time.sleep(0.02)\n    cellspan.step()\n")


@pytest.mark.parametrize("name, seconds, why", [
    ("USR1", 100, "SIGUSR1 has come"),
    ("USR2", 100, "SIGUSR2 has come"),
    ("TERM", 5, r"Slurm ends job \d+ \(slurmstepd.* CANCELLED AT .*\)"),  # the cluster's KillWait
])
def test_a_signal_before_the_end_is_a_notice(notebook, idle, name, seconds, why):
    nb = notebook()
    cell = nb.start("%%distribute -n 4 --gather --on 'slurm:--nodes=2 --time=5 --signal=USR1@100'\n" + TRAIN + "    if saved:\n        break\nsaved")
    nb.wait_ranks(cell, "begun", 4, SOON)
    nb.wait_shown(cell, ", ends in 0:0", SOON)
    idle.run("scancel", "--signal=" + name, job_of(idle))
    nb.wait(cell, SOON).assert_ok()
    told = re.findall(r"cellspan: (n\d(?:, n\d)?) will be gone in (\d+) s: %s\n" % why, cell.stderr)
    assert len({node for nodes, _ in told for node in nodes.split(", ")}) == 2 and all(int(left) <= seconds for _, left in told), cell.stderr
    assert len({step for step, in values(cell)}) == 1 and "the checkpoint is whole: save() has run on all 4 ranks" in cell.stderr, cell.shown


def test_a_signal_for_a_script_that_is_not_there_is_refused(notebook):
    cell = notebook().run("%%distribute -n 2 --on 'slurm:--nodes=2 --signal=B:USR1@100'\n1", limit=SOON).assert_error("EngineError")
    assert "--signal=B:USR1@100: with B: Slurm tells a batch job's script alone, and no rank would hear of it; write --signal=USR1@100" in cell.error["evalue"]


def test_a_job_that_is_cancelled(notebook, idle):
    nb = notebook()
    begun = nb.start("%%distribute -n 4 --on slurm:--nodes=2\nkept = 1\n" + TRAIN)
    nb.wait_ranks(begun, "begun", 4, SOON)
    idle.run("scancel", job_of(idle))
    cell = nb.wait(begun, SOON).assert_error("MachineLeaves")
    assert re.search(r"will be gone in \d+ s: Slurm ends job \d+ \(slurmstepd.*CANCELLED", cell.stderr), cell.shown
    assert re.search(r"was to leave \(Slurm ends job .*the checkpoint is whole: save\(\) has run on all 4 ranks, in step \d+", cell.error["evalue"]), cell.shown
    assert values(nb.ok("%%distribute --gather\n'kept' in globals()", limit=150)) == [False] * 4


def test_a_node_that_goes_down(notebook, idle):
    nb = notebook()
    cell = begin(nb, "'slurm:--nodes=2 --nodelist=n3,n4'")
    try:
        idle.run("scontrol", "update", "nodename=n4", "state=down", "reason=test")
        nb.wait(cell, SOON).assert_error("RankDied")
        assert "rank 2 on n4 is gone: cellspan-agent ended: node failure (srun: error: Node failure on n4)" in cell.error["evalue"]
        assert not re.search("rank [01] ", cell.error["evalue"]), cell.shown
        assert values(nb.ok("%%distribute --gather\n'kept' in globals()", limit=150)) == [True, True, False, False]
    finally:
        idle.run("scontrol", "update", "nodename=n4", "state=resume")


@pytest.fixture
def frozen(idle):
    """n4's slurmd does not answer; calling it lets it go on."""
    with open(os.path.join(idle.folder, "slurm", "run", "slurmd-n4.pid"), encoding="utf-8") as file:
        daemon = int(file.read().split()[0])
    os.kill(daemon, signal.SIGSTOP)
    yield lambda: os.kill(daemon, signal.SIGCONT)
    os.kill(daemon, signal.SIGCONT)


def test_an_agent_that_ends_says_why(notebook, idle, tmp_path):
    agent = tmp_path / "libexec" / "cellspan" / "cellspan-agent"
    agent.parent.mkdir(parents=True)
    agent.write_text("#!/bin/sh\necho 'cellspan-agent on here: there is no memory' >&2\nexit 1\n")
    agent.chmod(0o755)
    cell = notebook(CELLSPAN_REMOTE_PREFIX=str(tmp_path)).run("%%distribute -n 2 --on slurm:--nodes=2\n1", limit=SOON)
    why = cell.assert_error("RankNotStarted").error["evalue"]
    assert re.search(r"n[1-4] did not come up: cellspan-agent: there is no memory", why), cell.shown


@pytest.mark.limit(360)
def test_a_node_that_does_not_come_up(notebook, frozen):
    """Slurm sees it, after a while, and when it answers again."""
    nb = notebook(CELLSPAN_SLURM_TIMEOUT="600")
    cell = nb.run("%%distribute -n 2 --on 'slurm:--nodelist=n3,n4'\n1", limit=SOON).assert_error("RankNotStarted")
    frozen()
    assert "n4 did not come up: Slurm could not start the agent there: " in cell.error["evalue"], cell.shown
    assert nb.ok("%%distribute -n 2 --on 'slurm:--nodelist=n3,n4' --gather\nimport os\nos.environ['SLURMD_NODENAME']", limit=150).value \
        == "['n3', 'n4']"


@pytest.mark.parametrize("way", ["close", "kill"])
def test_a_job_that_was_never_whole_is_not_left_in_the_queue(notebook, idle, frozen, way):
    """srun is busy with the node that does not answer, and so does not cancel in time what it asked for."""
    nb = notebook(CELLSPAN_SLURM_TIMEOUT="8")  # srun itself gives n4 up after 20 s; n3 is up within this
    cell = nb.run("%%distribute -n 2 --on 'slurm:--nodelist=n3,n4'\n1", limit=SOON).assert_error("RankNotStarted")
    assert "the agent of task 1 of 2 has not come up 8 s after the first" in cell.error["evalue"], cell.shown
    if way == "close":
        nb.close()
        assert nb.left == []
    else:
        os.kill(nb.pid, signal.SIGKILL)
    assert wait_until(lambda: not any(" RUNNING " in line for line in idle.queue()), SOON), idle.queue()
    frozen()
    assert wait_until(lambda: not idle.queue(), SOON), idle.queue()


def test_nobody_is_left_when_the_kernel_is_killed(notebook, idle):
    nb = notebook()
    begin(nb, "slurm:--nodes=2")
    os.kill(nb.pid, signal.SIGKILL)
    assert wait_until(lambda: not idle.queue(), SOON), idle.queue()
    assert processes.gone(nb.marker) == []


@pytest.mark.parametrize("nodes", [1, 2])
def test_no_job_is_left_when_all_that_could_end_it_is_killed(notebook, idle, nodes):
    """As where Slurm kills the job in which Jupyter runs: kernel, launcher and srun end at once."""
    nb = notebook(CELLSPAN_RESUME="5")  # so long do agents wait for their kernel
    begin(nb, "slurm:--nodes=%d" % nodes)
    theirs = [pid for text in ("cellspan-kernel", "cellspan-launch-slurm", "srun ") for pid in processes.named(nb.marker, text)]
    assert len(theirs) >= 4, processes.described(theirs)  # srun has a child
    for number in signal.SIGSTOP, signal.SIGKILL:
        for pid in theirs:
            os.kill(pid, number)
    assert wait_until(lambda: not idle.queue(), SOON), idle.queue()
    assert processes.gone(nb.marker) == []


@pytest.mark.soak
@pytest.mark.limit(240)
def test_a_job_whose_time_is_over(notebook, idle):
    """Slurm counts minutes: one is the shortest limit, and it looks every 30 s."""
    nb = notebook()
    cell = begin(nb, "'slurm:--nodes=2 --time=0:01'")
    nb.wait(cell, 180).assert_error("MachineLeaves")
    assert re.search(r"will be gone in \d+ s: Slurm ends job .*TIME LIMIT", cell.stderr), cell.shown
