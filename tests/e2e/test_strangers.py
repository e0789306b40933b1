# SPDX-License-Identifier: BSD-3-Clause
"""Strangers at every listening port and on the same machine: they are refused, counted and logged once, and no secret can be seen.

The kernel and the agents on this machine are real. The test's own engine starts the agents: it records the run's secret, as any
process of the engine could, and sends the agents' connections through a proxy that records them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess

import processes
import pytest
import zmq
from client import Notebook
from strangers import (BEAT, LIMIT, LINES, NASTY, NOBODY, REFUSE, ROUTE_KERNEL, SEEKER, WELCOME, Place, agent_keys, answered, dial,
                       entry, hello, kernel_key, listening, message, raw, say, text)
from zmq.utils import z85


@pytest.fixture
def place(tmp_path):
    made = Place(str(tmp_path))
    yield made
    made.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A notebook with ranks on two agents, between which a large variable has travelled. The tests share it, in their order."""
    place = Place(str(tmp_path_factory.mktemp("run")))
    nb = Notebook(env=place.env)
    nb.place = place
    nb.quiet_ports = listening(processes.marked(nb.marker))
    nb.ok("big = bytes(3 << 20)\ndef size():\n    return len(big)")
    starting = nb.start("%%distribute -n 4 --on odd:both --gather\nsize()")
    nb.handed = place.handed("both")
    nb.wait(starting, LIMIT).assert_ok()
    assert starting.value == "[3145728, 3145728, 3145728, 3145728]"
    nb.go = os.path.join(place.folder, "go")
    yield nb
    nb.close()
    place.close()
    assert not nb.left, "left over after shutdown:\n" + "\n".join(nb.left)


@contextlib.contextmanager
def running(nb):
    """A cell that runs all the while, is not disturbed, and after which the ranks know what they knew."""
    cell = nb.start("%%%%distribute\nimport os, time\nprint('on', flush=True)\nwhile not os.path.exists(%r):\n    time.sleep(.05)" % nb.go)
    try:
        nb.wait_shown(cell, "on")
        yield
        assert not cell.ended
    finally:
        with open(nb.go, "w", encoding="utf-8"):
            pass
        nb.wait(cell, LIMIT)
        os.unlink(nb.go)
    cell.assert_ok()
    assert nb.ok("%%distribute --gather\nsize() + 1").value == "[3145729, 3145729, 3145729, 3145729]"


def agents_of(nb):
    return [pid for pid in processes.named(nb.marker, "cellspan-agent") if "tcp://" in processes.command(pid)
            and "cellspan-launch" not in processes.command(pid)]


# ---- what listens ----


def test_only_jupyters_ports_listen_until_there_are_remote_ranks(run):
    place = run.place
    assert len(run.quiet_ports) == 5 and {ip for _, ip, _ in run.quiet_ports} == {"127.0.0.1"}, run.quiet_ports
    now = listening(processes.marked(run.marker)) - run.quiet_ports
    assert {(program, port) for program, _, port in now if program == "cellspan-kernel"} == {("cellspan-kernel", place.agents_port)}, now
    others = {program for program, _, _ in now} - {"cellspan-kernel"}
    assert others == {"cellspan-agent"}, "agents' ports, for variables that go from one to the other, and nobody else's: %s" % now


# ---- strangers on every port ----


def knock(port, context, keys):
    """All that is no message: garbage, half a handshake, other mechanisms, keys that are not known or wrong."""
    for name, content in NASTY.items():
        assert b"MESSAGE" not in raw(port, content, 0.01), name
    known, unknown = keys, zmq.curve_keypair()
    dealers = [dial(context, port, None, None)]
    plain = context.socket(zmq.DEALER)
    plain.linger, plain.reconnect_ivl = 0, -1
    plain.plain_username, plain.plain_password = b"kernel", b"secret"
    plain.connect("tcp://127.0.0.1:%d" % port)
    dealers.append(plain)
    if known:
        server, used = known
        dealers += [dial(context, port, server, unknown), dial(context, port, zmq.curve_keypair()[0], used), dial(context, port, server, used)]
    for dealer in dealers:
        for frames in ([entry(ROUTE_KERNEL, 0, hello())], [b""], [b"\xff" * 300] * 3, [entry(1, 2, message(LINES, bytes(20)))]):
            say(dealer, *frames)
    return dealers


def nobody_is_answered(dealers, milliseconds=300):
    for dealer in dealers:
        assert answered(dealer, milliseconds) is None
        milliseconds = 0
        dealer.close()


KERNEL_SAYS = ("refused: a connection that has a key that this kernel gave nobody",
               "refused: a connection that has the key of an agent that is here, or was",
               "refused: a connection that ended before it had said who it is")
