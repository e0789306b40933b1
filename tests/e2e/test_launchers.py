# SPDX-License-Identifier: BSD-3-Clause
"""The launchers local and ssh, and a third party's, alone: with hosts, and a shell script in place of the agent."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess

import processes
import pytest
from launches import LIMIT, launcher

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "launchers.md")


# ---- local and a third party's ----

def test_local_is_one_agent_in_the_launchers_own_place(launch):
    one = launch("local", ranks=2, arguments=["a b"])
    (words,) = one.wait_agents(1).values()
    assert words[0] == "0" and words[2] == "yes" and words[5:] == ["a", "b"]
    assert one.wait_out(1) == ["nodes 1"]
    assert "stand-in" in processes.command(one.process.pid)
    assert one.end() == 0, one.said()


def test_every_program_tells_its_version_and_its_options(cellspan):
    version = cellspan("--version")[1].split()[1]
    folder = os.path.dirname(launcher("local"))
    names = sorted(os.listdir(folder))
    assert {"cellspan-agent", "cellspan-gpus", "cellspan-launch-local", "cellspan-launch-ssh", "cellspan-launch-slurm", "cellspan-launch-mpi"} <= set(names)
    for name in names:
        def told(word):
            done = subprocess.run([os.path.join(folder, name), word], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, ""), (name, word, done)
            return done.stdout

        assert told("--version") == "%s %s\n" % (name, version)
        assert told("--help").startswith("usage: " + name) and "--version" in told("--help") and "--help" in told("--help")


def test_local_takes_no_spec(launch):
    one = launch("local", spec="somewhere")
    assert one.wait() == 2
    assert "'somewhere'" in one.errors[0]


@pytest.fixture
def twins(tmp_path):
    """The engine of docs/launchers.md, as it stands there."""
    with open(DOCS, encoding="utf-8") as file:
        script = re.search(r"^```sh\n(.*?)^```", file.read(), re.S | re.M).group(1)
    assert len(script.splitlines()) <= 10
    path = tmp_path / "cellspan-launch-twins"
    path.write_text(script, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def catches(pid, signo):
    """Has the process a handler for this signal?"""
    (mask,) = re.findall(rb"^SigCgt:\s*([0-9a-f]+)$", processes.read(pid, "status"), re.M)
    return int(mask, 16) >> (signo - 1) & 1


@pytest.mark.parametrize("way", ["stdin", "SIGTERM"])
def test_the_engine_of_the_docs_keeps_the_contract(launch, twins, way):
    one = launch("twins", program=twins, ranks=4)
    agents = one.wait_agents(2)
    assert sorted(agents) == [0, 1] and all(words[2] == "yes" for words in agents.values())
    assert sorted(one.wait_out(3)) == ["node 0 twin0", "node 1 twin1", "nodes 2"]
    if way == "stdin":
        assert one.end() == 0, one.said()
    else:  # agents may be up before the shell comes to its trap
        assert processes.wait_until(lambda: catches(one.process.pid, signal.SIGTERM), LIMIT)
        one.process.send_signal(signal.SIGTERM)
        one.wait()
    assert not processes.gone(one.marker, LIMIT)


# ---- ssh ----

def nobody(hosts, *names):
    """Waits until no agent is left on these hosts."""
    for host in names or hosts.names:
        left = processes.wait_until(
            lambda host=host: not [line for line in hosts.processes(host).values() if "stand-in" in line], LIMIT)
        assert left, "%s: %s" % (host, hosts.processes(host))


def test_ssh_starts_one_agent_on_each_host(launch, hosts, tmp_path):
    one = launch("ssh", spec="h1, h2*4,root@h3", ranks=6, env=hosts.variables(),
                 arguments=["two words", "it's", "$HOME \\n \"x\"", "new\nline"])
    agents = one.wait_agents(3)
    assert one.wait_out(5) == ["contract 2", "nodes 3", "node 0 h1", "node 1 h2 4", "node 2 h3"]
    for number, host in enumerate(("h1", "h2", "h3")):
        assert agents[number][:4] == [str(number), host, "yes", str(tmp_path)], agents
        assert agents[number][5:] == ["two", "words", "it's", "$HOME", "\\n", '"x"', "new", "line", "--stdin", "end"], agents
    one.wait_line("^h2: hello from 1$")
    assert one.end() == 0 and not one.failed(), one.said()
    one.gone()
    nobody(hosts)


def test_ssh_ends_its_agents_on_sigterm(launch, hosts):
    one = launch("ssh", spec="h1,h2", env=hosts.variables())
    one.wait_agents(2)
    one.process.send_signal(signal.SIGTERM)
    assert one.wait() == 0
    one.gone()
    nobody(hosts)


def test_ssh_leaves_nobody_when_it_is_killed(launch, hosts):
    one = launch("ssh", spec="h1,h2,h3", env=hosts.variables())
    one.wait_agents(3)
    one.process.kill()
    one.wait()
    one.gone()
    nobody(hosts)


@pytest.mark.parametrize("way, command", [
    ("stdin", "sleep 3600"), ("SIGTERM", "sleep 3600; true"), ("SIGKILL", "exec sleep 3600"),
])
def test_ssh_leaves_nobody_that_still_connects(launch, tmp_path, way, command):
    program = tmp_path / "slow-ssh"
    program.write_text("#!/bin/sh\necho waiting >&2\n%s\n" % command, encoding="utf-8")
    program.chmod(0o755)
    one = launch("ssh", spec="h1", env={"CELLSPAN_SSH": str(program), "CELLSPAN_SSH_TIMEOUT": "3600"})
    one.wait_line("^h1: waiting$")
    if way == "stdin":
        assert one.end() == 0 and not one.failed(), one.said()
    else:
        one.process.send_signal(getattr(signal, way))
        one.wait()
    one.gone()


def test_ssh_shows_the_secret_to_nobody(launch, hosts):
    one = launch("ssh", spec="h1,h2", env=hosts.variables())
    one.wait_agents(2)
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):  # the hosts' processes are among them
        assert one.secret not in processes.command(pid)
        if "ssh" in os.path.basename(processes.command(pid).split(" ")[0]):
            assert one.secret.encode() not in processes.read(pid, "environ"), processes.command(pid)
    assert one.end() == 0, one.said()
    assert one.secret not in one.said()


def test_ssh_names_each_host_that_does_not_come_and_why(launch, hosts, tmp_path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True)
    nothing = tmp_path / "nothing"
    nothing.write_text("")
    wrong = tmp_path / "wrong"
    wrong.write_text("badkey %s\n" % " ".join((tmp_path / "other.pub").read_text().split()[:2]))
    with open(hosts.ssh_config, encoding="utf-8") as file:
        rest = file.read()
    config = tmp_path / "my config"
    address = hosts.address("h1")
    config.write_text(
        "Host badport\n  HostName %s\n  Port 1\n" % address
        + "Host nokey\n  HostName %s\n  HostKeyAlias h1\n  IdentityFile %s\n  IdentityAgent none\n" % (address, tmp_path / "other")
        + "Host stranger\n  HostName %s\n  HostKeyAlias stranger\n  UserKnownHostsFile %s\n" % (address, nothing)
        + "Host changed\n  HostName %s\n  HostKeyAlias badkey\n  UserKnownHostsFile %s\n" % (address, wrong)
        + "Host good\n  HostName %s\n  HostKeyAlias h2\n" % hosts.address("h2")
        + rest.replace("Host *\n", "Host * !nokey\n")  # else the key that lets in would be tried next
        + "Host nokey\n  UserKnownHostsFile \"%s\"\n  IdentitiesOnly yes\n" % os.path.join(hosts.folder, "hosts", "known_hosts"))
    one = launch("ssh", spec="nowhere.invalid,badport,nokey,stranger,changed,good", env={"CELLSPAN_SSH": "ssh -F '%s'" % config})
    assert processes.wait_until(lambda: len(one.failed()) == 5 and one.agents(), LIMIT), one.said()
    failed = one.failed()
    for number, name, words in (
        (0, "nowhere.invalid", "does not resolve"), (1, "badport", "nothing listens for ssh there"),
        (2, "nokey", "refuses the login"), (3, "stranger", "host key is unknown"), (4, "changed", "not the one in known_hosts"),
    ):
        assert failed[number].startswith(name + ": ") and words in failed[number], failed
    assert list(one.agents()) == [5], "the one that can be reached goes on"
    assert one.end() == 1, one.said()


def test_ssh_takes_lists_with_blanks_and_brackets(launch, hosts):
    one = launch("ssh", spec="h[1-2], root@h[3]*2", env=hosts.variables())
    one.wait_agents(3)
    assert one.wait_out(5) == ["contract 2", "nodes 3", "node 0 h1", "node 1 h2", "node 2 h3 2"]
    assert one.end() == 0, one.said()
    one = launch("ssh", spec="h[3-1]", env=hosts.variables())
    assert one.wait() == 2 and "'h[3-1]': write numbers in the brackets" in one.errors[-1], one.said()


def test_ssh_tells_a_login_that_works_from_one_that_does_not(launch, hosts):
    """Of a user without a login shell ssh's own words are about something else."""
    os.chmod(hosts.folder, 0o755)  # sshd reads the keys as that user
    one = launch("ssh", spec="nobody@h1", env=hosts.variables())
    assert one.wait() == 1
    failed = one.failed()[0]
    assert failed.startswith("h1: the login works, but its shell ended with status 1 and ran nothing: This account"), one.said()
    assert "`ssh nobody@h1 true` has to work" in failed


