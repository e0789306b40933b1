# SPDX-License-Identifier: BSD-3-Clause
"""Hosts on which ranks can't start or lack something: what the user reads, and that no process is left anywhere."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from client import values
from test_host_faults import AGENT, BOTH, SOON, UP, elsewhere, lan, net, notebook  # noqa: F401  (fixtures among them)


def refused(nb, on, ename, *words, limit=SOON):
    """A cell that can't start says so, and the notebook goes on."""
    cell = nb.run("%%%%distribute -n 2 --on %s\n1" % on, limit=limit).assert_error(ename)
    for word in words:
        assert word in cell.error["evalue"], cell.shown
    assert nb.ok("%%distribute -n 1 --on local\n'here'").value == "'here'"
    nb.ok("%ranks stop")
    return cell.error["evalue"]


def test_a_host_that_is_not_there(notebook, net):
    nb = notebook()
    refused(nb, "ssh:h1,h9", "RankNotStarted", "h9 did not come up: the name does not resolve")
    assert net.left() == []


def test_a_kernel_that_hosts_do_not_reach(notebook, net, elsewhere):
    env = elsewhere(CELLSPAN_DIAL_TIMEOUT=2)
    refused(notebook(CELLSPAN_INTERFACE="127.0.0.1", CELLSPAN_RELAY="never", **env), "ssh:h1", "RankNotStarted", "can't reach the kernel: tcp://127.0.0.1:",
            "from %s" % net.address("h1"), "CELLSPAN_INTERFACE")
    refused(notebook(CELLSPAN_INTERFACE="nosuch0"), "ssh:h1", "EngineError", "CELLSPAN_INTERFACE=nosuch0", "lo (127.0.0.1")


def test_a_host_that_is_off(notebook, net):
    net.kill("h2")
    refused(notebook(), "ssh:h1,h2", "RankNotStarted", "h2 did not come up: ")
    assert net.left("h1") == []


