# SPDX-License-Identifier: BSD-3-Clause
"""The same cells on other hosts, over ssh: ranks, lines, results, variables, errors, and the processes left at the end."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import uuid

import processes
import pytest
from client import by_rank, values
from engines import HOST_TOOLS, Hosts, bring_up
from packages import needs

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
NAMES = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "WORLD_SIZE")

# The files of cellspan's that a rank has mapped, of 20 MB and more.
MAPPED = """%%distribute --gather
def size(line):
    begin, end = line.split()[0].split('-')
    return int(end, 16) - int(begin, 16)


[line.split()[-1] for line in open('/proc/self/maps') if 'cellspan' in line and size(line) >= 20_000_000]"""


def tell(options=""):
    """A cell that gives where each rank is, and NAMES of its environment."""
    return "%%%%distribute --gather %s\nimport os\n' '.join([os.uname().nodename] + [os.environ[n] for n in %r])" % (options, NAMES)


@pytest.fixture(scope="module", autouse=True)
def reached(hosts):
    """CELLSPAN_SSH for all that these tests start."""
    os.environ.update(hosts.variables())
    yield
    for name in hosts.variables():
        del os.environ[name]
    assert hosts.left() == []


@pytest.fixture
def alone(shared_notebook, fresh):
    """As `fresh`, when the module's notebook has left the hosts."""
    shared_notebook.close()
    return fresh


@pytest.fixture
def two(nb):
    """A notebook whose four ranks are on h1 and h2."""
    at = nb.ok("%%distribute -n 4 --on ssh:h1,h2 --gather\nimport os, sys, time\nrank = int(os.environ['RANK'])\nos.uname().nodename", limit=150)
    assert values(at) == ["h1", "h1", "h2", "h2"]
    return nb


# -- the world


def test_what_ranks_on_two_hosts_changed_is_not_overwritten(two):
    two.ok("import numpy\nheld, words = numpy.zeros(1 << 18), {'a', 'bb', 'ccc'}")
    two.ok("%%distribute\nheld[rank] = 1 if rank == 3 else 0\nwords.discard('none')")
    two.ok("held[0] = 5; words.add('home')")
    assert two.ok("%%distribute --gather\nlen(words)").value == "[4, 4, 4, 4]"
    told = two.run("%%distribute\nheld.sum()").assert_error("VariableConflict").error["evalue"]
    assert "by rank 3" in told and "`%pull held -r 3`" in told
    two.ok("%pull held -r 3")
    assert two.ok("float(held[3])").value == "1.0"
    two.ok("%push held")
    assert two.ok("%%distribute --gather\nfloat(held.sum())").value == "[1.0, 1.0, 1.0, 1.0]"


def test_a_widget_of_a_rank_on_another_host_is_moved_and_becomes_text(two):
    needs("ipywidgets")
    cell = two.ok("%%distribute\nimport ipywidgets\nfrom IPython.display import display\nw = ipywidgets.IntText(description='%d on %s' % (rank, os.uname().nodename))\n"
                  "w.observe(lambda change: print('now', change['new'], 'on', os.uname().nodename), 'value')\ndisplay(w)")
    comm, = [m["content"]["comm_id"] for m in cell.of("comm_open") if m["content"]["data"]["state"].get("description") == "3 on h2"]
    moved = two.send("comm_msg", {"comm_id": comm, "data": {"method": "update", "state": {"value": 8}, "buffer_paths": []}})
    two.until(lambda: moved.idle_at is not None)
    assert moved.stdout == "[3] now 8 on h2\n"
    stopped = two.ok("%ranks stop")
    texts = [m["content"]["data"]["text/plain"] for m in stopped.of("update_display_data")]
    assert len(texts) == 4 and "3 on h2 8 (rank 3 has ended)" in texts, texts


def test_ranks_are_on_the_hosts_and_know_it(two):
    assert values(two.ok(tell())) == ["h1 0 0 2 0 2 4", "h1 1 1 2 0 2 4", "h2 2 0 2 1 2 4", "h2 3 1 2 1 2 4"]
    assert re.search(r"h1.*h2", two.ok("%ranks").shown, re.S)


def test_master_is_an_address_that_all_hosts_reach(two, hosts):
    masters = values(two.ok("%%distribute --gather\nos.environ['MASTER_ADDR'], os.environ['MASTER_PORT']"))
    assert len(set(masters)) == 1 and masters[0][0] == hosts.address("h1")