def test_ssh_says_how_cellspan_is_installed_where_it_is_not(launch, hosts):
    one = launch("ssh", spec="h1", env=hosts.variables(), command="/nowhere/no-agent")
    assert one.wait() == 1
    assert "h1: there is no no-agent" in one.failed()[0] and "pip install cellspan" in one.failed()[0]
    assert "CELLSPAN_REMOTE_PREFIX" in one.failed()[0]


LOCAL_SSH = """#!/bin/sh
# In place of ssh: runs the command here. What the host "late" prints comes only after its agent has begun.
while [ "$1" != -- ]; do shift; done
export WHERE="$2"
sh -c "$3" | while IFS= read -r line; do
    case $WHERE$line in late*machine*) while [ ! -e "%(folder)s/begun-late" ]; do sleep 0.02; done ;; esac
    printf '%%s\\n' "$line"
done
"""
LISTENS = """#!/bin/bash
# In place of an agent: writes down what it is told. What is there at once comes before "begun".
: >>"%(folder)s/told-$WHERE"
IFS= read -r -t 1 line && echo "$line" >>"%(folder)s/told-$WHERE"
touch "%(folder)s/begun-$WHERE"
cat >>"%(folder)s/told-$WHERE"
"""


def test_ssh_tells_the_secret_only_when_it_knows_the_machine(launch, tmp_path):
    for name, text in (("ssh", LOCAL_SSH), ("agent", LISTENS)):
        (tmp_path / name).write_text(text % {"folder": tmp_path})
        (tmp_path / name).chmod(0o755)
    one = launch("ssh", spec="first,late", env={"CELLSPAN_SSH": str(tmp_path / "ssh")}, command=str(tmp_path / "agent"))
    match = one.wait_line(r"^failed ([01]) (\S+): it is the machine of (\S+), by another name")
    assert (match[1], match[2], match[3]) == ("1", "late", "first"), one.said()
    one.end()
    assert one.secret in (tmp_path / "told-first").read_text()
    assert (tmp_path / "told-late").read_text() == "", "an agent that was told anything may join"


