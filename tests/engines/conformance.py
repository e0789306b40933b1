# SPDX-License-Identifier: BSD-3-Clause
"""One suite of cases for every engine: what docs/launchers.md promises, with real cells, on one cluster and in few sessions.

An engine is a subclass of Engine in a file engine_NAME.py of this folder, which lists its classes in ENGINES. tests/e2e/test_engines.py
runs the cases; `tests/engines/run NAME…` runs them for engines that CI does not have.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import os
import pathlib
import re
import shutil
import signal
import socket
import sys

import processes
import pytest
from client import Notebook, values
from engines import EngineError, missing
from processes import wait_until

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 200  # seconds for what takes a few; far off, to catch what hangs
OF_CASE = 5 * LIMIT  # of which a case has several: what hangs is told in the case's own words
SECRET = re.compile(rb"\b2a?:([0-9a-f]{64}):[0-9a-f]{64}\b")  # the group says of which kernel
MPI4PY = os.environ.get("CELLSPAN_TEST_MPI4PY", "")  # a prefix with mpi4py and MPICH; "": there is none
WORLD = ("RANK", "WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
# An MPI's identity of one process: ranks, which are forks, must not have it.
IDENTITY = ("OMPI_", "PMI_", "PMIX_", "HYDI_")


class Engine:
    """What the cases have to know of an engine, and how it is brought up. `on`, the text behind --on, may be a property; it must hold
    no double quote."""

    name = ""
    on = ""
    tools = ()  # programs without which it can't be here
    agents, ranks = 2, 4  # that `on` gives; ranks are evenly on them
    too_much = None  # (another `on`, words of the error): more than there is. A third one is the number of ranks
    queued = None  # (another `on`, words that are shown while it waits), and the same
    held = None  # (a cell that takes what ranks need, words that are shown while they wait, a cell that gives it back)
    silent = None  # (`on` with a %d for the port of something that says nothing, words of the error)
    knows = ()  # names of processes that have the run's secret in their environment, as docs/security.md says; "launcher": this one
    by_signal = signal.SIGUSR1  # what notice() sends
    noticed = None  # words of the line after notice(); None: that this signal has come
    ended = None  # words of the error after end(); None: nothing but us ends it
    ended_as = "RankDied"  # the error's name
    first = "import os, socket, time"  # the notebook's first cell
    of_gpus = ""  # options of the cell for what gpus() gives
    few = 0  # ranks for which it starts less than for `ranks`; 0: `on` says how much it starts
    without = {}  # cases that can't be, and why: {"the_launcher_is_killed": "…"}
    launched = True  # a launcher of its own starts its agents; False: the kernel does

    def missing(self):
        """Why it can't be here: a sentence, or ""."""
        return missing(self.tools)

    def up(self):
        """Brings the cluster up, for all cases."""

    def down(self):
        """Takes it down; also after up() failed."""

    def variables(self):
        """For the notebook's environment."""
        return {}

    def notice(self, session):
        """The engine, or who runs it, tells that a machine will be gone soon: here by a signal to what it has started there."""
        os.kill(parent(session.agent_pids()[-1]), self.by_signal)

    def end(self):
        """The engine, or who runs it, ends what was started."""

    def left(self):
        """What of ours is left there, described: processes, jobs. [] is good. It may say less at once than a moment later: the cases
        ask again for a while."""
        return []

    def ready(self):
        """May the next start come? A queue may take a moment after an end."""
        return True

    def gpus(self, environment, folder):
        """(another `on` whose agents have this environment and see this folder, what each rank has in CUDA_VISIBLE_DEVICES: a list, or
        several that may be, where the engine chooses which agent is where). The cluster may be another one then. Only where GPUs can be
        made up."""

    def logs(self):
        """Files that the engine writes, logs and others, in which no secret must be."""
        return []

    def wrap_agent(self, folder, environment, given):
        """A folder for CELLSPAN_REMOTE_PREFIX, whose agent has this environment, and on each host the GPUs that `given` has for its name."""
        agent = pathlib.Path(os.path.realpath(shutil.which("cellspan"))).parents[1] / "libexec" / "cellspan" / "cellspan-agent"
        wrapper = pathlib.Path(folder, "prefix-" + self.name, "libexec", "cellspan", "cellspan-agent")
        wrapper.parent.mkdir(parents=True)
        wrapper.write_text("#!/bin/sh\n%scase $(uname -n) in\n%sesac\nexec %s \"$@\"\n" % (
            "".join("export %s='%s'\n" % item for item in environment.items()),
            "".join("%s) export CUDA_VISIBLE_DEVICES=%s ;;\n" % item for item in given.items()), agent))
        wrapper.chmod(0o755)
        return str(wrapper.parents[2])

    hidden = None  # bytes that nothing but the notebook's own Python may know


