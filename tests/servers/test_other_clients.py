# SPDX-License-Identifier: BSD-3-Clause
"""Servers and pages that others wrote execute a notebook with plain and distributed cells."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import nbformat
import pytest
import requests

PLAIN = "print('plain', 6 * 7)"
RANKS = "%%distribute -n 2 --no-gpu\nimport os\nprint('rank', os.environ['RANK'])"
LIMIT = 120  # seconds, far off
BIN = Path(sys.executable).parent


def until(f, why):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found = f()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(why)


class Server:
    """A Jupyter server with these extensions alone."""

    def __init__(self, folder, *extensions):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.token = uuid.uuid4().hex
        every = ("jupyter_server_nbmodel", "jupyter_server_documents", "jupyter_server_ydoc", "jupyter_server_fileid",
                 "jupyter_resource_usage", "jupyterlab", "jupyter_lsp", "notebook_shim", "jupyterlab_jupytext", "jupyter_server_terminals")
        self.log = open(folder / "server.log", "w")
        self.process = subprocess.Popen(
            [BIN / "jupyter-server", "--no-browser", "--allow-root", f"--port={self.port}", "--ServerApp.port_retries=0",
             f"--IdentityProvider.token={self.token}",
             f"--ServerApp.root_dir={folder}", "--ServerApp.jpserver_extensions=" + repr({name: name in extensions for name in every})],
            stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder)
        until(lambda: self.process.poll() is not None or self.answers(), "the server does not answer")
        assert self.process.poll() is None, Path(self.log.name).read_text()

    def answers(self):
        try:
            return self.ask("GET", "/api/status").ok
        except requests.ConnectionError:
            return False

    def ask(self, how, path, **options):
        url = f"http://127.0.0.1:{self.port}{path}"
        return requests.request(how, url, headers={"Authorization": f"token {self.token}"}, timeout=LIMIT, **options)

    def kernel(self):
        answer = self.ask("POST", "/api/kernels", json={"name": "cellspan"})
        assert answer.ok, answer.text
        return answer.json()["id"]

    def close(self, *kernels):
        for kernel in kernels:
            self.ask("DELETE", f"/api/kernels/{kernel}")
        self.process.terminate()
        self.process.wait(LIMIT)
        self.log.close()


def text_of(outputs):
    """What a person reads of outputs: streams, and the plain text of rich ones."""
    shown = []
    for output in outputs:
        shown.append(output.get("text") or output.get("data", {}).get("text/plain") or "")
    return "".join("".join(each) if isinstance(each, list) else each for each in shown)


def test_nbmodel_executes_cells_on_the_server(tmp_path):
    server = Server(tmp_path, "jupyter_server_nbmodel")
    kernel = server.kernel()
    try:
        for code, words in ((PLAIN, ["plain 42"]), (RANKS, ["rank 0", "rank 1"])):
            place = server.ask("POST", f"/api/kernels/{kernel}/execute", json={"code": code})
            assert place.status_code == 202, place.text

            def result(path=place.headers["Location"]):
                answer = server.ask("GET", path)
                return answer.status_code != 202 and answer

            answer = until(result, "no result")
            assert answer.ok, answer.text
            body = answer.json()
            outputs = json.loads(body["outputs"]) if isinstance(body["outputs"], str) else body["outputs"]
            assert body["status"] == "ok", body
            assert all(word in text_of(outputs) for word in words), outputs
    finally:
        server.close(kernel)


def test_resource_usage_is_told(tmp_path):
    server = Server(tmp_path, "jupyter_resource_usage", "jupyter_server_nbmodel")
    kernel = server.kernel()
    try:
        usage = server.ask("GET", f"/api/metrics/v1/kernel_usage/get_usage/{kernel}")
        assert usage.ok, usage.text
        content = usage.json()["content"]
        assert content["pid"] > 0 and content["kernel_memory"] > 0, content
    finally:
        server.close(kernel)


def test_euporie_runs_a_notebook(tmp_path):
    path = tmp_path / "a.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (PLAIN, RANKS)])
    notebook.metadata.kernelspec = {"name": "cellspan", "display_name": "cellspan", "language": "python"}
    nbformat.write(notebook, path)
    done = subprocess.run([BIN / "euporie-preview", "--run", "--save", path], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
                          env={**os.environ, "COLUMNS": "80", "LINES": "24"})
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = nbformat.read(path, 4).cells
    assert "plain 42" in text_of(first.outputs)
    assert "rank 0" in text_of(second.outputs) and "rank 1" in text_of(second.outputs), second.outputs


if __name__ == "__main__":
    sys.exit(pytest.main(sys.argv))