AGENTS_SAY = ("a connection with a key that is not expected", "a connection that does not speak as agents do")


def test_strangers_are_refused_everywhere_and_the_cell_goes_on(run):
    place = run.place
    secret = run.handed["secret"]
    with running(run):
        dealers = []
        for program, _, port in sorted(listening(processes.marked(run.marker)) - run.quiet_ports):
            server = kernel_key(secret) if program == "cellspan-kernel" else agent_keys(secret, 0)[0]
            dealers += knock(port, place.context, (server, agent_keys(secret, 0)))
            dealers += knock(port, place.context, (server, agent_keys(secret, 1)))
        for _, _, port in run.quiet_ports:
            for name, content in NASTY.items():
                assert b"MESSAGE" not in raw(port, content, 0.01), name
            lost = dial(place.context, port, kernel_key(secret), agent_keys(secret, 0))
            say(lost, b"x")
            dealers.append(lost)
        for words in KERNEL_SAYS + AGENTS_SAY:  # none of them ends before it is refused
            assert place.told(words), (words, place.log())
        nobody_is_answered(dealers)
    for words in KERNEL_SAYS:
        assert len(place.logged(words)) == 1, (words, place.log())
    for words in AGENTS_SAY:
        assert 1 <= len(place.logged(words)) <= len(agents_of(run)), place.log()
    no_secret_in(place.log(), run)


def test_what_an_agent_sent_is_worth_nothing_a_second_time(run):
    place = run.place
    with running(run):
        tape = max((bytes(tape) for tape in place.proxy.recorded), key=len)
        assert len(tape) > 500
        for size in (64, 200, 264, 265, 400, len(tape)):
            raw(place.agents_port, tape[:size], 0.05)
        streams = [socket.create_connection(("127.0.0.1", place.agents_port)) for _ in range(8)]
        for stream in streams:  # slowly, as an agent does: each part when the kernel has answered the one before
            stream.settimeout(0.2)
            for begins, ends in ((0, 64), (64, 266), (266, len(tape))):
                try:
                    stream.sendall(tape[begins:ends])
                    stream.recv(4096)
                except OSError:
                    pass
            stream.close()
    assert not place.logged("says HELLO for"), place.log()


# ---- a key of one's own ----


@pytest.fixture
def spare(place, fresh):
    """A notebook that waits for two agents: one has come, the other is the test's."""
    nb = fresh(env=place.env)
    nb.cell = nb.start("%%distribute -n 2 --on odd:one\nimport os\nos.environ['RANK']")
    nb.handed = place.handed("one")
    assert processes.wait_until(lambda: place.proxy.recorded and len(place.proxy.recorded[-1]) > 600, LIMIT)
    secret = nb.handed["secret"]
    nb.dial = lambda **how: dial(place.context, place.agents_port, kernel_key(secret), agent_keys(secret, 1), **how)
    return nb


def test_a_key_is_good_for_one_agent(spare, place):
    first, second = spare.dial(), spare.dial(admitted=True)
    second.send(b"")  # connected, and says nothing yet
    first.send(entry(ROUTE_KERNEL, 0, hello()))
    assert answered(first, LIMIT * 1000)[-1][1] == WELCOME
    say(second, entry(ROUTE_KERNEL, 0, hello()))
    third = spare.dial()
    say(third, entry(ROUTE_KERNEL, 0, hello()))
    first.send(entry(ROUTE_KERNEL, 0, hello()))
    assert answered(second, 300) is None and answered(third, 0) is None
    for words in ("says HELLO again", "says HELLO for an agent that is here", "has the key of an agent that is here, or was"):
        assert place.told(words) and len(place.logged(words)) == 1, (words, place.log())
    first.close()
    fourth = spare.dial()
    say(fourth, entry(ROUTE_KERNEL, 0, hello()))
    assert answered(fourth, 300) is None
    second.close(), third.close(), fourth.close()


