# SPDX-License-Identifier: BSD-3-Clause
"""The launcher slurm alone, with a Slurm cluster and a shell script in place of the agent."""

from __future__ import annotations

import os
import re
import signal

import processes
import pytest
from launches import LIMIT, launcher


@pytest.fixture
def idle(slurm):
    """The cluster, with an empty queue and every node idle."""
    slurm.run("scancel", "--user", "root")
    assert processes.wait_until(lambda: not slurm.queue() and slurm.idle(), LIMIT), slurm.run("sinfo", "-N") + slurm.run("squeue")
    return slurm


def emptied(slurm):
    assert processes.wait_until(lambda: not slurm.queue(), LIMIT), slurm.queue()


def job_id(slurm):
    (line,) = slurm.queue()
    return line.split()[0]


def test_slurm_makes_a_job_with_one_agent_a_node(launch, idle):
    one = launch("slurm", spec="--nodes=2 --gres=gpu:2 --comment='two words'", ranks=4, env=idle.variables(),
                 arguments=["two words", "it's"])
    agents = one.wait_agents(2)
    assert {tuple(words[:3]) for words in agents.values()} == {("0", "n1", "yes"), ("1", "n2", "yes")}, agents
    assert all(words[4:] == ["gpus=0,1", "two", "words", "it's", "--sigterm-notice", "5", "--cancel-job"] for words in agents.values()), agents
    assert one.wait_out(4)[:2] == ["contract 2", "nodes 2"] and sorted(one.out[2:]) == ["node 0 n1", "node 1 n2"]
    assert "cellspan" in idle.queue()[0]
    assert one.end() == 0 and not one.failed(), one.said()
    emptied(idle)
    one.gone()


def test_slurm_takes_one_node_where_nothing_is_said(launch, idle):
    one = launch("slurm", ranks=3, env=idle.variables())
    one.wait_agents(1)
    assert "NumCPUs=3" in idle.run("scontrol", "show", "job", job_id(idle)).replace("NumCPUs=4", "NumCPUs=3")
    assert one.wait_out(2)[1] == "nodes 1"
    assert one.end() == 0, one.said()
    emptied(idle)


@pytest.mark.parametrize("options", ["--nodes=3 --ntasks-per-node=2 --gpus-per-task=1", "--nodes=3 --gpus=6 --ntasks=4"])
def test_slurm_uses_the_job_that_it_is_in_and_all_its_gpus(launch, idle, tmp_path, options):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexec \"$@\"\n")
    script.chmod(0o755)
    env = dict(idle.variables(), SLURM_EXPORT_ENV="NONE", SLURM_LABELIO="1")
    fifo = tmp_path / "fifo"
    os.mkfifo(str(fifo))
    probe = launch("slurm", env=env, program=str(script), command="true")  # only for its script and secret
    probe.wait()
    script.write_text('#!/bin/sh\nexport CELLSPAN_SECRET="%s"\nexec "%s" --ranks 6 -- "%s" <%s >%s/log 2>&1\n'
                      % (probe.secret, launcher("slurm"), probe.agent, fifo, tmp_path))
    said = idle.run("sbatch", "--output=/dev/null", *options.split(), str(script))
    assert "Submitted" in said
    with open(str(fifo), "w"):
        agents = probe.wait_agents(3)
        assert {words[1] for words in agents.values()} == {"n1", "n2", "n3"}, agents
        assert all(words[2] == "yes" and words[4] == "gpus=0,1" for words in agents.values()), agents
        assert len(idle.queue()) == 1
    emptied(idle)
    assert sorted((tmp_path / "log").read_text().splitlines())[-1] == "nodes 3"


def test_slurm_says_why_the_job_waits_and_goes_on(launch, idle):
    first = launch("slurm", spec="--nodes=4 --exclusive", env=idle.variables())
    first.wait_agents(4)
    second = launch("slurm", spec="--nodes=2", env=idle.variables())
    second.wait_line(r"^say job \d+ waits in the queue: (Resources|Priority)")
    assert first.end() == 0, first.said()
    second.wait_agents(2)
    assert second.end() == 0, second.said()
    emptied(idle)


