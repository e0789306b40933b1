# SPDX-License-Identifier: BSD-3-Clause
"""`cellspan ps --all` on a machine that several unix users share: what root sees, what the others see, and what one of them can do to
what root sees."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest
import zmq
from jupyter_client.session import Session
from processes import wait_until
from test_gpus import Machine, doubles  # noqa: F401  (a fixture)

ANN = 200_000 + os.getpid() % 50_000 * 2  # another run of the tests on this machine has other users
BOB = ANN + 1
UUID = "GPU-a00%d1234-0000-4000-8000-0123456789ab"
HOLDS = """
import fcntl, os, struct, sys, time
file = open(sys.argv[1], "r+")
fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
file.truncate(0)
file.write(sys.argv[2])
file.flush()
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def machine(users, doubles):  # noqa: F811
    """A machine with four GPUs, which all users may use."""
    folder = pathlib.Path(users.folder)
    machine = Machine(folder, {name: shutil.copy(path, folder) for name, path in doubles.items()})
    machine.leases.mkdir()
    machine.leases.chmod(0o1777)
    return machine


def all_of(cellspan, machine):
    code, out, err = cellspan("ps", "--all", "--json", **machine.environment)
    assert (code, err) == (0, ""), err
    told = json.loads(out)
    return {one["pid"]: one for one in told["notebooks"]}, {card["label"]: card for card in told["gpus"]}


def rows_of(cellspan, machine, **more):
    code, out, err = cellspan("ps", "--all", **machine.environment, **more)
    assert (code, err) == (0, ""), err
    return out.splitlines()


def program_of(cellspan):
    return os.path.join(os.path.dirname(os.path.realpath(shutil.which("cellspan", path=cellspan.env["PATH"]))), "cellspan")


def test_root_sees_who_holds_which_gpu_and_what_runs(cellspan, users, machine):
    ann = users.notebook(ANN, env=dict(machine.environment, JPY_SESSION_NAME="/books/ann.ipynb"))
    bob = users.notebook(BOB, env=dict(machine.environment, JPY_SESSION_NAME="/books/bob.ipynb"))
    ann.ok("%%distribute -n 2\n1")
    machine.set("count 4", "use 0 87", "memory 0 40960")
    cell = bob.start("%%distribute -n 1\nimport time\ntime.sleep(600)")
    assert wait_until(lambda: (all_of(cellspan, machine)[0][bob.pid].get("cell") or {}).get("seconds", 0) > 1, 60)
    notebooks, cards = all_of(cellspan, machine)
    assert (notebooks[ann.pid]["uid"], notebooks[bob.pid]["uid"]) == (ANN, BOB)
    assert notebooks[ann.pid]["notebook"] == "/books/ann.ipynb" and notebooks[ann.pid]["cell"] is None
    assert notebooks[ann.pid]["idle"] > 0 and notebooks[bob.pid]["idle"] == 0
    assert [[one["uid"] for one in card["held"]["holders"]] if card["held"] else None for card in cards.values()] == [[ANN], [ANN], [BOB], None]
    assert cards["0"]["use"] == 87 and cards["0"]["used"] == 40960 << 20 and cards["0"]["uuid"].startswith("GPU-a00")
    assert abs(cards["0"]["held"]["since"] - time.time()) < 300
    rows = rows_of(cellspan, machine)
    row = next(row for row in rows if row.startswith("%d " % bob.pid))
    assert re.search(r" %d +/books/bob.ipynb +1 \(1 busy\) +this machine +In \[\d+\] 0:\d\d .* - +\d+:\d\d$" % BOB, row), row
    row = next(row for row in rows if row.startswith("%d " % ann.pid))
    assert re.search(r" %d +/books/ann.ipynb +2 +this machine +- .* 2 +\d:\d\d +\d:\d\d$" % ANN, row), row
    card = next(row for row in rows if row.startswith("0 "))
    assert re.search(r"^0 +NVIDIA A100\S* +87 % +40.0 GiB of 80.0 GiB +\d:\d\d +\d:\d\d +", card), card
    assert "%d, %d /books/ann.ipynb" % (ANN, ann.pid) in card
    assert re.search(r"^3 .* - +- +nobody$", "\n".join(rows), re.M), rows
    bob.km.interrupt_kernel()
    bob.wait(cell)


