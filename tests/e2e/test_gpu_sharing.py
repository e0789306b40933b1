# SPDX-License-Identifier: BSD-3-Clause
"""Notebooks of one and of several unix users that share the GPUs of a machine: who holds them, and how many one user may hold."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal

import processes
import pytest
from test_gpus import Machine, book, doubles, gpus, refused  # noqa: F401  (fixtures)

ANN = 300_000 + os.getpid() % 50_000 * 2  # another run of the tests on this machine has other users
BOB = ANN + 1
SIZE = "%%%%distribute %s\nimport os\nos.environ['WORLD_SIZE']"


@pytest.fixture
def machine(users, doubles):  # noqa: F811
    """A machine with four GPUs, which all users may use."""
    folder = pathlib.Path(users.folder)
    machine = Machine(folder, {name: shutil.copy(path, folder) for name, path in doubles.items()})
    machine.leases.mkdir()
    machine.leases.chmod(0o1777)
    return machine


# ---- a quota


def test_the_notebooks_of_a_user_have_one_quota(book, tmp_path):  # noqa: F811
    one, two = (book(CELLSPAN_GPU_QUOTA="3", JPY_SESSION_NAME=str(tmp_path / name)) for name in ("train.ipynb", "look.ipynb"))
    assert one.ok(SIZE % "-n 2").value == "'2'"
    text = refused(two.run(SIZE % "-n 2"), "-n 2: there is 1 GPU", "gpu_quota is 3 (CELLSPAN_GPU_QUOTA in the environment)")
    assert re.search(r"train\.ipynb \(pid %d\) holds 2 since \d\d:\d\d; `%%ranks stop` in such a notebook, or `cellspan stop` with its pid, frees" % one.pid, text), text
    assert two.ok(SIZE % "").value == "'1'", "as many ranks as it may have GPUs"
    cell = two.run("%%distribute -n 3 --share --fresh\n1")
    assert cell.status == "error" and "GPUs more would be too many for one user: gpu_quota is 3" in cell.error["evalue"], "shared ones count, too"
    one.ok("%ranks stop")
    assert two.ok(SIZE % "-n 3 --fresh").value == "'3'"
    text = refused(one.run(SIZE % "-n gpu"), "-n gpu: there is no free GPU", "look.ipynb (pid %d) holds 3" % two.pid)
    os.kill(two.pid, signal.SIGKILL)
    assert processes.gone(two.marker) == []
    assert one.ok(SIZE % "-n gpu").value == "'3'", "what a killed kernel held does not count"


def test_a_quota_of_a_file_is_named_and_a_project_does_not_raise_it(book, tmp_path, monkeypatch):  # noqa: F811
    user, project = tmp_path / "config" / "cellspan", tmp_path / "project"
    user.mkdir(parents=True)
    project.mkdir()
    (user / "cellspan.toml").write_text("\ngpu_quota = 1\n")
    (project / "cellspan.toml").write_text("gpu_quota = 4\n")
    monkeypatch.chdir(project)
    one = book(XDG_CONFIG_HOME=str(tmp_path / "config"), CELLSPAN_GPU_QUOTA="8")
    refused(one.run("%%distribute -n 2\n1"), "gpu_quota is 1 (%s/cellspan.toml:2)" % user)
    assert one.ok(SIZE % "").value == "'1'"


def test_config_says_which_quotas_do_not_count(cellspan, tmp_path):
    (tmp_path / "cellspan").mkdir()
    (tmp_path / "cellspan" / "cellspan.toml").write_text("gpu_quota = 2\n")
    code, out, err = cellspan("config", XDG_CONFIG_HOME=str(tmp_path), CELLSPAN_GPU_QUOTA="4")
    row = next(line for line in out.splitlines() if line.startswith("gpu_quota"))
    assert code == 0 and row.split(None, 2)[1:] == ["2", "%s/cellspan/cellspan.toml:1, the smallest; not 4, CELLSPAN_GPU_QUOTA in the environment" % tmp_path], row


@pytest.mark.parametrize("value", ["-1", "x", "0", "1.5"])
def test_what_is_no_quota_is_named(book, value):  # noqa: F811
    cell = book(CELLSPAN_GPU_QUOTA=value).ok(SIZE % "")
    assert cell.value == "'4'"
    assert "CELLSPAN_GPU_QUOTA=%s: a whole number is wanted, from 1 to 4096, or off; off is used" % value in cell.stderr, cell.stderr


# ---- two users


def test_each_user_has_a_quota_and_reads_no_notebook_of_others(users, machine):
    machine.set("count 6")
    ann = users.notebook(ANN, env=dict(machine.environment, CELLSPAN_GPU_QUOTA="2", JPY_SESSION_NAME="/books/secret.ipynb"))
    bob = users.notebook(BOB, env=dict(machine.environment, CELLSPAN_GPU_QUOTA="3"))
    assert ann.ok(SIZE % "").value == "'2'"
    text = refused(bob.run(SIZE % "-n 5"), "-n 5: there are 3 GPUs", "3 for this notebook, of 6; held: GPU 0 by user%d (uid %d, pid " % (ANN, ANN), "since ")
    assert "secret" not in text and "gpu_quota is 3" in text and "holds" not in text, text
    assert bob.ok(SIZE % "").value == "'3'", "none of hers counts as his"
    again = users.notebook(ANN, env=dict(machine.environment, CELLSPAN_GPU_QUOTA="2"))
    text = refused(again.run(SIZE % "-n 1"), "gpu_quota is 2", "secret.ipynb (pid %d) holds 2" % ann.pid)