def test_an_agent_that_misbehaves_harms_itself_only(spare, place):
    agent = spare.dial()
    wild = [b"", b"\0", b"\xff" * 64, entry(1, 0, b""), entry(1, 0, hello())[:-1], struct.pack("<III", 1, 0, 0xFFFFFFFF) + b"x"]
    for bundle in wild:
        agent.send(bundle)
        agent.send_multipart([bundle, bundle, bundle])
    agent.send(entry(ROUTE_KERNEL, 0, hello(node=b"n" * 100000)))
    agent.send(entry(ROUTE_KERNEL, 0, hello(addresses=b"=,,=,\xff\xfe=1,eth0,eth0=" + b"9" * 4000)))
    agent.send(entry(ROUTE_KERNEL, 0, message(BEAT, bytes(16))))
    agent.send(entry(ROUTE_KERNEL, 0, hello(addresses=b"=,,=,eth0,eth0=tcp://[::]:1,=" + b"9" * 4000)))
    assert answered(agent, LIMIT * 1000)[-1][1] == WELCOME
    lines = message(LINES, struct.pack("<QQ", 1, 0) + text(b"I am another\n"))
    for _ in range(50):
        for node, worker in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 1), (2, 77), (3, 0), (65535, 9), (2, 0xFFFFFFFF)):
            agent.send(entry(node, worker, lines))
        for bundle in wild:
            agent.send(bundle)
        agent.send(entry(2, 0, b"\x02\xee" + bytes(60)) + entry(2, 0, message(BEAT)))
        agent.send(entry(ROUTE_KERNEL, 0, hello()))
        agent.send(entry(ROUTE_KERNEL, 0, hello(3)))
    for kind in range(256):
        agent.send(entry(2, 0, message(kind)))
        agent.send(entry(2, 0, message(kind, bytes(64))))
    assert spare.ok("1 + 1", limit=LIMIT).value == "2" if spare.cell.ended else True
    agent.close()  # it is lost, and takes its ranks along; the notebook goes on
    spare.wait(spare.cell, LIMIT)
    assert "I am another" not in spare.cell.shown
    assert spare.ok("1 + 1").value == "2"
    repeated = [line.split("] ", 1)[-1] for line in place.log().splitlines() if " warn " in line or "warning" in line.lower()]
    assert len(repeated) < 40, "a line for each reason:\n" + "\n".join(repeated[:60])
    no_secret_in(place.log(), spare)


@pytest.mark.parametrize("version, words", [(1, b"older than the kernel's"), (3, b"older than the agent's"), (255, b"older than the agent's")])
def test_another_version_is_told_which_side_to_update(spare, place, version, words):
    agent = spare.dial()
    for _ in range(20):
        if version == 1:
            say(agent, bytes(12), hello(1))
        else:
            say(agent, entry(ROUTE_KERNEL, 0, hello(version)))
    frames = answered(agent, LIMIT * 1000)
    assert frames[-1][:2] == bytes([version, REFUSE]) and words in frames[-1], frames
    spare.wait(spare.cell, LIMIT)
    assert words.decode() in spare.cell.shown, spare.cell.shown
    assert len(place.logged(words.decode() + " (it speaks")) <= 2, place.log()
    agent.close()


def test_frames_over_the_limit_end_the_connection_and_take_no_memory(spare, place):
    before = processes.pss(spare.pid)
    agent = spare.dial()
    agent.send(bytes(330 << 20), copy=False)
    say(agent, entry(ROUTE_KERNEL, 0, hello()))
    assert answered(agent, 500) is None
    assert processes.pss(spare.pid) - before < 60, "it was refused before it was taken in"
    agent.close()
    good = spare.dial()
    good.send(entry(ROUTE_KERNEL, 0, hello()))
    assert answered(good, LIMIT * 1000)[-1][1] == WELCOME
    good.close()


# ---- secrets ----


def needles(nb):
    """What nobody else is to see, as bytes."""
    handed = nb.handed["secret"]
    private = [z85.decode(agent_keys(handed, k)[1]) for k in (0, 1)]
    key = nb.km.session.key
    found = [handed.split(":")[2].encode(), bytes.fromhex(handed.split(":")[2]), key]
    for one in private:
        found += [one, one.hex().encode(), z85.encode(one)]
    return found


def no_secret_in(content, nb):
    for needle in needles(nb):
        assert needle not in (content if isinstance(content, bytes) else content.encode())


@contextlib.contextmanager
def reachable(*paths):
    """All folders above these are open to everybody, so that only the files' own modes are left; then as before."""
    folders = {}
    for path in paths:
        while os.path.dirname(path) != path:
            path = os.path.dirname(path)
            folders.setdefault(path, os.stat(path).st_mode & 0o7777)
    try:
        for folder, mode in folders.items():
            os.chmod(folder, mode | 0o055)
        yield
    finally:
        for folder, mode in folders.items():
            os.chmod(folder, mode)