def test_others_see_their_own_notebooks_and_what_the_leases_say(cellspan, users, machine):
    ann = users.notebook(ANN, env=dict(machine.environment, JPY_SESSION_NAME="/books/ann.ipynb"))
    ann.ok("%%distribute -n 2\n1")
    for user, sees in ((users[ANN], True), (users[BOB], False)):
        done = user.run(program_of(cellspan), "ps", "--all", env=machine.environment)
        assert done.returncode == 0 and "notebooks of other users are shown to root only" in done.stderr, done
        assert (str(ann.pid) in [row.split()[0] for row in done.stdout.splitlines() if row]) == sees, done.stdout
        told = json.loads(user.run(program_of(cellspan), "ps", "--all", "--json", env=machine.environment).stdout)
        assert [one["pid"] for one in told["notebooks"]] == ([ann.pid] if sees else [])
        assert [len(card["held"]["holders"]) if card["held"] else None for card in told["gpus"]] == [int(sees), int(sees), None, None]
    assert re.search(r"its lease says: user\S*%d \(pid \d+, since \d\d:\d\d\)" % ANN, done.stdout), done.stdout
    assert "ann.ipynb" not in done.stdout, "which notebook it is only she may know"
    assert "no kernel of cellspan's runs as this user" in done.stdout


def test_what_a_lease_says_does_not_deceive_root(cellspan, users, machine):
    """Any user may write to a lease's file, lock it, and put others beside it."""
    ann, bob = users.notebook(ANN, env=machine.environment), users[BOB]
    ann.ok("%%distribute -n 1\n1")
    first = machine.leases / (UUID % 0)
    text = "root, <b>\x1b[2J\u202e.ipynb (pid 1, since 00:00)"
    bob.run("sh", "-c", "printf %%s '%s' >%s" % (text, first))
    assert first.read_text() == text
    os.utime(first, (1e9, 1e9))  # as any user can who has just written to it
    planted = machine.leases / "GPU-0000"
    bob.run("sh", "-c", "touch %s; mkfifo %s/GPU-1111; ln -s /etc/passwd %s/GPU-2222; rm -f %s" % (planted, machine.leases, machine.leases, first))
    taken = machine.leases / (UUID % 3)
    bob.run("sh", "-c", "umask 0; touch %s" % taken)
    holder = bob.start("/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable, "-c", HOLDS, str(taken),
                       "ann, her.ipynb (pid %d, since 00:00)" % ann.pid, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        cards = all_of(cellspan, machine)[1]
        assert sorted(cards) == ["0", "1", "2", "3"], "GPUs that the driver does not know are none"
        assert [one["uid"] for one in cards["0"]["held"]["holders"]] == [ANN], "who deletes a lease in a sticky folder has no success"
        assert [(one["uid"], one["pid"]) for one in cards["3"]["held"]["holders"]] == [(BOB, holder.pid)]
        assert time.time() - cards["0"]["held"]["since"] < 300, "no longer than its agent has run"
        shown = "\n".join(rows_of(cellspan, machine))
        assert "%d, pid %d python3" % (BOB, holder.pid) in shown and "her.ipynb" not in shown and "\x1b" not in shown, shown
        told = users[BOB].run(program_of(cellspan), "ps", "--all", env=machine.environment).stdout
        assert "\x1b" not in told and "\u202e" not in told, told
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_programs_that_pretend_to_be_kernels_hold_up_nobody(cellspan, users, machine):
    name = "/x/\x1b[2J\u202e\u009b\x7f\u2066\u061c\u200f<script>alert(1)</script>.ipynb"
    ann = users.notebook(ANN, env=dict(machine.environment, JPY_SESSION_NAME=name))
    bob = users[BOB]
    fake = shutil.copy(shutil.which("bash"), os.path.join(users.folder, "cellspan-kernel"))
    os.mkfifo(bob.home + "/fifo")
    os.chmod(bob.home + "/fifo", 0o666)
    secret = os.path.join(users.folder, "secret")
    with open(secret, "w", encoding="ascii") as file:
        file.write('{"secret of": "root"}')
    os.chmod(secret, 0o600)
    argv = [[fake, "-c", "read word", "-f", place] for place in (bob.home + "/fifo", secret, "/dev/zero", b"\xff\xfe.json", "/nowhere")]
    fakes = [bob.start(*words, env={"JPY_SESSION_NAME": name}, stdin=subprocess.PIPE) for words in argv]
    try:
        notebooks = all_of(cellspan, machine)[0]
        assert notebooks[ann.pid]["status"] == "ok" and notebooks[ann.pid]["notebook"] == name
        for one in fakes:
            assert notebooks[one.pid]["uid"] == BOB and "status" not in notebooks[one.pid], notebooks[one.pid]
        assert "Permission denied" in notebooks[fakes[1].pid]["error"], "root reads it as the user could"
        for form in ("--json", "--brief"):
            assert not re.search("[^\n -~]", cellspan("ps", "--all", form, **machine.environment)[1]), "a terminal obeys no character of JSON"
        shown = "\n".join(rows_of(cellspan, machine))
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown) and "??" in shown, shown
        assert len(re.findall(r" %d .* no answer " % BOB, shown)) == len(fakes), shown
    finally:
        for one in fakes:
            one.communicate(b"\n")


