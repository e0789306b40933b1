# SPDX-License-Identifier: BSD-3-Clause
"""cellspan._launch.ray, without Ray: what SPEC means, and what an actor does. tests/engines/run runs it on a real cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import types

import cellspan
import pytest
from cellspan._launch import ray as engine
from cellspan._launch.launcher import Cannot, Failed

STARTER = os.path.join(os.path.dirname(cellspan.__file__), "_launch", "__main__.py")
PLAIN = {"CPU": 8.0, "memory": 1e9}
GPUS = {"CPU": 8.0, "GPU": 4.0}
AGENT = """#!/bin/sh
[ "$1" = --fails ] && { echo "cellspan-agent on n1: it is old" >&2; exit 3; }
echo key 1234
read number; read sealed
echo "$number $sealed $CUDA_VISIBLE_DEVICES $GIVEN $CELLSPAN_REMOTE_PYTHON" >"$0.said"
exec cat >/dev/null
"""


def ran(words, path):
    """(exit status, stdout, stderr) of the engine; path: where it finds a module `ray`."""
    process = subprocess.Popen([sys.executable, STARTER, "ray", *words, "--", "agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(path)})
    os.write(process.stdin.fileno(), b"CELLSPAN_SECRET=2:0:0\n")
    out, errors = process.stdout.read(), process.stderr.read()
    process.stdin.close()
    return process.wait(100), out, errors


def test_ray_that_is_missing_or_old_is_named_with_the_command_that_helps(tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError('there is none')")
    status, out, errors = ran([], tmp_path)
    assert status == 2 and out == "say connecting to Ray\n"
    assert errors == 'Ray is not in the notebook\'s Python, %s (there is none): pip install "ray[default]"\n' % sys.executable
    (tmp_path / "ray.py").write_text("__version__ = '2.3.1'")
    status, _, errors = ran([], tmp_path)
    assert status == 2 and errors == 'Ray 2.3.1 is too old, 2.10 is the first that works: pip install --upgrade "ray[default]"\n'


def test_another_version_of_cellspan_on_the_path_is_not_taken_for_this_one(tmp_path):
    (tmp_path / "cellspan").mkdir()
    (tmp_path / "cellspan" / "__init__.py").write_text("raise RuntimeError('another version')\n")
    (tmp_path / "ray.py").write_text("import sys\nraise ImportError(sys.path.index(%r))" % str(tmp_path))
    assert "Ray is not in the notebook's Python, %s (0)" % sys.executable in ran([], tmp_path)[2]


def test_an_address_at_which_nothing_is_fails_at_once(tmp_path, unused_port):
    (tmp_path / "ray.py").write_text("__version__ = '2.60.0'")
    status, _, errors = ran(["--spec", "127.0.0.1:%d" % unused_port], tmp_path)
    assert status == 1 and "no Ray cluster answers at 127.0.0.1:%d: " % unused_port in errors and "Connection refused" in errors


@pytest.fixture
def unused_port():
    """It is bound, so nobody else gets it, and nothing listens there."""
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        yield one.getsockname()[1]


@pytest.mark.parametrize(("text", "error"), [
    ("ray://h:10001", "that is an address of Ray Client; write the one of the cluster itself"),
    ("h:1*x", "*x: write a number of ranks, such as *4"),
    ("h:1*0", "*0: write a number of ranks"),
    ("h:1 --gpu 1", "there is no option --gpu. There are: --nodes, --cpus, --gpus and --runtime-env"),
    ("--nodes", "--nodes needs a value"),
    ("--nodes two", "--nodes two: write a number"),
    ("--cpus 0", "--cpus 0: write a number"),
    ("*2 --nodes 2", "leave one of them out"),
    ("--runtime-env {", "--runtime-env {: that is no JSON"),
    ("--runtime-env 3", "--runtime-env 3: that is no object of JSON"),
    ("'", "write both quotes"),
])
def test_what_spec_can_not_mean_is_refused(text, error):
    with pytest.raises(Cannot) as raised:
        engine.Spec(text)
    assert error in str(raised.value)


def test_a_runtime_env_that_ray_does_not_take_is_named(monkeypatch):
    def takes(pip):
        if pip != ["numpy"]:
            raise TypeError("runtime_env['pip'] must be\n\tof type List[str]\nof type List[str]")

    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    monkeypatch.setitem(sys.modules, "ray.runtime_env", types.SimpleNamespace(RuntimeEnv=takes))
    engine.check_runtime_env({"pip": ["numpy"]})
    with pytest.raises(Cannot, match=r"^--runtime-env: Ray does not take it: runtime_env\['pip'\] must be of type List\[str\]$"):
        engine.check_runtime_env({"pip": 5})


def test_addresses_without_a_port_are_refused():
    with pytest.raises(Cannot, match="ray:head: write HOST:PORT"):
        engine.refuse_silence("head")


def spec(text):
    return engine.Spec(text)


@pytest.mark.parametrize(("text", "ranks", "nodes", "bundles"), [
    ("", 4, [PLAIN, PLAIN], [(4, {"CPU": 4})]),  # as few nodes as have room
    ("", 12, [PLAIN, PLAIN], [(6, {"CPU": 6}), (6, {"CPU": 6})]),
    ("", 0, [PLAIN, PLAIN], [(8, {"CPU": 8}), (8, {"CPU": 8})]),  # all
    ("", 7, [GPUS, GPUS], [(4, {"CPU": 4, "GPU": 4}), (3, {"CPU": 3, "GPU": 3})]),
    ("h:1 --nodes 2 --cpus=2", 3, [PLAIN, PLAIN], [(2, {"CPU": 4}), (1, {"CPU": 2})]),
    ("--nodes 3", 6, [PLAIN], [(2, {"CPU": 2})] * 3),  # the cluster may grow
    ("--nodes 2", 0, [GPUS, PLAIN, GPUS], [(4, {"CPU": 4, "GPU": 4})] * 2),
    ("--gpus 0", 8, [GPUS, PLAIN], [(8, {"CPU": 8})]),
    ("*2", 4, [GPUS], [(2, {"CPU": 2, "GPU": 2})] * 2),
    ("h:1*3 --gpus 0", 4, [PLAIN], [(3, {"CPU": 3})] * 2),
    ("*4", 0, [PLAIN, PLAIN], [(4, {"CPU": 4})] * 4),
])
def test_ranks_become_bundles(text, ranks, nodes, bundles):
    assert engine.plan(spec(text), ranks, nodes) == bundles


@pytest.mark.parametrize(("text", "ranks", "nodes"), [
    ("", 17, [PLAIN, PLAIN]), ("--gpus 1", 1, [PLAIN]), ("--cpus 9", 0, [PLAIN]), ("*3", 7, [PLAIN]), ("*9", 0, [PLAIN]), ("", 1, []),
])
def test_more_than_the_cluster_has_is_refused(text, ranks, nodes):
    with pytest.raises(Cannot, match="the cluster has no room for them, its nodes have .*ask for fewer ranks"):
        engine.plan(spec(text), ranks, nodes)


def test_an_actor_starts_the_agent_and_hands_over_what_only_it_can_read(tmp_path):
    path = tmp_path / "agent"
    path.write_text(AGENT)
    path.chmod(0o755)
    sent = ("def agent(sent, env):\n    assert env['CELLSPAN_REMOTE_PYTHON']\n    return %r\n" % str(path)).encode() + b"\0"
    one = engine.actor()()
    assert one.start(sent, ["--connect", "x"], {"GIVEN": "y"}, ["3", "5"]) == ("", "1234")
    one.begin(7, "abc")
    one.end()
    assert one.wait() == (0, "")
    assert (tmp_path / "agent.said").read_text() == "CELLSPAN_AGENT=7 CELLSPAN_SEALED=abc 3,5 y %s\n" % sys.executable
    assert engine.actor()().start(sent, ["--fails"], {}, []) == ("cellspan-agent on n1: it is old", "")
    assert engine.actor()().start(b"def agent(sent, env):\n    raise RuntimeError('there is no place')\n\0", [], {}, []) == ("there is no place", "")


def private_of(state):
    return types.SimpleNamespace(state=types.SimpleNamespace(state=state))


def test_a_node_that_is_drained_is_told_once():
    told, draining = [], {"a": (time.time() + 100) * 1000, "b": 0, "c": 0}
    state = types.SimpleNamespace(get_draining_nodes=lambda: draining)
    ray = types.SimpleNamespace(__version__="9.9", _private=private_of(state))
    drains = engine.Drains(types.SimpleNamespace(notice=lambda *words: told.append(words)), ray)
    for number, node in enumerate("aabd"):
        drains.add(number, node)
    for _ in range(2):
        drains._due = 0
        drains.poll()
    assert [number for number, _, _ in told] == [0, 1, 2] and {text for _, _, text in told} == {"Ray drains the node"}
    assert 0 < told[0][1] <= 100 and told[2][1] == engine.DRAIN_S
    draining = None  # it does not answer
    drains._due = 0
    drains.poll()
    draining = {"d"}  # of older versions: without a time
    drains._due = 0
    drains.poll()
    assert told[3][:2] == (3, engine.DRAIN_S) and len(told) == 4
    drains.add(4, "d")  # it comes while that lasts
    drains._due = 0
    drains.poll()
    assert [number for number, _, _ in told[4:]] == [4]


@pytest.mark.parametrize("private", [
    None,
    private_of(types.SimpleNamespace()),
    private_of(types.SimpleNamespace(get_draining_nodes=lambda node: {})),
    private_of(types.SimpleNamespace(get_draining_nodes=lambda: None.nodes)),
])
def test_a_ray_that_tells_of_no_drain_is_named(private):
    """It has no public name for it, and another version may have another one."""
    said = []
    drains = engine.Drains(types.SimpleNamespace(say=said.append), types.SimpleNamespace(__version__="9.9", _private=private))
    drains.add(0, "a")
    for _ in range(2):
        drains._due = 0
        drains.poll()
    assert said == ["Ray 9.9 does not tell cellspan which nodes it drains: ranks get no notice before that"]


def test_a_secret_is_sealed_by_the_agent_program(tmp_path):
    path = tmp_path / "agent"
    path.write_text('#!/bin/sh\n[ "$2" = bad ] && { echo "--seal bad: write the key" >&2; exit 2; }\necho "$1 $2 $CELLSPAN_SECRET"\n')
    path.chmod(0o755)

    class Launch:
        command = (str(path), "--connect", "x")

        def secret_of(self, number):
            return "secret of %d" % number

    assert engine.seal(Launch(), 3, "1234") == "--seal 1234 secret of 3"
    with pytest.raises(Failed, match="--seal bad: write the key"):
        engine.seal(Launch(), 3, "bad")