def test_a_host_that_refuses_the_key(notebook, net, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    config = tmp_path / "config"
    config.write_text(pathlib.Path(net.ssh_config).read_text().replace(net.key, str(tmp_path / "other")))
    refused(notebook(CELLSPAN_SSH="ssh -F %s" % config), "ssh:h1", "RankNotStarted", "h1 did not come up: it refuses the login", "ssh-copy-id")


@pytest.fixture
def cover(net):
    """Puts a file over another one, on one host; an empty one that is no program for None."""
    done = []

    def over(host, path, by):
        net.exec(host, "mount", "--bind", str(by), path)
        done.append((host, path))

    yield over
    for host, path in reversed(done):
        net.exec(host, "umount", "-l", path, check=False)


def test_a_host_without_cellspan(notebook, net, cover, tmp_path):
    nothing = tmp_path / "nothing"
    nothing.write_text("")
    libexec = os.path.join(os.path.dirname(os.path.realpath(shutil.which("cellspan"))), "..", "libexec", "cellspan", AGENT)
    cover("h2", os.path.realpath(libexec), nothing)
    refused(notebook(), "ssh:h1,h2", "RankNotStarted", "h2 did not come up: there is no cellspan-agent", "pip install cellspan")
    assert net.left() == []


def pythons(net, host):
    """What a host could take for a Python of the notebook's."""
    names = [sys.executable] + ["python%d.%d" % sys.version_info[:2], "python3", "python"]
    path = net.exec(host, "ssh", "-F", net.ssh_config, host, "echo $PATH").stdout.strip()
    found = {os.path.realpath(shutil.which(name, path=folder))
             for name in names for folder in path.split(":") if shutil.which(name, path=folder)}
    return found | {os.path.realpath(sys.executable)}


def test_a_host_without_python(notebook, net, cover, tmp_path):
    nothing = tmp_path / "nothing"
    nothing.write_text("")
    for python in pythons(net, "h2"):
        cover("h2", python, nothing)
    cell = notebook().run("%%distribute -n 4 --on ssh:h1,h2\n1", limit=UP).assert_error("RankNotStarted")
    assert "h2 has no %s" % sys.executable in cell.error["evalue"] and "install it there" in cell.error["evalue"], cell.shown


def test_a_host_with_another_python(notebook, net, cover, tmp_path):
    """The same one that says it is another: what counts is what it says."""
    real = os.path.realpath(sys.executable)
    copy = tmp_path / os.path.basename(real)
    shutil.copy2(real, str(copy))
    (tmp_path / "sitecustomize.py").write_text("import platform\nplatform.python_version = lambda: '3.7.1'\n")
    stand_in = tmp_path / "stand-in"
    stand_in.write_text("#!/bin/bash\nexport PYTHONPATH=%s${PYTHONPATH:+:$PYTHONPATH}\nexec -a %s %s \"$@\"\n"
                        % (tmp_path, sys.executable, copy))
    stand_in.chmod(0o755)
    cover("h2", real, stand_in)
    nb = notebook()
    cell = nb.run("%%distribute -n 4 --on ssh:h1,h2\n1", limit=UP).assert_error("RankNotStarted")
    assert "Python on h2 is 3.7.1, the notebook's is %d.%d." % sys.version_info[:2] in cell.error["evalue"], cell.shown
    assert "CELLSPAN_REMOTE_PYTHON" in cell.error["evalue"]
    assert nb.ok("%%distribute -n 1 --on local --fresh\n'here'").value == "'here'"


def test_a_full_dev_shm_does_not_matter(notebook, net):
    net.exec("h2", "mount", "-o", "remount,size=1m", "/dev/shm")
    net.exec("h2", "dd", "if=/dev/zero", "of=/dev/shm/full", "bs=64k", check=False)
    try:
        nb = notebook()
        nb.ok(BOTH, limit=UP)
        nb.ok("import numpy\nbig = numpy.arange(2_500_000.0)")
        assert values(nb.ok("%%distribute --gather\nfloat(big[rank])")) == [0.0, 1.0, 2.0, 3.0]
        checked = nb.ok("%ranks check", limit=UP).shown
        assert re.search(r"/dev/shm of h2 has .* left", checked), checked
    finally:
        net.exec("h2", "rm", "-f", "/dev/shm/full")
        net.exec("h2", "mount", "-o", "remount,size=50%", "/dev/shm")


@pytest.fixture(scope="module")
def nvml(tmp_path_factory):
    """A driver's library that presents GPUs; the path."""
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    path = str(tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so")
    sources = [os.path.join(top, "tests", "doubles", name) for name in ("nvml.c", "control.c")]
    subprocess.run(["cc", "-I" + top, "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-o", path] + sources, check=True)
    return path


def test_more_ranks_than_gpus(notebook, nvml, elsewhere, tmp_path):
    gpus = tmp_path / "gpus"
    gpus.write_text("count 1\n")
    nb = notebook(**elsewhere(CELLSPAN_NVML_LIBRARY=nvml, CELLSPAN_DOUBLE_GPUS=gpus))
    cell = nb.run("%%distribute -n 3 --on ssh:h1,h2\n1", limit=UP).assert_error("UsageError")
    assert "-n 3: there are 2 GPUs (h1: 1, h2: 1) for 3 ranks" in cell.error["evalue"] and "--no-gpu" in cell.error["evalue"]
    assert nb.ok("%%distribute -n 3 --on ssh:h1,h2 --no-gpu\n7", limit=UP).value == "7"
    there = nb.ok("%%distribute -n 2 --on ssh:h1,h2 --fresh --gather\nimport os\nos.environ['CUDA_VISIBLE_DEVICES'], os.environ['GROUP_RANK']", limit=UP)
    assert [group for _, group in values(there)] == ["0", "1"] and all(gpu == "0" for gpu, _ in values(there)), there.value
