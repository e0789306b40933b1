# SPDX-License-Identifier: BSD-3-Clause
"""Hosts without cellspan: it is sent to them, over the ssh that starts the agent."""

from __future__ import annotations

import os
import pathlib
import platform
import pwd
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import containers
import pytest
from client import values
from engines import HOST_TOOLS, SLURM_TOOLS, Hosts, Slurm, bring_up
from launches import LIMIT, launch  # noqa: F401  (a fixture)
from processes import wait_until

pytestmark = pytest.mark.package
PREFIX = pathlib.Path(os.path.realpath(shutil.which("cellspan") or "/nowhere/bin/cellspan")).parents[1]
AGENT = PREFIX / "libexec" / "cellspan" / "cellspan-agent"
CACHE = pathlib.Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".cache"  # of a login, whatever HOME is here
WHERE = "%%%%distribute -n %d --on ssh:%s --gather\nimport os, cellspan\nos.uname().nodename, os.path.dirname(cellspan.__file__)"
PACKAGE = "/lib/cellspan/python/cellspan"
NAME = re.compile(r"(\S+/cellspan/[^/]+-%s-[0-9a-f]{16})%s" % (platform.machine(), PACKAGE))


def version(prefix=PREFIX):
    return os.popen("%s/libexec/cellspan/cellspan-agent --version" % prefix).read().split()[1]


def add_wheel(folder, prefix):
    """Writes a wheel of an installation, which may use libraries of this machine: its hosts have them."""
    its = version(prefix)
    with zipfile.ZipFile(folder / ("cellspan-%s-cp39-abi3-manylinux_2_28_%s.whl" % (its, platform.machine())), "w") as wheel:
        for top in ("libexec", "lib/cellspan/python/cellspan"):
            for at, folders, names in os.walk(prefix / top):
                folders[:] = [name for name in folders if name != "__pycache__"]
                for name in names:
                    path = os.path.join(at, name)
                    wheel.write(path, "cellspan-%s.data/data/%s" % (its, os.path.relpath(path, prefix)))


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A folder with a wheel of what is tested."""
    folder = tmp_path_factory.mktemp("shelf")
    add_wheel(folder, PREFIX)
    return str(folder)


@pytest.fixture
def bare():
    """Three hosts that see neither this installation nor this user's cache."""
    CACHE.mkdir(exist_ok=True)
    for hosts in bring_up(lambda: Hosts(3, private=(str(PREFIX), str(CACHE))), HOST_TOOLS):
        yield hosts
        assert hosts.left() == []


@pytest.fixture
def notebook(bare, shelf, fresh):
    def make(**env):
        return fresh(env={**bare.variables(), "CELLSPAN_WHEELS": shelf, **env})

    return make


