# SPDX-License-Identifier: BSD-3-Clause
"""The launcher mpi alone: what it refuses before anything starts, and hostfiles with a host twice, with both MPIs."""

from __future__ import annotations

import os

import pytest
from engines import missing

INSTALL = "`apt install openmpi-bin`, or `conda install -c conda-forge openmpi`"


@pytest.fixture
def stand_in(tmp_path):
    """Makes an mpirun of this text, alone on PATH; gives the environment."""
    def make(text):
        folder = tmp_path / "bin"
        folder.mkdir()
        if text:
            (folder / "mpirun").write_text("#!/bin/sh\n" + text)
            (folder / "mpirun").chmod(0o755)
        return {"PATH": str(folder)}

    return make


@pytest.mark.parametrize("text, said", [
    ("", "no MPI is here: there is neither mpirun nor mpiexec on PATH"),
    ("echo 'mpirun (Open MPI) 1.6.5'", "is of Open MPI 1.6, which is too old: 1.8 or later is needed"),
    ("echo 'HYDRA build details:'; echo '    Version:     1.4.1'", "is of MPICH 1.4, which is too old: 3.0 or later is needed"),
])
def test_what_to_install_is_said(launch, stand_in, text, said):
    one = launch("mpi", spec="-n 2", env=stand_in(text))
    assert one.wait() == 2 and one.out == [], one.said()
    assert said in one.errors[0] and one.errors[0].endswith("or install one: " + INSTALL), one.said()


@pytest.mark.parametrize("spec, said", [
    ("-n 2 --mca rmaps_base_mapping_policy slot", "--mca rmaps_base_mapping_policy can't be used here: cellspan itself starts one agent on each node"),
    ("-n 2 hostname", "hostname can't be used here: cellspan itself says which program runs"),
])
def test_what_mpirun_may_not_be_told_is_named(launch, stand_in, spec, said):
    one = launch("mpi", spec=spec, env=stand_in("echo 'mpirun (Open MPI) 4.1.4'"))
    assert one.wait() == 2 and one.out == [], one.said()
    assert said in one.errors[0], one.said()


@pytest.mark.parametrize("status", [0, 7])
def test_how_mpirun_ended_is_said(launch, stand_in, status):
    """Whoever ends it: also if its agents have ended well, and the kernel has not asked for it."""
    one = launch("mpi", spec="-n 1", env=stand_in("[ $1 = --version ] && echo 'mpirun (Open MPI) 4.1.4' && exit\n"
                                                  "echo '[1,0]<stdout>:cellspan-launch: task 0 1 h1'\nexit %d" % status))
    assert one.wait() == (1 if status else 0), one.said()
    assert one.out == ["contract 2", "nodes 1 together", "node 0 h1"], one.said()
    assert one.errors[-1] == "mpirun ended with status %d" % status, one.said()


@pytest.fixture
def up(launch, stand_in, tmp_path):
    """Starts the launcher with an mpirun that does this when its only agent has been reported."""
    def start(does):
        go = tmp_path / "go"
        text = ("[ $1 = --version ] && echo 'mpirun (Open MPI) 4.1.4' && exit\necho '[1,0]<stdout>:cellspan-launch: task 0 1 h1'\n"
                "while [ ! -e %s ]; do sleep 0.1; done\n" % go)
        one = launch("mpi", spec="-n 1", env={"PATH": stand_in(text + does)["PATH"] + ":/usr/bin:/bin"})
        one.wait_line("node 0 h1$")
        go.touch()
        return one

    return start


def test_how_mpirun_ended_stands_before_what_it_has_said_since_all_agents_were_up(up):
    """It may say so much, and so little about why, that nobody would look for the end of it."""
    one = up("for n in 1 2 3; do echo \"line $n\" >&2; done\necho '[1,0]<stderr>:bye' >&2\nexit 7")
    assert one.wait() == 1
    assert one.errors == ["mpirun ended with status 7; the last lines:", "line 1", "line 2", "line 3", "h1: bye"], one.said()


