# SPDX-License-Identifier: BSD-3-Clause
"""CELLSPAN_MODULES: the real Environment Modules of Debian on hosts of ssh, of which h2 has none. Programs stand in for srun and mpirun,
which have this machine as their only node."""

from __future__ import annotations

import os
import sys

import pytest
from client import values
from engines import HOST_TOOLS, Hosts, bring_up
from podman_hosts import write_program
from test_images_srun import SRUN

TOOLS = (*HOST_TOOLS, "modulecmd")
UP = 200  # seconds for ranks to come up
MODULEFILES = "/usr/share/modules/modulefiles"
NAMES = ("LOADEDMODULES", "LD_LIBRARY_PATH", "OF_MODULE")
ASK = "%%%%%%%%distribute -n 1 --on %s --gather\nimport os, shutil\n[os.environ.get(n) for n in %r], shutil.which('of-the-module')" % ("%s", NAMES)
FILE = """#%%Module1.0
prepend-path PATH {%(at)s}
prepend-path LD_LIBRARY_PATH {%(at)s/lib}
setenv OF_MODULE {it's "one"}
"""
# Sees the module's variables outside of the container; what runs inside gets the module's PATH as it is here.
APPTAINER = """#!/bin/sh
env >%(at)s/environment
while [ "$1" != sh ]; do shift; done
exec "$@"
"""
MPIRUN = """#!/bin/bash
[ "$1" != --version ] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
while [ "$1" != sh ]; do shift; done
export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1
"$@" <&0 > >(sed -u 's/^/[1,0]<stdout>:/') 2> >(sed -u 's/^/[1,0]<stderr>:/' >&2) &
child=$!
trap 'kill "$child"' TERM INT
wait "$child"; wait "$child"; status=$?
sleep .3  # what it has written comes first
exit "$status"
"""


class ModuleHosts(Hosts):
    """h1 has the modules tools/1.0 and tools/needy; on h2 there is no command `module`."""

    def bring_up(self):
        super().bring_up()
        self.at = os.path.join(self.folder, "of modules")
        os.makedirs(self.at + "/files/tools")
        write_program(self.at + "/of-the-module", "#!/bin/sh\nOF_WRAPPER=1; export OF_WRAPPER\nexec %s \"$@\"\n" % sys.executable)
        write_program(self.at + "/apptainer", APPTAINER % {"at": "'%s'" % self.at})
        for name, text in (("1.0", FILE % {"at": self.at}), ("needy", "#%Module1.0\nmodule load nosuch\n")):
            with open("%s/files/tools/%s" % (self.at, name), "w", encoding="ascii") as file:
                file.write(text)
        self.exec("h1", "mount", "--bind", self.at + "/files", MODULEFILES)
        for folder in ("/usr/share/modules", "/etc/profile.d"):
            self.exec("h2", "mount", "-t", "tmpfs", "tmpfs", folder)


@pytest.fixture(scope="module")
def havens():
    yield from bring_up(lambda: ModuleHosts(2), TOOLS)


@pytest.fixture
def notebook(havens, fresh):
    made = []

    def make(modules, **env):
        set_here = {"CELLSPAN_MODULES": modules} if modules else {}
        made.append(fresh(env={**havens.variables(), **set_here, **env}))
        return made[-1]

    yield make
    for nb in made:
        nb.close()
    assert havens.left() == []


def loaded(havens):
    return [["tools/1.0", havens.at + "/lib", 'it\'s "one"'], havens.at + "/of-the-module"]


def refused(nb, on):
    return nb.run(ASK % on, limit=UP).assert_error("RankNotStarted").error["evalue"]


def test_ranks_have_what_the_modules_set(notebook, havens):
    (found,) = values(notebook("tools/1.0").ok(ASK % "ssh:h1", limit=UP))
    assert list(found) == loaded(havens)


def test_the_ranks_python_may_be_a_module_s(notebook):
    nb = notebook("tools/1.0", CELLSPAN_REMOTE_PYTHON="of-the-module")
    assert values(nb.ok("%%distribute -n 1 --on ssh:h1 --gather\nimport os\nos.environ['OF_WRAPPER']", limit=UP)) == ["1"]


