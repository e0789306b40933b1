# SPDX-License-Identifier: BSD-3-Clause
"""The engine ray on a cluster of two nodes: where Ray places agents, what is passed on to it, and a node that it drains.
`tests/engines/run ray` runs it; elsewhere there is no cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess

import clusters
import pytest
from client import Notebook, values
from clusters import LIMIT
from processes import wait_until
from test_sent import AGENT

NAMES = clusters.named("ray")
pytestmark = clusters.marks(NAMES, "tests/engines/run ray")
# Placement groups that are there, and living nodes with the resource that ray.sh gives each, as Ray tells them.
ASK = """
import json, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="error")
groups = [[row["strategy"], sorted(row["bundles_to_node_id"].items())] for row in ray.util.placement_group_table().values() if row["state"] == "CREATED"]
print(json.dumps([groups, {node["NodeID"]: [name for name in node["Resources"] if name.startswith("node-")][0] for node in ray.nodes() if node["Alive"]}]))
"""


engine = clusters.fixture(NAMES)


@pytest.fixture
def nb(engine):
    notebook = Notebook(env=engine.variables())
    try:
        notebook.ok("import os", limit=LIMIT)
        yield notebook
    finally:
        notebook.close()
    assert notebook.left == [] and wait_until(lambda: not engine.left(), LIMIT), engine.left()


def python(engine):
    return os.path.join(os.path.dirname(engine.python), "..", "..", "bin", "python")


def asked(engine):
    """([strategy, the node of each bundle] of the only group, {node: its resource})."""
    done = subprocess.run([python(engine), "-c", ASK, engine.address], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    ((strategy, bundles),), nodes = json.loads(done.stdout.splitlines()[-1])
    return (strategy, [nodes[node] for _, node in bundles]), nodes


@pytest.mark.parametrize(("n", "spec", "agents", "strategy", "nodes"), [
    (4, "", 2, "STRICT_SPREAD", 2),
    (2, "", 1, "STRICT_SPREAD", 1),  # as few nodes as have room
    (2, " --nodes 2", 2, "STRICT_SPREAD", 2),
    (4, "*2", 2, "PACK", 2),  # a node has room for one of them
    (2, "*1", 2, "PACK", 1),
])
def test_agents_are_where_the_placement_group_says(engine, nb, n, spec, agents, strategy, nodes):
    code = "[os.environ[name] for name in ('GROUP_RANK', 'GROUP_WORLD_SIZE', 'LOCAL_RANK')]"
    cell = nb.ok('%%%%distribute -n %d --on "%s%s" --gather\nimport os\n%s' % (n, engine.on, spec, code), limit=LIMIT)
    each = n // agents
    assert values(cell) == [[str(rank // each), str(agents), str(rank % each)] for rank in range(n)], cell.shown
    (found, places), _ = asked(engine)
    assert found == strategy and len(places) == agents and len(set(places)) == nodes, places


def test_the_address_may_come_from_the_notebooks_environment(engine, nb):
    """Set in a cell, so when the kernel has long been started."""
    nb.ok("os.environ['RAY_ADDRESS'] = '%s'" % engine.address)
    cell = nb.ok("%%distribute -n 2 --on ray --gather\nimport os\nos.environ['WORLD_SIZE']", limit=LIMIT)
    assert values(cell) == ["2"] * 2, cell.shown
    nb.ok("%ranks stop", limit=LIMIT)
    nb.ok("os.environ['RAY_ADDRESS'] = 'ray://%s'" % engine.address)
    said = nb.run("%%distribute -n 2 --on ray\n1", limit=LIMIT)
    assert said.status == "error" and "RAY_ADDRESS=ray://%s is an address of Ray Client" % engine.address in said.error["evalue"], said.shown


def test_a_runtime_env_is_passed_on(engine, nb):
    given = json.dumps({"env_vars": {"GIVEN": "a b"}}).replace('"', '\\"')
    cell = nb.ok("%%%%distribute -n 2 --on \"%s --runtime-env '%s'\" --gather\nimport os\nos.environ['GIVEN']" % (engine.on, given), limit=LIMIT)
    assert values(cell) == ["a b"] * 2, cell.shown
    cell = nb.run("%%%%distribute -n 2 --fresh --on \"%s --runtime-env '%s'\"\n1" % (engine.on, given.replace('\\"a b\\"', "3")), limit=LIMIT)
    assert cell.status == "error" and "--runtime-env: Ray does not take it: runtime_env['env_vars'] must be" in cell.error["evalue"], cell.shown


def drain(engine, nodes):
    """The second node, within ten minutes."""
    (second,) = [node for node, name in nodes.items() if name == "node-2"]
    done = subprocess.run([os.path.join(os.path.dirname(python(engine)), "ray"), "drain-node", "--address", engine.address, "--node-id", second, "--reason",
                           "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot", "--deadline-remaining-seconds", "600"],
                          capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr


TOLD = r"will be gone in [0-9:]+(?: s)?: Ray drains the node"
TRAINS = """
import cellspan, time
saved, n = [], 0
cellspan.on_notice(lambda: saved.append(n))
print('begun', flush=True)
while not saved:
    time.sleep(0.02)
    n += 1
    cellspan.step()
saved"""


def assert_saved_at_one_step(cell):
    steps = values(cell.assert_ok())
    assert len(steps) == 4 and len({step for step, in steps}) == 1, steps
    assert re.search(TOLD, cell.stderr), cell.shown


def test_a_node_that_ray_drains_is_a_notice(engine, nb):
    """The last one on this cluster: Ray gives that node nothing any more."""
    cell = nb.start('%%%%distribute -n 4 --on "%s" --gather%s' % (engine.on, TRAINS))
    nb.wait_ranks(cell, "begun", 4, LIMIT)
    drain(engine, asked(engine)[1])
    assert_saved_at_one_step(nb.wait(cell, LIMIT))


def test_a_node_that_ray_drains_while_agents_start_is_a_notice(engine, tmp_path):
    """Their program waits for a file, so the drain is there before them."""
    engine.down()
    engine.up()
    begun, go, wrapper = tmp_path / "begun", tmp_path / "go", tmp_path / "libexec" / "cellspan" / "cellspan-agent"
    wrapper.parent.mkdir(parents=True)
    wrapper.write_text('#!/bin/sh\n[ "$1" = --connect ] && echo >>%s && while [ ! -e %s ]; do sleep 0.05; done\nexec %s "$@"\n' % (begun, go, AGENT))
    wrapper.chmod(0o755)
    notebook = Notebook(env={**engine.variables(), "CELLSPAN_REMOTE_PREFIX": str(tmp_path)})
    try:
        cell = notebook.start('%%%%distribute -n 4 --on "%s" --gather%s' % (engine.on, TRAINS))
        assert wait_until(lambda: begun.exists() and len(begun.read_text()) == 2, LIMIT), cell.shown
        drain(engine, asked(engine)[1])
        go.touch()
        assert_saved_at_one_step(notebook.wait(cell, LIMIT))
    finally:
        notebook.close()
    assert notebook.left == []
