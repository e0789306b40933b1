"""The launchers alone, with hosts and a Slurm cluster, and a shell script in place of the agent."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import threading
import uuid

import processes
import pytest

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "launchers.md")
LIMIT = 120  # seconds for what takes one; far off, to catch what hangs

# Writes "AGENT HOST SECRET FOLDER ARGUMENTS" to a file of its own, and lives until its stdin ends.
AGENT = r"""#!/bin/sh
while [ -z "$CELLSPAN_SECRET" ] && IFS= read -r line; do
    case $line in
    CELLSPAN_AGENT=*) CELLSPAN_AGENT=${line#*=} ;;
    CELLSPAN_SECRET=*) CELLSPAN_SECRET=${line#*=} ;;
    esac
done
[ "$CELLSPAN_SECRET" = "%(secret)s" ] && secret=yes || secret=no
file=%(folder)s/$CELLSPAN_AGENT
printf '%%s\n' "$CELLSPAN_AGENT ${SLURMD_NODENAME:-$(hostname)} $secret $PWD gpus=$CUDA_VISIBLE_DEVICES $*" >"$file.new"
mv "$file.new" "$file"
echo "hello from $CELLSPAN_AGENT" >&2
trap 'rm -f "$file"; exit 0' TERM
while read -r line; do :; done
rm -f "$file"
"""


def launcher(name):
    """The path of cellspan-launch-NAME in the prefix that is tested."""
    cellspan = shutil.which("cellspan")
    assert cellspan, "cellspan is not on PATH"
    libexec = os.path.join(os.path.dirname(os.path.realpath(cellspan)), "..", "libexec", "cellspan")
    return os.path.normpath(os.path.join(libexec, "cellspan-launch-" + name))


class Launch:
    """A launcher that runs, with what it says."""

    def __init__(self, engine, folder, spec=None, ranks=None, env=None, command=None, program=None, arguments=()):
        self.secret = "secret-" + uuid.uuid4().hex
        self.folder = os.path.join(str(folder), uuid.uuid4().hex)
        os.mkdir(self.folder)
        self.agent = os.path.join(self.folder, "stand-in")
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write(AGENT % {"secret": self.secret, "folder": self.folder})
        os.chmod(self.agent, 0o755)
        self.marker = uuid.uuid4().hex
        environ = dict(os.environ, CELLSPAN_SECRET=self.secret, **{processes.MARKER: self.marker}, **(env or {}))
        words = [program or launcher(engine)]
        words += ["--spec", spec] if spec is not None else []
        words += ["--ranks", str(ranks)] if ranks else []
        self.process = subprocess.Popen(
            words + ["--", command or self.agent] + list(arguments), env=environ, cwd=str(folder), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )
        self.out, self.errors = [], []
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.out), (self.process.stderr, self.errors))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def agents(self):
        """What the agents that live wrote of themselves, by number: lists of words."""
        found = {}
        for name in os.listdir(self.folder):
            if name.isdigit():
                try:
                    with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                        found[int(name)] = file.read().split()
                except FileNotFoundError:
                    pass
        return found

    def wait_agents(self, n):
        assert processes.wait_until(lambda: len(self.agents()) >= n, LIMIT), self.said()
        return self.agents()

    def wait_out(self, n):
        """Waits for the first n lines of stdout: a thread reads them, which may be behind the agents."""
        assert processes.wait_until(lambda: len(self.out) >= n, LIMIT), self.said()
        return self.out

    def wait_line(self, pattern):
        """Waits for a line of stdout or stderr in which the pattern is found; gives the match."""
        def look():
            matches = (re.search(pattern, line) for line in self.out + self.errors)
            return next((match for match in matches if match), None)

        found = processes.wait_until(look, LIMIT)
        assert found, "nothing says %r\n%s" % (pattern, self.said())
        return found

    def said(self):
        return "stdout:\n%s\nstderr:\n%s" % ("\n".join(self.out), "\n".join(self.errors))

    def failed(self):
        """The texts of the lines `failed I TEXT`, by I."""
        return {int(line.split()[1]): line.split(" ", 2)[2] for line in self.out if line.startswith("failed ")}

    def wait(self, limit=LIMIT):
        """Waits for the end, stdin still open; gives the exit status."""
        status = self.process.wait(limit)
        for reader in self.readers:
            reader.join(LIMIT)
        return status

    def end(self):
        """Ends stdin; gives the exit status."""
        self.process.stdin.close()
        return self.wait()

    def gone(self):
        """Waits until none of its processes and agents is left on this side."""
        left = processes.gone(self.marker, LIMIT)
        processes.wait_until(lambda: not self.agents(), LIMIT)  # those of other hosts are none of the processes
        assert not left and not self.agents(), "left: %s %s" % (left, self.agents())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        processes.kill_all(self.marker)


@pytest.fixture
def launch(tmp_path):
    """Makes launches; what is left of them at the end is killed."""
    made = []
    os.chmod(str(tmp_path), 0o755)

    def make(engine, **options):
        made.append(Launch(engine, tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


# ---- local and a third party's ----

def test_local_is_one_agent_in_the_launchers_own_place(launch):
    one = launch("local", ranks=2, arguments=["a b"])
    (words,) = one.wait_agents(1).values()
    assert words[0] == "0" and words[2] == "yes" and words[5:] == ["a", "b"]
    assert one.wait_out(1) == ["nodes 1"]
    assert "stand-in" in processes.command(one.process.pid)
    assert one.end() == 0, one.said()


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
    assert one.wait_out(4) == ["nodes 3", "node 0 h1", "node 1 h2 4", "node 2 h3"]
    for number, host in enumerate(("h1", "h2", "h3")):
        assert agents[number][:4] == [str(number), host, "yes", str(tmp_path)], agents
        assert agents[number][5:] == ["two", "words", "it's", "$HOME", "\\n", '"x"', "new", "line"], agents
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


def test_ssh_says_how_cellspan_is_installed_where_it_is_not(launch, hosts):
    one = launch("ssh", spec="h1", env=hosts.variables(), command="/nowhere/no-agent")
    assert one.wait() == 1
    assert "h1: there is no no-agent" in one.failed()[0] and "pip install cellspan" in one.failed()[0]
    assert "CELLSPAN_REMOTE_PREFIX" in one.failed()[0]


def test_ssh_finds_the_agent_in_another_prefix_first(launch, hosts, tmp_path):
    folder = tmp_path / "pre fix" / "libexec" / "cellspan"
    folder.mkdir(parents=True)
    one = launch("ssh", spec="h1", env=dict(hosts.variables(), CELLSPAN_REMOTE_PREFIX=str(tmp_path / "pre fix")))
    one.wait_agents(1)
    assert one.end() == 0, one.said()
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
        one = launch("ssh", spec="h3", env=hosts.variables(), command="/bin/pwd")
        assert one.wait() == 0
    finally:
        hosts.exec("h3", "umount", "-l", str(tmp_path.parent))
    assert one.errors == ["h3: " + pwd.getpwuid(os.getuid()).pw_dir]


def test_ssh_takes_the_settings_of_the_notebook_along(launch, hosts):
    """What names a file or a device of this machine stays here."""
    there = {"CELLSPAN_REMOTE_PYTHON": "/opt/my python/bin/python", "OMP_NUM_THREADS": "3", "CELLSPAN_PRELOAD": "a,b"}
    here = {"CUDA_VISIBLE_DEVICES": "5", "CELLSPAN_PYTHONPATH": "/only/here"}
    one = launch("ssh", spec="h1", env=dict(hosts.variables(), **there, **here), command="/usr/bin/env")
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
    one = launch("ssh", spec="h1,h2", env=hosts.variables())
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


@pytest.mark.parametrize("spec, words", [
    ("h1,h1", "h1 stands in the list twice"), ("", "ssh needs hosts"), ("h1*0", "'h1*0'"), ("h1*2", "-n 9: the hosts of this list"),
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


# ---- slurm ----

@pytest.fixture
def idle(slurm):
    """The cluster, with an empty queue and every node idle."""
    slurm.run("scancel", "--user", "root")
    assert processes.wait_until(lambda: not slurm.queue() and slurm.idle(), LIMIT), slurm.run("sinfo", "-N") + slurm.run("squeue")
    return slurm


def emptied(slurm):
    assert processes.wait_until(lambda: not slurm.queue(), LIMIT), slurm.queue()


def job_id(slurm):
    (line,) = slurm.queue()
    return line.split()[0]


def test_slurm_makes_a_job_with_one_agent_a_node(launch, idle):
    one = launch("slurm", spec="--nodes=2 --gres=gpu:2 --comment='two words'", ranks=4, env=idle.variables(),
                 arguments=["two words", "it's"])
    agents = one.wait_agents(2)
    assert {tuple(words[:3]) for words in agents.values()} == {("0", "n1", "yes"), ("1", "n2", "yes")}, agents
    assert all(words[4:] == ["gpus=0,1", "two", "words", "it's"] for words in agents.values()), agents
    assert one.wait_out(3)[0] == "nodes 2" and sorted(one.out[1:]) == ["node 0 n1", "node 1 n2"]
    assert "cellspan" in idle.queue()[0]
    assert one.end() == 0 and not one.failed(), one.said()
    emptied(idle)
    one.gone()


def test_slurm_takes_one_node_where_nothing_is_said(launch, idle):
    one = launch("slurm", ranks=3, env=idle.variables())
    one.wait_agents(1)
    assert "NumCPUs=3" in idle.run("scontrol", "show", "job", job_id(idle)).replace("NumCPUs=4", "NumCPUs=3")
    assert one.wait_out(1)[0] == "nodes 1"
    assert one.end() == 0, one.said()
    emptied(idle)


@pytest.mark.parametrize("options", ["--nodes=3 --ntasks-per-node=2 --gpus-per-task=1", "--nodes=3 --gpus=6 --ntasks=4"])
def test_slurm_uses_the_job_that_it_is_in_and_all_its_gpus(launch, idle, tmp_path, options):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexec \"$@\"\n")
    script.chmod(0o755)
    env = dict(idle.variables(), SLURM_EXPORT_ENV="NONE", SLURM_LABELIO="1")
    fifo = tmp_path / "fifo"
    os.mkfifo(str(fifo))
    probe = launch("slurm", env=env, program=str(script), command="true")  # only for its script and secret
    probe.wait()
    script.write_text('#!/bin/sh\nexport CELLSPAN_SECRET="%s"\nexec "%s" --ranks 6 -- "%s" <%s >%s/log 2>&1\n'
                      % (probe.secret, launcher("slurm"), probe.agent, fifo, tmp_path))
    said = idle.run("sbatch", "--output=/dev/null", *options.split(), str(script))
    assert "Submitted" in said
    with open(str(fifo), "w"):
        agents = probe.wait_agents(3)
        assert {words[1] for words in agents.values()} == {"n1", "n2", "n3"}, agents
        assert all(words[2] == "yes" and words[4] == "gpus=0,1" for words in agents.values()), agents
        assert len(idle.queue()) == 1
    emptied(idle)
    assert sorted((tmp_path / "log").read_text().splitlines())[-1] == "nodes 3"


def test_slurm_says_why_the_job_waits_and_goes_on(launch, idle):
    first = launch("slurm", spec="--nodes=4 --exclusive", env=idle.variables())
    first.wait_agents(4)
    second = launch("slurm", spec="--nodes=2", env=idle.variables())
    second.wait_line(r"^say job \d+ waits in the queue: (Resources|Priority)")
    assert first.end() == 0, first.said()
    second.wait_agents(2)
    assert second.end() == 0, second.said()
    emptied(idle)


@pytest.mark.parametrize("way", ["stdin", "SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_slurm_leaves_nothing_in_the_queue(launch, idle, way, state):
    first = launch("slurm", spec="--nodes=4 --exclusive", env=idle.variables())
    first.wait_agents(4)
    one = first
    if state == "PENDING":
        one = launch("slurm", spec="--nodes=2 --exclusive", env=idle.variables())
        one.wait_line("^say job")
    if way == "stdin":
        one.process.stdin.close()
    else:
        one.process.send_signal(getattr(signal, way))
    status = one.wait()
    assert status == (-signal.SIGKILL if way == "SIGKILL" else 0), one.said()
    assert processes.wait_until(lambda: len(idle.queue()) == (1 if state == "PENDING" else 0), LIMIT), idle.queue()
    if (state, way) == ("RUNNING", "SIGKILL"):  # srun kills the agents, which can't remove the files that tell of them
        assert processes.gone(one.marker, LIMIT) == []
    else:
        one.gone()
    if state == "PENDING":
        assert first.end() == 0, first.said()
        emptied(idle)


def stand_in_slurm(folder, **programs):
    """Programs of Slurm's that do what these scripts say; gives the environment in which they are found."""
    for name, script in programs.items():
        (folder / name).write_text("#!/bin/sh\n%s\n" % script, encoding="utf-8")
        (folder / name).chmod(0o755)
    return {"PATH": "%s:%s" % (folder, os.environ["PATH"])}


def test_slurm_cancels_its_own_job_however_long_that_takes(launch, tmp_path):
    """A controller that is slow, and an srun that does not end: what is cancelled is the job that srun named."""
    srun = ("trap '' TERM\necho 'limits are those of job 4711' >&2\n"
            "echo 'srun: job 12 queued and waiting for resources' >&2\nwhile :; do sleep 0.2; done")
    one = launch("slurm", spec="--nodes=1", env=stand_in_slurm(
        tmp_path, srun=srun, squeue="echo 'PENDING|Resources|N/A'", scancel="sleep 4\necho \"$*\" >>%s/cancelled" % tmp_path))
    one.wait_line("^say job [0-9]+ waits in the queue: Resources")
    one.end()
    cancelled = tmp_path / "cancelled"
    assert processes.wait_until(cancelled.exists, LIMIT), one.said()
    one.gone()
    assert set(cancelled.read_text(encoding="utf-8").split()) == {"12"}


@pytest.mark.parametrize("before", ["", "srun: error: n1: task 0: Segmentation fault"])
def test_slurm_blames_nobody_for_ending_when_told_to(launch, tmp_path, before):
    """Told before it knows of all tasks it does not wait for them: Slurm ends them, and srun calls that an error."""
    srun = ("trap 'echo \"srun: error: n1: tasks 0-1: Terminated\" >&2; exit 143' TERM\n"
            "echo '0: cellspan-launch: task 0 2 12 n1'\necho '%s' >&2\necho it runs >&2\nwhile :; do sleep 0.2; done" % before)
    one = launch("slurm", spec="--nodes=2", env=stand_in_slurm(tmp_path, srun=srun, squeue="", scancel=""))
    one.wait_line("^node 0 n1")
    one.wait_line("^it runs$")
    assert one.end() == (1 if before else 0), one.said()
    assert one.failed() == ({0: "n1: stand-in ended: Segmentation fault"} if before else {}), one.said()


@pytest.mark.parametrize("spec, words", [
    ("--partition=nope", "invalid partition specified: nope"), ("--gres=gpu:9", "Requested node configuration is not available"),
    ("--nodes=9", "can't start as it was asked for: PartitionNodeLimit"), ("--bogus=1", "unrecognized option '--bogus=1'"),
])
def test_slurm_shows_its_refusals(launch, idle, spec, words):
    one = launch("slurm", spec=spec, env=idle.variables())
    assert one.wait() == 1
    assert words in "\n".join(one.errors), one.said()
    emptied(idle)


@pytest.mark.parametrize("spec, words", [
    ("--ntasks=3", "--ntasks=3 can't be used here"), ("--nodes=2 -o file", "-o can't be used here"), ("gpu", "'gpu' is no option"),
    ("--comment='x", "a ' has no end"),
])
def test_slurm_refuses_what_would_break_it(launch, slurm, spec, words):
    one = launch("slurm", spec=spec, env=slurm.variables())
    assert one.wait() == 2
    assert words in one.errors[0] and not one.out


def test_slurm_absent_is_said(launch, tmp_path):
    one = launch("slurm", env={"PATH": str(tmp_path)})
    assert one.wait() == 2
    assert "there is no srun on PATH" in one.errors[0]


def test_slurm_tells_that_its_job_was_cancelled(launch, idle):
    one = launch("slurm", spec="--nodes=2", env=idle.variables())
    one.wait_agents(2)
    idle.run("scancel", job_id(idle))
    assert one.wait() == 1
    assert sorted(one.failed()) == [0, 1]
    assert all(re.search(r"^n\d: Slurm ended job \d+.*CANCELLED", text) for text in one.failed().values()), one.said()
    emptied(idle)


def test_slurm_goes_on_when_a_node_is_lost(launch, idle):
    one = launch("slurm", spec="--nodelist=n[3-4]", env=idle.variables())
    one.wait_agents(2)
    try:
        idle.run("scontrol", "update", "nodename=n4", "state=down", "reason=test")
        assert processes.wait_until(one.failed, LIMIT), one.said()
        assert "n4: " in one.failed()[1] and "Node failure on n4" in one.failed()[1] and list(one.failed()) == [1]
        assert one.process.poll() is None and 0 in one.agents()
        assert one.end() == 1, one.said()
    finally:
        idle.run("scontrol", "update", "nodename=n4", "state=resume")


def test_slurm_names_the_nodes_without_cellspan(launch, idle):
    one = launch("slurm", spec="--nodes=2", env=idle.variables(), command="/nowhere/no-agent")
    assert one.wait() == 1
    assert {text.split(":")[0] for text in one.failed().values()} == {"n1", "n2"}, one.said()
    assert all("pip install cellspan" in text for text in one.failed().values()), one.said()


def test_slurm_runs_on_hosts_of_their_own(launch, hosts, slurm_on_hosts):
    one = launch("slurm", spec="--nodes=3", env=slurm_on_hosts.variables())
    agents = one.wait_agents(3)
    assert {words[1] for words in agents.values()} == {"n1", "n2", "n3"}
    assert one.end() == 0, one.said()
    emptied(slurm_on_hosts)