def test_home_stays_here_and_is_not_touched(two):
    two.ok("mine = [1]\nimport os\nassert 'RANK' not in os.environ")
    two.ok("%%distribute\nmine.append(rank)")
    assert two.ok("mine, os.uname().nodename == %r" % os.uname().nodename).value == "([1], True)"


def test_lines_are_merged_and_rank_0s_value_is_the_result(two):
    two.ok_folded("%%distribute\nprint('alike')", "[0-3] alike\n")
    cell = two.ok("%%distribute\nprint('alike')\nprint('from', os.uname().nodename, rank)\n[rank]")
    hosts = ["h1", "h1", "h2", "h2"]
    assert by_rank(cell.stdout) == {rank: ["alike", "from %s %d" % (host, rank)] for rank, host in enumerate(hosts)}, cell.stdout
    assert cell.value == "[0]" and two.ok("Out[%d]" % cell.reply["execution_count"]).value == "[0]"


def test_some_ranks_only(two):
    assert values(two.ok("%%distribute -r 1,2 --gather\nrank * 10")) == [10, 20]
    assert two.ok("%%distribute -r -1\nos.uname().nodename").value == "'h2'"


def test_displays_bars_and_input(two):
    needs("tqdm")
    cell = two.ok("%%distribute\nfrom IPython.display import HTML, display\nif rank == 0:\n    display(HTML('<b>here</b>'))")
    assert "<b>here</b>" in [shown.get("text/html") for shown in cell.displays]  # a slow cell has its status there too
    bars = two.ok("%%distribute\nfrom tqdm import tqdm\nfor _ in tqdm(range(5), desc='steps'):\n    pass")
    assert "5/5" in bars.shown
    asked = two.ok("%%distribute\nif rank == 0:\n    print('got', input('who? '))", answer="Ada")
    assert asked.prompts[0]["prompt"] == "[0] who? " and "got Ada" in asked.stdout


# -- values


def test_what_a_cell_reads_travels_and_results_come_home(two):
    two.ok("factor, names = 3, {'a': 1}\ndef scaled(x):\n    return x * factor")
    assert values(two.ok("%%distribute --gather\nscaled(rank), names")) == [(3 * r, {"a": 1}) for r in range(4)]
    two.ok("%%distribute --into kept\n{'rank': rank}")
    assert two.ok("kept").value == "{'rank': 0}"
    two.ok("%pull rank --into all_of_them")
    assert two.ok("all_of_them").value == "[0, 1, 2, 3]"
    two.ok("%push all_of_them")
    assert two.ok("%%distribute -r 3\nall_of_them[rank]").value == "3"


def test_a_big_array_is_sent_once_to_each_host(two):
    two.ok("import numpy\nbig = numpy.arange(2_500_000.0)")
    there = values(two.ok("%%distribute --gather\nfloat(big[rank]), float(big.sum())"))
    assert there == [(float(r), 3124998750000.0) for r in range(4)]
    pages = "%%distribute --gather\nnext(int(line.split()[1]) for line in open('/proc/self/smaps_rollup') if line.startswith('Private_Dirty'))"
    before = values(two.ok(pages))
    two.ok("%%distribute\nbig.sum()")
    grown = [after - old for after, old in zip(values(two.ok(pages)), before)]
    assert all(kib < 10_000 for kib in grown), grown  # 20 MB would be a copy of its own
    mapped = values(two.ok(MAPPED))
    assert all(mapped), mapped
    two.ok("big[0] = 7")
    assert values(two.ok("%%distribute --gather\nfloat(big[0])")) == [7.0] * 4
    two.ok("%%distribute -r 3\nback = big * 2")
    two.ok("%pull back -r 3")
    assert two.ok("float(back[0]), len(back)").value == "(14.0, 2500000)"


def test_a_script_that_is_only_here_runs_there(two, tmp_path):
    (tmp_path / "train.py").write_text("import os, sys\nprint(os.uname().nodename, os.environ['RANK'], sys.argv[1:], __name__)\n")
    cell = two.ok("%%distribute --merge prefix %s/train.py --lr 3" % tmp_path)
    assert "[0] h1 0 ['--lr', '3'] __main__" in cell.stdout and "[3] h2 3 ['--lr', '3'] __main__" in cell.stdout


# -- collectives, errors, interrupts


