# SPDX-License-Identifier: BSD-3-Clause
"""A program that executes notebooks gets every line, however slowly it runs: its few seconds after the reply are enough."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid

import processes
import pytest
from client import KERNEL

pytestmark = pytest.mark.clients

# Executes two cells with nbclient as it comes (it reads for 4 s after the reply); writes "ready" between them, and then what came.
EXECUTE = """
import json, sys, nbformat
from nbclient import NotebookClient

first, second, kernel = sys.argv[1:]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (first, second)])
client = NotebookClient(notebook, kernel_name=kernel, timeout=300)

def at(cell, cell_index, **more):
    if cell_index == 1:
        print(json.dumps(client.km.get_connection_info()["iopub_port"]), flush=True)
        sys.stdin.readline()

client.on_cell_execute = at
client.execute()
lines = "".join(o.text for o in notebook.cells[1].outputs if o.output_type == "stream").splitlines()
print(json.dumps([len(lines), lines[-1:]]), flush=True)
"""
LISTEN = """
import sys, zmq
socket = zmq.Context().socket(zmq.SUB)
socket.subscribe(b"")
socket.connect("tcp://127.0.0.1:" + sys.argv[1])
socket.recv_multipart()
print("heard", flush=True)
socket.recv_multipart()
"""
PRINTS = "for i in range(%d):\n    print('%%099d' %% i)\nprint('the last')"
CELLS = {"home": ("1", PRINTS % 250_000, 250_001),
         "ranks": ("%%distribute -n 2\n1", "%%distribute --merge raw\n" + PRINTS % 125_000, 250_002)}


@pytest.fixture(params=["home", "ranks"])
def slow(request):
    """A process that is about to execute the second cell; the port of its kernel's iopub; how many lines it must get."""
    first, second, lines = CELLS[request.param]
    marker = uuid.uuid4().hex
    client = subprocess.Popen([sys.executable, "-c", EXECUTE, first, second, KERNEL], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, env=dict(os.environ, **{processes.MARKER: marker}))
    try:
        yield client, json.loads(client.stdout.readline()), lines
    finally:
        client.kill()
        client.communicate()
        processes.gone(marker)
        processes.kill_all(marker)


def go(client):
    client.stdin.write("\n")
    client.stdin.flush()


def test_a_client_that_seldom_runs_gets_every_line(slow):
    client, _, lines = slow
    go(client)
    while client.poll() is None:
        client.send_signal(signal.SIGSTOP)
        time.sleep(0.94)
        client.send_signal(signal.SIGCONT)
        time.sleep(0.06)
    assert json.loads(client.stdout.read()) == [lines, ["the last"]]


def test_a_client_beside_one_that_is_stopped_gets_every_line(slow):
    client, port, lines = slow
    stopped = subprocess.Popen([sys.executable, "-c", LISTEN, str(port)], stdout=subprocess.PIPE, text=True)
    try:
        assert stopped.stdout.readline() == "heard\n"
        stopped.send_signal(signal.SIGSTOP)
        go(client)
        assert json.loads(client.stdout.readline()) == [lines, ["the last"]]
    finally:
        stopped.kill()
        stopped.communicate()