def engines():
    """All of them, by name."""
    sys.path.insert(0, str(HERE))
    try:
        modules = [importlib.import_module(path.stem) for path in sorted(HERE.glob("engine_*.py"))]
    finally:
        sys.path.remove(str(HERE))
    return {made.name: made for module in modules for made in module.ENGINES}


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def parent(pid):
    """0: it is gone."""
    found = re.search(rb"^PPid:\s*(\d+)", processes.read(pid, "status"), re.M)
    return int(found[1]) if found else 0


def ancestors(pid):
    """Of a process, the nearest first, without those that started this test."""
    above = []
    while pid > 1 and pid != os.getpid():
        above.append(pid)
        pid = parent(pid)
    return above[1:]


def holds(path, found):
    """Does found() say it of what the file holds? It may be large, or gone."""
    kept = b""
    try:
        with open(path, "rb") as file:
            for part in iter(lambda: file.read(1 << 20), b""):
                if found(kept + part):
                    return True
                kept = part[-256:]
    except OSError:
        pass
    return False


def children(pid):
    """Of a process, those that live."""
    return [child for child in pids() if parent(child) == pid and processes.alive(child)]


class Session:
    """A notebook with ranks on an engine, made when it is wanted, and again after a case has ended it."""

    def __init__(self, engine):
        self.engine, self.notebook, self.endpoints = engine, None, set()

    def nb(self):
        if self.notebook is None:
            self.notebook = Notebook(env=self.engine.variables())
            self.notebook.ok(self.engine.first, limit=LIMIT)
        return self.notebook

    def cell(self, code, options="", on=None, n=None):
        return '%%%%distribute -n %d --on "%s" %s\n%s' % (n or self.engine.ranks, on or self.engine.on, options, code)

    def running(self):
        """The notebook, whose ranks are there."""
        nb = self.nb()
        if not self.launchers():
            assert wait_until(self.engine.ready, LIMIT), self.engine.left()
        nb.ok(self.cell("import os, time"), limit=LIMIT)
        return nb

    def begun(self):
        """(notebook, a cell that all ranks have begun, and that lasts)."""
        nb = self.running()
        cell = nb.start("%%distribute\nprint('begun', flush=True)\ntime.sleep(100000)")
        return nb, nb.wait_ranks(cell, "begun", self.engine.ranks, LIMIT)

    def launchers(self):
        """Its processes that start agents on other machines: these are told where to connect."""
        return [pid for pid in children(self.nb().pid) if "--connect tcp://" in processes.command(pid)]

    def launcher(self):
        """None: it has none."""
        if not self.engine.launched:
            return None
        (found,) = self.launchers()
        self.endpoints.update(re.findall(r"--connect (\S+)", processes.command(found)))
        return found

    def started(self):
        """Processes in whose command line one of its agents' addresses stands: agents, and what starts them."""
        return [pid for pid in pids() if any(e in processes.command(pid) for e in self.endpoints) and processes.alive(pid)]

    def agent_pids(self):
        """Without what an agent has forked just now, which looks like it until it executes another program."""
        if self.launcher() is None:
            return [pid for pid in children(self.nb().pid) if processes.read(pid, "comm").strip() == b"cellspan-agent"]
        found = {pid for pid in self.started() if processes.read(pid, "comm").strip() == b"cellspan-agent"}
        return sorted(pid for pid in found if parent(pid) not in found)

    def left(self):
        """Waits until nothing is left of what was started; gives what is, described."""
        found = []

        def nothing():
            found[:] = processes.described(self.started()) + self.engine.left()
            return not found

        wait_until(nothing, LIMIT)
        return found

    def close(self):
        """Ends the notebook; nothing may be left."""
        if self.notebook is not None:
            notebook, self.notebook = self.notebook, None
            notebook.close()
            assert notebook.left == []


def fixture(names):
    """The fixture of the cases, for the engines of these names."""
    known = engines()

    @pytest.fixture(scope="module", params=names)
    def session(request):
        assert request.param in known, "there is no engine %s; there are: %s" % (request.param, " ".join(sorted(known)))
        engine = known[request.param]()
        why = engine.missing()
        if why and os.environ.get("CELLSPAN_TEST_ENGINES") == "must":
            pytest.fail(why)
        if why:
            pytest.skip(why)
        made = Session(engine)
        try:
            engine.up()
            yield made
            made.close()
            assert made.left() == []
        except EngineError as error:
            pytest.fail("%s: %s" % (engine.name, error))
        finally:
            engine.down()

    return session


