# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures of the end-to-end tests: real clients, real kernels, real processes.

The kernelspec `cellspan` is found as Jupyter finds it. CELLSPAN_TEST_PREFIX names a prefix to which `cellspan install
--prefix` wrote it. CELLSPAN_TEST_KERNEL names another kernelspec; with python3 one can see whether a failure is the test's own fault.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
LIMIT = 300  # seconds that a test may take with its fixtures; @pytest.mark.limit(n) gives another

# With `pytest -n N --dist loadfile` the tests of a file run one after the other, for they share a kernel. So do those of these files:
GROUPS = {
    "slurm": ("test_slurm", "test_launchers_slurm", "test_engines_slurm", "test_interfaces", "test_relay_slurm"),  # each cluster has a processor of its own, and cgroups by name
    "chromium": ("test_lab", "test_panel_page", "test_bars"),
}
# Files that take 20 s or more, the longest first: so no long one is left when the others have ended. Those of a group stand where the whole
# group belongs. The first seven are long in tests/clients.
LONGEST = ("test_lab", "test_headless", "test_documents", "test_lightning", "test_frameworks", "test_slow_clients", "test_cpp_builds",
           "test_host_faults", "test_slurm", "test_launchers_slurm", "test_relay_slurm", "test_engines_slurm", "test_interfaces",
           "test_images", "test_engines", "test_changing_networks", "test_away", "test_on", "test_relay", "test_busy", "test_debugger", "test_ranks",
           "test_code", "test_modules", "test_spawned_processes", "test_gpus_nccl", "test_install", "test_torch_errors", "test_hosts",
           "test_page", "test_shown_errors", "test_failures", "test_run", "test_horovod", "test_plain_python", "test_resume", "test_px",
           "test_gpus", "test_no_start", "test_seeds", "test_output", "test_store_waits", "test_scripts", "test_subshells", "test_follow",
           "test_commands", "test_real_gpus", "test_maggy", "test_torch_distributor", "test_glance", "test_firewalls", "test_logins",
           "test_panel", "test_variable_rules", "test_launchers", "test_ps_all", "test_odd_machines", "test_interrupts",
           "test_traces", "test_px_interrupts", "test_map", "test_other_worlds", "test_slow_answers", "test_notice", "test_px_program",
           "test_distribute", "test_beside", "test_wire", "test_calls", "test_scatter", "test_slow_starts")

SETTINGS = tempfile.mkdtemp(prefix="cellspan-e2e-")
os.environ["IPYTHONDIR"] = os.path.join(SETTINGS, "ipython")
os.environ["JUPYTER_CONFIG_DIR"] = os.path.join(SETTINGS, "config")
os.environ["JUPYTER_RUNTIME_DIR"] = os.path.join(SETTINGS, "runtime")
os.makedirs(os.environ["JUPYTER_RUNTIME_DIR"], mode=0o700)
# Processes of pytest-xdist have the terminal's size from readline, which pytest imports. Kernels would have it from them.
for size in ("COLUMNS", "LINES"):
    os.environ.pop(size, None)
if os.environ.get("CELLSPAN_TEST_PREFIX"):
    SHARE = os.path.join(os.environ["CELLSPAN_TEST_PREFIX"], "share", "jupyter")
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [SHARE, os.environ.get("JUPYTER_PATH")]))

from client import KERNEL, Notebook  # noqa: E402  (after the environment that it reads)
from commands import cellspan  # noqa: E402, F401
from engines import hosts, slurm, slurm_on_hosts  # noqa: E402, F401  (fixtures)
from launches import launch  # noqa: E402, F401
from torch_users import beforehand, used_by_file, used_by_sharing, used_by_test  # noqa: E402
from unix_users import users  # noqa: E402, F401

