# SPDX-License-Identifier: BSD-3-Clause
"""Ranks in containers: --in IMAGE, with a real podman on hosts of ssh. What no test can have here, apptainer, docker and enroot, are
programs that note their command line and then run what stands behind the image."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import signal

import images
import pytest
from client import values
from engines import HOST_TOOLS, bring_up
from podman_hosts import IMAGE, PodmanHosts, write_program
from processes import wait_until
from test_sent import AGENT, CACHE, PREFIX, shelf  # noqa: F401  (a fixture)

TOOLS = (*HOST_TOOLS, "podman", "runc")
UP = 200  # seconds for ranks to come up
SOON = 120
ON = "%%%%distribute -n %d --on ssh:%s --in %s --gather\n"
ASK = ON + "import os, sys, of_the_image\nos.uname().nodename, sys.executable, of_the_image.value, os.getcwd()"
KEPT = ON + "import os\nkept = int(os.environ['RANK'])\nos.getpid()"
# Notes its words, and runs those behind the image in its own place.
STAND_IN = """#!/bin/sh
printf '%%s\\n' "$@" >>%(at)s/words
env >%(at)s/environment
case $1 in %(get)s) %(got)s;; esac
while [ "$1" != sh ]; do shift; done
exec "$@"
"""


def commands():
    """{variable: its default}, as docs/launchers.md has them."""
    text = (pathlib.Path(__file__).parents[2] / "docs" / "launchers.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(CELLSPAN_(?:APPTAINER|PODMAN|DOCKER|ENROOT))` \| `([^`]*)`", text, re.M))


@pytest.fixture(scope="module")
def boats():
    """Two hosts with a podman and an image, that don't see this installation or this user's cache."""
    CACHE.mkdir(exist_ok=True)
    also = [str(path) for path in (*AGENT.parent.iterdir(), *PREFIX.glob("lib/cellspan/python/cellspan/*.so"))]
    for hosts in bring_up(lambda: PodmanHosts(2, private=(str(PREFIX), str(CACHE)), also=also), TOOLS):
        yield hosts


@pytest.fixture
def notebook(boats, shelf, fresh):  # noqa: F811
    made = []

    def make(**options):
        env = {**boats.variables(), "CELLSPAN_WHEELS": shelf, **options.pop("env", {})}
        made.append(fresh(env=env, **options))
        return made[-1]

    yield make
    for nb in made:
        nb.close()
    assert_nobody(boats)


def assert_nobody(boats):
    """Neither a process nor a container is left."""
    assert boats.left() == []
    for host in boats.names:
        wait_until(lambda host=host: not boats.containers(host), SOON)
        assert boats.containers(host) == []


@pytest.fixture
def stand_in(tmp_path):
    """Makes a program in place of one that can't be had; gives the folder where it notes what it got."""
    def make(name, get="-", got=":"):
        folder = tmp_path / name
        folder.mkdir()
        write_program(str(folder / name), STAND_IN % {"at": shlex.quote(str(folder)), "get": get, "got": got})
        return folder

    return make


# ---- real containers ----

def test_ranks_run_the_image_s_python(notebook, boats):
    nb = notebook()
    cell = nb.ok(ASK % (2, "h1,h2", IMAGE), limit=UP)
    found = values(cell)
    assert [host for host, *_ in found] == ["h1", "h2"]
    assert {tuple(rest[:2]) for _, *rest in found} == {("/usr/bin/python3.11", "of the image")}
    assert "gets the image" not in cell.stderr
    assert values(nb.ok("%%distribute --gather\nof_the_image.value")) == ["of the image"] * 2, "a cell that says nothing is there, too"
    nb.ok("%ranks stop")
    assert_nobody(boats)


def test_variables_go_there_and_back(notebook):
    nb = notebook()
    nb.ok("words = ['home'] * 3")
    assert values(nb.ok(ON % (2, "h1*2", IMAGE) + "words + ['rank']", limit=UP)) == [["home"] * 3 + ["rank"]] * 2


def test_the_notebook_s_folder_is_there_whatever_its_name(notebook, tmp_path):
    folder = tmp_path / "it's \"one\" $HOME `x` folder"
    folder.mkdir()
    (folder / "data").write_text("of the folder")
    nb = notebook(cwd=str(folder))
    found = values(nb.ok(ON % (1, "h1", IMAGE) + "import os\nos.getcwd(), open('data').read()", limit=UP))
    assert found == [(str(folder), "of the folder")]


def test_the_secret_is_nowhere_to_be_read(notebook, boats):
    nb = notebook()
    nb.ok(KEPT % (1, "h1", IMAGE), limit=UP)
    found = boats.exec("h1", "sh", "-c", "for f in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do tr '\\0' '\\n' <$f 2>/dev/null; done; "
                       "for c in $(podman ps -q); do podman inspect $c; done").stdout
    assert "CELLSPAN_" in found and "CELLSPAN_SECRET" not in found