def test_ssh_finds_the_agent_in_the_prefix_that_was_told_and_nowhere_else(launch, hosts, tmp_path):
    folder = tmp_path / "pre fix" / "libexec" / "cellspan"
    folder.mkdir(parents=True)
    one = launch("ssh", spec="h1", env=dict(hosts.variables(), CELLSPAN_REMOTE_PREFIX=str(tmp_path / "pre fix")))
    assert one.wait() == 1
    assert one.failed()[0].startswith("h1: there is no %s, where CELLSPAN_REMOTE_PREFIX says" % (folder / "stand-in")), one.said()
    other = folder / "stand-in"
    other.write_text("#!/bin/sh\necho it is the other >&2\ncat >/dev/null\n")
    other.chmod(0o755)
    one = launch("ssh", spec="h1", env=dict(hosts.variables(), CELLSPAN_REMOTE_PREFIX=str(tmp_path / "pre fix")))
    one.wait_line("^h1: it is the other$")
    assert one.end() == 0, one.said()


def test_ssh_tells_that_an_agent_is_of_another_version(launch, hosts, tmp_path):
    old = tmp_path / "cellspan-agent"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo cellspan-agent 0.0.1 && exit\necho usage: something else >&2\nexit 2\n')
    old.chmod(0o755)
    one = launch("ssh", spec="h1", env=hosts.variables(), command=str(old), arguments=["--connect"])
    assert one.wait() == 1
    assert "usage: something else" in one.failed()[0] and "it is cellspan-agent 0.0.1, and here is" in one.failed()[0]