@pytest.mark.parametrize("way", ["stdin", "SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_slurm_leaves_nothing_in_the_queue(launch, idle, way, state):
    first = launch("slurm", spec="--nodes=4 --exclusive", env=idle.variables())
    first.wait_agents(4)
    one = first
    if state == "PENDING":
        one = launch("slurm", spec="--nodes=2 --exclusive", env=idle.variables())
        one.wait_line("^say job")
    else:
        one.wait_line("^node ")  # before that, Slurm would kill the agents
    if way == "stdin":
        one.process.stdin.close()
    else:
        one.process.send_signal(getattr(signal, way))
    status = one.wait()
    assert status == (-signal.SIGKILL if way == "SIGKILL" else 0), one.said()
    assert processes.wait_until(lambda: len(idle.queue()) == (1 if state == "PENDING" else 0), LIMIT), idle.queue()
    if (state, way) == ("RUNNING", "SIGKILL"):  # srun kills the agents, which can't remove the files that tell of them
        assert processes.gone(one.marker, LIMIT) == []
    else:
        one.gone()
    if state == "PENDING":
        assert first.end() == 0, first.said()
        emptied(idle)


def test_slurm_lets_agents_that_are_just_starting_end_by_themselves(launch, idle):
    """srun would kill them, and what they have made would stay."""
    one = launch("slurm", spec="--nodes=4 --exclusive", env=idle.variables())
    one.wait_line("^node ")
    assert one.end() == 0, one.said()
    one.gone()
    emptied(idle)


def stand_in_slurm(folder, **programs):
    """Programs of Slurm's that do what these scripts say; gives the environment in which they are found."""
    for name, script in programs.items():
        (folder / name).write_text("#!/bin/sh\n%s\n" % script, encoding="utf-8")
        (folder / name).chmod(0o755)
    return {"PATH": "%s:%s" % (folder, os.environ["PATH"])}


def test_slurm_cancels_its_own_job_however_long_that_takes(launch, tmp_path):
    """A controller that is slow, and an srun that does not end: what is cancelled is the job that srun named."""
    srun = ("trap '' TERM\necho 'limits are those of job 4711' >&2\n"
            "echo 'srun: job 12 queued and waiting for resources' >&2\nwhile :; do sleep 0.2; done")
    one = launch("slurm", spec="--nodes=1", env=stand_in_slurm(
        tmp_path, srun=srun, squeue="echo 'PENDING|Resources|N/A'", scancel="sleep 4\necho \"$*\" >>%s/cancelled" % tmp_path))
    one.wait_line("^say job [0-9]+ waits in the queue: Resources")
    one.end()
    cancelled = tmp_path / "cancelled"
    assert processes.wait_until(cancelled.exists, LIMIT), one.said()
    one.gone()
    assert set(cancelled.read_text(encoding="utf-8").split()) == {"12"}


BAD_SQUEUE = {"an error": "echo 'slurm_load_jobs error: Socket timed out on send/recv operation' >&2; exit 1", "nothing": "exit 1",
              "late": "exec sleep 600"}
QUEUED = "echo 'srun: job 12 queued and waiting for resources' >&2\nexec sleep 600"


@pytest.mark.parametrize("bad", BAD_SQUEUE)
def test_slurm_is_asked_again_after_a_question_that_failed(launch, tmp_path, bad):
    """A controller that is busy for a moment. The kernel hears at once that there is a job, so that it waits for it."""
    squeue = ("[ -e %(f)s/asked ] || { touch %(f)s/asked; %(bad)s; }\necho 'squeue: warning: the cache is old' >&2\n"
              "echo 'PENDING|Resources|N/A'" % {"f": tmp_path, "bad": BAD_SQUEUE[bad]})
    one = launch("slurm", spec="--nodes=1", env=stand_in_slurm(tmp_path, srun=QUEUED, squeue=squeue, scancel=""))
    one.wait_line("^say job 12: squeue does not answer; it is asked again")
    one.wait_line("^say job 12 waits in the queue: Resources")


def test_slurm_waits_for_agents_from_when_srun_has_the_nodes(launch, tmp_path):
    """However long squeue takes to say so."""
    srun = QUEUED.replace("\n", "\necho 'srun: job 12 has been allocated resources' >&2\n")
    one = launch("slurm", spec="--nodes=1", env=dict(stand_in_slurm(tmp_path, srun=srun, squeue="exec sleep 600", scancel=""),
                                                     CELLSPAN_SLURM_TIMEOUT="2"))
    assert one.wait() != 0 and "job 12 has its nodes, but no agent has come up within 2 s" in "\n".join(one.errors), one.said()
    one.gone()


def test_slurm_lets_nodes_start_for_as_long_as_that_takes(launch, tmp_path):
    """srun says that the job has them, and squeue that they still start, as where they are switched off when nobody needs them."""
    srun = QUEUED.replace("\n", "\necho 'srun: job 12 has been allocated resources' >&2\n")
    one = launch("slurm", spec="--nodes=1", env=dict(stand_in_slurm(tmp_path, srun=srun, squeue="echo 'CONFIGURING|None|N/A'", scancel=""),
                                                     CELLSPAN_SLURM_TIMEOUT="1"))
    one.wait_line("^say job 12 has its nodes; they are starting")
    assert not processes.wait_until(lambda: one.process.poll() is not None, 4), one.said()


def test_slurm_leaves_no_question_that_does_not_end(launch, tmp_path):
    """It has answered, and closed its output."""
    squeue = "echo 'PENDING|Resources|N/A'\nexec >&- 2>&-\nexec sleep 601"
    one = launch("slurm", spec="--nodes=1", env=stand_in_slurm(tmp_path, srun=QUEUED, squeue=squeue, scancel=""))
    one.wait_line("^say job 12 waits in the queue: Resources")
    assert processes.wait_until(lambda: not processes.named(one.marker, "sleep 601"), LIMIT), one.said()


@pytest.mark.parametrize("spec, env", [("-M other", {}), ("--clusters=other --nodes=2", {}), ("--nodes=2", {"SLURM_CLUSTERS": "other"})])
def test_slurm_means_the_cluster_of_its_job(launch, tmp_path, spec, env):
    """A job of this cluster may have the same number."""
    asks = "echo \"$SLURM_CLUSTERS $*\" >>%s/%s"
    env = dict(env, **stand_in_slurm(tmp_path, srun="trap '' TERM\n" + QUEUED.replace("exec sleep 600", "while :; do sleep 0.2; done"),
                                     squeue=asks % (tmp_path, "asked") + "\necho 'CLUSTER: other'\necho 'PENDING|Resources|N/A'",
                                     scancel=asks % (tmp_path, "cancelled")))
    one = launch("slurm", spec=spec, env=env)
    one.wait_line("^say job 12 waits in the queue: Resources")
    one.end()
    assert processes.wait_until((tmp_path / "cancelled").exists, LIMIT), one.said()
    one.gone()
    assert set((tmp_path / "cancelled").read_text().splitlines()) == {"other 12"}
    assert all(line.startswith("other --noheader") for line in (tmp_path / "asked").read_text().splitlines())


@pytest.mark.parametrize("spec, env, word", [("-M one,two", {}, "--clusters=one,two"), ("", {"SLURM_CLUSTERS": "all"}, "SLURM_CLUSTERS=all")])
def test_slurm_takes_one_cluster(launch, tmp_path, spec, env, word):
    """Only one can be asked about a job, or told to cancel it."""
    one = launch("slurm", spec=spec, env=dict(env, **stand_in_slurm(tmp_path, srun="", squeue="", scancel="")))
    assert one.wait() == 2 and word + ": name one cluster" in one.said(), one.said()


@pytest.mark.parametrize("before", ["", "srun: error: n1: task 0: Segmentation fault"])
def test_slurm_blames_nobody_for_ending_when_told_to(launch, tmp_path, before):
    """Told before it knows of all tasks it does not wait for them: Slurm ends them, and srun calls that an error."""
    srun = ("trap 'echo \"srun: error: n1: tasks 0-1: Terminated\" >&2; exit 143' TERM\n"
            "echo '0: cellspan-launch: task 0 2 12 n1'\necho '%s' >&2\necho it runs >&2\nwhile :; do sleep 0.2; done" % before)
    one = launch("slurm", spec="--nodes=2", env=stand_in_slurm(tmp_path, srun=srun, squeue="", scancel=""))
    one.wait_line("^node 0 n1")
    one.wait_line("^it runs$")
    assert one.end() == (1 if before else 0), one.said()
    assert one.failed() == ({0: "n1: stand-in ended: Segmentation fault"} if before else {}), one.said()


def test_slurm_has_the_agents_words_also_where_srun_passes_them_on_first(launch, tmp_path):
    """srun passes on stdout and stderr of tasks in any order: an agent's error may come before the line that names its node."""
    srun = ("echo '0: stand-in on n1: there is no memory' >&2\necho 'srun: error: n1: task 0: Exited with exit code 1' >&2\n"
            "sleep 0.3\necho '0: cellspan-launch: task 0 1 12 n1'\nsleep 0.3\nexit 1")
    one = launch("slurm", spec="--nodes=1", env=stand_in_slurm(tmp_path, srun=srun, squeue="", scancel=""))
    assert processes.wait_until(one.failed, LIMIT), one.said()
    assert one.failed() == {0: "n1: stand-in: there is no memory"}, one.said()


@pytest.mark.parametrize("spec, words", [
    ("--partition=nope", "invalid partition specified: nope"), ("--gres=gpu:9", "Requested node configuration is not available"),
    ("--nodes=9", "can't start as it was asked for: PartitionNodeLimit"), ("--bogus=1", "unrecognized option '--bogus=1'"),
])
def test_slurm_shows_its_refusals(launch, idle, spec, words):
    one = launch("slurm", spec=spec, env=idle.variables())
    assert one.wait() == 1
    assert words in "\n".join(one.errors), one.said()
    emptied(idle)


@pytest.mark.parametrize("spec, words", [
    ("--ntasks=3", "--ntasks=3 can't be used here"), ("--jobid=12", "--jobid=12 can't be used here"), ("--nodes=2 -o file", "-o can't be used here"), ("gpu", "'gpu' is no option"),
    ("--comment='x", "a ' has no end"),
])
def test_slurm_refuses_what_would_break_it(launch, slurm, spec, words):
    one = launch("slurm", spec=spec, env=slurm.variables())
    assert one.wait() == 2
    assert words in one.errors[0] and not one.out


def test_slurm_absent_is_said(launch, tmp_path):
    one = launch("slurm", env={"PATH": str(tmp_path)})
    assert one.wait() == 2
    assert "there is no srun on PATH" in one.errors[0]


def test_slurm_tells_that_its_job_was_cancelled(launch, idle):
    one = launch("slurm", spec="--nodes=2", env=idle.variables())
    one.wait_agents(2)
    idle.run("scancel", job_id(idle))
    assert one.wait() == 1
    assert sorted(one.failed()) == [0, 1]
    assert all(re.search(r"^n\d: Slurm ended job \d+.*CANCELLED", text) for text in one.failed().values()), one.said()
    emptied(idle)


def test_slurm_goes_on_when_a_node_is_lost(launch, idle):
    one = launch("slurm", spec="--nodelist=n[3-4]", env=idle.variables())
    one.wait_agents(2)
    try:
        idle.run("scontrol", "update", "nodename=n4", "state=down", "reason=test")
        assert processes.wait_until(one.failed, LIMIT), one.said()
        assert one.failed() == {1: "n4: stand-in ended: node failure (srun: error: Node failure on n4)"}, one.said()
        assert one.process.poll() is None and 0 in one.agents()
        assert one.end() == 1, one.said()
    finally:
        idle.run("scontrol", "update", "nodename=n4", "state=resume")


def test_slurm_names_the_nodes_without_cellspan(launch, idle):
    one = launch("slurm", spec="--nodes=2", env=idle.variables(), command="/nowhere/no-agent")
    assert one.wait() == 1
    assert {text.split(":")[0] for text in one.failed().values()} == {"n1", "n2"}, one.said()
    assert all("pip install cellspan" in text for text in one.failed().values()), one.said()


def test_slurm_runs_on_hosts_of_their_own(launch, hosts, slurm_on_hosts):
    one = launch("slurm", spec="--nodes=3", env=slurm_on_hosts.variables())
    agents = one.wait_agents(3)
    assert {words[1] for words in agents.values()} == {"n1", "n2", "n3"}
    assert one.end() == 0, one.said()
    emptied(slurm_on_hosts)