@pytest.mark.parametrize("what", ["cellspan-agent --connect", "cellspan-guard"])
def test_after_a_kill_nothing_is_left(notebook, boats, what):
    nb = notebook()
    nb.ok(KEPT % (2, "h1,h2", IMAGE), limit=UP)
    assert boats.signal("h1", "KILL", what)
    nb.run("%%distribute\nimport time\ntime.sleep(1)", limit=SOON)
    assert boats.left("h1") == []
    nb.ok("%ranks stop", limit=SOON)
    assert values(nb.ok(KEPT % (2, "h1,h2", IMAGE), limit=UP)), "the next cell runs in it again"
    nb.ok("%ranks stop")
    assert_nobody(boats)


def test_without_podman_s_own_process_nothing_is_left_either(notebook, boats):
    """Nobody tells podman then that the container has ended: what it has of it goes when the next one starts."""
    nb = notebook()
    nb.ok(KEPT % (1, "h1", IMAGE), limit=UP)
    assert boats.signal("h1", "KILL", "conmon")
    nb.ok("%ranks stop", limit=SOON)
    assert boats.left() == []
    nb.ok(KEPT % (1, "h1", IMAGE), limit=UP)
    assert wait_until(lambda: len(boats.containers("h1")) == 1, SOON)
    nb.ok("%ranks stop")


def test_who_kills_podman_kills_no_rank(notebook, boats):
    """The way to the agent is broken then, as where ssh is: the launcher logs in anew, and goes on."""
    nb = notebook()
    before = values(nb.ok(KEPT % (2, "h1,h2", IMAGE), limit=UP))
    assert boats.signal("h1", "KILL", "real --runtime") or boats.signal("h1", "KILL", "podman run")
    assert wait_until(lambda: any("--presence" in args for args in boats.workers("h1").values()), SOON)
    assert values(nb.ok("%%distribute --gather\nos.getpid()")) == before
    nb.ok("%ranks stop", limit=SOON)
    assert_nobody(boats)


def test_a_killed_kernel_leaves_no_container(notebook, boats):
    nb = notebook(env={"CELLSPAN_RESUME": "0"})
    nb.ok(KEPT % (2, "h1,h2", IMAGE), limit=UP)
    os.kill(nb.pid, signal.SIGKILL)
    assert_nobody(boats)


# ---- what can't be ----

def refused(nb, code, kind="RankNotStarted"):
    return nb.run(code, limit=UP).assert_error(kind).error["evalue"]


def test_images_and_programs_that_are_not_there(notebook, tmp_path):
    nb = notebook()
    said = refused(nb, KEPT % (1, "h1", "localhost/nothing:9"))
    assert "podman can't get the image localhost/nothing:9: " in said
    nb = notebook(env={"CELLSPAN_CONTAINER": "apptainer"})
    assert "apptainer is not on its PATH, and runs the image x" in refused(nb, KEPT % (1, "h1", "x"))
    assert "apptainer is not on its PATH, and runs the image x.sif" in refused(notebook(), KEPT % (1, "h1", "x.sif"))
    nowhere = {"CELLSPAN_%s" % name: "/nowhere/it {image}" for name in ("APPTAINER", "PODMAN", "DOCKER", "ENROOT")}
    assert "none of apptainer, podman, docker and enroot is on its PATH" in refused(notebook(env=nowhere), KEPT % (1, "h1", IMAGE))


def test_images_that_lack_what_ranks_need(notebook, boats, tmp_path):
    old = "#!/bin/sh\necho glibc 2.17\n"
    for name, python, change, words in (
            ("bare", False, lambda root: None, "h1 did not come up: the image has no Python: there is no python3.11, python3 or python on its PATH"),
            ("empty", False, lambda root: (root / "usr/bin/sh").unlink(), "no container of the image localhost/empty:1 began (ended with status 127): "),
            ("old", True, lambda root: write_program(str(root / "usr/bin/getconf"), old), "it has glibc-2.17, and cellspan's programs need glibc 2.")):
        root, tar = tmp_path / name, str(tmp_path / (name + ".tar"))
        images.make_root(str(root), python=python)
        change(root)
        images.pack(str(root), tar)
        boats.load("h1", tar, "localhost/%s:1" % name)
        assert words in refused(notebook(), KEPT % (1, "h1", "localhost/%s:1" % name))


def test_settings_that_are_wrong(notebook):
    nb = notebook(env={"CELLSPAN_PODMAN": "podman run"})
    assert "CELLSPAN_PODMAN: {image} is not in it" in refused(nb, KEPT % (1, "h1", IMAGE), "EngineError")
    nb = notebook(env={"CELLSPAN_PODMAN": "podman run {imag} {image}"})
    assert "CELLSPAN_PODMAN: {imag} stands for nothing: write {user}, {gpus}" in refused(nb, KEPT % (1, "h1", IMAGE), "EngineError")
    nb = notebook(env={"CELLSPAN_CONTAINER": "docker"})
    assert "only apptainer runs such an image" in refused(nb, KEPT % (1, "h1", "a.sif"), "EngineError")


