# SPDX-License-Identifier: BSD-3-Clause
"""%%distribute --on, with an engine of the test: both of its agents are on this machine, each with ranks."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import uuid

import processes
import pytest
from client import Notebook, by_rank, values

ENGINE = r"""#!/bin/sh
spec=2
while [ "$1" != -- ]; do
    [ "$1" = --spec ] && spec=$2
    shift
done
shift
case $spec in
queue) echo "say job 7 waits in the queue"; cat >/dev/null; exit ;;
bad) echo "there is no partition bad" >&2; exit 2 ;;
env) echo "MODE=$MODE GIVEN=$GIVEN SPARE=${SPARE-not there}" >&2; exit 2 ;;
esac
slots=${spec#*x}
spec=${spec%x*}
[ "$CONTRACT" ] && echo "contract $CONTRACT"
echo "nodes $spec"
[ "$NVML" ] && export CELLSPAN_NVML_LIBRARY="$NVML"
exec 3<&0
trap 'kill $pids 2>/dev/null' TERM
i=0
while [ $i -lt $spec ]; do
    [ "$slots" = "$spec" ] && echo "node $i m$i" || echo "node $i m$i $slots"
    CELLSPAN_AGENT=$i "$@" <&3 3<&- &
    pids="$pids $!"
    i=$((i + 1))
done
exec 3<&-
wait
"""
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "launchers.md")
TELL = "%%distribute --gather\nimport os\n' '.join(os.environ[n] for n in ('RANK', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'GROUP_RANK', 'GROUP_WORLD_SIZE'))"


@pytest.fixture(scope="module", autouse=True)
def engine(tmp_path_factory):
    """cellspan-launch-pair on PATH."""
    folder = tmp_path_factory.mktemp("engine")
    script = folder / "cellspan-launch-pair"
    script.write_text(ENGINE)
    script.chmod(0o755)
    old = os.environ["PATH"]
    os.environ["PATH"] = "%s:%s" % (folder, old)
    yield
    os.environ["PATH"] = old


def agents(notebook):
    """The engine's agents of this notebook."""
    return [pid for pid in processes.named(notebook.marker, "cellspan-agent") if b"tcp://" in processes.read(pid, "cmdline")
            and b"cellspan-launch" not in processes.read(pid, "cmdline")]


@pytest.fixture
def alone(clean):
    """A notebook on the module's kernel without names, ranks, and agents of the engine."""
    assert processes.wait_until(lambda: not agents(clean), 60), processes.described(agents(clean))
    yield clean
    clean.run("%ranks stop")  # the next test may want them elsewhere


def test_ranks_run_where_on_says_and_the_next_cell_is_there_too(alone):
    alone.ok("base = 10")
    assert alone.ok("%%distribute -n 4 --on pair:2\nbase + 1").value == "11"
    assert alone.ok(TELL).value == "['0 0 2 0 2', '1 1 2 0 2', '2 0 2 1 2', '3 1 2 1 2']"
    assert processes.wait_until(lambda: len(agents(alone)) == 2, 60), processes.described(agents(alone))


def test_the_engine_of_the_docs_runs_cells(fresh, tmp_path):
    """Ten lines of shell are all that a new engine takes."""
    with open(DOCS, encoding="utf-8") as file:
        lines = re.search(r"^```sh\n(.*?)^```", file.read(), re.S | re.M).group(1)
    assert len(lines.splitlines()) <= 10
    twins = tmp_path / "cellspan-launch-twins"
    twins.write_text(lines, encoding="utf-8")
    twins.chmod(0o755)
    nb = fresh(env={"PATH": "%s:%s" % (tmp_path, os.environ["PATH"])})
    nb.ok("base = 10")
    cell = nb.ok("%%distribute -n 4 --on twins --gather\nimport os\nbase + int(os.environ['RANK']), os.environ['GROUP_RANK']")
    assert cell.value == "[(10, '0'), (11, '0'), (12, '1'), (13, '1')]"
    assert re.search(r"twin0.*twin1", nb.ok("%ranks").shown, re.S)
    assert "there is no such engine; did you mean twins?" in nb.run("%%distribute --on twin --fresh\n1").assert_error("EngineError").error["evalue"]
    for name in ("k8s:foo", "twin"):  # whatever else is wrong: with no such engine, ending the ranks would not help
        error = nb.run("%%distribute --on " + name + "\n1").assert_error("EngineError").error["evalue"]
        assert "there is no such engine" in error and "twins" in error and "--fresh" not in error
    nb.close()
    assert nb.left == []


def test_values_travel_between_here_and_there(nb):
    nb.ok("import numpy\nbig = numpy.arange(500_000.0)")
    assert nb.ok("%%distribute -n 4 --on pair:2 --gather\nimport os\nrank = int(os.environ['RANK'])\nfloat(big[rank])").value == "[0.0, 1.0, 2.0, 3.0]"
    nb.ok("%pull rank --into pulled")
    assert nb.ok("pulled").value == "[0, 1, 2, 3]"
    nb.ok("%push pulled")
    assert nb.ok("%%distribute -r -1\npulled[rank]").value == "3"
    assert nb.ok("import cellspan\ncellspan.run(sum, [1, 2], on='pair:2', gather=True)").value == "[3, 3, 3, 3]"


def test_a_module_that_another_machine_lacks_is_named_with_the_machine(nb):
    cell = nb.run("%%distribute -n 2 --on pair:2\nimport no_such_helper.part").assert_error("ModuleNotFoundError")
    assert re.search(r"m\d has no no_such_helper: ranks there import what is installed there", cell.traceback), cell.traceback
    here = nb.run("import no_such_helper").assert_error("ModuleNotFoundError")
    assert "ranks there" not in here.traceback


def test_lines_of_all_machines_are_merged(nb):
    nb.ok_folded("%%distribute -n 4 --on pair:2\nprint('hello')", "[0-3] hello\n")


def test_another_place_is_refused_with_the_way_out(nb):
    nb.ok("%%distribute -n 2 --on pair:2\n1")
    error = nb.run("%%distribute --on pair:3\n1")
    error.assert_error("UsageError")
    assert "--on pair:3: the ranks are on pair:2 (--fresh" in error.error["evalue"]


def test_other_processes_at_another_place_come_after_ranks_stop(alone):
    """They leave the ranks alone, so --fresh does not go with them."""
    nb = alone
    nb.ok("%%distribute -n 2 --on pair:2\n1")
    nb.ok("import os\nfrom cellspan._jobs import launch\ndef there(): return os.environ['GROUP_WORLD_SIZE']")
    for code, error in (("launch(there, n=3, on='pair:3')", "ValueError"), ("%%distribute -n 3 --beside --on pair:3\n1", "UsageError")):
        told = nb.run(code).assert_error(error).error["evalue"]
        assert "the ranks are on pair:2" in told and "%ranks stop" in told and "--fresh" not in told, told
    nb.ok("%ranks stop")
    assert nb.ok("launch(there, n=3, on='pair:3')").value == "'3'"


@pytest.fixture(scope="module")
def with_torch(engine):
    """A notebook on a kernel whose two machines have imported torch, which takes each some seconds of a processor: tests share it."""
    notebook = Notebook()
    notebook.ok("%%distribute -n 4 --on pair:2\n1")
    yield notebook
    notebook.close()
    assert not notebook.left


def test_collectives_span_the_machines_and_end_when_a_rank_fails(with_torch, torch):
    nb = with_torch
    nb.ok("%%distribute -n 4 --init gloo\nimport os, torch, torch.distributed as dist")
    nb.ok("%%distribute\nt = torch.ones(1)\ndist.all_reduce(t)\nassert t == 4")
    nb.run("%%distribute\nif os.environ['RANK'] == '3':\n    raise ValueError('out')\ndist.all_reduce(t)").assert_error("ValueError")
    assert nb.ok("%%distribute --init gloo\nt = torch.ones(1)\ndist.all_reduce(t)\nint(t)").value == "4"


def test_a_machine_that_is_lost_takes_its_ranks_along_and_the_next_cell_works(alone):
    nb = alone
    nb.ok("%%distribute -n 4 --on pair:2\nkept = 1\nimport os, time")
    cell = nb.start("%%distribute\nprint('here', flush=True)\ntime.sleep(1000)")
    nb.wait_ranks(cell, "here")
    os.kill(agents(nb)[-1], signal.SIGKILL)
    nb.wait(cell)
    cell.assert_error("RankDied")
    assert "is gone" in cell.error["evalue"] and " on m" in cell.error["evalue"], cell.error
    again = nb.ok("%%distribute --gather\n'kept' in globals()", limit=90)
    assert sorted(again.value.strip("[]").split(", ")) == ["False", "False", "True", "True"]
    assert "is lost: ranks" in again.stderr and "their variables are gone" in again.stderr


@pytest.mark.parametrize("contract", ["", "2"])
def test_a_silent_machine_is_waited_for_if_its_engine_tells_when_agents_end(fresh, tmp_path, contract):
    nb = fresh(env={"CELLSPAN_HEARTBEAT_TIMEOUT": "8", "CONTRACT": contract})
    nb.ok("%%distribute -n 4 --on pair:2\nimport os, time")
    cell = nb.start("%%%%distribute\nprint('here', flush=True)\nwhile not os.path.exists(%r):\n    time.sleep(0.1)" % str(tmp_path / "go"))
    nb.wait_ranks(cell, "here")
    agent = agents(nb)[-1]
    os.kill(agent, signal.SIGSTOP)
    if contract:
        nb.wait(cell, 120, lambda: re.search(r"m\d \(ranks .*\) has been silent for \d+ s; cellspan waits for it until", cell.stderr))
        os.kill(agent, signal.SIGCONT)
        nb.wait(cell, 120, lambda: re.search(r"m\d \(ranks .*\) is back after", cell.stderr))
        (tmp_path / "go").touch()
        nb.wait(cell).assert_ok()
    else:
        nb.wait(cell, 120).assert_error("RankDied")
        os.kill(agent, signal.SIGCONT)
        assert "silent" not in cell.stderr, cell.shown


def test_an_agent_that_is_told_to_end_says_so(fresh):
    """Its engine does not know that nobody of cellspan has told it."""
    nb = fresh(env={"CELLSPAN_HEARTBEAT_TIMEOUT": "8", "CELLSPAN_RESUME": "1000", "CONTRACT": "2"})
    nb.ok("%%distribute -n 4 --on pair:2\nimport os, time")
    cell = nb.start("%%distribute\nprint('here', flush=True)\ntime.sleep(1000)")
    nb.wait_ranks(cell, "here")
    os.kill(agents(nb)[-1], signal.SIGTERM)
    nb.wait(cell, 120).assert_error("RankDied")
    assert "is gone: its agent has got a signal, or what had started it was gone" in cell.shown and "silent" not in cell.stderr, cell.shown


def test_without_room_for_its_ranks_all_start_afresh(alone):
    nb = alone
    assert nb.ok("%%distribute --on pair:2x1 --gather\nimport os\nos.environ['GROUP_RANK']").value == "['0', '1']"
    nb.run("%%distribute -n 3\n1").assert_error("UsageError")
    old = agents(nb)
    os.kill(old[-1], signal.SIGKILL)
    assert processes.wait_until(lambda: "dead" in nb.ok("%ranks").shown, 60), nb.ok("%ranks").shown
    cell = nb.ok("%%distribute\nimport os\nos.environ['WORLD_SIZE']", limit=90)
    assert cell.value == "'2'" and "is started again" in cell.stderr, cell.stderr
    assert processes.wait_until(lambda: not set(old) & set(agents(nb)), 60), "those of before end"


FALLS = """#include <signal.h>
#include <unistd.h>
__attribute__((constructor)) static void fall(void) { kill(getppid(), SIGKILL); }
"""


@pytest.mark.parametrize("number", ["", "-n 1 ", "-n gpu ", "--nproc-per-node 1 "])
def test_machines_that_are_lost_before_any_rank_starts_are_started_once_more_and_no_oftener(alone, tmp_path, number):
    """The agents end when the cell asks for their GPUs."""
    library = str(tmp_path / "libfalls.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=FALLS.encode(), check=True)
    nb = alone
    nb.ok("import os\nos.environ['NVML'] = %r" % library)
    cell = nb.run("%%distribute " + number + "--on pair:1\n1", 120)
    cell.assert_error("EngineError")
    assert cell.stderr.count("is started again") == 1, cell.stderr
    assert "pair:1 was started again for this cell, and was lost again before the cell ran: m0: " in cell.error["evalue"], cell.error
    assert "(Killed)" in cell.error["evalue"], cell.error
    nb.ok("del os.environ['NVML']")
    assert nb.ok("%%distribute -n 1\n1", limit=120).value == "1"


def test_an_engine_that_refuses_or_is_not_there_is_quoted(alone):
    nb = alone
    refused = nb.run("%%distribute --on pair:bad\n1")
    refused.assert_error("EngineError")
    assert "there is no partition bad" in refused.error["evalue"]
    nb.run("%%distribute --on nosuch\n1").assert_error("EngineError")


def test_an_engine_gets_what_home_has_set_since_it_started(fresh):
    nb = fresh(env={"GIVEN": "from outside", "SPARE": "too"})
    nb.ok("import os\nos.environ.update(MODE='fast', ODD='\\udc80', CELLSPAN_SECRET='x', GIVEN='ours')\ndel os.environ['SPARE']")
    assert nb.run("%%distribute --on pair:env\n1").assert_error("EngineError").error["evalue"] == "MODE=fast GIVEN=ours SPARE=not there"
    call = "import cellspan\nos.environ['MODE'] = 'slow'\ncellspan.run(len, '', on='pair:env')"
    assert "MODE=slow GIVEN=ours SPARE=not there" in nb.run(call).error["evalue"], "in the same cell, too"


def test_engines_that_come_with_cellspan_do_not_get_what_home_has_set(fresh, tmp_path):
    """ssh's, Slurm's and MPI's hand their environment on, not always encrypted."""
    ours = pathlib.Path(shutil.which("cellspan")).resolve().parents[1] / "libexec" / "cellspan"
    for file in ours.iterdir():
        (tmp_path / file.name).symlink_to(file)
    shutil.copy(shutil.which("cellspan-launch-pair"), tmp_path / "cellspan-launch-pair")
    nb = fresh(env={"GIVEN": "from outside", "CELLSPAN_LIBEXECDIR": str(tmp_path)})
    nb.ok("import os\nos.environ.update(MODE='fast', GIVEN='ours')")
    assert nb.run("%%distribute --on pair:env\n1").assert_error("EngineError").error["evalue"] == "MODE= GIVEN=from outside SPARE=not there"


def test_what_a_launcher_in_python_must_not_show_is_not_in_its_environment(fresh, tmp_path):
    """As long as it runs, all processes of the user can read what it was started with."""
    (tmp_path / "ray.py").write_text("import threading\n__version__ = '2.60.0'\ndef init(**given):\n    threading.Event().wait()\n")
    nb = fresh()
    nb.ok("import os\nos.environ['PYTHONPATH'] = %r" % str(tmp_path))
    cell = nb.start("%%distribute --on ray\n1")
    nb.wait_shown(cell, "connecting to Ray")
    (launcher,) = processes.named(nb.marker, "/_launch/__main__.py ray")
    environment = processes.read(launcher, "environ")
    nb.control("interrupt_request")
    nb.wait(cell).assert_error("KeyboardInterrupt")
    assert b"PYTHONPATH=%s" % str(tmp_path).encode() in environment and b"CELLSPAN_SECRET" not in environment


def test_a_cell_that_fails_before_its_engine_starts_leaves_the_engine_to_the_next(fresh):
    """Home is asked before an engine starts, and a cell may fail then."""
    nb = fresh()
    nb.run("%%distribute -n 2 --on pair:2 --capture nosuch\n1").assert_error("CaptureError")
    assert nb.ok("%%distribute -n 2\nimport os\nos.environ['GROUP_WORLD_SIZE']").value == "'2'"


def test_what_did_not_come_up_is_not_replaced_by_this_machine_in_silence(fresh):
    """A cell that was to run on a cluster must not run on the notebook's machine because the cluster was misspelt."""
    nb = fresh()
    for bad in ("pair:bad", "nosuch"):
        nb.run("%%%%distribute -n 2 --on %s\n1" % bad).assert_error("EngineError")
        asked = nb.run("%%distribute -n 2\nprint('ran')").assert_error("UsageError")
        assert "%s did not come up: write --on again" % bad in asked.error["evalue"] and "--on local" in asked.error["evalue"]
        assert "ran" not in asked.stdout
        nb.run("import cellspan\ncellspan.run(print, n=2)").assert_error("ValueError")
    assert nb.ok("%%distribute -n 2 --on pair:2\nimport os\nos.environ['GROUP_WORLD_SIZE']").value == "'2'"
    assert nb.ok("%%distribute\n'there'").value == "'there'"
    nb.ok("%ranks stop")
    nb.run("%%distribute -n 2 --on pair:bad\n1").assert_error("EngineError")
    assert nb.ok("%%distribute -n 1 --on local\n'here'").value == "'here'"
    nb.run("%%distribute -n 2 --on pair:bad --fresh\n1").assert_error("EngineError")
    nb.run("%%distribute\n1").assert_error("UsageError")
    assert nb.ok("%%distribute -n 2 --on pair:2 --gather\n1").value == "[1, 1]"


def test_the_queue_is_shown_and_can_be_left(alone):
    nb = alone
    cell = nb.start("%%distribute --on pair:queue\n1")
    nb.wait_shown(cell, "job 7 waits in the queue")
    nb.control("interrupt_request")
    nb.wait(cell)
    cell.assert_error("KeyboardInterrupt")
    assert processes.wait_until(lambda: not processes.named(nb.marker, "cellspan-launch-pair"), 60), "the engine was left running"
    assert nb.ok("1 + 1").value == "2"


def test_stop_gives_the_machines_back_and_fresh_moves(alone):
    nb = alone
    nb.ok("%%distribute -n 2 --on pair:2\n1")
    nb.ok("%ranks stop")
    assert processes.wait_until(lambda: not agents(nb), 60), processes.described(agents(nb))
    nb.ok("%%distribute -n 2 --on pair:2\n1")
    assert nb.ok("%%distribute -n 2 --fresh --on local\nimport os\nos.environ['GROUP_WORLD_SIZE']").value == "'1'"
    assert processes.wait_until(lambda: not agents(nb), 60), processes.described(agents(nb))


def test_nobody_is_left_when_the_kernel_is_killed(fresh):
    nb = fresh()
    nb.ok("%%distribute -n 4 --on pair:2\n1")
    os.kill(nb.pid, signal.SIGKILL)
    assert processes.gone(nb.marker) == [], processes.described(processes.marked(nb.marker))


def test_the_command_takes_on(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import os, sys\nprint(os.environ['GROUP_RANK'], sys.argv[1:])")
    marker = uuid.uuid4().hex
    done = subprocess.run(
        [shutil.which("cellspan"), "run", "-n", "2", "--on", "pair:2", "--python", sys.executable, str(script), "a"],
        env=dict(os.environ, **{processes.MARKER: marker}), capture_output=True, text=True, timeout=200,
    )
    assert (done.returncode, sorted(done.stdout.split("\n"))) == (0, ["", "[0] 0 ['a']", "[1] 1 ['a']"]), done
    assert processes.gone(marker) == []


def test_logs_come_from_every_machine(alone):
    nb = alone
    cell = nb.ok("%%distribute -n 4 --on pair\nimport os\nprint('printed by', os.environ['RANK'])")
    logs = nb.ok("%%ranks logs --cell %d" % cell.reply["execution_count"])
    assert by_rank(logs.stdout) == {rank: ["printed by %d" % rank] for rank in range(4)}
    assert nb.ok("%ranks logs -r 3").stdout == "printed by 3\n"


@pytest.mark.only_names
def test_a_world_of_its_own_may_be_here(alone, tmp_path):
    """--on local with --beside or a script: on this machine, and the ranks stay where they are."""
    nb = alone
    nb.ok("%%distribute -n 4 --on pair\nkept = 1\nimport os; mine = os.getpid()")
    nodes = "{row['node'] for row in cellspan.group().ranks()}"
    elsewhere = nb.ok("import cellspan, os\n" + nodes).value
    assert nb.ok("%%distribute -n 3 --beside --on local --gather\nos.environ['GROUP_WORLD_SIZE'], 'kept' in globals()").value == (
        "[('1', False), ('1', False), ('1', False)]")
    assert nb.ok("from cellspan._jobs import launch\nlaunch(lambda: os.environ['GROUP_WORLD_SIZE'], n=4, on='local')").value == "'1'"
    assert nb.ok("launch(lambda: os.environ['GROUP_WORLD_SIZE'], n=4)").value == "'2'"
    (tmp_path / "who.py").write_text("import os; print('nodes', os.environ['GROUP_WORLD_SIZE'])")
    assert by_rank(nb.ok("%%distribute -n 4 --on local %s" % (tmp_path / "who.py")).stdout) == {rank: ["nodes 1"] for rank in range(4)}
    assert "--fresh" in nb.run("%%distribute --on local\n1").assert_error("UsageError").reply["evalue"]
    nb.ok("def nodes_of(): return os.environ['GROUP_WORLD_SIZE']")
    for made, want in (("torch.TorchDistributor(4, use_gpu=False)", "1"), ("torch.TorchDistributor(4, False, False)", "2"),
                       ("horovod.HorovodRunner(np=-4)", "1"), ("horovod.HorovodRunner(np=4)", "2")):
        cell = nb.ok("import cellspan.torch, cellspan.horovod\ncellspan.%s.run(nodes_of)" % made)
        assert cell.value == repr(want) and "on this one" not in cell.stderr, cell.shown
        assert ("cellspan: the ranks are on pair, where the notebook's are\n" in cell.stderr) == (want == "2"), cell.shown
    assert nb.ok("%%distribute --gather\n(kept, mine == os.getpid())").value == str([(1, True)] * 4)
    assert nb.ok(nodes).value == elsewhere


def test_a_training_of_maggy_is_where_on_says(with_torch, torch):
    nb = with_torch
    nb.ok("import os, torch\nfrom cellspan.maggy import experiment\nfrom cellspan.maggy.config import TorchDistributedConfig\n"
          "def train(module): return float(os.environ['GROUP_WORLD_SIZE'])\n"
          "def results(**where): return experiment.lagom(train, TorchDistributedConfig(torch.nn.Linear), n=4, **where)['results']")
    assert values(nb.ok("results(), results(on='local'), results(on='pair:2'), results(on='pair:2', reuse=True)")) == ([2.0] * 4, [1.0] * 4, [2.0] * 4, [2.0] * 4)


MADE = ("import os\nfrom cellspan.torch import TorchDistributor\ndef nodes_of(): return os.environ['GROUP_WORLD_SIZE']\n"
        "def run(**where): return TorchDistributor(2, use_gpu=False, **where).run(nodes_of)")


def test_cellspan_on_says_where_work_for_a_cluster_is(fresh):
    """In the environment. What is local stays here."""
    nb = fresh(env={"CELLSPAN_ON": "pair:2"})
    nb.ok(MADE)
    cell = nb.ok("run(local_mode=False)")
    assert cell.value == "'2'" and "the ranks are on pair:2, which CELLSPAN_ON names" in cell.stderr, cell.shown
    for here in ("on='local'", "local_mode=True"):
        cell = nb.ok("run(%s)" % here)
        assert cell.value == "'1'" and "CELLSPAN_ON" not in cell.stderr, cell.shown


def test_cellspan_on_says_where_the_first_cell_is_and_on_overrides_it(fresh):
    nb = fresh(env={"CELLSPAN_ON": "pair:2"})
    for on, there in (("", "2"), ("--fresh --on local", "1")):
        cell = nb.ok("%%%%distribute -n 2 %s --gather\nimport os\nos.environ['GROUP_WORLD_SIZE']" % on)
        assert values(cell) == [there] * 2, cell.shown


def test_a_cellspan_on_that_is_wrong_is_named(fresh):
    nb = fresh(env={"CELLSPAN_ON": "nosuch:2"})
    nb.ok(MADE)
    cell = nb.run("run(local_mode=False)")
    assert cell.status == "error" and "nosuch" in cell.reply["evalue"] and "the ranks are on nosuch:2, which CELLSPAN_ON names" in cell.stderr, cell.shown
    assert nb.ok("run(on='local')").value == "'1'"
    nb = fresh(env={"CELLSPAN_ON": "nosuch:2"})
    cell = nb.run("%%distribute -n 2\n1").assert_error("EngineError")
    assert "nosuch" in cell.error["evalue"] and "CELLSPAN_ON" in cell.error["evalue"], cell.shown
    assert values(nb.ok("%%distribute -n 2 --on local --gather\n1")) == [1, 1]


def test_gpus_are_wanted_on_the_machines_that_on_names(alone):
    nb = alone
    nb.ok("import os\nfrom cellspan.torch import DeepspeedTorchDistributor, TorchDistributor\ndef nodes_of(): return os.environ['GROUP_WORLD_SIZE']")
    for made in ("TorchDistributor(2, on='pair:2')", "DeepspeedTorchDistributor(2, on='pair:2')"):
        cell = nb.run("made = %s\nmade.run(nodes_of)" % made)
        assert cell.status == "error" and "GPU" in cell.reply["evalue"], cell.shown
        assert nb.ok("made.local_mode, made.input_params['local_mode']").value == "(False, False)"
    cell = nb.ok("TorchDistributor(2, use_gpu=False, on='pair:2').run(nodes_of)")
    assert cell.value == "'2'" and "Started distributed training with 2 executor processes" in cell.stderr, cell.shown


def test_items_and_parts_reach_the_ranks_of_all_agents(alone):
    nb = alone
    nb.ok("import cellspan, os\nimport numpy as np\ngroup = cellspan.group(on='pair:2')")
    nb.ok("import tempfile, time; place = tempfile.mkdtemp()\n"
          "def work(a):\n    node = os.environ['GROUP_RANK']\n    open(f'{place}/{node}', 'w').close()\n"
          "    while len(os.listdir(place)) < 2: time.sleep(0.01)\n    return float(a.sum()), node\n"
          "found = cellspan.map(work, (np.full(10_000, k) for k in range(60)), n=4, on='pair:2')")
    assert values(nb.ok("[s for s, _ in found] == [10000.0 * k for k in range(60)], sorted({node for _, node in found})")) == (True, ["0", "1"])
    nb.ok("group.scatter('part', np.arange(12_000_000.))")
    assert values(nb.ok("%%distribute --gather\npart.shape, float(part[0])")) == [((3000000,), k * 3e6) for k in range(4)]
    assert values(nb.ok("import json\nfrom cellspan.tensorflow import MirroredStrategyRunner\n"
                        "run = MirroredStrategyRunner(num_slots=4, use_gpu=False, use_custom_strategy=True, on='pair:2').run\n"
                        "workers = json.loads(run(lambda: os.environ['TF_CONFIG']))['cluster']['worker']\nlen(workers), len(set(workers))")) == (4, 4)