# A shell starts background jobs with SIGINT ignored, and kernels would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): how long the test may take")
    config.addinivalue_line("markers", "gpu: needs real GPUs; runs only where CELLSPAN_TEST_GPUS is set (tests/gpu/run)")
    config.addinivalue_line("markers", "doubles: one of those cases that the doubles of the driver's libraries can play as well")
    config.addinivalue_line("markers", "only_names: has names of packages in its text, but uses none: torch_users.py")
    config.addinivalue_line("markers", "soak: takes minutes; runs only where CELLSPAN_TEST_SOAK is set (tests/soak)")
    config.addinivalue_line("markers", "clients: a program of others, the pages of docs/, torch's and Lightning's own ways to train, what torch compiles, or processes that import torch anew, which take long; tests/clients runs them")
    config.addinivalue_line("markers", "package: how cellspan gets to hosts that lack it; tests/package runs them")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """pytest-xdist 3.8 has groups of its own, by marks. They are without effect with pytest 9.2, where an item's name is fixed."""
    from xdist.scheduler import LoadFileScheduling

    groups = {"%s.py" % name: group for group, names in GROUPS.items() for name in names}

    class Groups(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return groups.get(os.path.basename(file), file)

    return Groups(config, log)


def pytest_collection_modifyitems(config, items):
    for item in items:
        limit = item.get_closest_marker("limit")
        item.add_marker(pytest.mark.timeout(limit.args[0] if limit else LIMIT))
    if hasattr(config, "workerinput"):  # one of the processes of pytest-xdist
        begins = {name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: begins.get(item.path.stem, len(begins)))
    long = [item for item in items if item.get_closest_marker("soak")]
    if not os.environ.get("CELLSPAN_TEST_GPUS"):
        elsewhere = [item for item in items if item.get_closest_marker("gpu")]
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]
    if long and not os.environ.get("CELLSPAN_TEST_SOAK"):
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def pytest_unconfigure(config):
    shutil.rmtree(SETTINGS, ignore_errors=True)


class Shared:
    """A kernel that the tests of a module share; one that a test broke is replaced by a new one. used, modules: what it imports
    beforehand, as in torch_users.py. make: makes the Notebook."""

    def __init__(self, used, modules, make):
        self.notebook, self.used, self.modules, self.make = None, used, modules, make

    def get(self):
        if self.notebook is not None and not self.notebook.fine():
            print("a new kernel: %s" % self.notebook.not_fine, file=sys.stderr)
            self.close()
        if self.notebook is None:
            with pytest.MonkeyPatch.context() as patch:
                beforehand(patch, self.used, self.modules)
                self.notebook = self.make()
        return self.notebook

    def close(self):
        if self.notebook is not None:
            notebook, self.notebook = self.notebook, None
            notebook.close()


@pytest.fixture(scope="module", autouse=True)
def kernels_of_the_file(request):
    with pytest.MonkeyPatch.context() as patch:
        beforehand(patch, used_by_file(request.path))
        yield


@pytest.fixture(autouse=True)
def kernels_of_the_test(request, kernels_of_the_file):
    with pytest.MonkeyPatch.context() as patch:
        beforehand(patch, used_by_test(request.node))
        yield


@pytest.fixture(scope="module")
def shared_notebook(request):
    shared = Shared(used_by_sharing(request), getattr(request.module, "BEFOREHAND", ""), getattr(request.module, "NOTEBOOK", Notebook))
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def paged():
    """A notebook on a kernel that a server started, for all that matters here."""
    notebook = Notebook(env={"JPY_SESSION_NAME": "/notebooks/training.ipynb"})
    yield notebook
    notebook.close()
    assert not notebook.left


@pytest.fixture
def nb(shared_notebook):
    """A notebook on the module's kernel: for tests that leave it as it was."""
    return shared_notebook.get()


@pytest.fixture
def clean(nb):
    """A notebook on the module's kernel, where no rank is and no name that a test before has made."""
    nb.ok("%ranks stop")
    nb.ok("%reset_selective -f .")  # %reset also takes what multiprocessing needs of the module __main__
    return nb


@pytest.fixture
def fresh():
    """Makes notebooks with kernels of their own; nobody of theirs may be left at the end."""
    made = []

    def make(**options):
        made.append(Notebook(**options))
        return made[-1]

    yield make
    left = []
    for notebook in made:
        notebook.close()
        left += notebook.left
    assert not left, "left over after shutdown:\n" + "\n".join(left)


class Gate:
    """What cells wait for until the test opens it."""

    def __init__(self, path):
        self.path = path
        self.code = "import os, time\nwhile not os.path.exists(%r):\n    time.sleep(0.02)\n" % str(path)

    def open(self):
        self.path.touch()


@pytest.fixture
def gate(tmp_path):
    """A Gate; cells that still wait when the test ends go on."""
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.open()


@pytest.fixture
def jupyter_env(monkeypatch):
    """The environment for a Jupyter program that starts kernels itself; its marker tells who came of it."""
    import uuid

    import processes

    marker = uuid.uuid4().hex
    yield dict(os.environ, **{processes.MARKER: marker})
    left = processes.gone(marker)
    processes.kill_all(marker)
    assert not left, "left over after the program ended:\n" + "\n".join(left)


@pytest.fixture
def kernel_name():
    return KERNEL


@pytest.fixture
def torch():
    """Skips where torch is not installed."""
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
