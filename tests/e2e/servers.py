# SPDX-License-Identifier: BSD-3-Clause
"""A Jupyter server for a test."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import urllib.request
import uuid

import processes
from processes import wait_until


@contextlib.contextmanager
def serving(folder, **more):
    """A JupyterLab server for the notebooks of a folder, as its URL; at the end none of its processes is left. more:
    options, with _ for the point in their names."""
    marker = uuid.uuid4().hex
    log = open(folder / "server.log", "wb")
    options = {
        "ServerApp.port": 0,
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.root_dir": folder,
        "ServerApp.allow_root": True,
        "ServerApp.open_browser": False,
        "IdentityProvider.token": "",
        "LabApp.expose_app_in_browser": True,
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        "LabApp.news_url": "None",
        "LabApp.workspaces_dir": folder / "workspaces",
        "LabApp.user_settings_dir": folder / "settings",
        **{name.replace("_", ".", 1): value for name, value in more.items()},
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab"] + ["--%s=%s" % option for option in options.items()],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=dict(os.environ, **{processes.MARKER: marker}),
    )
    told = pathlib.Path(os.environ["JUPYTER_RUNTIME_DIR"], "jpserver-%d.json" % process.pid)

    def up():
        """The server's URL, once it answers."""
        try:
            url = "http://127.0.0.1:%d" % json.loads(told.read_text())["port"]
            return url if urllib.request.urlopen(url + "/api/status", timeout=30).status == 200 else None
        except (OSError, ValueError):  # its port is not in the file yet, or nobody listens there yet
            assert process.poll() is None, (folder / "server.log").read_text()
            return None

    try:
        url = wait_until(up, 100)
        assert url, (folder / "server.log").read_text()
        yield url
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()
        left = processes.gone(marker)
        processes.kill_all(marker)
        assert not left, left