def test_the_program_of_containers_may_be_a_module_s(notebook, havens):
    nb = notebook("tools/1.0", CELLSPAN_CONTAINER="apptainer", CELLSPAN_REMOTE_PYTHON=sys.executable)
    nb.ok("%%distribute -n 1 --on ssh:h1 --in docker://a/b:1\n1", limit=UP)
    with open(havens.at + "/environment", encoding="utf-8") as file:
        assert 'OF_MODULE=it\'s "one"\n' in file.read()


def test_a_module_that_is_not_there(notebook):
    text = refused(notebook("tools/1.0 nosuch/9"), "ssh:h1")
    assert ("h1 did not come up: 'module load tools/1.0 nosuch/9' failed: ERROR: Unable to locate a modulefile for 'nosuch/9'; 'module avail' shows which "
            "there are: set CELLSPAN_MODULES, or modules in the file of settings, to those") in text
    assert text.count("nosuch/9") == 2


def test_a_module_that_needs_another(notebook):
    assert "h1 did not come up: 'module load tools/needy' failed: ERROR: Unable to locate a modulefile for 'nosuch'" in refused(notebook("tools/needy"), "ssh:h1")


def test_a_host_without_modules(notebook):
    text = refused(notebook("tools/1.0"), "ssh:h1,h2")
    assert "h2 did not come up: there is no command 'module', and CELLSPAN_MODULES is tools/1.0: " in text and "h1" not in text


def test_what_is_no_name_is_said_and_not_used(notebook, tmp_path):
    cell = notebook("tools/1.0; touch %s/hit" % tmp_path).ok(ASK % "ssh:h2", limit=UP)
    assert "names of modules are wanted, with blanks between" in cell.stderr and "none is used" in cell.stderr
    assert not list(tmp_path.iterdir())


def test_the_user_s_file_names_them_and_a_project_s_may_not(havens, fresh, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "cellspan").mkdir()
    (tmp_path / "cellspan" / "cellspan.toml").write_text('modules = "tools/1.0"\n')
    (folder / "cellspan.toml").write_text('modules = "evil"\n')
    nb = fresh(env={**havens.variables(), "XDG_CONFIG_HOME": str(tmp_path)}, cwd=str(folder))
    cell = nb.ok(ASK % "ssh:h1", limit=UP)
    assert list(values(cell)[0]) == loaded(havens)
    assert "cellspan.toml:1: modules: a project's file may not set what runs something" in cell.stderr
    nb.close()
    other = fresh(env={**havens.variables(), "XDG_CONFIG_HOME": str(tmp_path), "CELLSPAN_MODULES": "none"})
    assert values(other.ok(ASK % "ssh:h1", limit=UP)) == [([None] * 3, None)], "none: not those of the file either"
    other.close()
    assert havens.left() == []


# ---- as Slurm and mpirun start them ----

@pytest.fixture
def cluster(havens, fresh, tmp_path):
    write_program(str(tmp_path / "srun"), SRUN % {"at": tmp_path})
    write_program(str(tmp_path / "mpirun"), MPIRUN)
    return lambda modules: fresh(env={"PATH": "%s:%s" % (tmp_path, os.environ["PATH"]), "MODULEPATH": havens.at + "/files", "CELLSPAN_MODULES": modules})


@pytest.mark.parametrize("on", ["slurm", "mpi"])
def test_ranks_of_the_others_have_them_too(cluster, havens, on):
    nb = cluster("tools/1.0")
    assert list(values(nb.ok(ASK % on, limit=UP))[0]) == loaded(havens)
    nb.ok("%ranks stop", limit=UP)


@pytest.mark.parametrize("on", ["slurm", "mpi"])
def test_the_others_say_which_are_not_there(cluster, on):
    text = refused(cluster("nosuch"), on)
    assert " did not come up: 'module load nosuch' failed: ERROR: Unable to locate a modulefile for 'nosuch'; " in text
