# SPDX-License-Identifier: BSD-3-Clause
"""When the kernel is busy, as servers see it: they use the last state that they got."""

from __future__ import annotations

import json
import pathlib
import urllib.request

import pytest
from client import KERNEL, Client
from jupyter_client.blocking import BlockingKernelClient
from processes import wait_until
from servers import serving

RUNNING = "%%distribute -n 2\nprint('begun', flush=True)\n"


def states(messages):
    """[(state, whether it has a parent)] of status messages."""
    return [
        (m["content"]["execution_state"], bool(m["parent_header"])) for m in messages if m["msg_type"] == "status"
    ]


@pytest.mark.parametrize(
    "kind, content, channel",
    [
        ("kernel_info_request", {}, "shell"),
        ("complete_request", {"code": "%%distri", "cursor_pos": 8}, "shell"),
        ("complete_request", {"code": "impor", "cursor_pos": 5}, "shell"),
        ("inspect_request", {"code": "%%distribute", "cursor_pos": 12, "detail_level": 0}, "shell"),
        ("history_request", {"hist_access_type": "tail", "n": 1, "raw": True, "output": False}, "shell"),
        ("comm_info_request", {}, "shell"),
        ("usage_request", {}, "control"),
        ("connect_request", {}, "control"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_asked_while_ranks_run_leaves_the_kernel_busy(nb, gate, kind, content, channel):
    cell = nb.start(RUNNING + gate.code)
    nb.wait_shown(cell, "begun")
    watcher = nb.second_client()  # it hears all in the order in which it came, as a server does
    try:
        watcher.quiet()
        seen = len(watcher.strays)
        nb.request(kind, content, channel)
        assert watcher.until(lambda: len(states(watcher.strays[seen:])) >= 3), states(watcher.strays)
        watcher.quiet()
        assert states(watcher.strays[seen:]) == [("busy", True), ("idle", True), ("busy", False)]
        assert [m["parent_header"] for m in watcher.strays if m["msg_type"] == "status"][-1] == {}
        gate.open()
        nb.wait(cell).assert_ok()
        watcher.quiet()
        assert states(watcher.strays)[-1] == ("idle", True)
    finally:
        watcher.close()


def test_an_idle_kernel_says_no_more_than_idle(nb):
    nb.ok("%%distribute -n 2\n1")
    seen = len(nb.strays)
    nb.request("kernel_info_request")
    nb.quiet()
    assert states(nb.strays[seen:]) == []


def test_a_busy_kernel_says_so_within_a_minute(nb, gate):
    cell = nb.start("%%distribute -n 2\n" + gate.code)
    nb.wait(cell, until=lambda: cell.busy_at is not None)
    seen = len(nb.strays)
    assert nb.until(lambda: ("busy", False) in states(nb.strays[seen:]), 58)
    gate.open()
    nb.wait(cell).assert_ok()


def connected(kernel):
    """A client of a kernel that a server started."""
    client = BlockingKernelClient()
    client.load_connection_file(str(next(pathlib.Path(runtime()).glob("kernel-%s.json" % kernel))))
    return Client(client)


def runtime():
    from jupyter_core.paths import jupyter_runtime_dir

    return jupyter_runtime_dir()


@pytest.mark.limit(300)
def test_a_server_that_stops_idle_kernels_leaves_one_whose_ranks_run(tmp_path, gate):
    culls = {"MappingKernelManager_cull_idle_timeout": 10, "MappingKernelManager_cull_interval": 2}
    culls["ServerApp_disable_check_xsrf"] = True
    with serving(tmp_path, **culls) as url:

        def ask(path, **content):
            data = json.dumps(content).encode() if content else None
            with urllib.request.urlopen(urllib.request.Request(url + "/api/" + path, data), timeout=60) as answer:
                return json.load(answer)

        def kernels():
            return {kernel["id"]: kernel["execution_state"] for kernel in ask("kernels")}

        running = ask("kernels", name=KERNEL)["id"]
        client = connected(running)
        cell = client.start(RUNNING + gate.code)
        client.wait_shown(cell, "begun")
        client.request("complete_request", {"code": "impor", "cursor_pos": 5})
        client.request("history_request", {"hist_access_type": "tail", "n": 1, "raw": True, "output": False})
        client.send("comm_open", {"comm_id": "1", "target_name": "nobody", "data": {}})
        client.request("comm_info_request")
        client.close()
        idle = ask("kernels", name=KERNEL)["id"]  # begins later, and is stopped for it is idle
        assert set(kernels()) == {running, idle}
        assert wait_until(lambda: idle not in kernels(), 120), "the server stops no kernels"
        assert kernels() == {running: "busy"}
        gate.open()
        assert wait_until(lambda: not kernels(), 120), "a kernel that is idle again is kept"
