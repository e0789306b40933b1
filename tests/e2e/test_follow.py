"""Ranks follow home: its environment."""

from __future__ import annotations

import os
import re

import pytest
from client import rank_values

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "launchers.md")
GET = "[__import__('os').environ.get(name) for name in %r]"


def environ(nb, *names, n=2, options=""):
    """What ranks have under these names: a list for each."""
    return rank_values(nb, GET % (names,), n, options)


@pytest.fixture
def elsewhere(fresh, tmp_path):
    """A notebook, and the option for ranks on other machines: agents of an engine, on this one."""
    with open(DOCS, encoding="utf-8") as file:
        lines = re.search(r"^```sh\n(.*?)^```", file.read(), re.S | re.M).group(1)
    twins = tmp_path / "cellspan-launch-twins"
    twins.write_text(lines, encoding="utf-8")
    twins.chmod(0o755)
    return fresh(env={"PATH": "%s:%s" % (tmp_path, os.environ["PATH"])}), "--on twins"


def test_what_home_changes_in_its_environment_goes_along(fresh):
    nb = fresh(env={"GIVEN": "from outside", "SPARE": "too"})
    assert environ(nb, "GIVEN", "MODE") == [["from outside", None]] * 2
    nb.ok("%env MODE=fast\nimport os\nos.environ['GIVEN'] = 'ours'\ndel os.environ['SPARE']")
    assert environ(nb, "GIVEN", "MODE", "SPARE") == [["ours", "fast", None]] * 2
    assert environ(nb, "GIVEN", "MODE", "SPARE", n=3)[2] == ["ours", "fast", None], "a new rank gets it as well"
    nb.ok("del os.environ['MODE']\nos.environ.update(GIVEN='from outside', SPARE='more')")
    assert environ(nb, "GIVEN", "MODE", "SPARE", n=3) == [["from outside", None, "more"]] * 3
    nb.ok("odd = {'ODD': 'a\\nb=\"c\" \\u00e9 \\udc80'}\nos.environ.update(odd)")
    assert nb.ok("%%distribute\nimport os\nos.environ['ODD'] == odd['ODD']").value == "True"


def test_the_last_writer_of_the_environment_wins_and_env_wins_over_all(nb):
    nb.ok("%env WRITER=home")
    nb.ok("%%distribute -n 2\nimport os\nos.environ['WRITER'] += ' and rank'")
    assert environ(nb, "WRITER") == [["home and rank"]] * 2, "a rank's own change stays"
    assert environ(nb, "WRITER", options="--env WRITER=given") == [["given"]] * 2
    assert environ(nb, "WRITER") == [["home and rank"]] * 2, "--env is for one cell"
    nb.ok("%env WRITER=again")
    assert environ(nb, "WRITER", options="--env WRITER=given") == [["given"]] * 2
    assert environ(nb, "WRITER") == [["again"]] * 2


def test_what_cellspan_sets_stays_its_own(nb):
    nb.ok("import os\nos.environ.update(RANK='9', WORLD_SIZE='9', CUDA_VISIBLE_DEVICES='77', CELLSPAN_MINE='1', OMP_NUM_THREADS='3')")
    found = environ(nb, "RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "CELLSPAN_MINE", "OMP_NUM_THREADS")
    assert [row[:2] + row[3:] for row in found] == [["0", "2", None, "3"], ["1", "2", None, "3"]]
    assert all(row[2] != "77" for row in found)
    nb.ok("for name in ('RANK', 'WORLD_SIZE', 'CUDA_VISIBLE_DEVICES', 'CELLSPAN_MINE', 'OMP_NUM_THREADS'):\n    del os.environ[name]")


def test_it_is_there_before_variables_are(fresh, tmp_path):
    (tmp_path / "early.py").write_text("import os\nMODE = os.environ.get('MODE')\nclass Thing:\n    pass\n")
    nb = fresh(cwd=str(tmp_path))
    nb.ok("%env MODE=fast\nfrom early import Thing\nthing = Thing()")
    assert nb.ok("%%distribute -n 2 --gather\nthing\nimport early\nearly.MODE").value == "['fast', 'fast']"


def test_scripts_and_run_have_it_too(nb, tmp_path):
    (tmp_path / "tell.py").write_text("import os\nprint(os.environ.get('FOR_ALL'))")
    nb.ok("%env FOR_ALL=yes\nimport cellspan\ndef tell():\n    import os\n    return os.environ['FOR_ALL']")
    assert nb.ok("%%distribute -n 2 -r 1 --merge raw %s" % (tmp_path / "tell.py")).stdout == "yes\n"
    assert nb.ok("cellspan.run(tell, n=2, gather=True)").value == "['yes', 'yes']"


def test_what_is_a_machines_own_stays_at_home(elsewhere):
    nb, on = elsewhere
    names = "PATH", "LD_LIBRARY_PATH", "SLURM_JOB_ID", "NCCL_SOCKET_IFNAME", "MODE"
    there = environ(nb, *names, options=on)
    nb.ok("import os\nos.environ.update(dict.fromkeys(%r, 'ours'))" % (names,))
    assert environ(nb, *names) == [row[:-1] + ["ours"] for row in there]
    nb.ok("%ranks stop")
    assert environ(nb, *names, options="--on local --fresh") == [["ours"] * 5] * 2, "on home's machine they go along"