@pytest.mark.parametrize("image", ["x'; touch {0}; '", "$(touch {0})", "`touch {0}`", "a b\\\"; touch {0} #", "docker://x;touch {0}"])
def test_the_name_of_an_image_runs_nothing(notebook, tmp_path, image):
    there = tmp_path / "there"
    quoted = "'%s'" % image.format(there).replace("'", "'\\''")
    assert "can't get the image" in refused(notebook(), KEPT % (1, "h1", quoted))
    assert not there.exists()


def test_where_no_image_can_be(nb):
    for on, words in (("", "ranks on this machine run where the notebook does"), ("--on local", "ranks on this machine"),
                      ("--on ray", "ranks of --on ray can't run in it"), ("--on spark:x", "--on spark"), ("--on mpi", "--on mpi")):
        assert words in refused(nb, "%%%%distribute %s --in %s\n1" % (on, IMAGE), "UsageError")
    assert "begins with a -" in refused(nb, "%%distribute --on ssh:h1 --in=--privileged\n1", "UsageError")
    nb.ok("%%distribute --in none -n 1\n1")


def test_another_image_needs_another_start(notebook):
    nb = notebook(env={"CELLSPAN_IN": IMAGE})
    assert values(nb.ok("%%distribute -n 1 --gather\n1 + 1")) == [2], "the setting is for where it can be"
    nb.ok("%ranks stop")
    assert values(nb.ok("%%distribute -n 1 --on ssh:h1 --gather\nimport of_the_image\nof_the_image.value", limit=UP)) == ["of the image"]
    assert refused(nb, "%%distribute --in none\n1", "UsageError") == (
        "--in none: the ranks are in %s (--fresh ends them and starts new ones there)" % IMAGE)
    assert "--in other: the ranks are in %s" % IMAGE in refused(nb, "%%distribute --in other\n1", "UsageError")
    cell = nb.run("%%distribute -n 1 --on ssh:h1 --in none --fresh\nimport of_the_image", limit=UP)
    cell.assert_error("ModuleNotFoundError")
    assert "the ranks are in no container" in refused(nb, "%%distribute --in " + IMAGE + "\n1", "UsageError")


# ---- programs that stand in for others ----

def test_an_image_on_its_way_can_be_given_up(notebook, boats, stand_in):
    at = stand_in("podman", "image", "exit 1")
    (at / "podman").write_text((at / "podman").read_text().replace("while [", "[ $1 != pull ] || exec sleep 1000\nwhile [", 1))
    nb = notebook(env={"CELLSPAN_PODMAN": "%s run {image}" % (at / "podman"), "CELLSPAN_START_TIMEOUT": "5"})
    cell = nb.start(KEPT % (2, "h1,h2", IMAGE))
    nb.wait_shown(cell, "gets the image %s by podman, which may take minutes" % IMAGE, SOON)
    assert not nb.until(lambda: cell.ended, 8), "the clock stands meanwhile"
    nb.control("interrupt_request")
    nb.wait(cell, SOON).assert_error("KeyboardInterrupt")
    assert boats.left() == []


@pytest.mark.parametrize("name, get, image, taken", [
    ("apptainer", "-", "docker://a/b:1", "docker://a/b:1"),
    ("docker", "image", "docker://a/b:1", "a/b:1"),
    ("enroot", "import", "docker://nvcr.io/a/b:1", str(CACHE / "cellspan-images" / "docker+++nvcr.io+a+b+1.sqsh")),
])
def test_the_words_of_the_others(notebook, boats, stand_in, tmp_path, name, get, image, taken):
    got = 'touch "$3"; exit 0' if name == "enroot" else "exit 0"
    at = stand_in(name, get, got)
    folder = tmp_path / "a b"
    folder.mkdir()
    variable = "CELLSPAN_" + name.upper()
    nb = notebook(cwd=str(folder), env={"CELLSPAN_CONTAINER": name, variable: commands()[variable].replace(name, str(at / name), 1)})
    nb.ok(ON % (1, "h1", image) + "import os\nos.getcwd()", limit=UP)
    words = (at / "words").read_text()
    assert "\n%s\nsh\n-c\n" % taken in words
    assert all("\n%s\n" % word in words for word in {
        "apptainer": ["--cleanenv", "--bind", "/root:/root"], "docker": ["--pid=host", "-v", "/root:/root", "-e", "HOME", "--user"],
        "enroot": ["--mount", "/root:/root:none:x-create=dir,rbind,rw", "--env", "HOME", "--rc"]}[name]), words