def test_collectives_span_the_hosts_and_end_when_one_fails(two, torch):
    two.ok("%%distribute --init gloo\nimport torch, torch.distributed as dist\nt = torch.ones(1)\ndist.all_reduce(t)\nassert t == 4")
    cell = two.run("%%distribute --grace 90s\nif rank == 1:\n    raise ValueError('out')\ndist.all_reduce(t)", limit=150)
    cell.assert_error("ValueError")
    assert "ValueError on rank 1 of 4" in cell.traceback, cell.shown
    again = two.ok("%%distribute --init gloo --gather\nt = torch.ones(1)\ndist.all_reduce(t)\nint(t)")
    assert values(again) == [4] * 4 and "is new" not in again.stderr, "not killed, but back from the collective: " + again.stderr


def test_ddp_over_two_hosts(two, torch):
    two.ok("%%distribute --init gloo --into after\nimport torch\nfrom torch.nn.parallel import DistributedDataParallel\n"
           "torch.manual_seed(0)\nmodel = DistributedDataParallel(torch.nn.Linear(4, 1))\n"
           "model(torch.full((2, 4), float(rank))).sum().backward()\nmodel.module.weight.grad.tolist()")
    assert two.ok("after").value == "[[3.0, 3.0, 3.0, 3.0]]"


def test_an_exception_on_one_host_ends_the_cell_on_both(two):
    cell = two.run("%%distribute\nif rank == 3:\n    1 / 0\ntime.sleep(1000)").assert_error("ZeroDivisionError")
    assert "ZeroDivisionError on rank 3 of 4" in cell.traceback, cell.shown
    assert values(two.ok("%%distribute --gather\nrank")) == [0, 1, 2, 3]


def test_an_interrupt_reaches_all_hosts(two):
    cell = two.start("%%distribute\nprint('begun', flush=True)\ntime.sleep(1000)")
    two.wait_ranks(cell, "begun")
    two.control("interrupt_request")
    two.wait(cell).assert_error("KeyboardInterrupt")
    assert "KeyboardInterrupt on ranks 0-3 of 4" in cell.traceback, cell.shown
    assert values(two.ok("%%distribute --gather\nrank")) == [0, 1, 2, 3]


def test_a_rank_that_is_killed_is_named_with_its_host(two):
    cell = two.run("%%distribute\nimport signal\nif rank == 2:\n    os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(1000)")
    cell.assert_error("RankDied")
    assert "rank 2 on h2 was killed by SIGKILL" in cell.error["evalue"], cell.shown
    again = two.ok("%%distribute --gather\nimport os\n'rank' in globals(), os.uname().nodename")
    assert values(again) == [(True, "h1"), (True, "h1"), (False, "h2"), (True, "h2")]
    assert "rank 2 is new" in again.stderr


# -- other worlds


def test_places_are_filled_as_the_spec_says(alone):
    nb = alone()
    uneven = [line.split() for line in values(nb.ok(tell("-n 4 --on ssh:h1,h2*3"), limit=150))]
    assert [line[0] for line in uneven].count("h2") <= 3 and [line[1] for line in uneven] == list("0123")
    assert [line[0] for line in uneven] == ["h1", "h2", "h2", "h2"], uneven
    assert [line[2:6] for line in uneven] == [["0", "1", "0", "2"]] + [[str(k), "3", "1", "2"] for k in range(3)]
    full = nb.run("%%distribute -n 9 --on ssh:h1*1,h2*3 --fresh\n1").assert_error("EngineError")
    assert "-n 9: the hosts of this list take 4 ranks" in full.error["evalue"]
    assert values(nb.ok(tell("-n 1 --on ssh:h3 --fresh"), limit=150)) == ["h3 0 0 1 0 1 1"]