@pytest.fixture
def fakes(users):
    """Starts programs that pretend to be kernels."""
    program, started = shutil.copy(shutil.which("bash"), os.path.join(users.folder, "cellspan-kernel")), []

    def start(file, user=None, before=(), **options):
        words = [*before, program, "-p", "-c", "read word", "-f", file]  # -p: it keeps two users' rights
        make = user.start if user else subprocess.Popen
        started.append(make(*words, stdin=subprocess.PIPE, **options) if user else make(words, stdin=subprocess.PIPE, **options))
        return started[-1].pid

    yield start
    for one in started:
        one.communicate(b"\n")


def connection(folder, name, uid, **more):
    """A connection file of a user's. Nobody listens there."""
    path = os.path.join(folder, name)
    ports = {port: 1 + k for k, port in enumerate(("shell_port", "control_port", "stdin_port", "iopub_port", "hb_port"))}
    with open(path, "w", encoding="ascii") as file:
        json.dump(dict({"transport": "tcp", "ip": "127.0.0.1", "key": "k", "signature_scheme": "hmac-sha256", **ports}, **more), file)
    os.chown(path, uid, uid)
    return path


def test_no_name_of_another_user_is_looked_up(cellspan, users, machine, fakes):
    """What looks up names runs libraries that a configuration names."""
    bob = users[BOB]
    pids = [fakes(connection(bob.home, "%d.json" % k, BOB, ip=ip), bob) for k, ip in enumerate(("localhost", "evil.example", "lo;127.0.0.1"))]
    os.symlink(connection(bob.home, "real.json", BOB), bob.home + "/link.json")
    link = fakes(bob.home + "/link.json", bob)
    own = fakes(connection(users.folder, "own.json", 0, ip="localhost"))
    notebooks = all_of(cellspan, machine)[0]
    for pid in pids:
        assert "only an address in numbers is used" in notebooks[pid]["error"], notebooks[pid]
    assert "a link" in notebooks[link]["error"]
    assert "it does not answer" in notebooks[own]["error"], "root may use names"


