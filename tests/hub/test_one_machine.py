# SPDX-License-Identifier: BSD-3-Clause
"""One machine with the machine's own users: examples/jupyterhub/one_machine."""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import time
import types

import pytest
from hub import TOP, USERS, Hub, until

ANN, BOB = USERS
RANKS = "%%distribute -n 2 --gather\nimport os\nos.getpid()"
CULLED_AFTER = 45  # a silent run is heard of every 30 s
CULL = """
(culler,) = [service for service in c.JupyterHub.services if service["name"] == "idle-culler"]
culler["command"][3:] = ["--timeout=%d", "--cull-every=2"]
""" % CULLED_AFTER


@pytest.fixture(scope="module")
def hub():
    hub = Hub("one_machine")
    yield hub
    assert hub.close() is True


def ranks_of(notebook):
    return ast.literal_eval(notebook.run(RANKS))


def gone(pids):
    return not any(os.path.exists("/proc/%d" % pid) for pid in pids)


def test_systemd_and_pam_get_all_that_is_set(tmp_path, monkeypatch):
    """What stands in their place in the other tests does not read it."""
    import systemdspawner
    from jupyterhub.auth import PAMAuthenticator
    from traitlets.config import PyFileConfigLoader

    config = PyFileConfigLoader(os.path.join(TOP, "examples", "jupyterhub", "one_machine", "jupyterhub_config.py")).load_config()
    spawner_class = config.JupyterHub.spawner_class
    assert set(config.SystemdSpawner) <= set(spawner_class.class_trait_names(config=True))  # a name that nobody knows is only warned of
    assert set(config.PAMAuthenticator) <= set(PAMAuthenticator.class_trait_names(config=True))

    for name, does in {"systemd-run": 'printf "%%s\\n" "$@" >%s/said' % tmp_path, "systemctl": '[ "$1" = --version ] && echo "systemd 252" || exit 3'}.items():
        (tmp_path / name).write_text("#!/bin/sh\n%s\n" % does)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.path.join(os.environ["HUB_VENV"], "bin"), os.environ["PATH"]]))
    monkeypatch.setattr(systemdspawner.systemd, "RUN_ROOT", str(tmp_path))
    for name, gives in {"get_env": {}, "get_args": []}.items():
        monkeypatch.setattr(spawner_class, name, lambda self, gives=gives: gives)
    spawner = spawner_class(config=config, user=types.SimpleNamespace(name="root", id=1), start_timeout=1)
    asyncio.run(spawner.start())
    said = (tmp_path / "said").read_text().splitlines()
    wanted = {"MemoryMax": str(spawner.mem_limit), "CPUQuota": "1600%", "PrivateTmp": "yes", "NoNewPrivileges": "yes",
              **config.SystemdSpawner.unit_extra_properties}
    for name, value in wanted.items():
        values = [line.split("=", 2)[2] for line in said if line.startswith("--property=%s=" % name)]
        assert values == (value if isinstance(value, list) else [value]), said
    assert said[-1].endswith("/jupyterhub-singleuser") and "--uid=0" in said


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


def test_servers_of_a_hub_that_is_killed_go_on_and_end_as_others():
    hub = Hub("one_machine")
    try:
        ann, bob = hub.server(ANN), hub.server(BOB)
        hers, his = ranks_of(ann), ranks_of(bob)
        ann.begin("%%distribute\nimport time\nprint('begun', flush=True)\ntime.sleep(30)\nended = True", "begun")
        hub.kill()
        (server,) = hub.processes(USERS[BOB], "jupyterhub-singleuser")
        os.kill(server, signal.SIGKILL)
        assert until(lambda: gone(his), 12) and until(lambda: not hub.processes(USERS[BOB]), 12), hub.processes(USERS[BOB])
        hub.up()
        assert until(lambda: hub.serves(ANN)) and not hub.serves(BOB), hub.log()
        assert ranks_of(ann) == hers and ann.run("%%distribute --gather\nended") == "[True, True]", "what ran has gone on"
        hub.stop_server(ANN)
        assert until(lambda: gone(hers), 12) and until(lambda: not hub.processes(USERS[ANN]), 12), hub.processes(USERS[ANN])
    finally:
        assert hub.close() is True


def test_idle_ranks_are_idle_to_the_culler_and_a_silent_run_is_not():
    """Nobody has a page open, neither of the idle ranks nor of the run."""
    hub = Hub("one_machine", CULL)
    try:
        idle, busy = hub.server(ANN), hub.server(BOB)
        hers, his = ranks_of(idle), ranks_of(busy)
        busy.begin("%%%%distribute -n 2\nimport time\nprint('begun', flush=True)\ntime.sleep(%d)" % (2 * CULLED_AFTER), "begun")
        end = time.monotonic() + 2 * CULLED_AFTER - 10
        assert until(lambda: gone(hers), 3 * CULLED_AFTER), (hub.ask("GET", "/hub/api/users").text, hub.log())
        time.sleep(max(0, end - time.monotonic()))
        assert hub.serves(BOB) and not gone(his), hub.log()
        assert until(lambda: gone(his), 3 * CULLED_AFTER), hub.log()
    finally:
        assert hub.close() is True