ENDED = "".join("echo '[1,0]<%s>:cellspan-launch: ended %%d'%s\n" % one for one in (("stdout", ""), ("stderr", " >&2")))


@pytest.mark.parametrize("status", [0, 143])
def test_agents_that_are_told_to_end_are_waited_for_until_mpirun_ends(up, status):
    one = up(ENDED % (status, status) + "sleep 1\nexit 143")
    assert one.wait() == 1
    assert one.out == ["contract 2", "nodes 1 together", "node 0 h1"] and one.errors == ["mpirun ended with status 143"], one.said()


def test_an_agent_that_has_ended_while_mpirun_goes_on_is_told(up):
    one = up(ENDED % (0, 0) + "exec sleep 1000")
    one.wait_line("gone 0 h1: its agent has ended, and mpirun, which had started it, has not said why$")
    one.end()


@pytest.fixture(params=["openmpi", "mpich"])
def mpirun(request, hosts, stand_in, tmp_path):
    """Runs the launcher with one MPI and a hostfile of these lines; gives (the MPI's name, the launch, its exit status)."""
    name = request.param
    program = "/usr/bin/mpirun." + name
    if missing((program,)):
        pytest.skip("%s is not installed" % name)
    env = stand_in('exec %s "$@"\n' % program)
    env["PATH"] += ":" + os.environ["PATH"]
    if name == "openmpi":
        options = "--allow-run-as-root --mca plm_rsh_args '-F %s' --mca oob_tcp_if_include %s.0/24" % (hosts.ssh_config, hosts.network)
    else:
        options = "-iface %s-br" % hosts.prefix
        env["HYDRA_LAUNCHER_EXTRA_ARGS"] = "-F %s" % hosts.ssh_config

    def run(launch, lines, n="", ends=False):
        (tmp_path / "F").write_text("".join(line + "\n" for line in lines))
        one = launch("mpi", spec="%s %s %s %s" % (n, "--hostfile" if name == "openmpi" else "-f", tmp_path / "F", options), env=env)
        if ends in (True, name):
            return name, one, one.wait()
        one.wait_line("node [01] h3$")
        one.wait_line("node [01] h1$")
        return name, one, one.end()

    return run


def nodes(one):
    """What the launcher says: how many, and the names."""
    said = [line.split() for line in one.out]
    return [words[1] for words in said if words[0] == "nodes"], sorted(words[2] for words in said if words[0] == "node")


def test_a_host_that_is_named_again_next_to_itself_has_one_agent(launch, mpirun):
    _, one, status = mpirun(launch, ["h1", "h1", "h3", "h3"])
    assert (status, nodes(one)) == (0, (["2"], ["h1", "h3"])), one.said()


def test_a_host_that_is_named_again_with_others_in_between(launch, mpirun):
    """Open MPI takes it for the same. MPICH would not."""
    name, one, status = mpirun(launch, ["h1", "h3", "h1"], ends="mpich")
    if name == "openmpi":
        assert (status, nodes(one)) == (0, (["2"], ["h1", "h3"])), one.said()
    else:
        assert status == 2 and "/F names h1 twice, with other hosts in between" in one.errors[0], one.said()
        assert one.errors[0].endswith("name each host once") and one.out == [], one.said()
    _, one, status = mpirun(launch, ["h1", "h3", "h1"], "-n 2")
    assert (status, nodes(one)) == (0, (["2"], ["h1", "h3"])), one.said()


def test_more_agents_than_hosts_of_which_one_is_named_twice(launch, mpirun):
    _, one, status = mpirun(launch, ["h1", "h3", "h1"], "-n 3", ends=True)
    assert status == 2 and one.out == [], one.said()
    assert "/F names h1 twice, and one agent runs on each machine: that is 2 for the 3 of mpirun's -n; ask for 2 there" in one.errors[0], one.said()