def test_roots_kernels_elsewhere_and_of_two_users_are_not_asked(cellspan, users, machine, fakes):
    path = connection(users.folder, "root.json", 0)
    away = {kind: fakes(path, before=("unshare", "--propagation", "unchanged", "--mount") if kind == "mnt" else ("unshare", "--net")) for kind in ("mnt", "net")}
    planted = fakes(connection(users.folder, "planted.json", BOB))
    both = fakes(path, preexec_fn=lambda: os.setresuid(BOB, 0, 0))
    assert wait_until(lambda: all(b"cellspan-kernel" in pathlib.Path("/proc/%d/cmdline" % pid).read_bytes().split(b"\0")[0] for pid in away.values()), 60)
    notebooks = all_of(cellspan, machine)[0]
    for kind, pid in away.items():
        assert notebooks[pid]["asked"] is False and "not asked" in notebooks[pid]["error"], (kind, notebooks[pid])
    assert "root reads only regular files of root's" in notebooks[planted]["error"], "such as sudo's"
    assert notebooks[both]["uid"] == BOB and "more than one user" in notebooks[both]["error"], "such as su's"
    shown = "\n".join(rows_of(cellspan, machine))
    assert len(re.findall(" not asked ", shown)) == 2, shown
    code, out, err = cellspan("stop", str(away["mnt"]), **machine.environment)
    assert code == 0 and "has ended" in out, "it gets SIGTERM: (%s)" % err


def test_many_that_are_silent_hold_up_only_their_user(cellspan, users, machine, fakes):
    bob, ann = users[BOB], users.notebook(ANN, env=machine.environment)
    file = connection(bob.home, "silent.json", BOB)
    pids = [fakes(file, bob) for _ in range(70)]
    told = json.loads(cellspan("ps", "--all", "--json", **machine.environment)[1])
    notebooks = {one["pid"]: one for one in told["notebooks"]}
    assert notebooks[ann.pid]["status"] == "ok"
    assert {"uid": BOB, "notebooks": 6} in told["left_out"]
    assert sum("it does not answer" in notebooks[pid]["error"] for pid in pids if pid in notebooks) == 64
    assert "and 6 more of %d" % BOB in rows_of(cellspan, machine)


def test_names_without_measure_are_not_kept(cellspan, users, machine, fakes):
    long = fakes("/" + "f" * 60000, users[BOB], env={"JPY_SESSION_NAME": "/x\u20ac" + "\u20ac" * 20000})
    own = fakes("/nowhere", env=dict(os.environ, JPY_SESSION_NAME="n" * 5000))
    notebooks = all_of(cellspan, machine)[0]
    assert len(notebooks[long]["connection_file"]) == 4096 and "connection file /fff" in notebooks[long]["error"]
    assert notebooks[long]["notebook"] == "\u20ac" * 341
    assert notebooks[own]["notebook"] == "n" * 5000


def told_with(cellspan, users, machine, fakes, content, *forms):
    """The pid of a kernel of Bob's that answers so, and what `ps --all` prints meanwhile, for each form: "" or one of its options."""
    session, told = Session(key=b"k"), []
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = 0
        pid = fakes(connection(users[BOB].home, "odd.json", BOB, control_port=socket.bind_to_random_port("tcp://127.0.0.1")), users[BOB])
        for form in forms:
            asking = cellspan("ps", "--all", *form.split(), start=True, **machine.environment)
            try:
                assert socket.poll(100000), "it asks"
                names, asked = session.feed_identities(socket.recv_multipart())
                session.send(socket, "cellspan_overview_reply", content, parent=session.deserialize(asked), ident=names)
                told.append(asking.communicate(timeout=100)[0])
            finally:
                asking.kill()
                asking.communicate()
    return pid, *told


@pytest.mark.parametrize("content, error", [
    ({"x": "y" * (3 << 20)}, "it answers at a length that nobody reads"),
    ({"x": [{}] * 140000}, "it answers at a length that nobody reads"),
    ({"x": [{}] * 340000}, "it gives an answer that takes too much memory"),
], ids=["long", "many values", "more values"])
def test_an_answer_without_measure_is_not_kept(cellspan, users, machine, fakes, content, error):
    ann = users.notebook(ANN, env=machine.environment)
    pid, text = told_with(cellspan, users, machine, fakes, content, "--json")
    told = {one["pid"]: one for one in json.loads(text)["notebooks"]}
    assert told[ann.pid]["status"] == "ok" and error in told[pid]["error"], told[pid]


HOSTILE = {"status": "ok", "idle": -1e300, "cell": {"count": "x", "seconds": 1e308, "code": "secret"}, "gpus": -5, "home_runs": [], "version": "v" * 9999,
           "asked": 1, "table": {"on": "o" * 99999, "ranks": [{"pid": 1, "memory": -7, "gpu": "," * 5000, "state": "running"}] * 900, "beside": "none"}}