@pytest.mark.limit(OF_CASE)
class Cases:
    """In this order each leaves to the next what it can use."""

    @pytest.fixture(autouse=True)
    def case(self, request, session):
        name = request.node.originalname.replace("test_", "", 1)
        if name in session.engine.without:
            pytest.skip("%s: %s" % (session.engine.name, session.engine.without[name]))

    def test_too_much_is_refused(self, session):
        if not session.engine.too_much:
            pytest.skip("%s can't be asked for too much" % session.engine.name)
        on, words, *n = session.engine.too_much
        cell = session.nb().run(session.cell("1", "", on, *n), limit=LIMIT)
        assert cell.status == "error" and re.search(words, cell.error["evalue"]), cell.shown
        assert session.left() == []

    def test_a_wait_is_shown_and_an_interrupt_ends_it(self, session):
        if not session.engine.queued:
            pytest.skip("%s has no queue" % session.engine.name)
        on, words, *n = session.engine.queued
        nb = session.nb()
        cell = nb.start(session.cell("1", "", on, *n))
        nb.wait(cell, LIMIT, lambda: cell.ended or re.search(words, cell.shown))
        nb.control("interrupt_request")
        nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
        assert re.search(words, cell.shown) and session.left() == []

    def test_what_others_hold_is_waited_for(self, session):
        if not session.engine.held:
            pytest.skip("with %s the notebook has nothing of its own that ranks need" % session.engine.name)
        hold, words, release = session.engine.held
        nb = session.nb()
        nb.ok(hold, limit=LIMIT)
        cell = nb.start(session.cell("1"))
        nb.wait(cell, LIMIT, lambda: cell.ended or re.search(words, cell.shown))
        assert re.search(words, cell.shown), cell.shown
        nb.control("interrupt_request")
        nb.wait(cell, LIMIT).assert_error("KeyboardInterrupt")
        nb.ok(release, limit=LIMIT)
        assert session.left() == []

    def test_an_address_that_says_nothing_is_named(self, session):
        if not session.engine.silent:
            pytest.skip("%s has no address to be asked at" % session.engine.name)
        on, words = session.engine.silent
        with socket.create_server(("127.0.0.1", 0), backlog=50) as silent, contextlib.closing(Notebook(
                env={**session.engine.variables(), "CELLSPAN_START_TIMEOUT": "15"})) as nb:
            cell = nb.run(session.cell("1", on=on % silent.getsockname()[1]), limit=LIMIT)
        assert cell.status == "error" and re.search(words % 15, cell.error["evalue"]), cell.shown
        assert nb.left == []

    def test_more_ranks_than_before_start_it_again(self, session):
        few, n, nb = session.engine.few, session.engine.ranks, session.nb()
        if not few:
            pytest.skip("what stands behind --on says how many agents %s starts" % session.engine.name)
        tell = "import os\nkept = globals().get('kept', os.getpid())\nkept == os.getpid(), int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])"
        assert values(nb.ok(session.cell(tell, "--gather", n=few), limit=LIMIT)) == [(True, rank, few) for rank in range(few)]
        more = nb.run(session.cell(tell, "--gather"), limit=LIMIT).assert_error("UsageError")
        assert re.match("-n %d: there is room for %d rank.*%%ranks stop" % (n, few), more.error["evalue"]), more.shown
        cell = nb.ok(session.cell(tell, "--fresh --gather"), limit=LIMIT)
        assert values(cell) == [(True, rank, n) for rank in range(n)], cell.shown
        assert re.search(r"was started for %d ranks?: it is started again, for %d$" % (few, n), cell.stderr, re.M), cell.shown
        assert len(session.agent_pids()) == session.engine.agents

    def test_ranks_come_up_and_know_their_world(self, session):
        engine, nb = session.engine, session.running()
        tell = "[os.environ[n] for n in %r], sorted(n for n in os.environ if n.startswith(%r))" % (WORLD, IDENTITY)
        there = values(nb.ok("%%distribute --gather\n" + tell))
        each = engine.ranks // engine.agents
        assert [world for world, _ in there] == [[str(n) for n in (rank, engine.ranks, rank // each, engine.agents)] for rank in range(engine.ranks)]
        assert [names for _, names in there] == [[]] * engine.ranks

    def test_a_warm_cell_reads_and_gives_back(self, session):
        nb = session.running()
        nb.ok("factor = 3")
        wanted = [3 * rank for rank in range(session.engine.ranks)]
        assert values(nb.ok("%%distribute --gather\nfactor * int(os.environ['RANK'])")) == wanted
        nb.ok_folded("%%distribute\nprint('alike')", "[0-%d] alike\n" % (session.engine.ranks - 1))

    @pytest.mark.clients
    def test_a_model_is_trained(self, session, torch):
        nb = session.running()
        nb.ok("%%distribute --init gloo --into after\nimport torch\nimport torch.distributed as dist\n"
              "from torch.nn.parallel import DistributedDataParallel\nrank = int(os.environ['RANK'])\nt = torch.ones(1)\ndist.all_reduce(t)\n"
              "torch.manual_seed(0)\nmodel = DistributedDataParallel(torch.nn.Linear(4, 1))\n"
              "model(torch.full((2, 4), float(rank))).sum().backward()\nint(t), model.module.weight.grad.tolist()", limit=LIMIT)
        n = session.engine.ranks
        assert nb.ok("after").value == "(%d, [%s])" % (n, [float(n - 1)] * 4)

    @pytest.mark.parametrize("library", ["mpich", "openmpi"])
    def test_each_mpi_on_two_ranks_of_an_agent(self, session, library):
        """MPICH's COMM_WORLD is the world's. With Open MPI's each rank is alone, and a line says so."""
        if not MPI4PY:
            pytest.skip("tests/run and tests/engines/run have mpi4py")
        nb, n = session.running(), session.engine.ranks
        begin = ("%%%%distribute --fresh --gather\nimport ctypes, os, sys\nsys.path += %r\nos.environ['MPI4PY_MPIABI'] = %r\n"
                 % (glob.glob(MPI4PY + "/lib/python3.*/site-packages"), library))
        if library == "mpich":
            begin += "loaded = ctypes.CDLL(%r)\n" % (MPI4PY + "/lib/libmpi.so.12")
        cell = nb.ok(begin + "from mpi4py import MPI\ncomm = MPI.COMM_WORLD\ncomm.rank, comm.size, comm.allreduce(1)", limit=LIMIT)
        alone = library == "openmpi"
        assert values(cell) == [(0, 1, 1) if alone else (rank, n, n) for rank in range(n)], cell.shown
        assert ("with MPICH they would be one world" in cell.shown) == alone, cell.shown

    def test_nobody_sees_the_secret(self, session):
        """Of all processes of this machine. Who has it of which kernel is seen by those that have to do with ours."""
        nb, agents = session.running(), session.agent_pids()
        assert len(agents) == session.engine.agents
        ours = {nb.pid, *children(nb.pid), *agents}
        ours.update(*map(ancestors, agents), *(children(pid) for pid in list(ours)))
        assert len(ours) > 3 * len(agents) + 1, processes.described(ours)
        seen = {pid: SECRET.findall(processes.read(pid, "environ")) for pid in pids()}
        kernels = {kernel for pid in ours for kernel in seen.get(pid, ())}
        assert session.engine.launched or not kernels, "this machine's agent needs none"
        names = {pid: "launcher" if pid == session.launcher() else processes.read(pid, "comm").decode().strip()
                 for pid, found in seen.items() if kernels.intersection(found)}
        assert {pid: name for pid, name in names.items() if name not in session.engine.knows} == {}
        assert [pid for pid in pids() if SECRET.search(processes.read(pid, "cmdline"))] == []
        assert [path for path in session.engine.logs() if holds(path, SECRET.search)] == []
        if session.engine.hidden:
            self.nobody_knows(session.engine.hidden, session)

    def nobody_knows(self, hidden, session):
        """No process but the notebook's Python has it in its environment or command line, and no file of the kernel's or the engine's."""
        own = [pid for pid in pids() if hidden in processes.read(pid, "environ") + processes.read(pid, "cmdline")]
        assert processes.described(own) == []
        folder = pathlib.Path(session.nb().ok("from cellspan._worker import environment\nprint(environment.runtime())").stdout.strip())
        files = [str(path) for path in folder.rglob("*") if path.is_file()] + session.engine.logs()
        assert len(files) > 2 and [path for path in files if holds(path, lambda part: hidden in part)] == []

    def test_ranks_have_the_gpus_that_the_engine_gives(self, session, request):
        """The driver's libraries are doubles."""
        if type(session.engine).gpus is Engine.gpus:
            pytest.skip("no GPUs can be made up for %s" % session.engine.name)
        doubles = request.getfixturevalue("doubles")
        folder = os.path.dirname(doubles["libnvidia-ml.so"])
        made_up = {"CELLSPAN_NVML_LIBRARY": doubles["libnvidia-ml.so"], "CELLSPAN_CUDA_LIBRARY": doubles["libnccl.so"],
                   "CELLSPAN_DOUBLE_GPUS": folder + "/none"}
        session.close()
        assert session.left() == []
        on, *wanted = session.engine.gpus(made_up, folder)
        options = "--fresh --gather " + session.engine.of_gpus
        cell = session.nb().ok(session.cell("import os\nos.environ['CUDA_VISIBLE_DEVICES']", options, on), limit=LIMIT)
        assert values(cell) in wanted, cell.shown
        session.nb().ok("%ranks stop")
        assert session.left() == []

    def test_ranks_write_a_checkpoint_before_a_machine_goes(self, session):
        nb = session.running()
        cell = nb.start("%%distribute --gather\nimport cellspan\nsaved, n = [], 0\ncellspan.on_notice(lambda: saved.append(n))\n"
                        "print('begun', flush=True)\nwhile not saved:\n    time.sleep(0.02)\n    n += 1\n    cellspan.step()\nsaved")
        nb.wait_ranks(cell, "begun", session.engine.ranks, LIMIT)
        session.engine.notice(session)
        (step,) = {step for step, in values(nb.wait(cell, LIMIT).assert_ok())}
        words = session.engine.noticed or "%s has come" % session.engine.by_signal.name
        assert re.search("will be gone in [0-9]+ s: " + words, cell.stderr), cell.shown
        assert re.search("the checkpoint is whole: .* has run on all %d ranks, in step %d$" % (session.engine.ranks, step), cell.stderr, re.M), cell.shown
        nb.ok("%ranks stop")  # its machines are not told of any more
        if not session.engine.launched:
            session.close()  # but this one is still to go
        assert session.left() == []

    def test_an_agent_is_killed(self, session):
        nb, cell = session.begun()
        os.kill(session.agent_pids()[-1], signal.SIGKILL)
        nb.wait(cell, LIMIT).assert_error("RankDied")
        assert " is gone" in cell.error["evalue"], cell.shown
        session.running()

    def test_the_engine_ends_it(self, session):
        if not session.engine.ended:
            pytest.skip("nothing but cellspan ends what %s has started" % session.engine.name)
        nb, cell = session.begun()
        session.engine.end()
        nb.wait(cell, LIMIT).assert_error(session.engine.ended_as)
        assert re.search(session.engine.ended, cell.error["evalue"]), cell.shown
        assert session.left() == []

    def test_the_launcher_is_killed(self, session):
        nb, cell = session.begun()
        os.kill(session.launcher(), signal.SIGKILL)
        nb.wait(cell, LIMIT).assert_error("RankDied")
        assert session.left() == []

    def test_nothing_is_left_when_the_notebook_ends(self, session):
        session.running()
        session.launcher()
        session.close()
        assert session.left() == []

    def test_nothing_is_left_when_the_kernel_is_killed(self, session):
        nb = session.running()
        session.launcher()
        os.kill(nb.pid, signal.SIGKILL)
        assert session.left() == []
        session.close()

    def test_agents_that_cant_reach_the_kernel_are_named_with_its_address(self, session):
        """In a notebook of its own, which says an address at which nobody listens. base/settings.c has how long agents try."""
        if not session.engine.launched:
            pytest.skip("%s's agent has no address to dial" % session.engine.name)
        session.close()
        assert wait_until(session.engine.ready, LIMIT), session.engine.left()
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            place = "127.0.0.1:%d" % closed.getsockname()[1]
            with contextlib.closing(Notebook(env={**session.engine.variables(), "CELLSPAN_ADVERTISE": place, "CELLSPAN_RELAY": "never"})) as nb:
                nb.ok(session.engine.first, limit=LIMIT)
                cell = nb.run(session.cell("1"), limit=LIMIT)
                assert cell.status == "error" and nb.ok("1 + 1").value == "2"
        wanted = r"cellspan-agent.* can't reach the kernel: tcp://%s \([^)]*connection refused\)" % re.escape(place)
        assert re.search(wanted, cell.error["evalue"]), cell.shown
        assert nb.left == [] and session.left() == []
