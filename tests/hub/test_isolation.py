# SPDX-License-Identifier: BSD-3-Clause
"""What one user of a machine can do to another one's ranks, and the wall that a network for each server is."""

from __future__ import annotations

import ast
import os
import re
import subprocess

import pytest
from hub import TOP, USERS, Hub

ANN, BOB = USERS
EXAMPLE = os.path.join(TOP, "examples", "jupyterhub", "one_machine")
# systemd's NetworkNamespacePath is not here: the process enters the namespace before it becomes the user's.
PRIVATE = """
load_subconfig({!r})
c.JupyterHub.hub_bind_url = c.JupyterHub.hub_connect_url = c.JupyterHub.hub_bind_url.replace("127.0.0.1", c.JupyterHub.hub_ip)

import ctypes, os
from jupyterhub.spawner import LocalProcessSpawner

class Servers(LocalProcessSpawner):
    def make_preexec_fn(self, name):
        become, space = super().make_preexec_fn(name), os.open("/run/netns/jupyter-" + name, os.O_RDONLY | os.O_CLOEXEC)
        def enter():
            if ctypes.CDLL(None, use_errno=True).setns(space, 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            become()
        return enter

c.JupyterHub.spawner_class = Servers
""".format(os.path.join(EXAMPLE, "private_network.py"))
# A rank that listens as torch's store does, and rank 0's address as the others have it.
LISTENS = """%%distribute -n 2 --gather
import os, socket, threading
heard = socket.create_server(("", 0))
threading.Thread(target=lambda: [heard.accept()[0].sendall(b"hers") for _ in range(9)], daemon=True).start()
os.getpid(), os.environ["MASTER_ADDR"], heard.getsockname()[1]"""
TRIES = """
import ctypes, os, socket
def tries(f, *given):
    try:
        return f(*given)
    except OSError as e:
        return type(e).__name__
def call(name, *given):
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*given) == -1:
        raise OSError(ctypes.get_errno(), name)
    return "done"
def connects(*where):
    with socket.socket(socket.AF_UNIX if len(where) == 1 else socket.AF_INET) as s:
        s.settimeout(3)
        s.connect(where if len(where) == 2 else where[0])
        return s.recv(4).decode() if len(where) == 2 else "done"
"""


@pytest.fixture(scope="module")
def hub():
    hub = Hub("one_machine")
    yield hub
    assert hub.close() is True


@pytest.fixture
def private():
    hub = Hub("one_machine", PRIVATE)
    yield hub
    assert hub.close() is True
    subprocess.run(["ip", "link", "delete", "jupyter0"], check=True)
    assert not [name for name in os.listdir("/run/netns") if name.startswith("jupyter-")]


def sockets_of(pids):
    """The names of their unix sockets; one that is abstract begins with NUL."""
    inodes = set()
    for pid in pids:
        for fd in os.listdir("/proc/%d/fd" % pid):
            name = os.readlink("/proc/%d/fd/%s" % (pid, fd))
            inodes |= {name[8:-1]} if name.startswith("socket:[") else set()
    with open("/proc/net/unix", encoding="utf-8") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return sorted({row[7].replace("@", "\0", 1) if row[7][0] == "@" else row[7] for row in rows if len(row) == 8 and row[6] in inodes})


def test_nobody_traces_or_connects_to_what_is_anothers(hub):
    ann, bob = hub.server(ANN), hub.server(BOB)
    hers = [pid for pid, _, _ in ast.literal_eval(ann.run(LISTENS))]
    assert bob.run(TRIES + "[tries(call, 'ptrace', 16, %d, None, None), tries(call, 'ptrace', 0x4206, %d, None, None)]" % (hers[0], hers[1])) \
        == "['PermissionError', 'PermissionError']"
    read = "import ctypes\nhere = ctypes.create_string_buffer(8)\nvector = (ctypes.c_void_p * 2)(ctypes.addressof(here), 8)\n"
    assert bob.run(read + "tries(call, 'process_vm_readv', %d, vector, 1, vector, 1, 0)" % hers[0]) == "'PermissionError'"
    assert bob.run("[tries(os.listdir, '/proc/%d/fd'), tries(os.readlink, '/proc/%d/cwd')]" % (hers[0], hers[0])) == "['PermissionError', 'PermissionError']"
    names = sockets_of(hub.processes(USERS[ANN]))
    assert any("cellspan" in name for name in names), names
    tried = dict(zip(names, ast.literal_eval(bob.run("[tries(connects, name) for name in %r]" % names))))
    for name, how in tried.items():
        assert how == ("ConnectionRefusedError" if name[0] == "\0" else "PermissionError"), tried  # the first only keep a number


@pytest.mark.parametrize("example", ["one_machine/jupyterhub_config.py", "one_machine/gpu_page.py", "slurm/jupyterhub_config.py"])
def test_only_root_can_take_a_port_of_the_hub(example):
    """While the hub is down, another one who listens there would get passwords, and the tokens of servers."""
    with open(os.path.join(TOP, "examples", "jupyterhub", example), encoding="utf-8") as file:
        ports = [int(port) for port in re.findall(r"(?:://[^\s\"]*:|_port = )(\d+)", file.read())]
    assert len(ports) >= (1 if "page" in example else 3) and all(port < 1024 for port in ports), ports


def test_ports_are_open_to_neighbours(hub):
    """As the page says: no interface is a wall on one machine."""
    ann, bob = hub.server(ANN), hub.server(BOB)
    _, address, port = ast.literal_eval(ann.run(LISTENS))[0]
    assert bob.run(TRIES + "tries(connects, %r, %d)" % (address, port)) == "'hers'"


def test_a_network_for_each_server_is_a_wall(private):
    ann, bob = private.server(ANN), private.server(BOB)
    ((_, address, port), _) = ast.literal_eval(ann.run(LISTENS))
    own = "import os, urllib.parse\nurllib.parse.urlsplit(os.environ['JUPYTERHUB_SERVICE_URL']).hostname"
    hers, his = ast.literal_eval(ann.run(own)), ast.literal_eval(bob.run(own))
    assert hers != his and hers.startswith("10.91.0.")
    assert ann.run(TRIES + "[tries(connects, name, %d) for name in ('127.0.0.1', %r, %r)]" % (port, address, hers)) == "['hers', 'hers', 'hers']"
    tried = ast.literal_eval(bob.run(TRIES + "[tries(connects, name, %d) for name in ('127.0.0.1', '10.91.0.1', %r, %r)]" % (port, address, hers)))
    assert "hers" not in tried, tried
    assert len(ast.literal_eval(bob.run("%%distribute -n 2 --gather\n1"))) == 2