def test_hosts_with_unlike_numbers_of_ranks_are_one_world(alone, torch):
    nb = alone()
    there = values(nb.ok(tell("-n 6 --on ssh:h1*1,h2*2,h3*3 --init gloo") + " + ' ' + os.environ['OMP_NUM_THREADS']", limit=150))
    cores = len(os.sched_getaffinity(0))
    assert there == ["%s %d %d %d %d 3 6 %d" % (host, rank, local, size, node, max(1, cores // size)) for rank, (host, local, size, node) in enumerate(
        [("h1", 0, 1, 0), ("h2", 0, 2, 1), ("h2", 1, 2, 1), ("h3", 0, 3, 2), ("h3", 1, 3, 2), ("h3", 2, 3, 2)])]
    assert nb.ok("%%distribute\nimport torch, torch.distributed as dist\nt = torch.ones(1)\ndist.all_reduce(t)\nint(t)").value == "6"
    full = nb.run("%%distribute -n 7\n1").assert_error("UsageError")
    assert "-n 7: there is room for 6 ranks (h1: 1, h2: 2, h3: 3)" in full.error["evalue"]


def test_a_world_grows_and_keeps_what_it_has(alone):
    nb = alone()
    nb.ok("%%distribute -n 2 --on ssh:h1,h2\nkept = 1", limit=150)
    cell = nb.ok("%%distribute -n 6 --gather\nimport os\nos.uname().nodename, 'kept' in globals(), os.environ['WORLD_SIZE']")
    found = values(cell)
    assert sorted(host for host, _, _ in found) == ["h1"] * 3 + ["h2"] * 3
    assert [kept for _, kept, _ in found] == [True, True] + [False] * 4 and {size for _, _, size in found} == {"6"}


def test_stop_gives_the_hosts_back_and_fresh_moves_on(alone, hosts):
    nb = alone()
    nb.ok("%%distribute -n 2 --on ssh:h1,h2\npass", limit=150)
    nb.ok("%ranks stop")
    assert hosts.left("h1", "h2") == []
    assert values(nb.ok(tell("-n 2 --on ssh:h2"), limit=150)) == ["h2 0 0 2 0 1 2", "h2 1 1 2 0 1 2"]
    cell = nb.ok("%%distribute -n 1 --fresh --on local\nimport os\nos.uname().nodename")
    assert cell.value == repr(os.uname().nodename) and hosts.left("h2") == []


def test_nobody_is_left_when_the_notebook_ends(alone, hosts):
    nb = alone()
    nb.ok("%%distribute -n 4 --on ssh:h1,h2\nimport subprocess\nsubprocess.Popen(['sleep', '1000'])", limit=150)
    assert hosts.workers("h1") and hosts.workers("h2")
    nb.close()
    assert nb.left == [] and hosts.left() == []


def test_lists_of_hosts_are_written_as_people_write_them(alone):
    nb = alone()
    assert values(nb.ok(tell("-n 3 --on ssh:h[1-2], h3"), limit=150)) == ["h%d %d 0 1 %d 3 3" % (k + 1, k, k) for k in range(3)]
    there = values(nb.ok(tell("--nproc_per_node 2"), limit=150))
    assert sorted(line.split()[0] for line in there) == ["h1", "h1", "h2", "h2", "h3", "h3"] and there[0].endswith(" 6"), there


def test_a_machine_by_two_names_is_refused(alone, hosts, tmp_path):
    """It would be two nodes, and LOCAL_RANK 0 twice: two ranks on one GPU."""
    config = pathlib.Path(hosts.ssh_config).read_text()
    (tmp_path / "config").write_text(config + "Host ib1\n  HostName %s\n  HostKeyAlias h1\n" % hosts.address("h1"))
    nb = alone(env={"CELLSPAN_SSH": "ssh -F %s" % (tmp_path / "config")})
    error = nb.run("%%distribute -n 3 --on ssh:h1,ib1,h2\n1", limit=150).assert_error("RankNotStarted").error["evalue"]
    assert re.fullmatch(r"(h1|ib1) did not come up: it is the machine of (h1|ib1), by another name; \2\*2 runs 2 ranks there", error), error
    assert len(set(re.findall("h1|ib1", error))) == 2
    assert hosts.left() == []
    assert values(nb.ok(tell("-n 2 --on ssh:h1,h2"), limit=150)) == ["h1 0 0 1 0 2 2", "h2 1 0 1 1 2 2"], "hosts that share a boot are two"


def test_what_is_told_of_the_hosts_has_to_be_there(alone, tmp_path):
    """Another one in its place may be another version, or lack packages: nobody would know why the cell fails."""
    cell = alone(env={"CELLSPAN_REMOTE_PYTHON": "/no/such/python"}).run("%%distribute -n 2 --on ssh:h1,h2\n1", limit=150)
    cell.assert_error("RankNotStarted")
    assert re.search("h[12] has no /no/such/python, which CELLSPAN_REMOTE_PYTHON names", cell.error["evalue"]), cell.shown
    cell = alone(env={"CELLSPAN_REMOTE_PREFIX": str(tmp_path)}).run("%%distribute -n 2 --on ssh:h1,h2\n1", limit=150)
    cell.assert_error("RankNotStarted")
    assert cell.error["evalue"].startswith("h1, h2 did not come up: there is no %s/libexec/cellspan/cellspan-agent, where CELLSPAN_REMOTE_PREFIX" % tmp_path)


def test_hosts_that_refuse_the_login_share_a_sentence(alone, hosts, tmp_path):
    config = pathlib.Path(hosts.ssh_config).read_text().replace(hosts.key, str(tmp_path / "no-key"))
    (tmp_path / "config").write_text(config + "".join("Host g%d\n  HostName %s\n  HostKeyAlias h1\n" % (k, hosts.address("h1")) for k in range(20)))
    nb = alone(env={"CELLSPAN_SSH": "ssh -F %s" % (tmp_path / "config")})
    for _ in range(5):  # on a busy machine some may fail later than the moment that the cell waits for others
        error = nb.run("%%distribute -n 2 --on ssh:g[0-19]\n1", limit=150).assert_error("RankNotStarted").error["evalue"]
        assert error.count("it refuses the login") == 1 and error.count("Permission denied") == 1 and "\n" not in error, error
        if error.startswith("g0, g1, g2, g3, g4, g5, g6, g7 and 12 more did not come up: it refuses the login"):
            return
    raise AssertionError(error)


# -- without a shared file system


@pytest.fixture
def apart(tmp_path_factory):
    """Two hosts that don't see a folder of this machine; (hosts, folder)."""
    folder = tmp_path_factory.mktemp("apart")
    for name in ("here", "tmp", "run"):
        (folder / name).mkdir(mode=0o700)
    for made in bring_up(lambda: Hosts(2, private=(str(folder),)), HOST_TOOLS):
        yield made, folder


def test_nothing_is_shared_but_the_programs(alone, apart):
    hosts, folder = apart
    (folder / "here" / "train.py").write_text("import os, sys\nprint('ran', os.environ['RANK'], os.path.basename(sys.argv[0]))\n")
    nb = alone(cwd=str(folder / "here"),
               env=dict(hosts.variables(), TMPDIR=str(folder / "tmp"), XDG_RUNTIME_DIR=str(folder / "run")))
    cell = nb.ok("%%%%distribute -n 4 --on ssh:h1,h2 --gather\nimport os\nos.path.isdir(%r), os.getcwd()" % str(folder / "here"), limit=150)
    assert [seen for seen, _ in values(cell)] == [False] * 4, cell.value
    nb.ok("import numpy\nbig = numpy.ones(2_500_000)")
    assert values(nb.ok("%%distribute --gather\nfloat(big.sum())")) == [2500000.0] * 4
    assert "[0] ran 0 train.py" in nb.ok("%distribute --merge prefix train.py").stdout
    nb.ok("%pull big -r 2 --into back")
    assert nb.ok("float(back.sum())").value == "2500000.0"
    nb.close()
    assert nb.left == [] and hosts.left() == []


# -- without a browser


def test_the_command_runs_a_script_on_hosts(alone, tmp_path, hosts):
    (tmp_path / "train.py").write_text("import os, sys\nprint(os.uname().nodename, sys.argv[1:])")
    marker = uuid.uuid4().hex
    done = subprocess.run(
        [shutil.which("cellspan"), "run", "-n", "2", "--on", "ssh:h1,h2", "--python", sys.executable, str(tmp_path / "train.py"), "a"],
        env=dict(os.environ, **{processes.MARKER: marker}), capture_output=True, text=True, timeout=200)
    assert (done.returncode, sorted(done.stdout.split("\n"))) == (0, ["", "[0] h1 ['a']", "[1] h2 ['a']"]), done
    assert processes.gone(marker) == [] and hosts.left() == []


def outputs(path):
    import nbformat

    notebook = nbformat.read(str(path), 4)
    nbformat.validate(notebook)
    return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))


@pytest.mark.clients
@pytest.mark.limit(300)
def test_the_example_runs_over_two_hosts(alone, torch, jupyter_env, tmp_path, hosts):
    needs("sklearn")
    done = subprocess.run(
        [sys.executable, "-m", "jupyter", "nbconvert", "--execute", "--to", "notebook", "--output-dir", str(tmp_path),
         "--output", "done.ipynb", str(EXAMPLES / "two_nodes.ipynb")],
        env=jupyter_env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    said = outputs(tmp_path / "done.ipynb")
    assert "number 0 on node 0, h1" in said and "number 0 on node 1, h2" in said and "unseen digits" in said
    assert hosts.left() == []