@pytest.mark.parametrize("shell", ["dash", "noisy"])
def test_ssh_works_whatever_the_login_shell_is(launch, hosts, tmp_path, shell):
    program = tmp_path / "shell"
    program.write_text("#!/bin/sh\n" + ("" if shell == "dash" else "echo Welcome; echo; echo 'Last login: \"now'; read -t 1 x\n")
                       + 'exec %s "$@"\n' % ("/bin/dash" if shell == "dash" else "/bin/bash"))
    program.chmod(0o755)
    passwd = tmp_path / "passwd"
    passwd.write_text("root:x:0:0:root:/root:%s\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n" % program)
    hosts.exec("h3", "mount", "--bind", str(passwd), "/etc/passwd")
    try:
        one = launch("ssh", spec="h3", env=hosts.variables())
        assert one.wait_agents(1)[0][1:3] == ["h3", "yes"]
        assert one.end() == 0, one.said()
    finally:
        hosts.exec("h3", "umount", "-l", "/etc/passwd")  # somebody may look at it just now


def test_ssh_starts_at_home_where_the_folder_is_missing(launch, hosts, tmp_path):
    hosts.exec("h3", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path.parent))
    try:
        one = launch("ssh", spec="h3", env=dict(hosts.variables(), CELLSPAN_RESUME="0"), command="/bin/pwd")  # else there are options
        assert one.wait() == 0
    finally:
        hosts.exec("h3", "umount", "-l", str(tmp_path.parent))
    assert one.errors == ["h3: " + pwd.getpwuid(os.getuid()).pw_dir]


def test_ssh_takes_the_settings_of_the_notebook_along(launch, hosts):
    """What names a file or a device of this machine stays here."""
    there = {"CELLSPAN_REMOTE_PYTHON": "/opt/my python/bin/python", "OMP_NUM_THREADS": "3", "CELLSPAN_PRELOAD": "a,b", "CELLSPAN_SEED": "7"}
    here = {"CUDA_VISIBLE_DEVICES": "5", "CELLSPAN_PYTHONPATH": "/only/here"}
    one = launch("ssh", spec="h1", env=dict(hosts.variables(), **there, **here, CELLSPAN_RESUME="0"), command="/usr/bin/env")  # else there are options
    assert one.wait() == 0
    for name, value in there.items():
        assert "h1: %s=%s" % (name, value) in one.errors, one.said()
    assert not re.search("^h1: (%s)=" % "|".join(here), "\n".join(one.errors), re.MULTILINE), one.said()


def test_ssh_goes_through_a_jump_host(launch, hosts, tmp_path):
    with open(hosts.ssh_config, encoding="utf-8") as file:
        rest = file.read()
    config = tmp_path / "config"
    config.write_text("Host behind\n  HostName %s\n  HostKeyAlias h2\n  ProxyCommand ssh -F %s -W %%h:%%p h1\n"
                      % (hosts.address("h2"), hosts.ssh_config) + rest)
    one = launch("ssh", spec="behind", env={"CELLSPAN_SSH": "ssh -F %s" % config})
    assert one.wait_agents(1)[0][1] == "h2"
    assert one.end() == 0, one.said()
    one.gone()


def test_ssh_tells_that_a_connection_broke(launch, hosts):
    one = launch("ssh", spec="h1,h2", env=dict(hosts.variables(), CELLSPAN_RESUME="0"))
    one.wait_agents(2)
    hosts.link("h2", False)
    try:
        assert processes.wait_until(one.failed, 150), one.said()
    finally:
        hosts.link("h2", True)
    assert list(one.failed()) == [1] and "h2: the connection broke" in one.failed()[1]
    assert one.end() == 1, one.said()
    hosts.kill("h2")  # its sshd doesn't know yet that the connection is gone
    hosts.start("h2")