def test_other_users_of_this_machine_see_no_secret(run):
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    if os.getuid() != 0 or not python:
        pytest.skip("only root can be another user, who needs a Python")
    log, handed, connection = run.place.log_file, os.path.join(run.place.folder, "both"), run.km.connection_file
    os.chmod(handed, 0o600)  # the engine's copy is this test's own
    sockets = re.findall(r"/\S*/cellspan-%d-[^/ ]+/\S+" % run.pid, processes.read(os.getpid(), "net/unix").decode())
    assert sockets
    said = "import socket, sys\nfor path in sys.argv[1:]:\n    try:\n        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(path)" \
           "\n        print(path)\n    except OSError:\n        pass\n"
    other = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "text": True, "capture_output": True, "cwd": "/", "check": True}
    with running(run):
        with reachable(connection, log):
            assert os.stat(connection).st_mode & 0o077 == 0 and os.stat(log).st_mode & 0o077 == 0
            found = subprocess.run([python, "-S", "-c", SEEKER, connection, log, run.place.folder] + sorted({os.path.dirname(path) for path in sockets}),
                                   input="\n".join(needle.hex() for needle in needles(run)), **other)
            reached = subprocess.run([python, "-S", "-c", said] + sockets, **other)
    *places, seen = found.stdout.splitlines()
    assert places == [] and int(seen.split()[1]) > 50, found.stdout + found.stderr
    assert reached.stdout == ""


def test_no_process_shows_the_secret_in_arguments_or_after_it_was_taken(run):
    place = run.place
    secret = run.handed["secret"].encode()
    engine = run.handed["pid"]
    assert secret in processes.read(engine, "environ"), "that is how the engine gets it"
    for pid in processes.marked(run.marker):
        for needle in needles(run):
            assert needle not in processes.read(pid, "cmdline"), processes.command(pid)
            assert needle not in processes.read(pid, "environ") or pid == engine, processes.command(pid)
    assert processes.wait_until(lambda: len(agents_of(run)) == 2, LIMIT), agents_of(run)  # a child has its parent's words until it has its own
    assert run.ok("import os\n[name for name in os.environ if 'SECRET' in name or name == 'CELLSPAN_AGENT']").value == "[]"
    for where in ("os.environ", "[name.split('=')[0] for name in open('/proc/self/environ').read().split('\\0')]"):
        assert run.ok("%%%%distribute --gather\nimport os\n[name for name in %s if 'SECRET' in name or name == 'CELLSPAN_AGENT']" % where).value == str([[]] * 4)
    shown = run.ok("%ranks").shown + run.ok("%ranks where").shown
    shown += run.run("%%distribute\nraise ValueError('x')").shown
    no_secret_in(shown + place.log(), run)


# ---- a flood, and the counts at the end ----


def test_a_flood_of_strangers_does_not_keep_a_cell_from_running(run):
    place = run.place
    with running(run):
        agents = sorted(port for program, _, port in listening(processes.marked(run.marker)) - run.quiet_ports)
        for k in range(2000):
            raw(agents[k % len(agents)], list(NASTY.values())[k % len(NASTY)])
        unknown = [dial(place.context, place.agents_port, kernel_key(run.handed["secret"]), zmq.curve_keypair()) for _ in range(100)]
        assert run.control("kernel_info_request", limit=LIMIT)["status"] == "ok"
        nobody_is_answered(unknown)
    assert len(place.logged("ended before it had said who it is")) == 1
    for pid in agents_of(run):
        os.kill(pid, signal.SIGKILL)
    lost = run.run("%%distribute\nsize()", limit=LIMIT)
    no_secret_in(lost.shown + json.dumps(lost.reply), run)
    run.km.shutdown_wait_time = LIMIT
    run.km.shutdown_kernel()
    no_secret_in(place.log(), run)
    counts = [int(n) for n in re.findall(r"refused in all: (\d+) connections", place.log())]
    assert sum(counts) >= 2000 / len(agents), place.log()[-2000:]


# ---- Jupyter's channels with encryption ----


def test_encrypted_channels_admit_the_clients_key_only(fresh, place):
    nb = fresh(env=place.env, transport_encryption="required")
    with open(nb.km.connection_file, encoding="utf-8") as file:
        connection = json.load(file)
    ours = connection["curve_publickey"].encode(), connection["curve_secretkey"].encode()
    dealers = []
    for name in ("shell", "control", "stdin", "iopub", "hb"):
        dealers += knock(connection[name + "_port"], place.context, None)
        for server, keys in ((ours[0], zmq.curve_keypair()), (zmq.curve_keypair()[0], ours)):
            if name != "hb":
                dealers.append(dial(place.context, connection[name + "_port"], server, keys))
                say(dealers[-1], b"x")
    for _ in range(50):
        dealers.append(dial(place.context, connection["shell_port"], ours[0], zmq.curve_keypair()))
    assert place.told("turned away"), place.log()
    nobody_is_answered(dealers)
    assert nb.ok("1 + 1").value == "2"
    assert len(place.logged("turned away")) == 1, place.log()
    assert connection["curve_secretkey"] not in place.log() and connection["key"] not in place.log()