@pytest.mark.parametrize("content", [HOSTILE, {"status": "ok", "table": [], "cell": 5}, {"status": "ok", "x": json.loads("[" * 900 + "]" * 900)}], ids=["odd values", "odd kinds", "deep"])
def test_the_brief_list_has_its_form_whatever_is_answered(cellspan, users, machine, fakes, content):
    pid, text = told_with(cellspan, users, machine, fakes, content, "--brief")
    one = next(one for one in json.loads(text)["notebooks"] if one["pid"] == pid)
    assert len(json.dumps(one)) < 4000 and "secret" not in json.dumps(one), one
    kinds = {"pid": int, "uid": int, "user": str, "notebook": str, "job": bool, "state": str, "ranks": int, "busy": int, "gpus": int, "on": (str, type(None)), "memory": int,
             "idle": (float, type(None)), "cell": (int, type(None)), "running": (float, type(None)), "version": (str, type(None)), "seconds": int}
    assert set(one) == set(kinds) and all(isinstance(one[key], kind) for key, kind in kinds.items()), one
    assert all(one[key] is None or 0 <= one[key] < 1e16 for key in ("ranks", "busy", "gpus", "memory", "idle", "running")), one


def test_no_kernel_says_what_none_can(cellspan, users, machine, fakes):
    content = dict(HOSTILE, error="forged", asked=False, gpus=1 << 40, cell={"count": -5, "seconds": -1},
                   table={"on": "", "ranks": [{"pid": 1, "memory": -1, "gpu": "," * 5000}, {"pid": 1, "memory": 1 << 62}, {"pid": 1, "memory": 1 << 62}]})
    pid, table, whole, brief = told_with(cellspan, users, machine, fakes, content, "", "--json", "--brief")
    row = next(row for row in table.decode().splitlines() if row.startswith("%d " % pid))
    assert "In [0] -" in row and "2097152.0 GiB" in row and " 1536 " in row, row
    one = next(one for one in json.loads(whole)["notebooks"] if one["pid"] == pid)
    assert "error" not in one and "asked" not in one, one
    one = next(one for one in json.loads(brief)["notebooks"] if one["pid"] == pid)
    assert (one["state"], one["cell"], one["gpus"], one["memory"]) == ("ranks", None, 1536, 1 << 50), one


def test_the_brief_list_leaves_out_who_has_many(cellspan, users, machine, fakes):
    pids = {fakes("/nowhere", users[BOB]) for _ in range(70)}
    code, out, err = cellspan("ps", "--all", "--brief", **machine.environment)
    told = json.loads(out)
    assert code == 0 and told["left_out"] >= 6 and sum(one["pid"] in pids for one in told["notebooks"]) == 64


def test_leases_without_number_hide_nobody(cellspan, users, machine):
    ann, bob = users.notebook(ANN, env=machine.environment), users[BOB]
    ann.ok("%%distribute -n 1\n1")
    plants = """import resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
planted = [open(sys.argv[1] + str(k), "w") for k in range(min(most - 50, 5000))]
for one in planted:
    fcntl.fcntl(one, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
"""
    many = HOLDS.replace('print("held"', plants + 'print("held"')
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    first = machine.leases / "GPU-planted"
    bob.run("touch", first)
    holder = bob.start(python, "-c", many, str(first), "", stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        cards = all_of(cellspan, machine)[1]
        assert sorted(cards) == ["0", "1", "2", "3"]
        assert [one["uid"] for one in cards["0"]["held"]["holders"]] == [ANN] and not cards["1"]["held"]
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_a_kernel_in_a_network_of_its_own_answers_root(cellspan, users, machine):
    """As a spawner with PrivateNetwork starts it. Its client is there, too."""
    user = users[ANN]
    inside = users.notebook(ANN, more=("--net",), transport="ipc", ip=user.home + "/socket")
    assert all_of(cellspan, machine)[0][inside.pid]["status"] == "ok"