# An agent that has a folder, and is there as long as a file of the host's name is. Its machine was restarted.
LOOKED_FOR = """#!/bin/sh
[ "$1" != --version ] || exit 0
if [ "$1" = --presence ]; then
    echo "words of a start file"
    echo "cellspan-presence: boot another"
    [ ! -e %(folder)s/$(hostname) ] || echo "cellspan-presence: there"
    while [ -e %(folder)s/$(hostname) ]; do sleep .1; done
    echo "cellspan-presence: gone"
    exit
fi
touch %(folder)s/$(hostname)
echo "cellspan-agent: folder $2"
echo "it runs with $*" >&2
while read -r line; do echo "$line" >>%(folder)s/$(hostname).read; done
echo over >>%(folder)s/$(hostname).read
rm -f %(folder)s/$(hostname)
"""


def test_ssh_looks_for_an_agent_whose_connection_broke(launch, hosts, tmp_path):
    agent = tmp_path / "looked-for"
    agent.write_text(LOOKED_FOR % {"folder": tmp_path})
    agent.chmod(0o755)
    one = launch("ssh", spec="h1,h2", command=str(agent), arguments=("--folder", "/tmp/it's"), env=dict(hosts.variables(), CELLSPAN_RESUME="600"))
    for host in ("h1", "h2"):
        one.wait_line("^%s: it runs with --folder /tmp/it's --stdin end$" % host)
    (ssh,) = [pid for pid in processes.marked(one.marker) if re.match(r"\S*ssh .* h2 ", processes.command(pid))]
    os.kill(ssh, signal.SIGKILL)
    one.wait_line("^away 1$")
    one.wait_line("^gone 1 h2: it was restarted, and its agent is gone$")
    assert one.out[one.out.index("away 1") - 1] == "end 12", "a login that ends an agent takes its time"
    assert not one.failed(), one.said()
    assert one.end() == 1, one.said()
    told = [line for line in (tmp_path / "h1.read").read_text().split() if not line.startswith("CELLSPAN_")]
    assert told == ["end", "over"], "the word comes before the end"
    assert "end" not in (tmp_path / "h2.read").read_text().split()


def test_ssh_logs_in_to_some_hosts_at_a_time(launch, tmp_path):
    """Servers and jump hosts drop logins that are too many."""
    ssh, counts = tmp_path / "ssh", tmp_path / "counts"
    (tmp_path / "now").mkdir()
    ssh.write_text("#!/bin/sh\nmkdir %(f)s/now/$$; ls %(f)s/now | wc -l >>%(f)s/counts; sleep 0.5; rmdir %(f)s/now/$$\n"
                   "echo it does not let you in >&2; exit 255\n" % {"f": tmp_path})
    ssh.chmod(0o755)
    one = launch("ssh", spec="h[1-70]", env={"CELLSPAN_SSH": str(ssh)})
    assert one.wait() == 1 and len(one.failed()) == 70, one.said()
    found = [int(line) for line in counts.read_text().split()]
    assert len(found) == 70 and max(found) <= 32, found


@pytest.mark.parametrize("spec, words", [
    ("h1,h1", "h1 is in the list more than once"), ("", "ssh needs hosts"), ("h1*0", "'h1*0'"), ("h1*2", "-n 9: the hosts of this list"),
])
def test_ssh_refuses_bad_lists_before_anything_starts(launch, spec, words):
    one = launch("ssh", spec=spec, ranks=9)
    assert one.wait() == 2
    assert words in one.errors[0] and not one.out


def test_ssh_names_a_command_that_cannot_be_split_or_run(launch):
    one = launch("ssh", spec="h1", env={"CELLSPAN_SSH": "ssh 'x"})
    assert one.wait() == 2 and "CELLSPAN_SSH" in one.errors[0]
    one = launch("ssh", spec="h1", env={"CELLSPAN_SSH": "/nowhere/ssh"})
    assert one.wait() == 1 and "/nowhere/ssh" in one.failed()[0]
