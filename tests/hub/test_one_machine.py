# SPDX-License-Identifier: BSD-3-Clause
"""One machine with the machine's own users: examples/jupyterhub/one_machine."""

from __future__ import annotations

import ast
import os
import signal

import pytest
from hub import TOP, USERS, Hub, until

ANN, BOB = USERS
RANKS = "%%distribute -n 2 --gather\nimport os\nos.getpid()"


@pytest.fixture(scope="module")
def hub():
    hub = Hub("one_machine")
    yield hub
    assert hub.close() is True


def ranks_of(notebook):
    return ast.literal_eval(notebook.run(RANKS))


def gone(pids):
    return not any(os.path.exists("/proc/%d" % pid) for pid in pids)


def test_systemd_spawner_and_pam_know_all_that_is_set():
    """What stands in their place in the other tests does not read it, and a name that nobody knows is only warned of."""
    from jupyterhub.auth import PAMAuthenticator
    from systemdspawner import SystemdSpawner
    from traitlets.config import PyFileConfigLoader

    config = PyFileConfigLoader(os.path.join(TOP, "examples", "jupyterhub", "one_machine", "jupyterhub_config.py")).load_config()
    assert set(config.SystemdSpawner) <= set(SystemdSpawner.class_trait_names(config=True))
    assert set(config.PAMAuthenticator) <= set(PAMAuthenticator.class_trait_names(config=True))


def test_each_server_is_its_users_and_has_the_sites_settings(hub):
    ann, bob = hub.server(ANN), hub.server(BOB)
    shown = ann.run("%%distribute -n 2 --gather\nimport os\nos.getuid(), os.environ['CELLSPAN_GPU_IDLE_RELEASE']")
    assert ast.literal_eval(shown) == [(USERS[ANN], "15m")] * 2
    hers = ranks_of(ann)
    tries = bob.run("import os\ndef tries(f):\n    try:\n        f()\n        return 'done'\n    except OSError as e:\n        return type(e).__name__\n"
                    "pid = %d\n[tries(lambda: os.kill(pid, 9)), tries(lambda: open('/proc/%%d/environ' %% pid)), tries(lambda: open('/proc/%%d/mem' %% pid)),"
                    " tries(lambda: os.listdir('%s'))]" % (hers[0], os.path.join(hub.folder, ANN)))
    assert ast.literal_eval(tries) == ["PermissionError"] * 4
    assert ranks_of(ann) == hers


def test_a_server_that_is_stopped_or_killed_leaves_no_rank(hub):
    ann, bob = hub.server(ANN), hub.server(BOB)
    hers, his = ranks_of(ann), ranks_of(bob)
    hub.stop_server(BOB)
    assert until(lambda: gone(his), 12) and until(lambda: not hub.processes(USERS[BOB]), 12), hub.processes(USERS[BOB])
    assert not gone(hers[:1])
    (server,) = hub.processes(USERS[ANN], "jupyterhub-singleuser")
    os.kill(server, signal.SIGKILL)
    assert until(lambda: gone(hers), 12) and until(lambda: not hub.processes(USERS[ANN]), 12), hub.processes(USERS[ANN])