def mount(hosts, host, folder, options):
    """Another file system at a folder of one host."""
    hosts.exec(host, "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))


def where(nb, hosts, n=None):
    """[(host, the folder of its package)] of one rank on each of the hosts, and what the cell said."""
    cell = nb.ok(WHERE % (n or len(hosts.split(",")), hosts), limit=200)
    return values(cell), cell.stderr


def refused(nb, hosts="h1"):
    return nb.run(WHERE % (1, hosts), limit=200).assert_error("RankNotStarted").error["evalue"]


@pytest.mark.limit(400)
def test_a_host_without_it_gets_it_once(notebook, bare):
    nb = notebook()
    there, said = where(nb, "h1,h2")
    assert [host for host, _ in there] == ["h1", "h2"]
    assert {NAME.fullmatch(folder)[1].startswith(str(CACHE)) for _, folder in there} == {True}, there
    assert re.search(r"is sent to hosts that lack it \(\d+\.\d MiB each\)", said) and said.count("is sent") == 1, said
    nb.ok("import numpy\nbig = numpy.ones(100_000)")
    assert values(nb.ok("%%distribute --gather\nfloat(big.sum())")) == [100000.0] * 2
    nb.ok("%ranks stop")
    again, said = where(nb, "h1,h2,h3")
    assert [folder for _, folder in again] == [there[0][1]] * 3 and said.count("is sent") == 1, said
    nb.ok("%ranks stop")
    again, said = where(nb, "h1,h2")
    assert again == there and "is sent" not in said
    assert bare.exec("h1", "ls", "-A", str(CACHE / "cellspan")).stdout.split() == [os.path.basename(NAME.fullmatch(there[0][1])[1])]


def test_hosts_that_share_a_home_install_it_once(notebook, bare, tmp_path):
    for host in bare.names:
        bare.exec(host, "mount", "--bind", str(tmp_path), str(CACHE))
    there, _ = where(notebook(), "h1,h2,h3")
    assert len({folder for _, folder in there}) == 1
    (only,) = (tmp_path / "cellspan").iterdir()
    os.utime(only, (1, 1))
    again, said = where(notebook(), "h1")
    assert again == there[:1] and "is sent" not in said and only.stat().st_mtime > 1  # which keeps it from being removed


def test_where_the_cache_is_no_place_it_is_in_memory(notebook, bare):
    mount(bare, "h1", CACHE, "noexec")
    mount(bare, "h2", CACHE, "size=1m")
    nb = notebook()
    there, _ = where(nb, "h1,h2")
    assert all(re.fullmatch("/dev/shm/cellspan-sent-[a-z0-9_]+" + PACKAGE, folder) for _, folder in there), there
    assert bare.exec("h2", "ls", "-A", str(CACHE / "cellspan")).stdout == ""
    nb.ok("%ranks stop")
    assert bare.left() == []
    assert [bare.exec(host, "find", "/dev/shm", "-name", "cellspan-sent-*").stdout for host in ("h1", "h2")] == ["", ""]


def test_a_host_with_no_place_for_it_says_why(notebook, bare):
    for folder in (CACHE, "/dev/shm"):
        mount(bare, "h1", folder, "noexec")
    assert re.search(r"^h1 did not come up: there is no cellspan-agent; .*; it can't be sent there: no place takes it: "
                     r"\S+/\.cache: no program may run there .*; XDG_RUNTIME_DIR: is not set; /dev/shm: no program may run there", refused(notebook()))


@pytest.mark.limit(300)
def test_another_version_there_is_passed_over(notebook, bare):
    old = "mkdir -p %s %s/bin && printf '#!/bin/sh\\necho cellspan-agent 0.0.1; exit 3\\n' >%s && chmod +x %s" % (AGENT.parent, PREFIX, AGENT, AGENT)
    bare.exec("h1", "sh", "-c", old)
    assert NAME.fullmatch(where(notebook(), "h1")[0][0][1])
    error = refused(notebook(CELLSPAN_INSTALL="never"))
    assert "it is cellspan-agent 0.0.1, and here is " + version() in error


def another_version(folder):
    """Copies the installation, and gives the copy another version, as text of the same length. Its first digit is another one, since the
    end of the text may be another text, too, such as the "1.0" of ZAP: compilers store these as one."""
    ours, other = version().encode(), re.sub(r"^\d", lambda first: str((int(first[0]) + 1) % 10), version()).encode()
    shutil.copytree(PREFIX, folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        if ours in content:
            path.write_bytes(content.replace(ours, other))
    return folder, other.decode()


@pytest.mark.limit(400)
def test_two_versions_run_on_one_host_at_once(fresh, tmp_path, monkeypatch):
    other, its = another_version(tmp_path / "other")
    (tmp_path / "shelf").mkdir()
    for prefix in (PREFIX, other):
        add_wheel(tmp_path / "shelf", prefix)
    meets = ("import os, pathlib, sys, time, cellspan\npathlib.Path(%r, cellspan.__version__).touch()\nbegin = time.monotonic()\n"
             "while len(os.listdir(%r)) < 2 and time.monotonic() < begin + 120:\n    time.sleep(0.02)\n"
             "sorted(os.listdir(%r)), cellspan.__version__, sys.modules['cellspan._link'].__file__, os.readlink('/proc/%%d/exe' %% os.getppid())")
    CACHE.mkdir(exist_ok=True)
    for hosts in bring_up(lambda: Hosts(1, private=(str(PREFIX), str(other), str(CACHE))), HOST_TOOLS):
        env = {**hosts.variables(), "CELLSPAN_WHEELS": str(tmp_path / "shelf")}
        notebooks = [fresh(env=env)]
        monkeypatch.setenv("JUPYTER_PATH", str(other / "share" / "jupyter"))
        notebooks.append(fresh(env=env))
        for nb, prefix in zip(notebooks, (PREFIX, other)):
            assert nb.ok("import cellspan\ncellspan.__file__").value == repr("%s%s/__init__.py" % (prefix, PACKAGE))
        folders = []
        for turn, line in enumerate(["%%distribute -n 1 --on ssh:h1 --gather\n", "%%distribute --gather\n"]):
            place = str(tmp_path / ("met%d" % turn))
            os.mkdir(place)
            cells = [nb.start(line + meets % (place, place, place)) for nb in notebooks]  # each waits for the other
            for nb, cell, mine in zip(notebooks, cells, (version(), its)):
                (met, said, link, agent), = values(nb.wait(cell, limit=200).assert_ok())
                folder = re.fullmatch(r"(\S+/cellspan/%s-%s-[0-9a-f]{16})%s/_link\.abi3\.so" % (re.escape(mine), platform.machine(), PACKAGE), link)[1]
                assert (met, said, agent) == (sorted([version(), its]), mine, folder + "/libexec/cellspan/cellspan-agent")
                folders.append(folder)
        assert len(set(folders)) == 2 and folders[2:] == folders[:2]
        assert sorted(hosts.exec("h1", "ls", "-A", str(CACHE / "cellspan")).stdout.split()) == sorted(map(os.path.basename, folders[:2]))
        notebooks[0].ok("%ranks stop")
        assert values(notebooks[1].ok("%%distribute --gather\nimport cellspan._jupyter.comms, cellspan\ncellspan.__version__")) == [its]
        for nb in notebooks:
            nb.close()
        assert hosts.left() == []


# -- a Python that has nothing of what ranks import


def make_python(folder, packages=()):
    """A virtual environment of this Python with these packages alone, each with a mark in it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for name in packages:
        shutil.copytree(pathlib.Path(sysconfig.get_paths()["purelib"]) / name, site / name)
        with open(site / name / "__init__.py", "a", encoding="utf-8") as file:
            file.write("\nOWN = True\n")
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def nothing(tmp_path_factory):
    return make_python(tmp_path_factory.mktemp("nothing") / "venv")


@pytest.fixture
def equipped():
    """A host that has this installation, but not this user's cache."""
    CACHE.mkdir(exist_ok=True)
    for hosts in bring_up(lambda: Hosts(1, private=(str(CACHE),)), HOST_TOOLS):
        yield hosts
        assert hosts.left() == []


ALSO = "with the Python packages that it needs is sent to hosts that lack it"
TELLS = "%%%%distribute -n %d --on ssh:%s --gather\nimport os, sys, IPython, wcwidth, cellspan\n" + (
    "os.uname().nodename, sys.executable, os.path.dirname(IPython.__file__), os.path.dirname(cellspan.__file__), hasattr(wcwidth, 'OWN')")
WITH = re.compile(r"(\S+/cellspan/[^/]+-%s\+%d\.%d-[0-9a-f]{16})%s" % (platform.machine(), *sys.version_info[:2], PACKAGE))


@pytest.mark.limit(400)
def test_a_host_with_nothing_but_python_runs_cells(notebook, nothing, bare):
    nb = notebook(CELLSPAN_REMOTE_PYTHON=nothing)
    cell = nb.ok(TELLS % (3, "h1*2,h2"), limit=200)
    there = values(cell)
    folder = WITH.fullmatch(there[0][3])[1]
    assert folder.startswith(str(CACHE)) and {tuple(one[1:]) for one in there} == {(
        nothing, folder + "/lib/cellspan/packages/IPython", folder + PACKAGE, False)}
    assert [one[0] for one in there] == ["h1", "h1", "h2"]
    assert re.search(ALSO + r" \([1-5]\.\d MiB each\)", cell.stderr) and cell.stderr.count("is sent") == 1, cell.stderr
    nb.ok("scale = 3\ndef area(x):\n    return x * scale")
    assert values(nb.ok("%%distribute --gather\nimport os\nfrom IPython.display import display\ndisplay(os)\narea(int(os.environ['RANK']))")) == [0, 3, 6]
    cell = nb.run("%%distribute\nimport numpy").assert_error("ModuleNotFoundError")
    assert re.search("No module named 'numpy'", cell.shown)
    nb.ok("%ranks stop")
    cell = nb.ok(TELLS % (1, "h1"), limit=200)
    assert values(cell) == there[:1] and "is sent" not in cell.stderr
    assert bare.exec("h1", "ls", "-A", str(CACHE / "cellspan")).stdout.split() == [os.path.basename(folder)]


@pytest.mark.limit(300)
def test_its_own_packages_come_before_those_that_are_sent(notebook, tmp_path):
    python = make_python(tmp_path / "venv", ["wcwidth", "comm"])
    (one,) = values(notebook(CELLSPAN_REMOTE_PYTHON=python).ok(TELLS % (1, "h1"), limit=200))
    assert one[4] and one[2].endswith("/lib/cellspan/packages/IPython")


@pytest.mark.limit(300)
def test_a_python_that_has_them_is_sent_cellspan_alone(notebook, nothing, bare):
    _, said = where(notebook(), "h1")
    assert "is sent" in said and ALSO not in said
    nb = notebook(CELLSPAN_REMOTE_PYTHON=nothing)
    assert ALSO in nb.ok(TELLS % (1, "h1"), limit=200).stderr
    assert len(bare.exec("h1", "ls", "-A", str(CACHE / "cellspan")).stdout.split()) == 2


@pytest.mark.limit(400)
def test_a_host_that_has_cellspan_gets_the_packages(equipped, shelf, nothing, fresh):
    env = {**equipped.variables(), "CELLSPAN_WHEELS": shelf, "CELLSPAN_REMOTE_PYTHON": nothing}
    nb = fresh(env=env)
    for turn in range(2):
        cell = nb.ok(TELLS % (1, "h1"), limit=200)
        assert WITH.fullmatch(values(cell)[0][3]) and (ALSO in cell.stderr) == (turn == 0), cell.stderr
        nb.ok("%ranks stop")
    lacks = re.escape(nothing) + r" on h1 has no (IPython|traitlets); run there: \S+ -m pip install "
    assert re.search(lacks, refused(fresh(env={**env, "CELLSPAN_INSTALL": "never"})))
    mount(equipped, "h1", CACHE, "noexec")
    mount(equipped, "h1", "/dev/shm", "noexec")
    assert re.search(lacks, refused(fresh(env=env)))  # no place takes it, and cellspan is there
    getconf = os.path.realpath(equipped.exec("h1", "which", "getconf").stdout.strip())
    equipped.exec("h1", "sh", "-c", "printf '#!/bin/sh\\necho glibc 2.1\\n' >/run/it; chmod +x /run/it; mount --bind /run/it " + getconf)
    assert re.search(lacks, refused(fresh(env=env)))  # the launcher has nothing for it


def test_it_can_be_forbidden(notebook):
    error = refused(notebook(CELLSPAN_INSTALL="never"))
    assert error.startswith("h1 did not come up: there is no cellspan-agent; ") and "sent" not in error


def test_what_is_told_of_the_hosts_is_not_replaced(notebook):
    error = refused(notebook(CELLSPAN_REMOTE_PREFIX="/opt/cs"))
    assert error.startswith("h1 did not come up: there is no /opt/cs/libexec/cellspan/cellspan-agent, where CELLSPAN_REMOTE_PREFIX says") and "sent" not in error


def test_another_kind_of_machine_is_named(notebook, bare, tmp_path):
    (tmp_path / "uname").write_text("#!/bin/sh\necho riscv64\n")
    (tmp_path / "uname").chmod(0o755)
    uname = os.path.realpath(bare.exec("h1", "which", "uname").stdout.strip())
    bare.exec("h1", "mount", "--bind", str(tmp_path / "uname"), uname)
    error = refused(notebook())
    assert "it can't be sent there: it is riscv64, which this cellspan is not for; `pip install cellspan" in error
    assert re.search(r"set CELLSPAN_WHEELS here to a folder with cellspan-\S+_riscv64\.whl", error)


def test_a_build_that_uses_libraries_of_this_machine_names_the_wheel(notebook):
    if "libzmq" not in os.popen("ldd %s" % AGENT).read():
        pytest.skip("this build uses none")
    assert re.search(r"it can't be sent there: cellspan-agent uses libzmq\S+.* of this machine\. A wheel of cellspan uses none", refused(notebook(CELLSPAN_WHEELS="")))


def another_python(folder, kind):
    """(path, its version): of this Python as another one, with or without packages; or of one that is another one, if there is any."""

    def make(name, python, version, site=None, path=""):
        at = folder / name
        at.mkdir()
        if site:
            (at / "sitecustomize.py").write_text("import platform, sys\nplatform.python_version = lambda: %r\n%s" % (version, site))
        (at / "python").write_text("#!/bin/sh\nPYTHONPATH=%s:%s${PYTHONPATH:+:$PYTHONPATH} exec %s \"$@\"\n" % (at, path, python))
        (at / "python").chmod(0o755)
        return str(at / "python"), version

    if kind == "with":
        return make(kind, sys.executable, "3.7.1", "pass\n")
    if kind == "without":
        return make(kind, sys.executable, "3.8.2", "sys.modules['IPython'] = None\n")
    ours = ".".join(platform.python_version_tuple()[:2])
    found = sorted(pathlib.Path("/usr/bin").glob("python3.?[0-9]")) + sorted(CACHE.parent.glob(".pyenv/versions/3.1?.*/bin/python3"))
    real = [str(path) for path in found if not re.search(r"python%s$|/%s\.\d+/bin" % (ours, ours), str(path))]
    if not real:
        pytest.skip("no Python but %s is in /usr/bin or ~/.pyenv" % ours)
    return make(kind, real[-1], os.popen("%s -V" % real[-1]).read().split()[1], path=sysconfig.get_paths()["purelib"])


@pytest.mark.limit(400)
@pytest.mark.parametrize("kind", ["with", "without", "real"])
def test_another_python_there_is_an_error_before_anything_runs(notebook, tmp_path, kind):
    ran, (python, version) = tmp_path / "ran", another_python(tmp_path, kind)
    nb = notebook(CELLSPAN_REMOTE_PYTHON=python)
    cell = nb.run("%%%%distribute -n 2 --on ssh:h1,h2\nopen(%r, 'w')" % str(ran), limit=200).assert_error("RankNotStarted")
    assert re.match(r"rank \d: Python on h[12] is %s, the notebook's is %s: .* \(set CELLSPAN_REMOTE_PYTHON to a Python %s there\)" % (
        re.escape(version), re.escape(platform.python_version()), re.escape(".".join(platform.python_version_tuple()[:2]))), cell.error["evalue"])
    assert not ran.exists()


# -- containers, whose root nobody can write to


@pytest.fixture
def sealed():
    """c1 has a place for it in XDG_RUNTIME_DIR, c2 in memory, c3 has none."""
    run = {"XDG_RUNTIME_DIR": "/run/user/0"}
    yield from bring_up(lambda: containers.Containers({
        "c1": (run, {"/run/user/0": "mode=700", "/dev/shm": "noexec"}),
        "c2": ({}, {"/dev/shm": "mode=1777"}),
        "c3": (run, {"/run/user/0": "mode=700,noexec", "/dev/shm": "size=1m"}),
    }), containers.TOOLS)


@pytest.mark.limit(400)
def test_a_container_takes_it_where_it_can_write(sealed, shelf, fresh):
    nb = fresh(env={**sealed.variables(), "CELLSPAN_WHEELS": shelf})
    (one, two), said = where(nb, "c1,c2")
    assert one[0] == "c1" and NAME.fullmatch(one[1])[1].startswith("/run/user/0/cellspan/"), one
    assert two[0] == "c2" and re.fullmatch("/dev/shm/cellspan-sent-[a-z0-9_]+" + PACKAGE, two[1]), two
    assert re.search(r"is sent to hosts that lack it", said) and "Warning" not in said, said  # such as IPython's: their home can't be written
    folder = values(nb.ok("%%distribute -r 1 --gather\nget_ipython().ipython_dir"))[0]
    assert sealed.exec("c2", "ls", folder) and sealed.exec("c2", "find", "/tmp", "-name", "tmp?*") == ""
    nb.ok("%ranks stop")
    assert wait_until(lambda: sealed.exec("c2", "find", "/dev/shm", "-name", "cellspan-sent-*") == "", LIMIT)
    assert wait_until(lambda: sealed.exec("c2", "find", "/tmp", "-mindepth", "1") == "", LIMIT)
    again, said = where(nb, "c1")
    assert again == [one] and "is sent" not in said
    nb.ok("%ranks stop")
    assert re.search(r"^c3 did not come up: .*; it can't be sent there: no place takes it: /root/\.cache: Read-only file system; "
                     r"XDG_RUNTIME_DIR: no program may run there .*; /dev/shm: No space left on device", refused(nb, "c3"))


# -- Slurm: all agents of a step read the same stdin

MANY = 33  # nodes, from which on sbcast brings it


@pytest.fixture(scope="module")
def cluster():
    """Nodes that see all that this machine has, so what they lack is at a path that nobody has."""
    yield from bring_up(lambda: Slurm(nodes=MANY, gpus=0, proctrack="linuxproc"), SLURM_TOOLS)


@pytest.fixture
def step(launch, cluster, shelf, tmp_path):  # noqa: F811
    """Runs an agent on each of some nodes, which prints its version and ends. tools: programs that come first on PATH there."""
    home, folder = tmp_path / "home", tmp_path / "tools"
    for made in (home, folder):
        made.mkdir()
    for name in ("srun", "squeue", "scancel", "scontrol"):
        (folder / name).symlink_to(shutil.which(name))

    def run(nodes=2, python="", **tools):
        for name, script in tools.items():
            (folder / name.replace("_", "-")).write_text("#!/bin/sh\n%s\n" % script)
            (folder / name.replace("_", "-")).chmod(0o755)
        settings = {"HOME": str(home), "CELLSPAN_WHEELS": shelf, "CELLSPAN_PYTHONPATH": str(PREFIX / "lib/cellspan/python"),
                    "PATH": "%s:/usr/bin:/bin" % folder, "CELLSPAN_HOME_PYTHON": sys.executable, "CELLSPAN_REMOTE_PYTHON": python, "XDG_CACHE_HOME": "", **cluster.variables()}
        one = launch("slurm", spec="--nodes=%d" % nodes, command="/nowhere/libexec/cellspan/cellspan-agent", arguments=["--version"], env=settings)
        status = one.wait()
        return one, status, one.errors.count("cellspan-agent " + version()), [line for line in one.out if "is sent" in line]

    run.cache = home / ".cache" / "cellspan"
    return run


def test_nodes_of_slurm_get_it_before_any_agent_starts(step):
    one, status, ran, said = step()
    assert (status, ran, len(said)) == (0, 2, 1) and "is sent to 2 of 2 nodes" in said[0], one.said()
    assert len(os.listdir(step.cache)) == 1
    one, status, ran, said = step()
    assert (status, ran, said) == (0, 2, []), one.said()


def test_nodes_of_slurm_with_nothing_but_python_get_the_packages(step, nothing):
    for sent in (True, False):
        one, status, ran, said = step(python=nothing)
        assert (status, ran, len(said)) == (0, 2, sent), one.said()
        assert not sent or "with the Python packages that it needs is sent to 2 of 2 nodes" in said[0], one.said()
        (name,) = os.listdir(step.cache)
        assert "+%d.%d-" % sys.version_info[:2] in name and (step.cache / name / "lib/cellspan/packages/IPython").is_dir()


def test_a_node_of_slurm_that_has_it_passes_over_what_others_get(step):
    one, status, ran, said = step(cellspan_agent='[ "$SLURM_PROCID" = 0 ] && exec %s "$@"; echo cellspan-agent 0.0.1' % AGENT)
    assert (status, ran, len(said)) == (0, 2, 1) and "is sent to 1 of 2 nodes" in said[0], one.said()
    assert len(os.listdir(step.cache)) == 1


def test_a_node_of_slurm_that_can_not_take_it_says_why(step):
    one, status, ran, said = step(uname='[ "$SLURM_PROCID" = 1 ] && echo riscv64 || exec /bin/uname "$@"')
    assert status != 0 and ran == 1 and len(said) == 1, one.said()
    assert list(one.failed()) == [1] and "there is no cellspan-agent; " in one.failed()[1], one.said()
    assert "; it can't be sent there: it is riscv64, which this cellspan is not for" in one.failed()[1], one.said()
    one, status, ran, _ = step(uname="echo riscv64", cellspan_agent="echo cellspan-agent 0.0.1")
    assert status != 0 and ran == 0 and sorted(one.failed()) == [0, 1], one.said()
    assert all("it has cellspan-agent 0.0.1, and here is" in text for text in one.failed().values()), one.said()


@pytest.mark.limit(300)
def test_many_nodes_of_slurm_get_it_by_sbcast_and_share_a_home(step, tmp_path):
    sbcast = 'for file; do :; done; echo "$file" >%s/file; exec %s "$@"' % (tmp_path, shutil.which("sbcast"))
    one, status, ran, said = step(MANY, sbcast=sbcast)
    assert (status, ran, len(said)) == (0, MANY, 1) and re.search("is sent to 33 of 33 nodes, .* MiB, by sbcast", said[0]), one.said()
    assert "by srun's stdin" not in one.said() and len(os.listdir(step.cache)) == 1
    assert not os.path.exists((tmp_path / "file").read_text().strip())


def test_what_sbcast_does_not_bring_comes_by_stdin(step, tmp_path):
    sbcast = 'for file; do :; done; echo "$file" >%s/file; head -c 1000 >"$file"; echo sbcast: error: no room >&2; exit 28' % tmp_path
    one, status, ran, said = step(MANY, sbcast=sbcast, cellspan_agent='[ "$SLURM_PROCID" -gt 1 ] && exec %s "$@"; echo cellspan-agent 0.0.1' % AGENT)
    assert (status, ran, len(said)) == (0, MANY, 1) and "is sent to 2 of 33 nodes" in said[0], one.said()
    assert "say sbcast has not brought it to 2 of 33 nodes (sbcast: error: no room): it comes by srun's stdin" in one.out, one.said()
    assert len(os.listdir(step.cache)) == 1 and not os.path.exists((tmp_path / "file").read_text().strip())
